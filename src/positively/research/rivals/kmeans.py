"""K-means of many sets of points at once, one set per class."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

_ITERATIONS = 100


@torch.no_grad()
def cluster_centres(points: Tensor, filled: Tensor, clusters: int, generator: np.random.Generator) -> Tensor:
    """Cluster centres by k-means++ and Lloyd's algorithm.

    Computed in float64 on the CPU, so that the result is the same on every process and device. A set with fewer than K
    distinct points has duplicate centres; an empty set has zeros.

    Args:
        points: Sets of points, shape (S, N, D).
        filled: Number of points of each set, shape (S,).
        clusters: Number of centres K.
        generator: Random generator.

    Returns:
        Centres, shape (S, K, D).
    """
    found, filled = points.double().cpu(), filled.cpu()
    there = torch.arange(found.shape[1]) < filled[:, None]
    found = found * there[..., None]
    centres = _spread_out(found, there, clusters, generator)
    before = torch.full(there.shape, -1)
    for _ in range(_ITERATIONS):
        nearest = torch.cdist(found, centres, compute_mode="donot_use_mm_for_euclid_dist").argmin(-1)
        if torch.equal(nearest, before):
            break
        members = torch.nn.functional.one_hot(nearest, clusters).double() * there[..., None]
        count = members.sum(1)[..., None]
        means = members.transpose(1, 2) @ found / count.clamp_min(1)
        centres, before = torch.where(count > 0, means, centres), nearest
    return centres.to(points)


def _spread_out(points: Tensor, there: Tensor, clusters: int, generator: np.random.Generator) -> Tensor:
    """k-means++: each next centre is a point, drawn with probability proportional to its squared distance."""
    draws = torch.from_numpy(generator.random((clusters, len(points), 1)))
    sets, last = torch.arange(len(points)), there.sum(1).sub(1).clamp_min(0)
    weights, starts = there.double(), []
    for draw in draws:
        share = weights.cumsum(1)
        chosen = (share <= draw * share[:, -1:]).sum(1).minimum(last)
        starts.append(points[sets, chosen])
        distance = (points - starts[-1][:, None]).square().sum(-1) * there
        weights = distance if len(starts) == 1 else weights.minimum(distance)
    return torch.stack(starts, 1)
