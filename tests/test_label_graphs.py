"""The systems of Table 3 that know how labels belong together: ML-GCN, SSGRL, CADM and CoP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import positively as po
from conftest import TINY
from positively.config import TrainConfig
from positively.errors import ConfigError
from positively.finetune.auto import default_start, resolve
from positively.finetune.methods import METHODS, StepContext, create_method
from positively.finetune.run import train
from positively.labels import LabelTable
from positively.losses import bce
from positively.losses.correlation import label_correlation, pull_and_push
from positively.models import CoProjectionHead, DisentangledHead, Head, LinearHead, MLGCNHead
from positively.models.classifier import Tail
from positively.models.heads import create_head
from positively.models.saving import load_model
from positively.runs.folder import RunFolder
from positively.runs.saving import load_model_config
from wording import naming

torch.set_num_threads(1)

NAMES = {"ml-gcn": "ml-gcn", "ssgrl": "semantic-graph", "cadm": "cadm", "cop": "cop"}

# Cup and saucer belong together, sofa is often with the cat (not the other way round), nobody saw a yeti.
CLASSES = ("cup", "saucer", "cat", "sofa", "yeti")
STATES = [
    [1, 1, -1, -1, -1],
    [1, 1, 0, -1, -1],
    [1, 1, 1, -1, -1],
    [1, 0, 1, 0, -1],
    [-1, -1, 1, 1, -1],
    [-1, -1, 1, -1, -1],
    [-1, -1, 1, -1, 0],
]


def made_table() -> LabelTable:
    return LabelTable.from_states([f"{row}.jpg" for row in range(len(STATES))], CLASSES, STATES)


def graph_by_hand(states: NDArray[Any], threshold: float, weight: float) -> NDArray[np.float64]:
    """Entry after entry, from the authors' code."""
    classes = states.shape[1]
    binary = np.zeros((classes, classes))
    for i in range(classes):
        for j in range(classes):
            count = (states[:, i] == 1).sum()
            both = ((states[:, i] == 1) & (states[:, j] == 1)).sum()
            if i != j and count and both / count >= threshold:
                binary[i, j] = 1
    weighted = np.stack([weight * column / (column.sum() + 1e-6) for column in binary.T], axis=1)
    weighted += np.eye(classes)
    inverse = np.diag(weighted.sum(1) ** -0.5)
    return np.asarray((weighted @ inverse).T @ inverse)


def network_of(head: Head) -> Tail:
    return Tail(None, head, freeze_batchnorm=False)


def step_of(rows: int) -> StepContext:
    return StepContext(0, 0, 0, torch.arange(rows))


class Around:
    """What a method sees of a training."""

    seed, epochs, inputs, device = 0, 2, None, torch.device("cpu")

    def __init__(self, head: Head) -> None:
        self.table, self.trainable = made_table(), network_of(head)


# ML-GCN


@pytest.mark.parametrize(("threshold", "weight"), [(0.4, 0.25), (0.4, 0.2), (0.7, 0.5), (0.01, 1.0)])
def test_the_graph_is_that_of_the_authors(threshold: float, weight: float) -> None:
    head = MLGCNHead(8, 5, threshold=threshold, neighbour_weight=weight)
    head.setup(made_table())
    np.testing.assert_allclose(head.adjacency, graph_by_hand(np.array(STATES), threshold, weight), rtol=1e-6)


def test_only_what_is_often_found_together_is_joined_and_a_class_nobody_saw_stands_alone() -> None:
    head = MLGCNHead(8, 5)
    head.setup(made_table())
    joined = {(CLASSES[j], CLASSES[i]) for i, j in head.adjacency.nonzero().tolist() if i != j}  # j is told to i
    # 3 of 4 cups have a saucer, 2 of 4 are with a cat; 2 of 5 cats are with a cup; 1 of 1 sofa has a cat.
    told = {("cup", "saucer"), ("saucer", "cup"), ("cup", "cat"), ("cat", "cup"), ("sofa", "cat")}
    assert joined == told
    assert head.adjacency[4].tolist() == [0, 0, 0, 0, 1]
    empty = LabelTable.from_states(["a"], CLASSES, [[0, 0, -1, 0, 0]])
    head.setup(empty)
    assert torch.equal(head.adjacency, torch.eye(5))


