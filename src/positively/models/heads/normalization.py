"""Normalisation of embeddings for probes and linear heads, independent of the backbone."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

_SHORTEST = 1e-2  # shorter vectors stay short, because their direction is meaningless and its gradient unbounded


def root_normalize(features: Tensor) -> Tensor:
    """Signed square root, then Euclidean norm 1.

    Pooled activations have a few very large entries. With the square root, the dot product of two images is the
    Bhattacharyya coefficient (for non-negative embeddings), and all images have the same weight.

    Args:
        features: Embeddings, shape (B, D).

    Returns:
        Normalised embeddings, shape (B, D).

    Example:
        >>> import torch
        >>> from positively.models.heads import root_normalize
        >>> root_normalize(torch.tensor([[9.0, -16.0, 0.0]]))
        tensor([[ 0.6000, -0.8000,  0.0000]])
    """
    # The square root has an infinite gradient at 0. Clamping makes it zero there instead of NaN.
    magnitude = features.abs().clamp(min=torch.finfo(features.dtype).tiny)
    return normalize(features.sign() * magnitude.sqrt(), dim=-1)


def unit_length(vectors: Tensor) -> Tensor:
    """Normalise vectors to length 1, in at least float32. Vectors shorter than 0.01 stay short.

    Args:
        vectors: Vectors, shape (…, D).

    Returns:
        Normalised vectors, shape (…, D).

    Example:
        >>> import torch
        >>> from positively.models import unit_length
        >>> unit_length(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    return normalize(vectors.to(torch.promote_types(vectors.dtype, torch.float32)), dim=-1, eps=_SHORTEST)
