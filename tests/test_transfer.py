"""SST and SARB: what is transferred and what is blended, on made examples; their losses against NumPy."""

from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.distributed as dist

from positively.distributed import gather_rows_with_gradient, own_rows
from positively.finetune.methods import StepContext, create_method
from positively.research.rivals import cooccurrence, sst
from positively.research.rivals.class_features import FeatureQueue, contrastive_loss, unit_features
from positively.research.rivals.cooccurrence import CoOccurrence
from positively.research.rivals.kmeans import cluster_centres
from positively.research.rivals.sarb import soft_bce
from ranks import on_two_processes

WIDTH = 6


class Network:
    """Inputs are the class features themselves; the score of a class is their mean. It remembers what it classified."""

    def forward_features(self, inputs):
        return inputs

    def forward_head(self, embedding):
        self.classified = embedding.detach()
        return embedding.mean(-1)


def made(name, classes=3, epochs=20, images=40, width=WIDTH, **options):
    method = create_method(name, **options)
    table = type("Table", (), {"classes": tuple("abcdef"[:classes]), "__len__": lambda self: images})()
    head = SimpleNamespace(last_layer=torch.nn.Linear(width, classes))
    method.setup(SimpleNamespace(table=table, epochs=epochs, seed=0, trainable=SimpleNamespace(head=head)))
    return method


def at(epoch, images, step=1):
    return StepContext(0, epoch, step, torch.arange(images))


def random_batch(images, classes, width=WIDTH, seed=0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(images, classes, width)), generator.integers(-1, 2, (images, classes))


# What both share


def contrastive_in_numpy(features, states, generator):
    kinds = {2: [], 0: [], -2: []}  # the sum of two states that are known
    for c in range(states.shape[1]):
        for i in range(len(states)):
            for j in range(i + 1, len(states)):
                if states[i, c] and states[j, c]:
                    a, b = features[i, c], features[j, c]
                    cosine = a @ b / np.sqrt(a @ a) / np.sqrt(b @ b)
                    together = int(states[i, c] + states[j, c])
                    kinds[together].append(1 - cosine if together == 2 else 1 + cosine)
    taken, positives = list(kinds[2]), len(kinds[2])
    for other in (np.array(kinds[0]), np.array(kinds[-2])):
        if positives and len(other):
            drawn = generator.choice(len(other), min(2 * positives, len(other)), replace=False, shuffle=False)
            taken += [*other[drawn], *np.sort(other)[::-1][:positives]]
        else:
            taken += list(other)
    return np.mean(taken) if taken else 0.0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("positives", [0, 2, None])
def test_the_contrastive_loss_and_its_gradient_are_those_of_a_loop_over_pairs(positives, seed):
    features, states = random_batch(6, 4, seed=seed)
    if positives == 0:
        states = -np.abs(states)
    elif positives:  # one pair of positives among many others: the sample is a small one
        states = np.where(np.arange(24).reshape(6, 4) % 5 == 0, 0, -1)
        states[:2, 0] = 1
    tensor = torch.tensor(features, requires_grad=True)
    loss = contrastive_loss(unit_features(tensor), torch.tensor(states), np.random.default_rng(seed))
    loss.backward()

    def value(changed):
        return contrastive_in_numpy(changed, states, np.random.default_rng(seed))

    assert loss.item() == pytest.approx(value(features), abs=1e-12)
    for index in [(0, 0, 0), (1, 0, 3), (2, 1, 1), (5, 3, 5), (3, 2, 2)]:
        up, down = features.copy(), features.copy()
        up[index] += 1e-6
        down[index] -= 1e-6
        assert tensor.grad[index].item() == pytest.approx((value(up) - value(down)) / 2e-6, abs=1e-8)


