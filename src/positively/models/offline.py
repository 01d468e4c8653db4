"""ImageNet weights that pip can bring (extra ``[offline]``), as tensors for timm's network."""

from __future__ import annotations

import torch
from torch import Tensor

from positively.embedding.offline import BACKBONE, packaged_weights


def has_offline_weights(backbone: str) -> bool:
    """Whether these are weights of this timm model: with timm's own tag, or without one."""
    return backbone in (BACKBONE, f"{BACKBONE}.in1k")


def offline_weights() -> dict[str, Tensor] | None:
    """The weights under timm's names, or None where the package is not installed.

    Raises:
        WeightsError: If the package holds another file than the pinned one.
    """
    weights = packaged_weights()
    return None if weights is None else {name: torch.from_numpy(array) for name, array in weights.items()}
