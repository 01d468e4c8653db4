"""Coordinates of images in the eigenbasis of a covariance, shared by all classes, all λ and all changes of labels."""

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
"""Arrays up to this size stay in memory; larger ones are computed again in blocks at every pass."""


@dataclass(frozen=True)
class Basis:
    """Coordinates z = transformᵀ embed(x) − center of an image with embedding x.

    Over the weighted images of the table, z has mean 0 and covariance diag(``eigenvalues``).
    """

    embed: Embedding
    """Embeddings B×D → kernel values or embeddings B×M."""
    transform: Double
    """M×R."""
    center: Double
    eigenvalues: Double

    def coordinates(self, features: Floats) -> Single:
        """Coordinates B×R of embeddings B×D (or B×P×R of B×P×D), in single precision."""
        return self.project(self.embed(np.asarray(features, dtype=np.float32)))

    def project(self, embedded: Floats) -> Single:
        """Coordinates of the output of ``embed``."""
        return (embedded.astype(np.float64) @ self.transform - self.center).astype(np.float32)

    def fold(self, solution: Double) -> tuple[Double, Double]:
        """Weights M×K and intercepts (K,) on ``embed(x)`` for a solution (R+1)×K on coordinates."""
        return self.transform @ solution[:-1], solution[-1] - self.center @ solution[:-1]


@dataclass(frozen=True)
class Kernel:
    """Gaussian kernel with landmark images: exp(−precision ‖a − l‖²) of root-normalized embeddings."""

    landmarks: Single
    """M×D, root-normalized."""
    precision: float

    def __call__(self, features: Single) -> Floats:
        """Kernel values B×M of embeddings B×D, in double precision because whitening magnifies rounding errors."""
        landmarks = self.landmarks.astype(np.float64)
        return gaussian_kernel(root_normalize(features.astype(np.float64)), landmarks, self.precision)


class EmbeddedRows:
    """The whole images of a table (without parts) after ``embed``, cached if they fit into memory.

    Args:
        embed: As in :class:`Basis`.
        features: N×D embeddings, or N×(1+P)×D with parts.
        hold: Whether to cache blocks for the next pass.
    """

    def __init__(self, embed: Embedding, features: FeatureRows, hold: bool = True) -> None:
        self._embed, self._features, self._hold = embed, features, hold
        self._held: dict[int, Floats] = {}

    def __len__(self) -> int:
        return len(self._features)

    def __getitem__(self, rows: slice) -> Floats:
        """One block of rows.

        Raises:
            ConfigError: if an embedding is not finite.
        """
        if rows.start in self._held:
            return self._held[rows.start]
        values = np.asarray(self._features[rows], dtype=np.float32)
        if not np.isfinite(values).all():
            row = rows.start + int(np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))[0])
            raise ConfigError(f"The embedding of row {row} is not finite (NaN or infinity).")
        embedded = self._embed(whole(values))
        if self._hold and embedded.itemsize * len(self) * embedded.shape[1] <= IN_MEMORY_BYTES:
            self._held[rows.start] = embedded
        return embedded


def choose_kernel(points: Single, width: float) -> Kernel:
    """The kernel exp(−width ‖a−b‖² / mean ‖a−b‖²) with landmarks, given by their embeddings M×D."""
    landmarks = root_normalize(points).astype(np.float32)
    spread = 2 * float(np.square((landmarks - landmarks.mean(axis=0)).astype(np.float64)).sum(axis=1).mean())
    return Kernel(landmarks, width / spread if spread > 0 else 1.0)


def kernel_basis(kernel: Kernel, rows: EmbeddedRows, weights: Double) -> Basis:
    """Nyström approximation: coordinates with length 1 in the norm of the kernel.

    Args:
        kernel: From :func:`choose_kernel`.
        rows: Kernel values of the images.
        weights: (N,) sample weights that sum to 1.
    """
    points = kernel.landmarks.astype(np.float64)
    gram = gaussian_kernel(points, points, kernel.precision).astype(np.float64, copy=False)
    mean, covariance = weighted_moments(rows, weights)
    return _centered(kernel, *kernel_eigenvectors(covariance, gram), mean)


def linear_basis(features: FeatureRows, weights: Double) -> Basis:
    """Standardized embeddings N×D (without parts), with (N,) sample weights that sum to 1."""
    mean, covariance = weighted_moments(EmbeddedRows(_identity, features, hold=False), weights)
    variance = covariance.diagonal()
    scale = 1 / np.sqrt(np.where(variance > 1e-12 * variance.max(), variance, np.inf))
    eigenvalues, vectors = eigenvectors(covariance * scale * scale[:, None])
    return _centered(_identity, eigenvalues, vectors * scale[:, None], mean)


def _identity(features: Single) -> Floats:
    return features


def _centered(embed: Embedding, eigenvalues: Double, transform: Double, mean: Double) -> Basis:
    return Basis(embed, transform, mean @ transform, np.maximum(eigenvalues, 0))