def test_the_queue_holds_the_most_recent_positives_in_the_order_of_the_batches():
    queue, expected = FeatureQueue(3, 5, WIDTH), [deque(maxlen=5) for _ in range(3)]
    for seed, images in enumerate((4, 1, 30, 7)):  # 30 images bring more than the queue holds
        features, states = random_batch(images, 3, seed=seed)
        states[:, 2] = 0
        queue.push(torch.tensor(features), torch.tensor(states))
        for c in range(3):
            expected[c].extend(features[states[:, c] == 1, c].astype(np.float32))
        assert queue.filled.tolist() == [len(stored) for stored in expected]
        for c, stored in enumerate(expected):
            found = queue.features[c, : len(stored)].numpy()
            assert sorted(map(tuple, found)) == sorted(map(tuple, stored))
    assert queue.filled[2] == 0 and not queue.features[2].any()


def test_weights_grow_over_the_first_epoch_alone():
    method = made("sst", images=40)
    assert [method.ramp(at(0, 8, step), 8) for step in range(5)] == [0, 0.2, 0.4, 0.6, 0.8]
    assert method.ramp(at(1, 8, 0), 8) == 1


def rows_of_a_process(rank, folder):
    rows = slice(0, 4) if rank == 0 else slice(4, 7)
    weights, found = torch.ones(WIDTH, dtype=torch.float64, requires_grad=True), {}
    features, states = map(torch.tensor, random_batch(7, 3))
    everyone = gather_rows_with_gradient(features[rows] * weights)
    found["gathered"], found["place"] = everyone.detach(), own_rows(len(features[rows]))
    loss = contrastive_loss(unit_features(everyone), states, np.random.default_rng(0))
    loss.backward()
    dist.all_reduce(weights.grad)
    torch.save({**found, "loss": loss.detach(), "gradient": weights.grad / 2}, folder / f"found.{rank}")


def test_rows_gathered_with_gradient_make_two_processes_one(tmp_path):
    on_two_processes(rows_of_a_process, tmp_path)
    features, states = map(torch.tensor, random_batch(7, 3))
    weights = torch.ones(WIDTH, dtype=torch.float64, requires_grad=True)
    everyone = gather_rows_with_gradient(features * weights)
    loss = contrastive_loss(unit_features(everyone), states, np.random.default_rng(0))
    loss.backward()
    for rank, place in enumerate((slice(0, 4), slice(4, 7))):
        found = torch.load(tmp_path / f"found.{rank}", weights_only=False)
        assert torch.equal(found["gathered"], features) and found["place"] == (place, 7)
        torch.testing.assert_close(found["loss"], loss.detach(), atol=1e-14, rtol=0)
        torch.testing.assert_close(found["gradient"], weights.grad, atol=1e-14, rtol=0)


# SST


@pytest.mark.parametrize("at_once", [2, 256])
def test_the_pair_network_is_the_published_chain_of_layers(at_once, monkeypatch):
    monkeypatch.setattr(cooccurrence, "_PAIRS_AT_ONCE", at_once)
    pairs = CoOccurrence(4, WIDTH, np.random.default_rng(0)).double()
    features = torch.tensor(random_batch(5, 4)[0], requires_grad=True)
    index = [(i, j) for i in range(4) for j in range(i + 1, 4)]

    def published():
        reduced = pairs.reduce(features)
        joined = torch.stack([torch.cat([reduced[:, i], reduced[:, j]], -1) for i, j in index], 1)
        mixed = pairs.mix(torch.relu(pairs.join(joined)))
        return (mixed * pairs.weight).sum(-1) + pairs.bias

    learned = [features, *pairs.parameters()]
    expected, found = published(), pairs(features)
    torch.testing.assert_close(found, expected)
    slopes = [torch.autograd.grad(logits.square().sum(), learned) for logits in (expected, found)]
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other)
    states = torch.tensor([[1, 1, 0, -1], [1, 0, 0, 1]])
    assert pairs.states(states).tolist() == [[1, -1, -1, -1, -1, -1], [-1, -1, 1, -1, -1, -1]]


def believed_in(method, inputs, states, epoch, monkeypatch):
    """Label states with which the last two parts of the loss are computed."""
    seen, plain = [], sst.bce
    monkeypatch.setattr(sst, "bce", lambda logits, labels, **options: seen.append(labels) or plain(logits, labels))
    parts = method.training_step(Network(), inputs, states, at(epoch, len(states)))
    monkeypatch.setattr(sst, "bce", plain)
    return dict(zip([name for name in parts if name in ("known", "within", "across")], seen, strict=True))


