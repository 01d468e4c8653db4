"""Build ONNX graphs without torch: pixels → backbone → pooled embedding → head.

Every graph has the input ``images`` B×3×H×W, RGB in [0, 1], and the output ``embedding`` B×D (B×(1+P)×D with parts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from positively.embedding.base import Pooling, Preprocessing
from positively.errors import ConfigError, WeightsError, option, short

OPSET = 17
IMAGES, EMBEDDING = "images", "embedding"
BACKBONE = "backbone/"
"""Prefix of the names of the backbone's nodes."""
# Outputs with one vector per image, in networks with several outputs.
_POOLED_OUTPUTS = ("embedding", "pooler_output", "image_embeds", "sentence_embedding")


class GraphBuilder:
    """Collects nodes and constants; each node has the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Append a node with one output, and return its name."""
        from onnx import helper

        self.nodes.append(helper.make_node(operator, list(inputs), [output], name=output, **attributes))
        return output

    def constant(self, name: str, value: npt.ArrayLike, dtype: Any = np.float32) -> str:
        """Add a constant, and return its name."""
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value, dtype=dtype), name))
        return name


def load_network(path: Path) -> Any:
    """Load an ONNX file, converted to an operator set that these graphs can use."""
    import onnx
    from onnx import version_converter

    try:
        model = onnx.load(path)
        version = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
        return model if version >= OPSET else version_converter.convert_version(model, OPSET)
    except Exception as reason:  # protobuf, onnx and the file system have their own exceptions
        raise WeightsError(f"{path} cannot be read as an ONNX network: {short(reason)}.") from reason


def embedding_graph(
    path: Path, preprocessing: Preprocessing, pooling: Pooling = "average", window: int = 0, *, normalized: bool = False
) -> tuple[Any, GraphBuilder]:
    """A backbone with preprocessing and pooling, as input for :func:`assemble`.

    Args:
        path: ONNX file of the backbone: normalized images B×3×H×W → a map B×C×H'×W' or vectors B×D.
        preprocessing: How images are normalized.
        pooling: How a map is pooled over its positions; vectors are not pooled.
        window: Side of the parts of a map that are pooled too; 0 for the whole map only.
        normalized: Whether ``images`` are normalized already.

    Returns:
        The model of the backbone, unchanged, and a builder with all nodes.
    """
    from onnx import compose

    model = compose.add_prefix(load_network(path), BACKBONE)
    for number, node in enumerate(model.graph.node):
        if node.name == BACKBONE:
            node.name += str(number)
    own = [entry.name for entry in model.graph.input]
    constants = {entry.name for entry in model.graph.initializer}
    (entry, *others) = [name for name in own if name not in constants]
    if others:
        raise ConfigError(f"{path} has {len(others) + 1} inputs; a backbone must have images as its only input.")
    builder = GraphBuilder()
    if normalized:
        builder.add("Identity", [IMAGES], entry)
    else:
        mean = builder.constant("pixel_mean", np.reshape(preprocessing.mean, (3, 1, 1)))
        std = builder.constant("pixel_std", np.reshape(preprocessing.std, (3, 1, 1)))
        builder.add("Div", [builder.add("Sub", [IMAGES, mean], "centered"), std], entry)
    builder.nodes.extend(model.graph.node)
    builder.constants.extend(model.graph.initializer)
    output, rank = _choose_output(model, path)
    if window and rank != 4:
        raise ConfigError(
            f"{path} returns one vector per image and no feature map, so parts of images are not available. "
            f"Remove {option('head_options.window')}."
        )
    if rank == 4:
        _pool(builder, output, pooling, window)
    else:
        builder.add("Cast", [output], EMBEDDING, to=1)
    return model, builder


