"""Photos of one series, such as a burst or an edited copy: so alike that one of them would vouch for the others."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from positively.embedding.rows import FeatureRows
from positively.models.heads import root_normalize
from positively.probe.basis import as_rows, as_tensor, row_blocks
from positively.randomness import random_stream

Groups = npt.NDArray[np.int64]

# Of the squared distance at which the nearest other photo would lie, were there no series: where all photos are alike
# (coins, X-rays), only what is much more alike is a series. With EfficientNet-Lite0, photos of COCO that were
# compressed again, cropped by a twentieth, brightened or mirrored stay within it; of 10,000 others two do.
NEAR, QUANTILE = 0.25, 0.75
# More photos than this that are all alike are a kind of thing, not a series.
LARGEST_SERIES = 20
# Every photo is compared with every other, which takes seconds up to here.
MOST_IMAGES = 2**15
# Distances in a random projection to so many dimensions are off by a tenth; what is near there is measured.
_DIMENSIONS, _ALLOWANCE = 128, 2.0
# Photos, about, by which it is found how near others lie.
_JUDGED = 2000


def find_series(features: FeatureRows, groups: Groups | None = None, seed: int = 0) -> Groups | None:
    """Group of each photo: those of one series, and those of ``groups``, have the same number.

    Args:
        features: N×D pooled features.
        groups: (N,) what belongs together anyway, such as copies of one file.
        seed: Seed of the projection.

    Returns:
        (N,) numbers, or None if every photo is by itself. Of more than 32,768 photos, ``groups`` as it is.

    >>> photos = np.random.default_rng(0).random((100, 64)).astype(np.float32)
    >>> photos[7] = photos[3] * 1.001
    >>> found = find_series(photos)
    >>> bool(found[7] == found[3]), len(set(found))
    (True, 99)
    """
    features = as_rows(features)
    count = len(features)
    # Copies are compared once: of a thousand blank scans every pair would be near.
    first_of = np.arange(count) if groups is None else np.unique(groups, return_index=True)[1]
    if len(first_of) > MOST_IMAGES or len(first_of) < 2:
        return groups
    cpu = torch.device("cpu")
    width = int(np.shape(features[slice(0, 1)])[1])
    projection = random_stream("series", seed).standard_normal((width, _DIMENSIONS)) / np.sqrt(_DIMENSIONS)
    turn = torch.from_numpy(projection.astype(np.float32))
    parts = list(row_blocks(range(len(first_of))))
    short = torch.cat([root_normalize(as_tensor(features[first_of[rows]], cpu)) @ turn for rows in parts])
    limit = NEAR * _nearest(short)
    near = [_near(short, rows, _ALLOWANCE * limit) for rows in parts]
    first, second = (np.concatenate(part) for part in zip(*near, strict=True))
    close = [
        _distances(features, first_of[first[part]], first_of[second[part]]) < limit
        for part in row_blocks(range(len(first)))
    ]
    chosen = np.concatenate([*close, np.zeros(0, dtype=np.bool_)])
    series = _components(first[chosen], second[chosen], len(first_of))
    sizes = np.bincount(series)[series]
    series = np.where(sizes <= LARGEST_SERIES, series, len(series) + np.arange(len(series)))
    if groups is not None:
        series = series[np.unique(groups, return_inverse=True)[1]]
    numbers = np.unique(series, return_inverse=True)[1].astype(np.int64)
    return None if numbers.max(initial=-1) == count - 1 else numbers


def _nearest(points: torch.Tensor) -> float:
    """Squared distance to the nearest other photo, for three in four not farther, as it would be without series.

    Told by the k-th and the 2k-th nearest, k being more than a series has photos: in d dimensions the squared distance
    of the k-th grows like k^(2/d), so that the first lies at s_k · (s_k / s_2k)^(log₂ k).
    """
    rows = torch.arange(0, len(points), max(len(points) // _JUDGED, 1))
    distances = _squared(points[rows], points)
    distances[torch.arange(len(rows)), rows] = -torch.inf  # the photo itself comes first
    k = max(min(LARGEST_SERIES + 1, (len(points) - 1) // 2), 1)
    ordered = distances.sort(dim=1).values[:, [k, min(2 * k, len(points) - 1)]].clamp_min(1e-12)
    near, far = np.quantile(ordered.numpy(), QUANTILE, axis=0).tolist()
    return float(near * (near / far) ** np.log2(k))


def _near(points: torch.Tensor, rows: slice, limit: float) -> tuple[Groups, Groups]:
    """Pairs of one of some rows and another whose squared distance is below the limit.

    A photo with many more such neighbours than a series has photos is of a kind, and looks for none.
    """
    close = _squared(points[rows], points) < limit
    close[torch.arange(len(close)), torch.arange(rows.start, rows.stop)] = False
    close[close.sum(dim=1) > _ALLOWANCE * LARGEST_SERIES] = False
    first, second = torch.nonzero(close, as_tuple=True)
    return first.numpy() + rows.start, second.numpy()


def _squared(points: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    return points.square().sum(1)[:, None] + others.square().sum(1) - 2.0 * points @ others.T


def _distances(features: FeatureRows, first: Groups, second: Groups) -> npt.NDArray[np.float32]:
    cpu = torch.device("cpu")
    ends = (root_normalize(as_tensor(features[rows], cpu)) for rows in (first, second))
    distances: npt.NDArray[np.float32] = (next(ends) - next(ends)).square().sum(1).numpy()
    return distances


def _components(first: Groups, second: Groups, count: int) -> Groups:
    graph = sparse.csr_array((np.ones(len(first)), (first, second)), shape=(count, count))
    labels: Groups = connected_components(graph, directed=False)[1]
    return labels