def test_the_logits_of_ml_gcn_are_those_computed_by_hand() -> None:
    torch.manual_seed(0)
    words = torch.randn(5, 6, dtype=torch.float64)
    head = MLGCNHead(8, 5, word_vectors=words, width=7).double()
    head.setup(made_table())
    feature_map = torch.randn(3, 8, 4, 5, dtype=torch.float64)
    first, second = (layer.weight.detach().numpy() for layer in (head.first, head.second))
    graph = graph_by_hand(np.array(STATES), 0.4, 0.25)
    hidden = graph @ (words.float().double().numpy() @ first)
    classifiers = graph @ (np.where(hidden > 0, hidden, 0.2 * hidden) @ second)
    expected = feature_map.numpy().max((2, 3)) @ classifiers.T
    np.testing.assert_allclose(head(feature_map).detach().numpy(), expected, atol=1e-6)
    assert first.shape == (6, 7) and second.shape == (7, 8)
    assert abs(first).max() <= 7**-0.5 and abs(second).max() <= 8**-0.5


def test_a_classifier_moves_with_those_of_the_classes_it_is_found_with() -> None:
    torch.manual_seed(0)
    head = MLGCNHead(8, 5, width=64)
    head.setup(made_table())
    before = head.classifiers()
    features = torch.rand(4, 8)
    # One step for the word of the cup alone: the layers stay as they are.
    (gradient,) = torch.autograd.grad(-(features @ before[0]).sum(), head.word_vectors)
    with torch.no_grad():
        head.word_vectors[0] -= 0.1 * gradient[0]
        moved = head.classifiers() - before
    assert moved[0] @ features.sum(0) > 0
    assert torch.cosine_similarity(moved[0], moved[1], dim=0) > 0.9, "the saucer's classifier goes along"
    # The cat is a neighbour; sofa and yeti never hear of cups (the cat is told of sofas, not the sofa of cats).
    assert moved[2].norm() > 0 and not moved[3].any() and not moved[4].any()
    alone = MLGCNHead(8, 5, width=64)
    alone.load_state_dict({**head.state_dict(), "adjacency": torch.eye(5)})
    with torch.no_grad():
        before = alone.classifiers()
        alone.word_vectors[0] += 1
        assert not (alone.classifiers() - before)[1:].any()


def test_ml_gcn_stores_what_a_linear_head_with_maximum_stores() -> None:
    head, linear = MLGCNHead(8, 5), LinearHead(8, 5, pooling="max")
    feature_map = torch.randn(2, 8, 3, 3)
    assert head.feature_key == linear.feature_key
    assert torch.equal(head.pool(feature_map), linear.pool(feature_map))
    assert default_start("probe", "ml-gcn") == "default", "there is no bias that could hold a prior"


@pytest.mark.parametrize("with_file", [False, True])
def test_a_run_of_ml_gcn_is_loaded_with_its_words_and_graph(scenes: Path, tmp_path: Path, with_file: bool) -> None:
    tags = po.read(scenes / "train.csv", blank="negative", quiet=True)
    vectors = tmp_path / "vectors.npy"
    np.save(vectors, np.random.default_rng(0).normal(size=(len(tags.classes), 7)))
    chosen = {"width": 16, "threshold": 0.3} | ({"word_vectors": str(vectors)} if with_file else {})
    settings = TINY | {"method": "ml-gcn", "epochs": 1, "ema": 0.0, "out": str(tmp_path / "run")}
    folder = RunFolder(train(tags, TrainConfig(**settings, head_options=chosen)))
    vectors.unlink()  # a run brings all it needs
    head = load_model(folder, load_model_config(folder)).head
    assert isinstance(head, MLGCNHead)
    assert head.word_vectors.shape == (len(tags.classes), 7 if with_file else 300)
    assert not torch.equal(head.adjacency, torch.eye(len(tags.classes)))
    trained = torch.load(folder.checkpoint, weights_only=True)["trainable"]
    assert all(torch.equal(tensor, trained[f"head.{name}"]) for name, tensor in head.state_dict().items())


# Every one of the four


@pytest.mark.parametrize("name", NAMES)
def test_a_method_brings_its_head_and_needs_negatives(name: str) -> None:
    method = create_method(name)
    assert METHODS[name].head == NAMES[name]
    assert method.uses_negatives and method.needs_negatives
    with pytest.raises(ConfigError, match=naming(f"'{name}'", f"'{NAMES[name]}'", "'linear'")):
        resolve(TrainConfig(**TINY | {"method": name}, head="linear"), made_table(), torch.device("cpu"))


