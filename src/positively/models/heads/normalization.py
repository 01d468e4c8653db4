"""Features on one scale, whatever the backbone: what closed form and linear heads start from."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

_SHORTEST = 1e-2  # below this norm a vector is next to nothing: its direction has no slope worth following


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


def unit_length(vectors: Tensor) -> Tensor:
    """Vectors …×D brought to length 1, in float32 at least; what is next to nothing stays short.

    >>> unit_length(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    return normalize(vectors.to(torch.promote_types(vectors.dtype, torch.float32)), dim=-1, eps=_SHORTEST)