def image_input(model: Any, size: int) -> Any:
    """The input ``images``, of any size if the backbone supports it."""
    from onnx import TensorProto, helper

    shape = model.graph.input[0].type.tensor_type.shape.dim
    side: int | str = size if len(shape) == 4 and shape[2].dim_value else "size"
    return helper.make_tensor_value_info(IMAGES, TensorProto.FLOAT, ["batch", 3, side, side])


def assemble(
    model: Any,
    builder: GraphBuilder,
    inputs: Sequence[Any],
    outputs: Sequence[tuple[str, type]],
    metadata: Mapping[str, str],
    ranks: Mapping[str, int] | None = None,
) -> Any:
    """Make a model from nodes and constants.

    Args:
        model: The model of the backbone, which defines the operator sets.
        builder: Nodes and constants.
        inputs: Inputs as ONNX value infos.
        outputs: Names and element types of the outputs.
        metadata: Additional information for other programs.
        ranks: Number of dimensions of the outputs; 2 by default.
    """
    from onnx import TensorProto, helper

    kinds, ranks = {np.float32: TensorProto.FLOAT, np.bool_: TensorProto.BOOL}, ranks or {}
    given = [
        helper.make_tensor_value_info(
            name, kinds[kind], ["batch", *(f"{name}_{axis}" for axis in range(1, ranks.get(name, 2)))]
        )
        for name, kind in outputs
    ]
    graph = helper.make_graph(builder.nodes, "positively", list(inputs), given, builder.constants)
    made = helper.make_model(
        graph, opset_imports=list(model.opset_import), functions=list(model.functions), ir_version=model.ir_version
    )
    helper.set_model_props(made, dict(metadata))
    return made


def _choose_output(model: Any, path: Path) -> tuple[str, int]:
    """Name and number of dimensions of the output to embed."""
    outputs = {entry.name.removeprefix(BACKBONE): entry for entry in model.graph.output}
    name = next((name for name in _POOLED_OUTPUTS if name in outputs), next(iter(outputs)))
    rank = len(outputs[name].type.tensor_type.shape.dim)
    if rank not in (2, 4):
        raise ConfigError(
            f"{path}: output '{name}' has {rank} dimensions. A backbone must return one vector per image (batch × D) "
            "or a feature map (batch × channels × rows × columns)."
        )
    return outputs[name].name, rank


def _pool(builder: GraphBuilder, feature_map: str, pooling: Pooling, window: int) -> None:
    """Pool a map B×C×H×W to ``embedding``: B×C, or B×(1+parts)×C with the whole map first."""
    builder.add("Cast", [feature_map], "map", to=1)
    whole = _pooled(builder, pooling, "map", "whole", "Global", {})
    axes = builder.constant("positions", [2, 3], np.int64)
    if not window:
        builder.add("Squeeze", [whole, axes], EMBEDDING)
        return
    # Windows overlap by a third and are cut at the border.
    stride = ceil(2 * window / 3)
    shape = {"kernel_shape": [window, window], "strides": [stride, stride], "ceil_mode": 1}
    parts = _pooled(builder, pooling, "map", "parts", "", shape)
    flat = builder.constant("flat", [0, 0, -1], np.int64)
    both = [builder.add("Reshape", [name, flat], f"{name}_flat") for name in (whole, parts)]
    builder.add("Transpose", [builder.add("Concat", both, "all_parts", axis=2)], EMBEDDING, perm=[0, 2, 1])


def _pooled(
    builder: GraphBuilder, pooling: Pooling, feature_map: str, name: str, reach: str, attributes: dict[str, Any]
) -> str:
    if pooling == "mix":
        kinds = [
            _pooled(builder, kind, feature_map, f"{name}_{kind}", reach, attributes) for kind in ("average", "max")
        ]
        half = builder.constant(f"{name}_half", 0.5)
        return builder.add("Mul", [builder.add("Add", kinds, f"{name}_sum"), half], name)
    operator = {"average": "AveragePool", "max": "MaxPool"}[pooling]
    return builder.add(f"{reach}{operator}", [feature_map], name, **attributes)
