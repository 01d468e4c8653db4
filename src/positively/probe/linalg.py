"""All linear algebra of the probe in one file, so that it can be replaced, for example to use a GPU.

Shapes: embeddings X are B×D, coordinates Z are B×R, targets are B×K.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from positively.embedding.rows import FeatureRows

Floats = npt.NDArray[np.floating]
Single = npt.NDArray[np.float32]
Double = npt.NDArray[np.float64]

BLOCK_ROWS = 4096
_SHORTEST = 1e-12
# Eigenvalues of the kernel matrix of the landmarks below this share of the largest are noise.
_SINGULAR = 1e-6


def root_normalize(features: Floats) -> Floats:
    """Signed square root, then Euclidean norm 1: …×D → …×D, in the precision of the input.

    Pooled activations have a few very large entries, which the root reduces. For non-negative embeddings, the product
    of two rows is then the Bhattacharyya coefficient.

    >>> root_normalize(np.array([[9.0, -16.0, 0.0]])).tolist()
    [[0.6, -0.8, 0.0]]
    """
    roots = np.abs(features)
    np.copysign(np.sqrt(roots, out=roots), features, out=roots)
    roots /= np.maximum(np.sqrt(np.einsum("...d,...d->...", roots, roots))[..., None], _SHORTEST)
    return roots


def gaussian_kernel(rows: Floats, landmarks: Floats, precision: float) -> Floats:
    """Kernel values exp(−precision · ‖x − l‖²) of rows …×D and landmarks M×D: …×M.

    >>> gaussian_kernel(np.array([[0.0, 1.0]]), np.array([[0.0, 1.0], [1.0, 0.0]]), 0.5).round(4).tolist()
    [[1.0, 0.3679]]
    """
    scale = (2 * precision) ** 0.5
    scaled = rows * scale
    others = scaled if landmarks is rows else landmarks * scale
    values = scaled @ others.T
    values -= np.einsum("...d,...d->...", scaled, scaled)[..., None] / 2
    values -= np.einsum("md,md->m", others, others) / 2
    np.minimum(values, 0, out=values)
    exponentials: Floats = np.exp(values, out=values)
    return exponentials


def eigenvectors(matrix: Double) -> tuple[Double, Double]:
    """Ascending eigenvalues, and eigenvectors, of a symmetric matrix; only its lower half is read."""
    values, vectors = scipy.linalg.eigh(matrix, driver="evd", check_finite=False)
    return values, vectors


def kernel_eigenvectors(covariance: Double, gram: Double) -> tuple[Double, Double]:
    """Eigenvalues e and vectors V with Vᵀ covariance V = diag(e) and Vᵀ gram V = 1, of two symmetric matrices M×M.

    Uses the Cholesky factor of ``gram``. If ``gram`` is (nearly) singular, for example because of duplicate landmarks,
    its smallest eigenvalues are dropped and V has fewer columns.
    """
    factor, problem = scipy.linalg.lapack.dpotrf(gram, lower=1)
    if not problem and scipy.linalg.lapack.dpocon(factor, np.abs(gram).sum(axis=0).max(), uplo="L")[0] > _SINGULAR:
        whitened = scipy.linalg.lapack.dsygst(covariance, factor, lower=1)[0]
        # Single precision would take half the time but change scores by 2e-4 of their standard deviation.
        values, vectors = eigenvectors(whitened)
        return values, scipy.linalg.solve_triangular(factor, vectors, trans=1, lower=True, check_finite=False)
    values, vectors = eigenvectors(gram)
    large = values > _SINGULAR * values[-1]
    whitening = vectors[:, large] / np.sqrt(values[large])
    values, vectors = eigenvectors(whitening.T @ covariance @ whitening)
    return values, whitening @ vectors


def weighted_moments(rows: FeatureRows, weights: Double) -> tuple[Double, Double]:
    """Weighted mean (M,) and covariance M×M of rows N×M, computed in blocks."""
    first: Any = 0.0
    second: Any = 0.0
    for part in row_blocks(len(weights)):
        values = rows[part] * np.sqrt(weights[part, None])
        first = first + values.T @ np.sqrt(weights[part])
        second = second + values.T @ values
    return first, second - np.outer(first, first)


def whole(features: Any) -> Any:
    """Embeddings B×D of whole images, from B×D or from B×(1+P)×D with parts."""
    return features[:, 0] if features.ndim == 3 else features


class WholeImages:
    """Rows N×D of whole images, from embeddings with or without parts."""

    def __init__(self, features: FeatureRows) -> None:
        self.features = features

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, rows: Any) -> npt.NDArray[Any]:
        return np.asarray(whole(self.features[rows]))


def as_rows(features: Any) -> FeatureRows:
    """Convert lists and tensors to an array; other objects that return rows by index stay as they are."""
    if isinstance(features, list | tuple) or hasattr(features, "detach"):
        return np.asarray(features.detach().cpu() if hasattr(features, "detach") else features, dtype=np.float32)
    rows: FeatureRows = features
    return rows


def row_blocks(rows: int) -> Iterator[slice]:
    """Consecutive slices of at most ``BLOCK_ROWS`` rows."""
    for start in range(0, rows, BLOCK_ROWS):
        yield slice(start, min(start + BLOCK_ROWS, rows))
