"""Photos of one series, such as a burst or an edited copy: so alike that one of them would vouch for the others."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy

from positively.embedding.rows import FeatureRows
from positively.probe.linalg import Single, as_rows, root_normalize, row_blocks
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
    width = int(np.shape(features[slice(0, 1)])[1])
    projection = random_stream("series", seed).standard_normal((width, _DIMENSIONS)) / np.sqrt(_DIMENSIONS)
    projection = projection.astype(np.float32)
    parts = list(row_blocks(len(first_of)))
    short = np.concatenate([_normalized(features, first_of[rows]) @ projection for rows in parts])
    limit = NEAR * _nearest(short)
    near = [_near(short, rows, _ALLOWANCE * limit) for rows in parts]
    first, second = (np.concatenate(part) for part in zip(*near, strict=True))
    close = [
        _distances(features, first_of[first[part]], first_of[second[part]]) < limit for part in row_blocks(len(first))
    ]
    chosen = np.concatenate([*close, np.zeros(0, dtype=np.bool_)])
    series = _components(first[chosen], second[chosen], len(first_of))
    sizes = np.bincount(series)[series]
    series = np.where(sizes <= LARGEST_SERIES, series, len(series) + np.arange(len(series)))
    if groups is not None:
        series = series[np.unique(groups, return_inverse=True)[1]]
    numbers = np.unique(series, return_inverse=True)[1].astype(np.int64)
    return None if numbers.max(initial=-1) == count - 1 else numbers


def _nearest(points: Single) -> float:
    """Squared distance to the nearest other photo, for three in four not farther, as it would be without series.

    Told by the k-th and the 2k-th nearest, k being more than a series has photos: in d dimensions the squared distance
    of the k-th grows like k^(2/d), so that the first lies at s_k · (s_k / s_2k)^(log₂ k).
    """
    rows = np.arange(0, len(points), max(len(points) // _JUDGED, 1))
    distances = _squared(points[rows], points)
    distances[np.arange(len(rows)), rows] = -np.inf  # the photo itself comes first
    k = max(min(LARGEST_SERIES + 1, (len(points) - 1) // 2), 1)
    places = [k, min(2 * k, len(points) - 1)]
    ordered = np.maximum(np.partition(distances, places, axis=1)[:, places], 1e-12)
    near, far = np.quantile(ordered, QUANTILE, axis=0).tolist()
    return float(near * (near / far) ** np.log2(k))


def _near(points: Single, rows: slice, limit: float) -> tuple[Groups, Groups]:
    """Pairs of one of some rows and another whose squared distance is below the limit.

    A photo with many more such neighbours than a series has photos is of a kind, and looks for none.
    """
    close = _squared(points[rows], points) < limit
    close[np.arange(len(close)), np.arange(rows.start, rows.stop)] = False
    close[close.sum(axis=1) > _ALLOWANCE * LARGEST_SERIES] = False
    first, second = np.nonzero(close)
    return first + rows.start, second


def _squared(points: Single, others: Single) -> Single:
    squares: Single = np.square(points).sum(axis=1)[:, None] + np.square(others).sum(axis=1) - 2 * points @ others.T
    return squares


def _normalized(features: FeatureRows, rows: Groups) -> Single:
    normalized: Single = root_normalize(np.asarray(features[rows], dtype=np.float32))
    return normalized


def _distances(features: FeatureRows, first: Groups, second: Groups) -> Single:
    distances: Single = np.square(_normalized(features, first) - _normalized(features, second)).sum(axis=1)
    return distances


def _components(first: Groups, second: Groups, count: int) -> Groups:
    graph = scipy.sparse.csr_array((np.ones(len(first)), (first, second)), shape=(count, count))
    labels: Groups = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
    return labels
