"""Every head keeps the same promises; the semantic graph is the reference's, and big towers learn with it at 448 px."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import positively as po
from conftest import TINY
from positively.config import TrainConfig
from positively.errors import ConfigError
from positively.finetune.auto import resolve
from positively.finetune.networks import build_classifier, start_head
from positively.finetune.run import train
from positively.labels import LabelTable
from positively.models import SemanticGraphHead, create_backbone, create_classifier, read_word_vectors
from positively.models.heads import HEADS, create_head
from positively.models.heads.base import Head
from positively.models.lgconv import LgConv
from positively.models.saving import load_model
from positively.runs.folder import RunFolder
from positively.runs.saving import load_model_config
from wording import naming

pytestmark = pytest.mark.usefixtures("bare_runs")

torch.set_num_threads(1)

CLASSES = 20  # more than are scored at once

# A softmax over the positions does not see what is added to all of them.
WITHOUT_EFFECT = ("decoupling.fc3.bias", "decoupling.fc4.bias", "global_branch.aggregation.bias")


def some_table(classes: int = CLASSES) -> LabelTable:
    positives = [sorted({row % classes, (row * row + 1) % classes}) for row in range(40)]
    return LabelTable.from_positives([f"{row}.jpg" for row in positives], [f"c{i}" for i in range(classes)], positives)


# What needs the weights of a backbone keeps these promises in a test file of its own.
TRAINED = [name for name, kind in HEADS.items() if not kind.is_solved and not kind.needs_backbone]


@pytest.fixture(params=TRAINED)
def head(request: pytest.FixtureRequest) -> Head:
    torch.manual_seed(0)
    made = create_head(request.param, 8, CLASSES)
    made.setup(some_table())
    return made


# Promises of every head


@pytest.mark.parametrize("side", [1, 5, 14, 15, 28, 33])
def test_kept_maps_give_the_logits_of_the_map(head: Head, side: int) -> None:
    feature_map = torch.randn(2, 8, side, side + 1)
    pooled = head.eval().pool(feature_map)
    assert head(feature_map).shape == (2, CLASSES)
    assert torch.equal(head.pool(pooled), pooled)
    assert torch.equal(head(pooled), head(feature_map))


def test_the_prior_start_gives_every_image_the_class_frequencies(head: Head) -> None:
    frequencies = torch.linspace(0, 0.9, CLASSES)
    if head.last_layer is None:
        with pytest.raises(ConfigError, match="linear layer"):
            head.start("prior", frequencies)
        return
    head.start("prior", frequencies)
    probabilities = head(torch.randn(3, 8, 4, 4)).sigmoid()
    torch.testing.assert_close(probabilities, frequencies.clamp(1e-4, 0.5).expand(3, -1))
    with pytest.raises(ConfigError, match=f"{CLASSES} classes"):
        head.start("prior", torch.ones(3))
    with pytest.raises(ConfigError, match=naming("'default'", "'prior'")):
        head.start("zero")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["default", "prior"])
def test_a_start_is_a_function_of_the_seed_whatever_was_there_before(head: Head, kind: Any) -> None:
    def start() -> dict[str, Tensor]:
        torch.manual_seed(3)
        head.start(kind, torch.full((CLASSES,), 0.1))
        return {name: tensor.clone() for name, tensor in head.state_dict().items()}

    if kind == "prior" and head.last_layer is None:
        return  # refused, as the test before says
    first = start()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(1.0)
    head(torch.randn(4, 8, 3, 3))  # moves statistics
    second = start()
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
    if head.last_layer is not None:
        assert bool(head.last_layer.weight.any()) == (kind == "default")
        assert bool(head.last_layer.bias.any()) == (kind == "prior")


def test_a_saved_head_is_the_same_when_loaded(head: Head, tmp_path: Path) -> None:
    save_file(head.state_dict(), tmp_path / "head.safetensors")
    other = create_head(next(name for name, kind in HEADS.items() if isinstance(head, kind)), 8, CLASSES)
    other.load_state_dict(load_file(tmp_path / "head.safetensors"))
    feature_map = torch.randn(2, 8, 4, 4)
    assert torch.equal(head.eval()(feature_map), other.eval()(feature_map))


def test_the_gradient_reaches_every_parameter(head: Head) -> None:
    logits = head(torch.randn(4, 8, 5, 5))
    (logits * torch.randn_like(logits)).sum().backward()
    gradients = {name: parameter.grad for name, parameter in head.named_parameters()}
    assert [name for name, gradient in gradients.items() if gradient is None] == []
    silent = {name for name, gradient in gradients.items() if gradient is not None and gradient.abs().max() < 1e-6}
    assert silent <= set(WITHOUT_EFFECT)


def test_heads_compile_and_run_in_half_precision(head: Head) -> None:
    feature_map = torch.randn(2, 8, 4, 4)
    head.eval()
    compiled = torch.compile(head, backend="aot_eager")
    torch.testing.assert_close(compiled(feature_map), head(feature_map), atol=1e-5, rtol=1e-5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = head(feature_map)
    logits.float().sum().backward()
    torch.testing.assert_close(logits.float(), head(feature_map), atol=0.05, rtol=0.05)
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in head.parameters())


# The semantic graph


def naive(head: SemanticGraphHead, feature_map: Tensor) -> Tensor:
    """Layer after layer as the reference has them, every class and position spelled out."""
    conv, norm = head.change_channels
    features = norm(conv(feature_map)).flatten(2).transpose(1, 2)
    batch, positions, width = features.shape
    classes = len(head.word_vectors)
    spread = features[:, :, None].expand(batch, positions, classes, width)
    attention, graph = head.decoupling, head.graph
    hidden = attention.fc3(torch.tanh(attention.fc1(spread) * attention.fc2(head.word_vectors)))
    weights = attention.fc4(hidden).softmax(1)
    decoupled = (weights * spread).sum(1)

    state = decoupled
    for _ in range(3):
        message = torch.cat(
            [
                torch.stack([head.adjacency @ one for one in state]),
                torch.stack([head.adjacency.T @ one for one in state]),
            ],
            -1,
        )
        update = torch.sigmoid(graph.update_message(message) + graph.update_state(state))
        reset = torch.sigmoid(graph.reset_message(message) + graph.reset_state(state))
        new = torch.tanh(graph.new_message(message) + graph.new_state(reset * state))
        state = (1 - update) * state + update * new
    outputs = torch.tanh(head.output(torch.cat([state, decoupled], -1)))
    columns = [outputs[:, c] @ head.classifiers.weight[c] + head.classifiers.bias[c] for c in range(classes)]
    return torch.stack(columns, -1)


def test_the_frugal_computation_is_the_reference_in_value_and_gradient() -> None:
    torch.manual_seed(0)
    head = SemanticGraphHead(8, CLASSES, word_vectors=torch.randn(CLASSES, 30)).double().eval()
    head.setup(some_table())
    feature_map = 5 * torch.randn(2, 8, 4, 3, dtype=torch.float64)
    answers = {}
    for name, compute in {"frugal": head, "naive": lambda given: naive(head, given)}.items():
        given = feature_map.clone().requires_grad_()
        logits = compute(given)
        weights = torch.linspace(-1, 1, logits.numel(), dtype=torch.float64).reshape(logits.shape)
        answers[name] = (logits, *torch.autograd.grad((logits * weights).sum(), [given, *head.parameters()]))
    for frugal, expected in zip(answers["frugal"], answers["naive"], strict=True):
        torch.testing.assert_close(frugal, expected, atol=1e-10, rtol=1e-8)


def test_the_graph_is_the_share_of_images_with_both_classes() -> None:
    table = LabelTable.from_states(
        ["a", "b", "c"], ["cat", "dog", "sofa", "yeti"], [[1, 1, 0, -1], [1, 0, 1, 0], [1, 1, -1, 0]]
    )
    head = SemanticGraphHead(8, 4)
    assert torch.equal(head.adjacency, torch.eye(4))
    head.setup(table)
    expected = [[1, 2 / 3, 1 / 3, 0], [1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]]  # nobody saw a yeti
    torch.testing.assert_close(head.adjacency, torch.tensor(expected))
    assert head(torch.randn(2, 8, 3, 3)).isfinite().all()


def test_large_maps_are_averaged_until_a_side_is_below_fourteen() -> None:
    head = SemanticGraphHead(1, 2)
    sides = {side: head.pool(torch.zeros(1, 1, side, side)).shape[-1] for side in (7, 13, 14, 15, 27, 28, 64)}
    assert sides == {7: 7, 13: 13, 14: 7, 15: 8, 27: 7, 28: 7, 64: 8}
    feature_map = torch.randn(1, 1, 14, 14)
    assert head.pool(feature_map)[0, 0, 0, 1] == pytest.approx(feature_map[0, 0, :2, 2:4].mean().item())


def test_the_size_is_that_of_the_reference() -> None:
    head = SemanticGraphHead(2048, 80, word_vectors=torch.zeros(80, 300))
    millions = {name: sum(p.numel() for p in part.parameters()) / 1e6 for name, part in head.named_children()}
    expected = {"change_channels": 2.10, "decoupling": 0.94, "graph": 9.44, "output": 2.10, "classifiers": 0.08}
    assert millions == pytest.approx(expected, abs=0.005)


def test_word_vectors_stay_as_given_or_learn() -> None:
    given = torch.randn(3, 5)
    fixed = SemanticGraphHead(8, 3, word_vectors=given)
    fixed.start("default")
    assert torch.equal(fixed.word_vectors, given)
    assert "word_vectors" not in dict(fixed.named_parameters())
    learned = SemanticGraphHead(8, 3)
    assert dict(learned.named_parameters())["word_vectors"].shape == (3, 300)
    with pytest.raises(ConfigError, match=naming("4 rows", "3×5")):
        SemanticGraphHead(8, 4, word_vectors=given)


class Trap:
    def __reduce__(self) -> Any:
        return pytest.fail, ("a pickle was opened",)


def test_word_vector_files_that_cannot_serve_are_told(tmp_path: Path, scenes: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.npy"):
        read_word_vectors("nowhere.npy")
    path = tmp_path / "vectors.npy"
    for content in (np.array([["cat"]]), np.array([[np.nan]]), np.array([[Trap()]], dtype=object)):
        np.save(path, content)
        with pytest.raises(ConfigError, match=r"vectors\.npy"):
            read_word_vectors(str(path))
    path.write_text("0.1 0.2")
    with pytest.raises(ConfigError, match=r"\.npy"):
        read_word_vectors(str(path))
    np.save(path, np.zeros((3, 5)))
    tags = po.read(scenes / "train.csv", quiet=True)
    options = TINY | {"head_options": {"word_vectors": str(path)}, "out": str(tmp_path / "run")}
    with pytest.raises(ConfigError, match=naming("10 rows", "3×5")):
        po.fit(tags, head="semantic-graph", **options)
    with pytest.raises(ConfigError, match=naming("'linear'", "'word_vectors'", "pooling")):
        po.fit(tags, **options)
    with pytest.raises(ConfigError, match=naming("'semantic-graph'", "'pooling'")):
        po.fit(tags, head="semantic-graph", **options | {"head_options": {"pooling": "max"}})


# A run


GRAPH: dict[str, Any] = TINY | {"backbone": "positively_tiny", "image_size": 56, "head": "semantic-graph", "epochs": 1}


@pytest.mark.parametrize("with_file", [False, True])
def test_a_run_with_the_graph_is_loaded_as_it_was_trained(scenes: Path, tmp_path: Path, with_file: bool) -> None:
    tags = po.read(scenes / "train.csv", quiet=True)
    vectors = tmp_path / "vectors.npy"
    np.save(vectors, np.random.default_rng(0).normal(size=(len(tags.classes), 7)))
    chosen = {"word_vectors": str(vectors)} if with_file else {}
    config = TrainConfig(**GRAPH, out=str(tmp_path / "run"), head_options=chosen, ema=0.0)
    folder = RunFolder(train(tags, config))
    vectors.unlink()  # a run brings all it needs
    loaded = load_model(folder, load_model_config(folder))
    assert isinstance(loaded.head, SemanticGraphHead)
    assert loaded.head.word_vectors.shape == (len(tags.classes), 7 if with_file else 300)
    assert not torch.equal(loaded.head.adjacency, torch.eye(len(tags.classes)))
    trained = torch.load(folder.checkpoint, weights_only=True)["trainable"]
    again = create_classifier(
        "positively_tiny",
        len(tags.classes),
        weights="none",
        image_size=56,
        head="semantic-graph",
        head_options={"word_vectors": trained["head.word_vectors"]} if with_file else None,
    )
    again.load_state_dict(trained)
    images = torch.rand(2, 3, 56, 56)
    torch.testing.assert_close(loaded(images), again.eval()(images))


def test_the_graph_learns_from_kept_maps(scenes: Path, tmp_path: Path) -> None:
    weights = tmp_path / "tiny.safetensors"
    save_file(timm.create_model("positively_tiny").state_dict(), weights)
    tags = po.read(scenes / "train.csv", quiet=True)
    kept = {"weights": str(weights), "depth": "probe", "cache": str(tmp_path / "features")}
    folder = RunFolder(train(tags, TrainConfig(**GRAPH | kept, out=str(tmp_path / "run"))))
    stored = [load_file(path) for path in (tmp_path / "features").rglob("*.safetensors")]
    maps = [tensor for segment in stored for tensor in segment.values() if tensor.ndim == 4]
    assert {tuple(tensor.shape[1:]) for tensor in maps} == {(96, 7, 7)}
    model = load_model(folder, load_model_config(folder))
    assert model(torch.rand(1, 3, 56, 56)).isfinite().all()
    learned = load_file(folder.weights)
    assert all(torch.equal(learned[f"backbone.network.{n}"], t) for n, t in load_file(weights).items())


# Towers


def strides(network: nn.Module) -> list[tuple[int, ...]]:
    blocks = [network.get_submodule(f"layer{stage}.{block}") for stage in (1, 2, 3, 4) for block in (0, 1)]
    return [(b.conv1.stride[0], b.conv2.stride[0]) for b in blocks]


def test_the_first_resnets_have_their_stride_on_the_first_convolution(tmp_path: Path) -> None:
    for name, newer in {"resnet50_v1": "resnet50", "resnet101_v1": "resnet101"}.items():
        network, other = timm.create_model(name), timm.create_model(newer)
        assert strides(network) == [(1, 1), (1, 1), (2, 1), (1, 1), (2, 1), (1, 1), (2, 1), (1, 1)]
        assert network.layer2[0].downsample[0].stride == (2, 2)
        assert {n: t.shape for n, t in network.state_dict().items()} == {
            n: t.shape for n, t in other.state_dict().items()
        }
        assert {key: network.pretrained_cfg[key] for key in ("mean", "std", "interpolation", "classifier")} == {
            key: other.pretrained_cfg[key] for key in ("mean", "std", "interpolation", "classifier")
        }
    save_file(timm.create_model("resnet50_v1").state_dict(), tmp_path / "w.safetensors")
    backbone = create_backbone("resnet50_v1", str(tmp_path / "w.safetensors"), image_size=64)
    assert backbone(torch.zeros(1, 3, 64, 64)).shape == (1, 2048, 2, 2)
    with pytest.raises(po.errors.WeightsError, match="'resnet50_v1'"):
        create_backbone("resnet50_v1")


@pytest.fixture(scope="module", params=["resnet101", "resnet101_clip"])
def tower(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Name and weights of a big network: random ones of which every block has something to say."""
    torch.manual_seed(0)
    state = timm.create_model(request.param).state_dict()
    for name, tensor in state.items():
        if name.endswith(("bn3.weight", "conv3_1x1.bn.weight")):  # timm starts blocks at zero, which stops gradients
            tensor.fill_(0.2)
    path = tmp_path_factory.mktemp("weights") / "weights.safetensors"
    save_file(state, path)
    yield request.param, path
    path.unlink()


