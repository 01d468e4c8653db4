"""Images in the eigenbasis of a covariance: what every class, every λ and every change of labels shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from positively.embedding.rows import FeatureRows
from positively.probe.linalg import (
    Double,
    Floats,
    Single,
    eigenvectors,
    gaussian_kernel,
    root_normalize,
    weighted_moments,
)

Embedding = Callable[[Double], Double]

# Kernel values are single precision: eigenvalues of the landmarks' kernel below this share of the largest are noise.
_SMALLEST_EIGENVALUE = 1e-6


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
        # Whitening magnifies the rounding of kernel values: only the result is rounded.
        embedded = self.embed(np.asarray(features, dtype=np.float32).astype(np.float64))
        return (embedded @ self.transform - self.center).astype(np.float32)

    def fold(self, solution: Double) -> tuple[Double, Double]:
        """Weights M×K and intercepts (K,) over ``embed(x)`` for a solution (R+1)×K over coordinates."""
        return self.transform @ solution[:-1], solution[-1] - self.center @ solution[:-1]


@dataclass(frozen=True)
class Kernel:
    """A Gaussian kernel with some images: exp(−precision ‖a − l‖²) of root-normalised features."""

    landmarks: Single
    """M×D, after root and norm."""
    precision: float

    def __call__(self, features: Double) -> Double:
        """Kernel values B×M of pooled features B×D."""
        landmarks = self.landmarks.astype(np.float64)
        return gaussian_kernel(root_normalize(features), landmarks, self.precision).astype(np.float64, copy=False)


def choose_kernel(points: Single, width: float) -> Kernel:
    """The kernel exp(−width ‖a−b‖² / mean ‖a−b‖²) with these landmarks, given by their pooled features M×D."""
    landmarks = root_normalize(points).astype(np.float32)
    spread = 2 * float(np.square((landmarks - landmarks.mean(axis=0)).astype(np.float64)).sum(axis=1).mean())
    return Kernel(landmarks, width / spread if spread > 0 else 1.0)


def kernel_basis(kernel: Kernel, features: FeatureRows, weights: Double) -> Basis:
    """Nyström's approximation: kernel values with the landmarks, whitened by K_mm^(−1/2).

    Args:
        kernel: From :func:`choose_kernel`.
        features: N×D pooled features, or N×(1+P)×D with parts, which do not count.
        weights: (N,) sample weights that sum to 1.
    """
    points = kernel.landmarks.astype(np.float64)
    eigenvalues, vectors = eigenvectors(gaussian_kernel(points, points, kernel.precision).astype(np.float64))
    large = eigenvalues > _SMALLEST_EIGENVALUE * eigenvalues[-1]
    first, covariance = weighted_moments(features, kernel, weights)
    return _turned(kernel, vectors[:, large] / np.sqrt(eigenvalues[large]), first, covariance)


def linear_basis(features: FeatureRows, weights: Double) -> Basis:
    """Raw pooled features, standardised; the arguments are those of :func:`kernel_basis`."""
    first, covariance = weighted_moments(features, _identity, weights)
    variance = covariance.diagonal()
    scale = 1 / np.sqrt(np.where(variance > 1e-12 * variance.max(), variance, np.inf))
    return _turned(_identity, np.diag(scale), first, covariance)


def _identity(features: Double) -> Double:
    return features


def _turned(embed: Embedding, whitening: Double, mean: Double, covariance: Double) -> Basis:
    """Turn whitened coordinates to the axes of their covariance."""
    eigenvalues, vectors = eigenvectors(whitening.T @ covariance @ whitening)
    transform = whitening @ vectors
    return Basis(embed, transform, mean @ transform, np.maximum(eigenvalues, 0))
