"""Build EfficientNet-Lite0 as an ONNX graph from its weights, without torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from positively.errors import WeightsError

# Versions that ONNX Runtime supports since 1.15; by default, onnx would write its newest versions.
_OPSET, _IR = 17, 8
_EPSILON = 1e-3  # of batch norm, in networks converted from TensorFlow
_STRIDES = ((1,), (2, 1), (2, 1), (2, 1, 1), (1, 1, 1), (2, 1, 1, 1), (1,))
"""Stride of every block of every stage, which the weights do not contain."""


def lite0_graph(weights: Mapping[str, npt.NDArray[Any]]) -> onnx.ModelProto:
    """Make the graph of EfficientNet-Lite0 up to its last feature map.

    Batch norm is folded into the convolutions in double precision. The input ``images`` is N×3×H×W in RGB, normalized
    as ``(pixel / 255 - 0.5) / 0.5``; the output ``map`` is N×1280×⌈H/32⌉×⌈W/32⌉, before pooling. Padding is as in
    TensorFlow.

    Args:
        weights: Tensors with timm's names; those of the classifier are not used.

    Raises:
        WeightsError: if a tensor is missing.
    """
    layers = _Layers(weights)
    x = layers.conv("images", "conv_stem", "bn1", stride=2)
    for stage, strides in enumerate(_STRIDES):
        for block, stride in enumerate(strides):
            x = _block(layers, x, f"blocks.{stage}.{block}", stride)
    layers.conv(x, "conv_head", "bn2", output="map")
    return layers.model()


def _block(layers: _Layers, x: str, name: str, stride: int) -> str:
    """One inverted residual block; the first block has no expansion."""
    if name == "blocks.0.0":
        x = layers.conv(x, f"{name}.conv_dw", f"{name}.bn1", stride=stride)
        return layers.conv(x, f"{name}.conv_pw", f"{name}.bn2", is_activated=False)
    inside = layers.conv(x, f"{name}.conv_pw", f"{name}.bn1")
    inside = layers.conv(inside, f"{name}.conv_dw", f"{name}.bn2", stride=stride)
    projected = layers.conv(inside, f"{name}.conv_pwl", f"{name}.bn3", is_activated=False)
    is_first_of_stage = name.endswith(".0")  # it changes the number of channels, so there is no residual connection
    return projected if is_first_of_stage else layers.add(projected, x, name)


class _Layers:
    """Nodes and weights of the graph, in the order they are added."""

    def __init__(self, weights: Mapping[str, npt.NDArray[Any]]) -> None:
        self._weights = weights
        bounds = {"zero": np.float32(0), "six": np.float32(6)}
        self._tensors = [numpy_helper.from_array(np.array(value), name) for name, value in bounds.items()]
        self._nodes: list[onnx.NodeProto] = []

    def conv(
        self, x: str, conv: str, norm: str, *, stride: int = 1, is_activated: bool = True, output: str | None = None
    ) -> str:
        """Add a convolution with its batch norm, and ReLU6 if activated; return the name of the output."""
        kernel, bias = self._folded(conv, norm)
        parts = {f"{conv}.weight": kernel, f"{conv}.bias": bias}
        self._tensors += [numpy_helper.from_array(array, name) for name, array in parts.items()]
        # A kernel with one input channel is depthwise; other grouped convolutions do not occur.
        groups = len(kernel) if kernel.shape[1] == 1 else 1
        self._nodes.append(
            helper.make_node(
                "Conv",
                [x, *parts],
                [f"{conv}.out"],
                name=conv,
                strides=[stride, stride],
                group=groups,
                kernel_shape=kernel.shape[2:],
                auto_pad="SAME_UPPER",
            )
        )
        if not is_activated:
            return f"{conv}.out"
        activated = output or f"{conv}.relu6"
        self._nodes.append(helper.make_node("Clip", [f"{conv}.out", "zero", "six"], [activated], name=f"{conv}.relu6"))
        return activated

    def add(self, x: str, y: str, name: str) -> str:
        """Add the sum of two maps."""
        self._nodes.append(helper.make_node("Add", [x, y], [f"{name}.out"], name=f"{name}.add"))
        return f"{name}.out"

    def model(self) -> onnx.ModelProto:
        """The checked graph, from ``images`` to ``map``."""
        images = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, "height", "width"])
        last = helper.make_tensor_value_info("map", TensorProto.FLOAT, ["batch", 1280, "rows", "columns"])
        graph = helper.make_graph(self._nodes, "efficientnet_lite0", [images], [last], self._tensors)
        opset = helper.make_opsetid("", _OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=_IR, producer_name="positively")
        onnx.checker.check_model(model)
        return model

    def _folded(self, conv: str, norm: str) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Kernel and bias of a convolution with its batch norm folded in."""
        names = [f"{conv}.weight", *(f"{norm}.{part}" for part in ("weight", "bias", "running_mean", "running_var"))]
        missing = [name for name in names if name not in self._weights]
        if missing:
            raise WeightsError(f"These are not the weights of EfficientNet-Lite0: {missing[0]} is missing.")
        kernel, scale, shift, mean, variance = (self._weights[name].astype(np.float64) for name in names)
        scale = scale / np.sqrt(variance + _EPSILON)
        folded = kernel * scale[:, None, None, None]
        return folded.astype(np.float32), (shift - mean * scale).astype(np.float32)
