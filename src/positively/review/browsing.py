"""An order for browsing: each of the first photos looks different from those before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from positively.randomness import random_stream

_DIRECTIONS, _DIVERSE, _CHUNK = 32, 400, 4096


def diverse_order(features: Any, count: int, seed: int = 0) -> npt.NDArray[np.int64]:
    """Rows in which each of the first hundreds is far from all earlier ones; the rest is random.

    Args:
        features: N×D, or an object that returns the rows of a slice.
        count: N.
        seed: Seed of the random directions for distances, and of the rest.
    """
    generator = random_stream("browse", seed)
    if not count:
        return np.zeros(0, dtype=np.int64)
    width = np.asarray(features[:1]).shape[1]
    directions = generator.standard_normal((width, _DIRECTIONS)).astype(np.float32)
    chunks = (np.asarray(features[begin : begin + _CHUNK]) for begin in range(0, count, _CHUNK))
    points = np.concatenate([chunk @ directions for chunk in chunks])
    points /= np.linalg.norm(points, axis=1, keepdims=True) + 1e-9
    # Start at the centre: a typical photo, then more and more special ones.
    chosen = [int(np.argmax(points @ points.mean(axis=0)))]
    nearest = np.full(count, -np.inf)
    while len(chosen) < min(count, _DIVERSE):
        nearest = np.maximum(nearest, points @ points[chosen[-1]])
        nearest[chosen] = np.inf
        chosen.append(int(np.argmin(nearest)))
    rest = np.setdiff1d(np.arange(count), chosen)
    generator.shuffle(rest)
    return np.concatenate([np.array(chosen, dtype=np.int64), rest])
