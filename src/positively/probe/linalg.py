"""The linear algebra of the probe, all of it: whoever wants it on a GPU replaces this file.

Shapes: rows of features X are B×D, coordinates Z are B×R, targets are B×K.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from positively.embedding.rows import FeatureRows
from positively.errors import ConfigError

Floats = npt.NDArray[np.floating]
Single = npt.NDArray[np.float32]
Double = npt.NDArray[np.float64]

BLOCK_ROWS = 4096
_SHORTEST = 1e-12


def root_normalize(features: Floats) -> Floats:
    """Signed square root, then Euclidean norm 1: …×D → …×D, in the precision given.

    Pooled activations have a few very large entries. Their root makes a product of two images the Bhattacharyya
    coefficient (for features that are not negative), and no image counts more than another.

    >>> root_normalize(np.array([[9.0, -16.0, 0.0]])).tolist()
    [[0.6, -0.8, 0.0]]
    """
    roots = np.sign(features) * np.sqrt(np.abs(features))
    norms = np.sqrt(np.einsum("...d,...d->...", roots, roots))[..., None]
    return np.asarray(roots / np.maximum(norms, _SHORTEST))


def gaussian_kernel(rows: Floats, landmarks: Floats, precision: float) -> Floats:
    """exp(−precision · ‖x − l‖²) of every row …×D with every landmark M×D: …×M.

    >>> gaussian_kernel(np.array([[0.0, 1.0]]), np.array([[0.0, 1.0], [1.0, 0.0]]), 0.5).round(4).tolist()
    [[1.0, 0.3679]]
    """
    values = rows @ landmarks.T
    values *= -2
    values += np.einsum("...d,...d->...", rows, rows)[..., None]
    values += np.einsum("md,md->m", landmarks, landmarks)
    np.maximum(values, 0, out=values)
    values *= -precision
    exponentials: Floats = np.exp(values, out=values)
    return exponentials


def eigenvectors(matrix: Double) -> tuple[Double, Double]:
    """Eigenvalues, ascending, and eigenvectors of a symmetric matrix."""
    values, vectors = scipy.linalg.eigh((matrix + matrix.T) / 2, check_finite=False)
    return values, vectors


def weighted_moments(
    features: FeatureRows, embed: Callable[[Double], Double], weights: Double
) -> tuple[Double, Double]:
    """Weighted mean (M,) and covariance M×M of embedded features, whatever their number.

    Raises:
        ConfigError: A feature is no finite number; the sentence names the row.
    """
    first: Any = 0.0
    second: Any = 0.0
    for part in row_blocks(len(weights)):
        values = np.asarray(features[part], dtype=np.float64)
        if not np.isfinite(values).all():
            row = part.start + int(np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))[0])
            raise ConfigError(f"The features of row {row} are not finite numbers.")
        values = embed(whole(values))
        weighted = values * weights[part, None]
        first, second = first + weighted.sum(axis=0), second + values.T @ weighted
    return first, second - np.outer(first, first)


def whole(features: Any) -> Any:
    """Features B×D of the images themselves, where B×(1+P)×D holds those of parts as well."""
    return features[:, 0] if features.ndim == 3 else features


class WholeImages:
    """Rows N×D of the images themselves, of features that may hold parts as well."""

    def __init__(self, features: FeatureRows) -> None:
        self.features = features

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, rows: Any) -> npt.NDArray[Any]:
        return np.asarray(whole(self.features[rows]))


def as_rows(features: Any) -> FeatureRows:
    """Lists, tensors and the like as an array; what gives rows when they are asked for stays as it is."""
    if isinstance(features, list | tuple) or hasattr(features, "detach"):
        return np.asarray(features.detach().cpu() if hasattr(features, "detach") else features, dtype=np.float32)
    rows: FeatureRows = features
    return rows


def row_blocks(rows: int) -> Iterator[slice]:
    """Consecutive pieces of so many rows, small enough to be held beside everything else."""
    for start in range(0, rows, BLOCK_ROWS):
        yield slice(start, min(start + BLOCK_ROWS, rows))
