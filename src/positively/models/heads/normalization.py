"""Features on one scale, whatever the backbone: what closed form and linear heads start from."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize


def root_normalize(features: Tensor) -> Tensor:
    """Signed square root, then Euclidean norm 1: B×D → B×D.

    Pooled activations have a few very large entries. Their root makes a product of two images the Bhattacharyya
    coefficient (for features that are not negative), and no image counts more than another.

    >>> root_normalize(torch.tensor([[9.0, -16.0, 0.0]]))
    tensor([[ 0.6000, -0.8000,  0.0000]])
    """
    # The root has no slope at 0: clamped, an entry of 0 gets none, in place of one that is no number.
    magnitude = features.abs().clamp(min=torch.finfo(features.dtype).tiny)
    return normalize(features.sign() * magnitude.sqrt(), dim=-1)