def test_towers_give_their_map_before_the_attention_pool_and_split_into_stages(tower: tuple[str, Path]) -> None:
    name, weights = tower
    options: dict[str, Any] = {"weights": str(weights), "image_size": 448, "lgconv": True, "learn_stages": 1}
    whole = create_classifier(name, 80, freeze_batchnorm=True, **options)
    images = torch.rand(1, 3, 448, 448)
    assert sum(isinstance(module, LgConv) for module in whole.modules()) == 33
    assert not any(module.training for module in whole.modules() if isinstance(module, nn.BatchNorm2d))
    if "clip" in name:
        assert whole.backbone.mean == (0.48145466, 0.4578275, 0.40821073)
        assert whole.backbone.std == (0.26862954, 0.26130258, 0.27577711)
    tail = create_classifier(name, 80, depth="tail", head="semantic-graph", **options).eval()
    assert sum(isinstance(module, LgConv) for module in tail.modules()) == 3
    with torch.no_grad():
        features = tail.features(images)
        assert features.shape == (1, 1024, 28, 28)
        torch.testing.assert_close(tail.trainable(features), tail(images))
        assert whole.backbone(images).shape == (1, 2048, 14, 14)


def test_hub_weights_of_towers_serve_at_another_size(tower: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    name, weights = tower
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda **_: str(weights))
    network = create_backbone(name, image_size=448).network
    stored = load_file(weights)
    assert all(torch.equal(tensor, stored[key]) for key, tensor in network.state_dict().items())


