"""Images in the eigenbasis of a covariance: what every class, every λ and every change of labels shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from positively.embedding.rows import FeatureRows
from positively.errors import ConfigError
from positively.probe.linalg import (
    Double,
    Floats,
    Single,
    eigenvectors,
    gaussian_kernel,
    kernel_eigenvectors,
    root_normalize,
    weighted_moments,
    whole,
)

Embedding = Callable[[Single], Floats]

IN_MEMORY_BYTES = 2**30
"""Arrays up to this size stay in memory; larger ones are computed again, block by block, at every pass."""


@dataclass(frozen=True)
class Basis:
    """Coordinates z = transformᵀ embed(x) − center of an image with pooled features x.

    Over the (weighted) images of the table, z has mean 0 and covariance diag(``eigenvalues``).
    """

    embed: Embedding
    """Pooled features B×D, as they come from the backbone, → B×M."""
    transform: Double
    """M×R."""
    center: Double
    eigenvalues: Double

    def coordinates(self, features: Floats) -> Single:
        """Coordinates B×R of pooled features B×D (or B×P×R of B×P×D), single precision."""
        return self.project(self.embed(np.asarray(features, dtype=np.float32)))

    def project(self, embedded: Floats) -> Single:
        """Coordinates of what ``embed`` gave."""
        return (embedded.astype(np.float64) @ self.transform - self.center).astype(np.float32)

    def fold(self, solution: Double) -> tuple[Double, Double]:
        """Weights M×K and intercepts (K,) over ``embed(x)`` for a solution (R+1)×K over coordinates."""
        return self.transform @ solution[:-1], solution[-1] - self.center @ solution[:-1]


@dataclass(frozen=True)
class Kernel:
    """A Gaussian kernel with some images: exp(−precision ‖a − l‖²) of root-normalised features."""

    landmarks: Single
    """M×D, after root and norm."""
    precision: float

    def __call__(self, features: Single) -> Floats:
        """Kernel values B×M of pooled features B×D, double precision: whitening magnifies their rounding."""
        landmarks = self.landmarks.astype(np.float64)
        return gaussian_kernel(root_normalize(features.astype(np.float64)), landmarks, self.precision)


class EmbeddedRows:
    """The images of a table (whole, without parts) after ``embed``; what fits into memory is computed once.

    Args:
        embed: As of :class:`Basis`.
        features: N×D pooled features, or N×(1+P)×D with parts.
        hold: Whether a block is kept for the next pass, where all of them fit into memory.
    """

    def __init__(self, embed: Embedding, features: FeatureRows, hold: bool = True) -> None:
        self._embed, self._features, self._hold = embed, features, hold
        self._held: dict[int, Floats] = {}

    def __len__(self) -> int:
        return len(self._features)

    def __getitem__(self, rows: slice) -> Floats:
        """One block of rows.

        Raises:
            ConfigError: A feature is no finite number; the sentence names the row.
        """
        if rows.start in self._held:
            return self._held[rows.start]
        values = np.asarray(self._features[rows], dtype=np.float32)
        if not np.isfinite(values).all():
            row = rows.start + int(np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))[0])
            raise ConfigError(f"The features of row {row} are not finite numbers.")
        embedded = self._embed(whole(values))
        if self._hold and embedded.itemsize * len(self) * embedded.shape[1] <= IN_MEMORY_BYTES:
            self._held[rows.start] = embedded
        return embedded


def choose_kernel(points: Single, width: float) -> Kernel:
    """The kernel exp(−width ‖a−b‖² / mean ‖a−b‖²) with these landmarks, given by their pooled features M×D."""
    landmarks = root_normalize(points).astype(np.float32)
    spread = 2 * float(np.square((landmarks - landmarks.mean(axis=0)).astype(np.float64)).sum(axis=1).mean())
    return Kernel(landmarks, width / spread if spread > 0 else 1.0)


def kernel_basis(kernel: Kernel, rows: EmbeddedRows, weights: Double) -> Basis:
    """Nyström's approximation: coordinates of length 1 in the kernel's own norm.

    Args:
        kernel: From :func:`choose_kernel`.
        rows: The images by this kernel.
        weights: (N,) sample weights that sum to 1.
    """
    points = kernel.landmarks.astype(np.float64)
    gram = gaussian_kernel(points, points, kernel.precision).astype(np.float64, copy=False)
    mean, covariance = weighted_moments(rows, weights)
    return _centered(kernel, *kernel_eigenvectors(covariance, gram), mean)


def linear_basis(features: FeatureRows, weights: Double) -> Basis:
    """Raw pooled features N×D (parts do not count), standardised, with (N,) sample weights that sum to 1."""
    mean, covariance = weighted_moments(EmbeddedRows(_identity, features, hold=False), weights)
    variance = covariance.diagonal()
    scale = 1 / np.sqrt(np.where(variance > 1e-12 * variance.max(), variance, np.inf))
    eigenvalues, vectors = eigenvectors(covariance * scale * scale[:, None])
    return _centered(_identity, eigenvalues, vectors * scale[:, None], mean)


def _identity(features: Single) -> Floats:
    return features


def _centered(embed: Embedding, eigenvalues: Double, transform: Double, mean: Double) -> Basis:
    return Basis(embed, transform, mean @ transform, np.maximum(eigenvalues, 0))