@pytest.mark.parametrize("name", NAMES)
def test_the_classification_loss_is_cross_entropy_over_known_labels(name: str) -> None:
    torch.manual_seed(0)
    head = create_head(NAMES[name], 8, 5).eval()
    head.setup(made_table())
    around = Around(head)
    method = create_method(name)
    method.setup(around)
    feature_map, states = torch.randn(7, 8, 3, 3), torch.tensor(STATES)
    features = head.pool(feature_map)
    network = around.trainable.eval()
    parts = method.training_step(network, features, states, step_of(7))
    torch.testing.assert_close(parts["loss"], bce(head(feature_map), states))
    assert len(parts) == (2 if name in ("cadm", "cop") else 1)
    if len(parts) == 2:
        plain = create_method(name, weight=0.0)
        plain.setup(around)
        assert plain.training_step(network, features, states, step_of(7)).keys() == {"loss"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "states",
    [torch.zeros(4, 5), -torch.ones(4, 5), torch.ones(4, 5), torch.tensor([[1.0, 0, 0, 0, 0]]), torch.zeros(0, 5)],
    ids=["all unknown", "no positive", "no negative", "one image", "no image"],
)
@pytest.mark.parametrize("kind", ["random", "zero"])
def test_losses_are_finite_whatever_is_known(name: str, states: Tensor, kind: str) -> None:
    torch.manual_seed(0)
    head = create_head(NAMES[name], 8, 5)
    if kind == "zero" and head.last_layer is not None:
        head.start("prior", torch.full((5,), 0.1))
    head.setup(LabelTable.from_states(["a"], CLASSES, [[0, 0, 0, 0, 0]]))
    around, method = Around(head), create_method(name)
    method.setup(around)
    scale = 0.0 if kind == "zero" else 1.0
    feature_map = (scale * torch.randn(len(states), 8, 3, 3)).requires_grad_()
    network = around.trainable.eval()  # a BatchNorm takes no statistics of nothing
    parts = method.training_step(network, head.pool(feature_map), states.to(torch.int8), step_of(len(states)))
    sum(parts.values()).backward()
    learned = [feature_map, *head.parameters(), *method.parameters()]
    assert all(value.isfinite() for value in parts.values())
    assert all(entry.grad is None or entry.grad.isfinite().all() for entry in learned)


# The term of labels that are found together


def test_pull_and_push_is_the_formula_in_value_and_gradient() -> None:
    generator = np.random.default_rng(0)
    cosines, states = generator.uniform(-1, 1, (7, 5)), np.array(STATES)

    def by_hand(values: NDArray[np.float64]) -> float:
        pulled = [1 - values[n, c] for n, c in zip(*np.nonzero(states == 1), strict=True)]
        pushed = [max(0.0, values[n, c] - 0.2) for n, c in zip(*np.nonzero(states == -1), strict=True)]
        return float(5 * (np.mean(pulled) + np.mean(pushed)))

    given = torch.from_numpy(cosines).requires_grad_()
    loss = pull_and_push(given, torch.from_numpy(states), margin=0.2)
    loss.backward()
    assert loss.item() == pytest.approx(by_hand(cosines))
    for place in np.ndindex(cosines.shape):
        ahead, behind = cosines.copy(), cosines.copy()
        ahead[place] += 1e-6
        behind[place] -= 1e-6
        assert given.grad is not None
        assert given.grad[place].item() == pytest.approx((by_hand(ahead) - by_hand(behind)) / 2e-6, abs=1e-6)
    mean = pull_and_push(given.detach(), torch.from_numpy(states), margin=0.2, class_reduction="mean")
    assert 5 * mean.item() == pytest.approx(loss.item())


@pytest.mark.parametrize("own", [False, True], ids=["labels of all images", "labels of each image"])
def test_label_correlation_is_the_mean_over_pairs_with_another_known_positive(own: bool) -> None:
    generator, states = np.random.default_rng(0), np.array(STATES)
    states[6] = [0, 0, 0, -1, -1]  # no known positive: nothing is found together
    labels = generator.normal(size=(7, 5, 3) if own else (5, 3))
    labels /= np.linalg.norm(labels, axis=-1, keepdims=True)
    cosines, told = label_correlation(torch.from_numpy(labels), torch.from_numpy(states))
    for n in range(6):
        vectors = labels[n] if own else labels
        for c in range(5):
            others = [p for p in np.flatnonzero(states[n] == 1) if p != c]
            assert told[n, c] == (states[n, c] if others else 0), "a label that stands alone is found with none"
            if others:
                assert cosines[n, c].item() == pytest.approx(np.mean([vectors[c] @ vectors[p] for p in others]))
    assert not told[6].any()