def images_of(there):
    """Features of classes that are there or not: a direction of the class's own, or noise."""
    generator = torch.Generator().manual_seed(len(there))
    noise = 0.1 * torch.randn(*there.shape, WIDTH, generator=generator)
    return noise + there[..., None] * torch.eye(there.shape[1], WIDTH)


def test_what_always_occurs_together_is_transferred_within_an_image(monkeypatch):
    """a and b are always there together, c by itself: a known a makes an unknown b positive, and no c."""
    method = made("sst", images=64)
    there = torch.randint(0, 2, (64, 2), generator=torch.Generator().manual_seed(1))
    there = torch.stack([there[:, 0], there[:, 0], there[:, 1]], 1).float()
    inputs, states = images_of(there), (2 * there - 1).long()
    optimizer = torch.optim.Adam(method.pairs.parameters(), lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        method.training_step(Network(), inputs, states, at(1, 64))["pairs"].backward()
        optimizer.step()
    there = torch.tensor([[1, 1, 0], [0, 0, 1], [1, 1, 0], [1, 1, 0]]).float()
    states = torch.tensor([[1, 0, 0], [0, 0, 1], [0, 0, 0], [1, -1, 0]])
    believed = believed_in(method, images_of(there), states, 13, monkeypatch)
    # Not without the known a (second), not without any known label (third), never against a known one (fourth).
    assert believed["within"].tolist() == [[1, 1, 0], [0, 0, 1], [0, 0, 0], [1, -1, 0]]
    assert torch.equal(believed["known"], states)
    assert believed_in(method, images_of(there), states, 4, monkeypatch).keys() == {"known"}  # before a quarter


def test_what_is_near_the_stored_features_of_a_class_is_transferred_across_images(monkeypatch):
    method = made("sst")
    axis = torch.eye(WIDTH)
    stored = torch.stack([axis[0], axis[1], axis[2]]).expand(10, 3, WIDTH) * 3.0
    method.queue.push(unit_features(stored), torch.tensor([[1, 1, 0]]).expand(10, 3))
    near = torch.stack([5 * axis[0] + axis[4], axis[3], axis[2]])  # to a (cosine 0.98), far from b; no c is stored
    far = torch.stack([axis[0] + axis[3], axis[1], axis[2]])  # from a (0.71); near b, but that is known negative
    inputs = torch.stack([near, far])
    states = torch.tensor([[0, 0, 0], [0, -1, 0]])
    believed = believed_in(method, inputs, states, 5, monkeypatch)
    assert believed["across"].tolist() == [[1, 0, 0], [0, -1, 0]]
    assert torch.equal(believed["within"], states)
    wider = made("sst", lowest_margin=0.7)
    wider.queue.load_state_dict(method.queue.state_dict())
    assert believed_in(wider, inputs, states, 12, monkeypatch)["across"].tolist() == [[1, 0, 0], [0, -1, 0]]
    assert believed_in(wider, inputs, states, 13, monkeypatch)["across"].tolist() == [[1, 0, 0], [1, -1, 0]]


def test_the_mean_cosine_is_over_all_that_is_stored():
    method = made("sst")
    features, _ = random_batch(9, 3)
    method.queue.push(unit_features(torch.tensor(features)), torch.ones(9, 3))
    probe = random_batch(4, 3, seed=1)[0]
    unit = [vectors / np.linalg.norm(vectors, axis=-1, keepdims=True) for vectors in (probe, features)]
    expected = np.einsum("bcd,ncd->bcn", *unit).mean(-1)
    np.testing.assert_allclose(method._closeness(unit_features(torch.tensor(probe))), expected, atol=1e-6)


def test_margins_fall_as_published_and_with_the_length_of_the_training():
    published = [0.95] * 6 + [0.925, 0.9, 0.875, 0.85, 0.825, 0.8, 0.775] + [0.75] * 7
    method = made("sst", epochs=20)
    assert [method.margin(epoch) for epoch in range(20)] == pytest.approx(published)
    longer = made("sst", epochs=40)
    assert [longer.margin(epoch) for epoch in range(10, 40, 2)] == pytest.approx(published[5:])


# SARB


def test_blended_features_and_labels_are_those_computed_in_numpy():
    method, network = made("sarb", prototypes=2), Network()
    with torch.no_grad():
        method.alpha.fill_(0.3)
        method.beta.fill_(0.8)
    features, states = (values.astype(np.float32) for values in random_batch(7, 3))
    states[1] = 1  # nothing unknown here
    prototypes = np.random.default_rng(5).normal(size=(3, 2, WIDTH)).astype(np.float32)
    method.prototypes.copy_(torch.tensor(prototypes))
    method.has_prototypes.copy_(torch.tensor([True, True, False]))
    parts = method.training_step(network, torch.tensor(features), torch.tensor(states), at(5, 7))
    plain, instance, prototype = network.classified.numpy().reshape(3, 7, 3, WIDTH)
    np.testing.assert_array_equal(plain, features)

    blended, labels = features.copy(), states.copy()
    for n in range(7):
        for c in range(3):
            if states[n, c] == 0 and states[6 - n, c] == 1:
                blended[n, c] = 0.3 * features[n, c] + 0.7 * features[6 - n, c]
                labels[n, c] = 0.7
    assert (labels == np.float32(0.7)).sum() >= 2, "the example has something to blend"
    np.testing.assert_allclose(instance, blended, atol=1e-6)
    assert parts["instance"].item() == pytest.approx(soft_bce_in_numpy(blended.mean(-1), labels), abs=1e-6)

    labels = states.copy()
    for n in range(7):
        changed = np.flatnonzero((prototype[n] != features[n]).any(-1))
        can_change = [c for c in (0, 1) if states[n, c] == 0]
        assert len(changed) == bool(can_change) and set(changed) <= set(can_change)
        for c in changed:
            choices = 0.8 * features[n, c] + 0.2 * prototypes[c]
            assert np.isclose(choices, prototype[n, c], atol=1e-6).all(-1).any()
            labels[n, c] = 0.2
    assert parts["prototype"].item() == pytest.approx(soft_bce_in_numpy(prototype.mean(-1), labels), abs=1e-6)
    assert parts["known"].item() == pytest.approx(soft_bce_in_numpy(features.mean(-1), states), abs=1e-6)


def soft_bce_in_numpy(logits, labels):
    probability = 1 / (1 + np.exp(-logits.astype(np.float64)))
    soft = np.where(labels > 0, labels, 0).astype(np.float64)
    losses = -soft * np.log(probability) - (1 - soft) * np.log(1 - probability)
    return losses[labels != 0].mean() if (labels != 0).any() else 0.0


def test_soft_labels_cost_cross_entropy_and_have_its_gradient():
    logits = torch.tensor([[0.5, -2.0, 3.0], [1.0, 0.0, -1.0]], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[0.3, -1.0, 0.0], [1.0, 0.9, 0.0]], dtype=torch.float64)
    loss = soft_bce(logits, labels)
    loss.backward()
    assert loss.item() == pytest.approx(soft_bce_in_numpy(logits.detach().numpy(), labels.numpy()), abs=1e-12)
    expected = (torch.sigmoid(logits) - labels.clamp_min(0)) * (labels != 0) / 4
    torch.testing.assert_close(logits.grad, expected.detach())


