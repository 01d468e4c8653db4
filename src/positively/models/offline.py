"""ImageNet weights from the extra ``[offline]``, as tensors for timm's network."""

from __future__ import annotations

import torch
from torch import Tensor

from positively.embedding.offline import BACKBONE, packaged_weights


def has_offline_weights(backbone: str) -> bool:
    """Whether the packaged weights belong to this timm model, with timm's own tag or without a tag."""
    return backbone in (BACKBONE, f"{BACKBONE}.in1k")


def offline_weights() -> dict[str, Tensor] | None:
    """Load the packaged weights.

    Returns:
        Tensors by timm's names, or None if the package is not installed.

    Raises:
        WeightsError: If the package holds another file than the pinned one.
    """
    weights = packaged_weights()
    return None if weights is None else {name: torch.from_numpy(array) for name, array in weights.items()}
