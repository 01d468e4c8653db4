"""Orthogonal matching pursuit for batches: each query as a combination of a few atoms of a dictionary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

import torch
from torch import Tensor


@torch.no_grad()
def matching_pursuit(
    queries: Sequence[Tensor], atoms: Sequence[Tensor], weights: Sequence[Tensor], allowed: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """Choose ``count`` atoms for every query, one after the other, each the one that best explains the residual.

    Vectors consist of parts (features, labels), with ⟨u, v⟩ = Σ_parts weight · u·v, so that the dictionary is not
    copied. After each choice, the coefficients of all chosen atoms are solved by least squares.

    Args:
        queries: One matrix (B, D) per part.
        atoms: One matrix (K, D) per part.
        weights: One weight per part.
        allowed: Whether a query may use an atom, shape (B, K).
        count: Number of atoms; if fewer are allowed, the others have the coefficient 0.

    Returns:
        Indices and coefficients of the atoms, each of shape (B, count).
    """
    squared = _total(torch.linalg.vector_norm(part, dim=1).square() * w for part, w in _pairs(atoms, weights))
    lengths = squared.clamp_min(torch.finfo(squared.dtype).tiny).sqrt()
    chosen = allowed.new_zeros(len(allowed), 0, dtype=torch.int64)
    is_real = allowed.new_zeros(len(allowed), 0)
    coefficients = queries[0].new_zeros(len(allowed), 0)
    residuals = list(queries)
    for _ in range(count):
        overlap = _total(w * (left @ part.T) for left, part, w in zip(residuals, atoms, weights, strict=True))
        best = (overlap.abs() / lengths).masked_fill(~allowed, -1.0).max(dim=1, keepdim=True)
        chosen, is_real = torch.cat([chosen, best.indices], 1), torch.cat([is_real, best.values >= 0], 1)
        allowed = allowed.scatter(1, best.indices, False)
        members = [part[chosen] * is_real[..., None] for part in atoms]
        coefficients = _least_squares(queries, members, weights)
        residuals = [query - (coefficients[:, None] @ part)[:, 0] for query, part in _pairs(queries, members)]
    return chosen, coefficients


def _least_squares(queries: Sequence[Tensor], members: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    """Least-squares coefficients (B, k) of the members, one array (B, k, D) per part."""
    gram = _total(w * (part @ part.mT) for part, w in _pairs(members, weights))
    overlap = _total(w * (part @ query[..., None]) for part, query, w in zip(members, queries, weights, strict=True))
    # Regularisation for duplicate images or missing atoms; it hardly changes other solutions.
    number = torch.finfo(gram.dtype)
    floor = gram.diagonal(dim1=1, dim2=2).mean(1) * number.eps**0.5 + number.tiny
    gram.diagonal(dim1=1, dim2=2).add_(floor[:, None])
    solution: Tensor = torch.linalg.solve(gram, overlap)
    return solution[..., 0]


def _pairs(first: Sequence[Tensor], second: Sequence[Tensor]) -> Iterable[tuple[Tensor, Tensor]]:
    return zip(first, second, strict=True)


def _total(terms: Iterable[Tensor]) -> Tensor:
    return reduce(torch.add, terms)