def test_the_shares_learn_and_stay_between_0_and_1():
    method = made("sarb")
    features, states = random_batch(8, 3, seed=3)
    method.prototypes.normal_(generator=torch.Generator().manual_seed(0))
    method.has_prototypes.fill_(True)
    inputs, states = torch.tensor(features).float(), torch.tensor(states)

    def parts():
        return method.training_step(Network(), inputs, states, at(5, 8))

    for name, share in (("instance", method.alpha), ("prototype", method.beta)):
        (slope,) = torch.autograd.grad(parts()[name], share)
        values = []
        for value in (0.51, 0.49):
            share.data.fill_(value)
            values.append(parts()[name].item())
        share.data.fill_(0.5)
        assert slope.item() == pytest.approx((values[0] - values[1]) / 0.02, abs=1e-3) and abs(slope) > 1e-3
    method.alpha.data.fill_(1.7)
    method.beta.data.fill_(-0.2)
    parts()
    assert (method.alpha.item(), method.beta.item()) == (1, 0)


def clusters(count, seed=0):
    """Centres far apart, and eight points close to each."""
    generator = np.random.default_rng(seed)
    centres = 20 * generator.normal(size=(count, WIDTH))
    points = (centres[:, None] + 0.1 * generator.normal(size=(count, 8, WIDTH))).reshape(-1, WIDTH)
    order = generator.permutation(len(points))
    return torch.tensor(points[order], dtype=torch.float32), points.reshape(count, 8, WIDTH)