# CADM


def spelled_out(head: DisentangledHead, feature_map: NDArray[np.float64]) -> NDArray[np.float64]:
    """Label vectors with every class-aware map in full, B×P×classes×C."""
    weights = head.linear.weight.detach().numpy()
    positions = feature_map.reshape(*feature_map.shape[:2], -1).transpose(0, 2, 1)
    maps = positions[:, :, None] * weights
    answers = np.exp(maps.sum(-1))
    return np.asarray((maps * (answers / answers.sum(1, keepdims=True))[..., None]).sum(1))


def test_label_vectors_are_the_means_of_the_class_aware_maps_and_their_sums_the_logits() -> None:
    torch.manual_seed(0)
    head = DisentangledHead(8, 5).double()
    feature_map = torch.randn(3, 8, 4, 5, dtype=torch.float64)
    vectors = spelled_out(head, feature_map.numpy())
    np.testing.assert_allclose(head.embed(feature_map).detach().numpy(), vectors)
    expected = torch.from_numpy(vectors.sum(-1)) + head.linear.bias
    torch.testing.assert_close(head(feature_map), expected)
    torch.testing.assert_close(head.classify(head.embed(feature_map)), expected)


def test_the_label_vector_of_a_class_looks_only_where_its_weights_answer() -> None:
    torch.manual_seed(0)
    head = DisentangledHead(4, 2)
    with torch.no_grad():
        head.linear.weight.copy_(torch.tensor([[3.0, 3.0, 0.0, 0.0], [0.0, 0.0, 3.0, 3.0]]))
    feature_map = torch.zeros(1, 4, 3, 3)
    feature_map[0, :2, 0, 0] = 5.0  # the first class stands here
    feature_map[0, 2:, 2, 2] = 5.0  # and the second there
    before = head.embed(feature_map)
    assert before[0, 0, :2].min() > 14.9 and not before[0, 0, 2:].any(), "the other class's channels are shut"
    elsewhere = feature_map.clone()
    elsewhere[0, 0, 1:, :], elsewhere[0, 1, 1:, :] = 2.0, -2.0  # in its channels, yet no answer: they cancel
    torch.testing.assert_close(head.embed(elsewhere)[0, 0], before[0, 0], atol=1e-4, rtol=0)
    here = feature_map.clone()
    here[0, 0, 0, 0], here[0, 1, 0, 0] = 7.0, 3.0  # the same answer of other features
    torch.testing.assert_close(head.embed(here)[0, 0, :2], torch.tensor([21.0, 9.0]), atol=1e-4, rtol=0)


def test_no_tensor_of_all_positions_classes_and_channels_is_made() -> None:
    images, channels, classes, side = 3, 32, 20, 6
    head, states = DisentangledHead(channels, classes), torch.ones(images, classes)
    around, method = Around(head), create_method("cadm", width=16)
    method.setup(around)
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: sizes.append(tensor.numel()) or tensor, lambda x: x):
        feature_map = torch.randn(images, channels, side, side, requires_grad=True)
        method.training_step(around.trainable, feature_map, states, step_of(images))
    assert max(sizes) <= images * max(channels * classes, channels * side**2, classes * side**2)


def test_cadm_brings_label_vectors_of_labels_found_together_close() -> None:
    torch.manual_seed(0)
    head = DisentangledHead(8, 5)
    around, method = Around(head), create_method("cadm", weight=1.0, width=16)
    method.setup(around)
    feature_map, states = torch.rand(7, 8, 3, 3), torch.tensor(STATES)

    @torch.no_grad()
    def gap() -> float:
        """How much closer to the known positives of its image a known positive is than a known negative."""
        vectors = torch.nn.functional.normalize(head.embed(feature_map) @ method.projection.T, dim=-1)
        cosines, told = label_correlation(vectors, states)
        return float(cosines[told == 1].mean() - cosines[told == -1].mean())

    before = gap()
    optimizer = torch.optim.Adam([*head.parameters(), *method.parameters()], lr=1e-2)
    for _ in range(100):
        optimizer.zero_grad()
        method.training_step(around.trainable, feature_map, states, step_of(7))["correlation"].backward()
        optimizer.step()
    assert gap() > before + 0.3 and gap() > 0.7


# CoP


