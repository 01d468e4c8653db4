"""Methods that complete labels: what CL, IMCL, EPR and ROLE compute, on examples small enough to be done in NumPy."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.special import expit, logit

import positively as po
from positively.errors import ConfigError
from positively.finetune.methods import METHODS, StepContext, create_method
from positively.labels import LabelTable
from positively.losses import bce, epr
from positively.research.rivals.interactive import asymmetric_sigmoid
from positively.research.rivals.pursuit import matching_pursuit
from wording import naming


def make_table(states):
    names = [f"{row}.jpg" for row in range(len(states))]
    return LabelTable.from_states(names, [f"class {c}" for c in range(states.shape[1])], states)


def around(states, *, epochs=4, scores=None, width=5):
    """What a method sees of a training."""
    head = SimpleNamespace(last_layer=torch.nn.Linear(width, states.shape[1]))
    return SimpleNamespace(
        table=make_table(states),
        trainable=SimpleNamespace(head=head),
        seed=3,
        epochs=epochs,
        inputs=None,
        score=lambda: scores,
    )


class Network:
    """Inputs are the embedding; the head is linear."""

    def __init__(self, weight):
        self.weight = weight

    def forward_features(self, inputs):
        return inputs

    def forward_head(self, embedding):
        return embedding @ self.weight

    def __call__(self, inputs):
        return self.forward_head(self.forward_features(inputs))


def random_states(rows, classes, seed=0, known=0.4):
    generator = np.random.default_rng(seed)
    signs = generator.choice([-1, 1], (rows, classes))
    return (signs * (generator.random((rows, classes)) < known)).astype(np.int8)


def central_differences(function, at, width=1e-6):
    slopes = np.zeros_like(at)
    for place in np.ndindex(at.shape):
        shift = np.zeros_like(at)
        shift[place] = width
        slopes[place] = (function(at + shift) - function(at - shift)) / (2 * width)
    return slopes


# Curriculum labelling


def test_cl_by_score_labels_exactly_the_unknown_entries_above_the_threshold_anew_in_each_round():
    states = random_states(12, 3)
    scores = [np.random.default_rng(seed).normal(0, 3, (12, 3)).astype(np.float32) for seed in (1, 2, 3)]
    training = around(states, epochs=4)
    method = create_method("cl", strategy="score", threshold=1.5, warmup=0.5, every=0.25)
    method.setup(training)
    assert list(method.rounds) == [2, 3]  # after the last epoch nobody would learn from it
    for done, found in enumerate(scores, start=1):
        training.score = lambda found=found: found
        training.epoch = done - 1
        method.on_epoch_end(training)
        expected = np.sign(found) * ((np.abs(found) > 1.5) & (states == 0)) if done > 1 else 0 * states
        np.testing.assert_array_equal(method.pseudo, expected)
    assert set(method.pseudo.unique().tolist()) == {-1, 0, 1}


def test_cl_by_proportion_takes_the_surest_of_every_class_and_more_of_them_in_every_round():
    states = random_states(40, 3)
    scores = np.random.default_rng(1).normal(0, 2, (40, 3)).astype(np.float32)
    training = around(states, epochs=20, scores=scores)
    method = create_method("cl", strategy="proportion", proportion=0.6)
    method.setup(training)
    assert list(method.rounds) == [5, 10, 15]
    counts = []
    for done in range(1, 20):
        training.epoch = done - 1
        method.on_epoch_end(training)
        passed = sum(done >= epoch for epoch in method.rounds)
        expected = np.zeros_like(states)
        for c in range(3):
            unknown = np.flatnonzero(states[:, c] == 0)
            surest = unknown[np.argsort(-np.abs(scores[unknown, c]))]
            chosen = surest[: int(len(unknown) * (0.6 * passed / 3))]
            expected[chosen, c] = np.sign(scores[chosen, c])
        np.testing.assert_array_equal(method.pseudo, expected)
        counts.append(int(method.pseudo.abs().sum()))
    assert counts[3] == 0 < counts[4] < counts[9] < counts[14] == counts[18]


def test_cl_learns_from_pseudo_labels_but_never_over_a_known_one():
    states = random_states(6, 3)
    method = create_method("cl", strategy="score")
    method.setup(around(states))
    method.pseudo.fill_(1)
    method.pseudo[:, 2] = 0
    weight = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    inputs = torch.randn(4, 5, generator=torch.Generator().manual_seed(1))
    rows = torch.tensor([5, 0, 3, 1])
    batch = torch.from_numpy(states)[rows]
    parts = method.training_step(Network(weight), inputs, batch, StepContext(0, 2, 0, rows))
    targets = torch.where(batch == 0, torch.tensor([1, 1, 0], dtype=torch.int8), batch)
    assert (batch == -1).any() and (batch[:, 2] == 0).any()
    torch.testing.assert_close(parts["loss"], bce(inputs @ weight, targets))


@pytest.mark.parametrize("of_classes", [False, True])
def test_the_spread_under_dropout_is_that_of_sub_networks_and_labels_where_it_is_small(of_classes):
    states = random_states(8, 3, known=0.3)
    generator = np.random.default_rng(0)
    shape = (4, 3, 6) if of_classes else (4, 6)
    inputs, weight, rows = generator.normal(size=shape), generator.normal(size=(6, 3)), np.array([6, 1, 0, 4])

    class PerClass(Network):
        def forward_head(self, embedding):
            return (embedding * self.weight.T).sum(-1) if of_classes else super().forward_head(embedding)

    def classify(embedding):
        return np.einsum("bcd,dc->bc", embedding, weight) if of_classes else embedding @ weight

    step = StepContext(5, 0, 7, torch.from_numpy(rows))
    # The same draws: one mask a pass, for all images.
    masks = (step.generator("passes").random((9, *shape[1:])) >= 0.3) / 0.7
    probabilities = np.stack([expit(classify(inputs * mask)) for mask in masks])
    mean, deviation = probabilities.mean(0), probabilities.std(0)
    limit = float(np.median(deviation))
    method = create_method("cl", dropout=0.3, passes=9, deviation=limit)
    method.setup(around(states, epochs=4))
    network, batch = PerClass(torch.from_numpy(weight).requires_grad_()), torch.from_numpy(states[rows])
    parts = method.training_step(network, torch.from_numpy(inputs), batch, step)
    expected = np.zeros_like(states)
    expected[rows] = np.where(mean >= 0.5, 1, -1) * (deviation < limit) * (states[rows] == 0)
    assert not method.pseudo.any(), "they are for the next epoch"
    method.pseudo.fill_(1)  # what a round before had found
    method.on_epoch_end(SimpleNamespace(epoch=0))
    np.testing.assert_array_equal(method.pseudo, expected)  # also of images that the epoch left out
    assert expected.any() and not expected.all() and not method.coming.any()
    # Training has dropout too, by a draw of its own; this step did not yet see the new labels.
    mask = (step.generator("mask").random((1, *shape[1:]))[0] >= 0.3) / 0.7
    torch.testing.assert_close(parts["loss"], bce(torch.from_numpy(classify(inputs * mask)), batch))


def test_the_passes_with_dropout_run_only_in_the_epoch_before_a_round():
    method = create_method("cl", deviation=1.0, warmup=0.5)
    method.setup(around(random_states(4, 3), epochs=6))
    assert list(method.rounds) == [3, 5]
    states, weight = torch.zeros(4, 3, dtype=torch.int8), torch.ones(5, 3)
    labelled = []
    for epoch in range(6):
        method.coming.zero_()
        method.training_step(Network(weight), torch.ones(4, 5), states, StepContext(0, epoch, 0, torch.arange(4)))
        labelled.append(bool(method.coming.any()))
    assert labelled == [False, False, True, False, True, False]


# Interactive learning


def plain_pursuit(query, atoms, allowed, count):
    """One query and whole vectors, as in a text book."""
    chosen, residual = [], query
    for _ in range(count):
        fit = np.abs(atoms @ residual) / np.linalg.norm(atoms, axis=1)
        fit[[not free or place in chosen for place, free in enumerate(allowed)]] = -1
        chosen.append(int(fit.argmax()))
        coefficients = np.linalg.lstsq(atoms[chosen].T, query, rcond=None)[0]
        residual = query - coefficients @ atoms[chosen]
    return chosen, coefficients


def joined(features, labels, weights=(0.3, 2.0)):
    return np.concatenate([np.sqrt(weights[0]) * features, np.sqrt(weights[1]) * labels], axis=-1)


def pursue(queries, atoms, allowed, count, weights=(0.3, 2.0)):
    parts = [[torch.from_numpy(part) for part in group] for group in (queries, atoms)]
    weights = [torch.tensor(weight, dtype=torch.float64) for weight in weights]
    return matching_pursuit(*parts, weights, torch.from_numpy(allowed), count)


def test_matching_pursuit_finds_the_three_images_a_made_one_is_a_combination_of():
    generator = np.random.default_rng(0)
    features, labels = generator.normal(size=(30, 200)), generator.normal(size=(30, 40))
    truth = np.stack([generator.choice(30, 3, replace=False) for _ in range(8)])
    shares = generator.uniform(0.5, 1.5, (8, 3)) * generator.choice([-1, 1], (8, 3))
    made = [np.einsum("bk,bkd->bd", shares, part[truth]) for part in (features, labels)]
    chosen, coefficients = pursue(made, (features, labels), np.ones((8, 30), dtype=bool), 3)
    for found, values, places, expected in zip(chosen, coefficients, truth, shares, strict=True):
        np.testing.assert_array_equal(np.sort(found), np.sort(places))
        np.testing.assert_allclose(values[found.argsort()], expected[places.argsort()], rtol=1e-6)


def test_matching_pursuit_is_that_of_one_image_after_the_other_on_features_and_labels_at_once():
    generator = np.random.default_rng(1)
    features, labels = generator.normal(size=(25, 6)), generator.normal(size=(25, 4))
    queries = generator.normal(size=(7, 6)), generator.normal(size=(7, 4))
    allowed = generator.random((7, 25)) < 0.7
    chosen, coefficients = pursue(queries, (features, labels), allowed, 3)
    for row in range(7):
        places, shares = plain_pursuit(
            joined(queries[0][row], queries[1][row]), joined(features, labels), allowed[row], 3
        )
        assert chosen[row].tolist() == places and allowed[row, places].all()
        np.testing.assert_allclose(coefficients[row], shares, rtol=1e-5, atol=1e-7)
    by_features, _ = pursue(queries, (features, labels), allowed, 3, weights=(1.0, 0.0))
    assert not torch.equal(by_features, chosen), "labels have a say in the choice"


def test_matching_pursuit_makes_do_with_copies_and_with_fewer_images_than_asked_for():
    features = np.ones((3, 4))
    queries = np.ones((2, 4)), np.zeros((2, 2))
    allowed = np.array([[False, True, True], [False, False, False]])
    _, coefficients = pursue(queries, (features, np.zeros((3, 2))), allowed, 3)
    np.testing.assert_allclose(coefficients.sum(1), [1, 0], atol=1e-6)
    assert coefficients.isfinite().all() and coefficients[0, 2] == 0


@pytest.mark.parametrize("c", [1.0, 4.0])
def test_the_asymmetric_sigmoid_is_the_published_one(c):
    s = np.linspace(-3, 3, 7)
    z = s + 0.5 * np.log(1 / c)
    expected = (np.exp(z) - np.exp(-z) / c) / (np.exp(z) + np.exp(-z))
    np.testing.assert_allclose(asymmetric_sigmoid(torch.from_numpy(s), c), expected, rtol=1e-9)


def imcl(states, **options):
    method = create_method("imcl", **options)
    method.setup(around(states))
    return method.double()


def test_the_label_graph_starts_at_the_co_occurrence_of_known_positives():
    states = np.array([[1, 1, 0, -1], [1, 0, -1, 0], [1, 1, 0, 0]], dtype=np.int8)
    expected = [[3 / 5, 2 / 5, 0, 0], [2 / 4, 2 / 4, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]  # two classes nobody knows
    np.testing.assert_allclose(imcl(states).label_graph().detach(), expected, rtol=1e-6)


def test_imcl_explains_label_scores_by_the_dictionary_and_never_an_image_by_itself():
    states, generator = random_states(9, 4, known=0.6), np.random.default_rng(2)
    embedding, weight = generator.normal(size=(9, 5)), generator.normal(size=(5, 4))
    method, rows = imcl(states, neighbours=2), torch.arange(9)
    network = Network(torch.from_numpy(weight).requires_grad_())
    inputs, labels = torch.from_numpy(embedding), torch.from_numpy(states)
    first = method.training_step(network, inputs, labels, StepContext(0, 0, 0, rows))
    assert first["collaboration"] == 0 and method.ratio == 0
    np.testing.assert_allclose(method.atoms, embedding)  # nine images: all of them are in the dictionary
    np.testing.assert_allclose(method.atom_labels, np.tanh(embedding @ weight))
    # The second epoch sees other weights: the dictionary is as the first left it.
    network.weight = torch.from_numpy(weight + 0.1 * generator.normal(size=(5, 4))).requires_grad_()
    parts = method.training_step(network, inputs, labels, StepContext(0, 1, 0, rows))
    scores = np.tanh(embedding @ network.weight.detach().numpy())
    smoothed = np.tanh(embedding @ weight) @ method.label_graph().detach().numpy().T
    weights = [0.25 * 9 / np.square(embedding).sum(), 0.5 * 9 / np.square(smoothed).sum()]
    vectors, residuals = joined(embedding, smoothed, weights), []
    for row, query in enumerate(joined(embedding, scores, weights)):
        chosen, shares = plain_pursuit(query, vectors, np.arange(9) != row, 2)
        residuals.append(scores[row] - shares @ smoothed[chosen])
    observed = bce(inputs @ network.weight, labels).item()
    ratio = observed / np.square(scores).sum(1).mean()
    assert method.ratio.item() == pytest.approx(ratio) and parts["observed"].item() == pytest.approx(observed)
    expected = 0.5 * ratio * np.square(residuals).sum(1).mean()
    assert parts["collaboration"].item() == pytest.approx(expected, rel=1e-5)
    parts["collaboration"].backward()
    assert network.weight.grad.abs().sum() > 0 and method.graph.grad.abs().sum() > 0, "the graph learns, too"
    np.testing.assert_allclose(method.atom_labels, scores)  # and now it is renewed


def test_the_ratio_of_the_losses_is_measured_once_and_features_are_not_taught_by_their_residual():
    states = random_states(6, 3)
    method, generator = imcl(states, dictionary=4), torch.Generator().manual_seed(0)
    logits = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    network = SimpleNamespace(forward_features=lambda inputs: 1.0 * inputs, forward_head=lambda _: 1.0 * logits)
    inputs = torch.randn(6, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    batch, nothing = torch.from_numpy(states), torch.zeros(6, 3)
    ratios = []
    for epoch, known in enumerate([batch, nothing, batch, batch]):
        parts = method.training_step(network, inputs, known, StepContext(0, epoch, 0, torch.arange(6)))
        assert all(part.isfinite() for part in parts.values())
        ratios.append(method.ratio.item())
        logits = (0.5 * logits).requires_grad_()
    assert ratios[0] == ratios[1] == 0 < ratios[2] == ratios[3]
    sum(parts.values()).backward()
    assert inputs.grad is None
    assert method.is_filled.all() and len(method.atoms) == 4


def test_imcl_takes_one_vector_a_class_as_their_mean_and_refuses_a_head_without_a_last_layer():
    method = imcl(random_states(4, 3))
    network = SimpleNamespace(forward_features=lambda inputs: inputs, forward_head=lambda e: e.sum(-1))
    inputs = torch.randn(4, 3, 5, dtype=torch.float64)
    for epoch in range(2):
        parts = method.training_step(network, inputs, torch.zeros(4, 3), StepContext(0, epoch, 0, torch.arange(4)))
    assert all(part.isfinite() for part in parts.values())
    torch.testing.assert_close(method.atoms, inputs.mean(1))
    training = around(random_states(4, 3))
    training.trainable.head.last_layer = None
    with pytest.raises(ConfigError, match=naming("'imcl'", "head")):
        create_method("imcl").setup(training)


# Expected positives, and estimates of labels


def plain_epr(probabilities, states, k):
    rows, classes = states.shape
    missed = -np.log(probabilities)[states == 1].sum() / (rows * classes)
    return missed + (probabilities.sum() / rows - k) ** 2 / classes**2


def plain_agreement(probabilities, targets):
    return -(targets * np.log(probabilities) + (1 - targets) * np.log(1 - probabilities)).mean()


def test_epr_has_the_published_value_and_gradient():
    states, scores = random_states(5, 4, seed=4), np.random.default_rng(0).normal(size=(5, 4))
    logits = torch.from_numpy(scores).requires_grad_()
    value = epr(logits, torch.from_numpy(states), expected_positives=1.3, class_reduction="mean")
    value.backward()
    p = expit(scores)
    assert value.item() == pytest.approx(plain_epr(p, states, 1.3), rel=1e-12)
    by_hand = -(1 - p) * (states == 1) / 20 + 2 * (p.sum() / 5 - 1.3) / 16 * p * (1 - p) / 5
    np.testing.assert_allclose(logits.grad, by_hand, rtol=1e-9)
    np.testing.assert_allclose(
        logits.grad, central_differences(lambda s: plain_epr(expit(s), states, 1.3), scores), atol=1e-8
    )


@pytest.mark.parametrize("name", ["epr", "role"])
def test_the_expected_positives_are_the_known_ones_over_the_label_frequency(name):
    def expected(**options):
        method = create_method(name, **options)
        method.setup(around(states))
        return method.loss.expected_positives if name == "epr" else method.expected

    states = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 0]], dtype=np.int8)
    assert expected(label_frequency=0.6) == pytest.approx(0.75 / 0.6)
    assert expected() == pytest.approx(0.9 + 0.5)  # images are read: one half; and no class is certain
    assert expected(label_frequency=0.6, expected_positives=2.0) == 2.0
    assert METHODS[name].benchmark_options(0.3, {}) == {"label_frequency": 0.3}


def role(states, **options):
    method = create_method("role", expected_positives=1.2, **options)
    method.setup(around(states))
    return method.double()


def test_estimates_of_labels_start_undecided_except_for_known_positives():
    states = random_states(200, 5)
    found = expit(role(states).estimates.numpy())
    np.testing.assert_allclose(found[states == 1], 0.995, rtol=1e-5)
    others = found[states != 1]
    assert 0.4 <= others.min() < 0.41 and 0.59 < others.max() <= 0.6 and abs(others.mean() - 0.5) < 0.01


def test_a_step_of_role_teaches_classifier_and_estimates_by_the_published_loss():
    states, generator = random_states(7, 3), np.random.default_rng(0)
    method, rows = role(states, rate=2.5, class_reduction="mean"), np.array([4, 0, 5, 2])
    before, scores, batch = method.estimates.numpy().copy(), generator.normal(size=(4, 3)), states[rows]
    logits = torch.from_numpy(scores).requires_grad_()
    step = StepContext(0, 0, 0, torch.from_numpy(rows))
    parts = method.training_step(lambda _: logits, None, torch.from_numpy(batch), step)
    sum(parts.values()).backward()

    def loss(one, other):
        """Half of the objective: what one of the two learns."""
        return 0.5 * (plain_epr(expit(one), batch, 1.2) + plain_agreement(expit(one), expit(other)))

    assert sum(parts.values()).item() == pytest.approx(loss(scores, before[rows]))
    by_scores = central_differences(lambda s: loss(s, before[rows]), scores)
    np.testing.assert_allclose(logits.grad, by_scores, atol=1e-8)
    expected = before.copy()
    expected[rows] -= 2.5 * batch.size * central_differences(lambda theta: loss(theta, scores), before[rows])
    np.testing.assert_allclose(method.estimates, expected, atol=1e-6)
    assert (method.estimates.numpy()[rows] != before[rows]).all()


def test_estimates_go_to_the_classifier_and_known_positives_stay():
    states = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0]], dtype=np.int8)
    method = role(states)
    p = np.array([[0.2, 0.9, 0.1], [0.8, 0.7, 0.05], [0.6, 0.1, 0.15]])  # as many as expected: 3.6 of three images
    before = expit(method.estimates.numpy())
    away = [np.abs(before - p)[states == 0].max()]
    for epoch in range(60):
        step = StepContext(0, epoch, 0, torch.arange(3))
        method.training_step(lambda _: torch.from_numpy(logit(p)), None, torch.from_numpy(states), step)
        found = expit(method.estimates.numpy())
        away.append(np.abs(found - p)[states == 0].max())
        assert (found[states == 1] > 0.5).all()
    assert away[10] < away[0] / 2 and away[-1] < 0.06
    # −log q and the classifier together: q = (1 + p) / 2, but for the small pull of the expected positives.
    np.testing.assert_allclose(found[states == 1], (1 + p[states == 1]) / 2, atol=0.04)


# Priors


@pytest.mark.parametrize("maps", [False, True], ids=["vectors", "maps"])
@pytest.mark.parametrize("name", ["upu", "nnpu"])
def test_without_a_word_on_priors_they_are_estimated_on_stored_features(name, maps):
    generator = np.random.default_rng(0)
    truth = generator.random((400, 3)) < [0.5, 0.3, 0.2]
    features = np.abs(generator.normal(size=(400, 8)) + 2.5 * truth @ np.eye(3, 8)).astype(np.float32)
    states = (truth & (generator.random(truth.shape) < 0.5)).astype(np.int8)
    training = around(states)
    training.inputs = np.repeat(features, 4, axis=1).reshape(400, 8, 2, 2) if maps else features
    method = create_method(name)
    method.setup(training)
    estimated = po.probe.fit(features, states, seed=3).calibration.label_frequency
    np.testing.assert_allclose(method.loss.prior, states.mean(0) / estimated, rtol=1e-3)
    assert np.abs(method.loss.prior.numpy() / truth.mean(0) - 1).max() < 0.5
