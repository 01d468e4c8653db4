"""Find series of near-duplicate images, such as bursts and edited copies, which must be left out together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy

from positively.embedding.rows import FeatureRows
from positively.probe.linalg import Single, as_rows, root_normalize, row_blocks
from positively.randomness import random_stream

Groups = npt.NDArray[np.int64]

# Images are a series below this share of the squared distance at which the nearest other image would be without any
# series. It is relative because in some tables (coins, X-rays) all images are similar. With EfficientNet-Lite0, images
# of COCO that were compressed again, cropped by 5 %, brightened or mirrored stay below it; of 10,000 others, two do.
NEAR, QUANTILE = 0.25, 0.75
# More similar images than this show the same kind of object and are not a series.
LARGEST_SERIES = 20
# Every image is compared with every other, which takes seconds up to this number.
MOST_IMAGES = 2**15
# Distances in a random projection to this many dimensions have an error of a tenth; pairs near there are measured.
_DIMENSIONS, _ALLOWANCE = 128, 2.0
# Approximate number of images used to estimate the typical distance.
_JUDGED = 2000


def find_series(features: FeatureRows, groups: Groups | None = None, seed: int = 0) -> Groups | None:
    """Group of each image: images of one series, and images of one of the given groups, have the same number.

    Args:
        features: N×D embeddings.
        groups: (N,) groups that are known already, such as copies of one file.
        seed: Seed of the projection.

    Returns:
        (N,) numbers, or None if every image is its own group. With more than 32,768 images, ``groups`` unchanged.

    >>> photos = np.random.default_rng(0).random((100, 64)).astype(np.float32)
    >>> photos[7] = photos[3] * 1.001
    >>> found = find_series(photos)
    >>> bool(found[7] == found[3]), len(set(found))
    (True, 99)
    """
    features = as_rows(features)
    count = len(features)
    # Compare copies once: with a thousand blank scans, every pair would be near.
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
    """Estimate the squared distance to the nearest other image (third quartile) as if there were no series.

    Extrapolated from the k-th and the 2k-th neighbor, where k is larger than a series: in d dimensions the squared
    distance of the k-th neighbor grows like k^(2/d), so that of the first is s_k · (s_k / s_2k)^(log₂ k).
    """
    rows = np.arange(0, len(points), max(len(points) // _JUDGED, 1))
    distances = _squared(points[rows], points)
    distances[np.arange(len(rows)), rows] = -np.inf  # the image itself comes first
    k = max(min(LARGEST_SERIES + 1, (len(points) - 1) // 2), 1)
    places = [k, min(2 * k, len(points) - 1)]
    ordered = np.maximum(np.partition(distances, places, axis=1)[:, places], 1e-12)
    near, far = np.quantile(ordered, QUANTILE, axis=0).tolist()
    return float(near * (near / far) ** np.log2(k))


def _near(points: Single, rows: slice, limit: float) -> tuple[Groups, Groups]:
    """Pairs of these rows and any others whose squared distance is below the limit.

    An image with many more neighbors than a series can have gets no pairs.
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