def is_frozen_layer(name: str) -> bool:
    last_stage = name.startswith(("backbone.network.layer4.", "backbone.network.stages.3."))
    return name.startswith("backbone.") and not last_stage and "global_branch" not in name


@pytest.mark.slow  # half a minute and gigabytes each
@pytest.mark.parametrize("head_name", ["linear", "semantic-graph"])
def test_towers_learn_at_448_pixels(tower: tuple[str, Path], head_name: Any, tmp_path: Path) -> None:
    name, weights = tower
    generator = np.random.default_rng(0)
    files = [f"{index}.png" for index in range(2)]
    for file in files:
        Image.fromarray(generator.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(tmp_path / file)
    table = LabelTable.from_positives([str(tmp_path / file) for file in files], ["a", "b", "c"], [[0], [0, 2]])
    config = TrainConfig(
        method="pu-mlc",
        backbone=name,
        weights=str(weights),
        image_size=448,
        depth="finetune",
        head=head_name,
        lgconv=True,
        learn_stages=1,
        batch_size=2,
        epochs=1,
        ema=0.0,
        weight_decay=0.0,
        holdout=0.0,
        out=str(tmp_path / "run"),
    )
    resolved = resolve(config, table, torch.device("cpu"))
    classifier = build_classifier(resolved, table)
    start_head(classifier, resolved, table)
    before = classifier.state_dict()
    run = train(table, config)
    after = load_file(run / "model.safetensors")
    shutil.rmtree(run)  # half a gigabyte
    assert before.keys() == after.keys()
    unchanged = {key for key in before if torch.equal(before[key], after[key])}
    assert {key for key in before if is_frozen_layer(key)} <= unchanged
    buffers = ("running_mean", "running_var", "num_batches_tracked", "adjacency")
    assert {
        key for key in unchanged if not is_frozen_layer(key) and not key.endswith((*buffers, *WITHOUT_EFFECT))
    } == set()