@pytest.mark.parametrize("seed", range(5))
def test_prototypes_are_the_centres_of_well_separated_clusters(seed):
    method = made("sarb", classes=3, prototypes=10, width=WIDTH)
    points, truth = zip(clusters(10, seed), clusters(10, seed + 50), strict=True)
    method.queue.push(torch.stack([*points, points[0]], 1), torch.tensor([[1, 1, 0]]).expand(80, 3))
    for epoch, step in ((5, 1), (6, 0)):
        method._renew(at(epoch, 8, step))
        assert not method.has_prototypes.any(), "only in the first step of an epoch that is due"
    method._renew(at(5, 8, 0))
    assert method.has_prototypes.tolist() == [True, True, False]
    for c in range(2):
        expected = truth[c].mean(1)
        found = method.prototypes[c].numpy()
        distance = np.linalg.norm(found[:, None] - expected, axis=-1)
        assert sorted(distance.argmin(0)) == list(range(10)) and distance.min(0).max() < 1e-4
    before = method.prototypes.clone()
    method.queue.features.add_(1)
    method._renew(at(9, 8, 0))
    assert torch.equal(method.prototypes, before)
    method._renew(at(10, 8, 0))  # every five of twenty epochs
    assert not torch.equal(method.prototypes, before)


def test_few_points_are_centres_themselves():
    points = torch.tensor(random_batch(1, 5)[0])[0].expand(2, 5, WIDTH)
    found = cluster_centres(points, torch.tensor([3, 0]), 4, np.random.default_rng(0))
    assert all(torch.isclose(found[0], point).all(-1).any() for point in points[0, :3])
    assert all(torch.isclose(points[0, :3], centre).all(-1).any() for centre in found[0])
    assert not found[1].any()


def test_parts_can_be_switched_off():
    features, states = map(torch.tensor, random_batch(6, 3))
    for options, expected in (
        ({}, {"known", "contrastive", "instance", "prototype"}),
        ({"instance": False}, {"known", "contrastive", "prototype"}),
        ({"prototype": False}, {"known", "contrastive", "instance"}),
    ):
        method = made("sarb", **options).double()
        assert method.training_step(Network(), features, states, at(5, 6)).keys() == expected
        assert method.training_step(Network(), features, states, at(4, 6)).keys() == {"known", "contrastive"}
        assert bool(method.queue.filled.any()) == options.get("prototype", True)


# Both


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["sst", "sarb"])
def test_poor_batches_give_finite_losses_and_gradients(name, precision):
    for images, classes in ((1, 1), (1, 3), (4, 1), (5, 3)):
        for fill in (-1, 0, 1, None):
            features, states = random_batch(images, classes)
            features[0, 0] = 0
            states = torch.tensor(states if fill is None else np.full_like(states, fill))
            method = made(name, classes=classes)
            inputs = torch.tensor(features, dtype=getattr(torch, precision), requires_grad=True)
            with torch.autocast("cpu", enabled=precision == "bfloat16"):
                for epoch, step in ((0, 0), (5, 0), (19, 1)):
                    parts = method.training_step(Network(), inputs, states, at(epoch, images, step))
                    loss = torch.stack(list(parts.values())).sum()
                    assert loss.dtype == torch.float32
                    (gradient,) = torch.autograd.grad(loss, inputs)
                    assert loss.isfinite() and gradient.isfinite().all()


@pytest.mark.parametrize("name", ["sst", "sarb"])
def test_both_say_that_they_need_negatives_and_their_head(name):
    method = create_method(name)
    assert method.uses_negatives and method.needs_negatives and method.head == "semantic-graph"
