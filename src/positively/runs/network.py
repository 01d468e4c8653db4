"""model.onnx of a run: preprocessing, backbone, head, sigmoid and thresholds in one graph, built without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import positively
from positively.embedding import BackboneEmbedder, Preprocessing
from positively.embedding.graph import BACKBONE, EMBEDDING, IMAGES, GraphBuilder, assemble, embedding_graph, image_input
from positively.files import write_with
from positively.probe import KernelClassifier, LinearClassifier

LOGITS, SCORES, TAGS, THRESHOLDS = "logits", "scores", "tags", "thresholds"
OUTPUTS = ((SCORES, np.float32), (TAGS, np.bool_), (EMBEDDING, np.float32), (LOGITS, np.float32))
_SHORTEST = 1e-12


def build_model(
    embedder: BackboneEmbedder,
    classifier: KernelClassifier | LinearClassifier,
    thresholds: npt.NDArray[np.float64],
    classes: Sequence[str],
    head: str,
) -> Any:
    """The network of a probe as an ONNX model.

    ``images`` B×3×H×W, RGB in [0, 1] → ``scores`` B×C, ``tags`` B×C (whether a score reaches its threshold),
    ``embedding`` and ``logits``.

    Args:
        embedder: The backbone.
        classifier: The classifier that was fitted on its embeddings.
        thresholds: Thresholds of the probabilities; infinite for a class that is never given.
        classes: Names of the classes.
        head: Name of the classifier.
    """
    preprocessing = embedder.preprocessing
    model, builder = embedding_graph(embedder.path, preprocessing, embedder.pooling, embedder.window)
    append_classifier(builder, classifier, has_parts=bool(embedder.window))
    append_scores(builder, thresholds)
    told = describe(classes, thresholds, preprocessing, backbone=embedder.name, head=head)
    outputs = {**dict(OUTPUTS)}
    ranks = {EMBEDDING: 3 if embedder.window else 2}
    return assemble(model, builder, [image_input(model, preprocessing.image_size)], list(outputs.items()), told, ranks)


def with_scores(
    model: Any, classifier: KernelClassifier | LinearClassifier | None, thresholds: npt.NDArray[np.float64], head: str
) -> Any:
    """A run's model with other thresholds and, if one is given, another classifier on its embedding.

    Args:
        model: What :func:`build_model` gave; it is not changed.
        classifier: Replaces the classifier from embedding to logits; None keeps the model's own.
        thresholds: Thresholds of the probabilities.
        head: Name of the classifier.
    """
    nodes = list(model.graph.node)
    last = EMBEDDING if classifier is not None else LOGITS
    end = next(number for number, node in enumerate(nodes) if last in node.output)
    if classifier is None:  # in a graph from torch, the embedding may come after the logits
        end = max(end, next(number for number, node in enumerate(nodes) if EMBEDDING in node.output))
        nodes = [node for node in nodes[: end + 1] if not {SCORES, TAGS} & set(node.output)]
    else:
        nodes = nodes[: end + 1]
    used = {name for node in nodes for name in node.input}
    builder = GraphBuilder()
    builder.nodes = nodes
    builder.constants = [one for one in model.graph.initializer if one.name in used and one.name != THRESHOLDS]
    if classifier is not None:
        append_classifier(builder, classifier, has_parts=_rank(model, EMBEDDING) == 3)
    append_scores(builder, thresholds)
    told = {entry.key: entry.value for entry in model.metadata_props}
    return assemble(model, builder, list(model.graph.input), OUTPUTS, told | _thresholds(thresholds) | {"head": head})


def normalized_model(model: Any, preprocessing: Preprocessing, outputs: Mapping[str, str]) -> Any:
    """A run's model for images that are already normalized, with renamed outputs.

    Args:
        model: A model from :func:`build_model`.
        preprocessing: How the images are normalized.
        outputs: Name of an output → its new name; of an embedding with parts, only the mean embedding is kept.
    """
    builder = GraphBuilder()
    std = builder.constant("input_std", np.reshape(preprocessing.std, (3, 1, 1)))
    mean = builder.constant("input_mean", np.reshape(preprocessing.mean, (3, 1, 1)))
    builder.add("Add", [builder.add("Mul", ["input", std], "input_scaled"), mean], IMAGES)
    inner = {name: f"{name}_inside" for name in outputs}
    for node in model.graph.node:
        copied = type(node)()
        copied.CopyFrom(node)
        copied.name = inner.get(node.name, node.name)
        copied.input[:] = [inner.get(name, name) for name in node.input]
        copied.output[:] = [inner.get(name, name) for name in node.output]
        builder.nodes.append(copied)
    builder.constants.extend(model.graph.initializer)
    for name, new in outputs.items():
        whole = _first_part(builder, inner[name]) if _rank(model, name) == 3 else inner[name]
        builder.add("Identity", [whole], new)
    images = type(model.graph.input[0])()
    images.CopyFrom(model.graph.input[0])
    images.name = "input"
    names = [(new, np.float32) for new in outputs.values()]
    told = {entry.key: entry.value for entry in model.metadata_props}
    return assemble(model, builder, [images], names, told)


def is_any_size(model: Any) -> bool:
    """Whether a model takes images of any size: then its height is not a number."""
    return not model.graph.input[0].type.tensor_type.shape.dim[2].dim_value


def write_model(path: Path, model: Any) -> None:
    """Write an ONNX model in one step."""
    write_with(path, lambda temporary: temporary.write_bytes(model.SerializeToString()))


def describe(
    classes: Sequence[str],
    thresholds: npt.NDArray[np.float64],
    preprocessing: Preprocessing,
    *,
    backbone: str,
    head: str,
) -> dict[str, str]:
    """Metadata of the model: what a program needs besides inputs and outputs."""
    told: Mapping[str, Any] = {
        "positively": positively.__version__,
        "classes": list(classes),
        "image_size": preprocessing.image_size,
        "resize": preprocessing.resize,
        "interpolation": preprocessing.interpolation,
        "pixels": "RGB in [0, 1]",
        "backbone": backbone,
        "head": head,
    }
    found = {name: value if isinstance(value, str) else json.dumps(value) for name, value in told.items()}
    return found | _thresholds(thresholds)


def _thresholds(thresholds: npt.NDArray[np.float64]) -> dict[str, str]:
    return {THRESHOLDS: json.dumps([float(value) if np.isfinite(value) else None for value in thresholds])}


def _rank(model: Any, name: str) -> int:
    """Dimensions of an output."""
    return next(len(one.type.tensor_type.shape.dim) for one in model.graph.output if one.name == name)


def append_classifier(
    builder: GraphBuilder, classifier: KernelClassifier | LinearClassifier, *, has_parts: bool
) -> None:
    """Append the classifier from ``embedding`` to ``logits``.

    Reductions use operators that have the same form in all operator sets, because the backbone sets the version.
    """
    if isinstance(classifier, LinearClassifier):
        whole = _first_part(builder, EMBEDDING) if has_parts else EMBEDDING
        _linear(builder, whole, "linear", classifier.weight, classifier.bias, LOGITS)
        return
    last = builder.constant("last_axis", [-1], np.int64)
    signs, sizes = builder.add("Sign", [EMBEDDING], "signs"), builder.add("Abs", [EMBEDDING], "sizes")
    roots = builder.add("Mul", [signs, builder.add("Sqrt", [sizes], "root_sizes")], "roots")
    squares = builder.add("ReduceSum", [builder.add("Mul", [roots, roots], "squares"), last], "norm2", keepdims=1)
    norms = builder.add(
        "Max", [builder.add("Sqrt", [squares], "norm"), builder.constant("shortest", _SHORTEST)], "norms"
    )
    rows = builder.add("Div", [roots, norms], "rows")
    length = builder.add("ReduceSum", [builder.add("Mul", [rows, rows], "row_squares"), last], "length", keepdims=1)
    landmarks = classifier.landmarks
    lengths = builder.constant("landmark_lengths", np.square(landmarks.astype(np.float64)).sum(axis=1))
    cross = builder.add("MatMul", [rows, builder.constant("landmarks", -2 * landmarks.T)], "cross")
    distances = builder.add("Add", [builder.add("Add", [cross, length], "cross_length"), lengths], "distances")
    positive = builder.add("Relu", [distances], "squared_distances")
    scaled = builder.add("Mul", [positive, builder.constant("precision", -classifier.precision)], "exponents")
    kernel = builder.add("Exp", [scaled], "kernel")
    found = _linear(builder, kernel, "kernel_linear", classifier.weight, classifier.bias, "part_scores")
    if has_parts:
        rest = builder.add("Slice", [found, *_range(builder)], "scores_of_parts")
        best = builder.add(
            "GlobalMaxPool", [builder.add("Transpose", [rest], "by_class", perm=[0, 2, 1])], "best_parts"
        )
        flat = builder.add("Squeeze", [best, builder.constant("last_of_three", [2], np.int64)], "best_part")
        found = builder.add("Add", [_first_part(builder, found), flat], "whole_and_part")
    bent = builder.add("Asinh", [found], "asinh_scores")
    gained = builder.add("Mul", [bent, builder.constant("gain", classifier.gain)], "gained")
    builder.add("Add", [gained, builder.constant("offset", classifier.offset)], LOGITS)


def append_scores(builder: GraphBuilder, thresholds: npt.NDArray[np.float64]) -> None:
    """Append ``scores`` and ``tags`` after ``logits``."""
    builder.add("Sigmoid", [LOGITS], SCORES)
    builder.add("GreaterOrEqual", [SCORES, builder.constant(THRESHOLDS, thresholds)], TAGS)


def is_backbone_node(name: str) -> bool:
    """Whether a node of a run's graph belongs to its backbone."""
    return name.startswith(BACKBONE)


def _linear(
    builder: GraphBuilder, rows: str, name: str, weight: npt.ArrayLike, bias: npt.ArrayLike, output: str
) -> str:
    product = builder.add("MatMul", [rows, builder.constant(f"{name}_weight", weight)], f"{name}_product")
    return builder.add("Add", [product, builder.constant(f"{name}_bias", bias)], output)


def _first_part(builder: GraphBuilder, name: str) -> str:
    """The part of B×(1+P)×… that belongs to the whole image."""
    return builder.add("Gather", [name, builder.constant(f"{name}_first", 0, np.int64)], f"{name}_whole", axis=1)


def _range(builder: GraphBuilder) -> list[str]:
    """Start, end and axis of all parts but the first."""
    values = {"parts_start": [1], "parts_end": [np.iinfo(np.int64).max], "parts_axis": [1]}
    return [builder.constant(name, value, np.int64) for name, value in values.items()]