def test_the_logits_of_cop_are_those_computed_by_hand() -> None:
    torch.manual_seed(0)
    head = CoProjectionHead(8, 5, pooling="mix", width=6).double()
    with torch.no_grad():
        head.gain.fill_(1.7)
    feature_map = torch.randn(3, 8, 4, 5, dtype=torch.float64)
    state = {name: tensor.numpy() for name, tensor in head.state_dict().items()}
    pooled = (feature_map.mean((2, 3)) + feature_map.amax((2, 3))).numpy() / 2
    images, labels = pooled @ state["projection.weight"].T, state["label_vectors"]
    cosines = images @ labels.T / np.linalg.norm(images, axis=1)[:, None] / np.linalg.norm(labels, axis=1)
    expected = pooled @ state["linear.weight"].T + state["linear.bias"] + 1.7 * cosines
    np.testing.assert_allclose(head(feature_map).detach().numpy(), expected)
    assert head.feature_key == LinearHead(8, 5, pooling="mix").feature_key


def test_the_co_projection_is_that_of_images_and_labels_and_that_of_labels_among_themselves() -> None:
    torch.manual_seed(0)
    head = CoProjectionHead(8, 5, width=6)
    features, states = torch.randn(7, 8), np.array(STATES)
    method = create_method("cop", weight=0.3, margin=0.1)
    parts = method.training_step(network_of(head), features, torch.from_numpy(states), step_of(7))
    labels = head.label_vectors.detach().numpy()
    labels = labels / np.linalg.norm(labels, axis=1, keepdims=True)
    images = features.numpy() @ head.projection.weight.detach().numpy().T
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    expected = 0.0
    among = np.full((7, 5), np.nan)  # of each label, with the other known positives of its image
    for n, c in np.ndindex(7, 5):
        others = [p for p in np.flatnonzero(states[n] == 1) if p != c]
        among[n, c] = np.mean([labels[c] @ labels[p] for p in others]) if others else np.nan
    for cosines in (images @ labels.T, among):
        far, near = (1 - cosines)[states == 1], np.maximum(cosines - 0.1, 0)[states == -1]
        expected += np.nanmean(far) + np.nanmean(near)
    assert parts["co-projection"].item() == pytest.approx(0.3 * 5 * expected, rel=1e-5)


def test_labels_found_together_come_close_and_those_that_are_not_stay_apart() -> None:
    torch.manual_seed(0)
    head = CoProjectionHead(6, 4, width=16)
    method, network = create_method("cop"), network_of(head)
    states = torch.tensor([[1, 1, -1, -1], [-1, -1, 1, 1], [1, 1, 0, -1], [0, -1, 1, 1]]).repeat(8, 1)
    features = torch.rand(32, 6)  # images that say nothing: only the labels can
    before = head.labels() @ head.labels().T
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
    for _ in range(100):
        optimizer.zero_grad()
        method.training_step(network, features, states, step_of(32))["co-projection"].backward()
        optimizer.step()
    after = head.labels() @ head.labels().T
    assert max(before[0, 1], before[2, 3]) < 0.5
    assert min(after[0, 1], after[2, 3]) > 0.9
    assert after[:2, 2:].max() < 0.2


def test_images_come_close_to_their_labels() -> None:
    torch.manual_seed(0)
    head = CoProjectionHead(6, 2, width=16)
    method, network = create_method("cop"), network_of(head)
    states = torch.tensor([[1, -1], [-1, 1]]).repeat(8, 1)
    features = torch.rand(16, 6) + 3 * torch.nn.functional.one_hot((states[:, 1] == 1).long(), 6)
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
    for _ in range(100):
        optimizer.zero_grad()
        method.training_step(network, features, states, step_of(16))["co-projection"].backward()
        optimizer.step()
    with torch.no_grad():
        closeness = head.closeness(features, head.labels())
    assert closeness[states == 1].min() > 0.9 and closeness[states == -1].max() < 0.2


def test_the_common_space_earns_its_say_from_the_prior_on() -> None:
    head = CoProjectionHead(6, 2)
    head.start("prior", torch.tensor([0.1, 0.3]))
    assert head.gain == 0
    method = create_method("cop")
    parts = method.training_step(network_of(head), torch.rand(4, 6), torch.tensor([[1, -1]] * 4), step_of(4))
    sum(parts.values()).backward()
    assert head.gain.grad != 0 and head.projection.weight.grad.any() and head.label_vectors.grad.any()
