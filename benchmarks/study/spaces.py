"""Coordinates of images that are independent of labels, for each way of comparing images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from positively.probe import WIDTH, Basis, Kernel, decompose
from positively.probe.basis import EmbeddedRows, Embedding, kernel_basis
from positively.probe.linalg import Double, Floats, Single, eigenvectors, gaussian_kernel, root_normalize
from positively.probe.ridge import Ridge
from positively.randomness import random_stream

Features = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Space:
    """A decomposition, and the coordinates of the test images in it."""

    ridge: Ridge
    test: Single
    """Coordinates, shape (T, R)."""
    cache: dict[float, Single] = field(default_factory=dict)
    """Values by λ that an estimator can reuse for other labels."""

    @property
    def train(self) -> Single:
        """Coordinates of the training images, shape (N, R)."""
        return self.ridge.coordinates(np.arange(len(self.ridge.weights)))

    def test_scores(self, solution: Double) -> Single:
        """Scores (T, K) by weights and, in the last row, intercepts (R + 1, K)."""
        solved = solution.astype(np.float32)
        return np.asarray(self.test @ solved[:-1] + solved[-1])


@dataclass(frozen=True)
class OtherKernel(Kernel):
    """A Gaussian kernel with another normalisation of the embeddings."""

    prepare: Embedding

    def __call__(self, features: Single) -> Floats:
        """Kernel values (B, M) of pooled embeddings (B, D)."""
        prepared = self.prepare(features.astype(np.float64))
        return gaussian_kernel(prepared, self.landmarks.astype(np.float64), self.precision)


def closed_form_space(features: Features, test: Features, landmarks: int, seed: int) -> Space:
    """The space of ``positively.probe.fit``: square root, unit norm, Gaussian kernel."""
    return _space(decompose(features, landmarks=landmarks, seed=seed)[0], test)


def kernel_space(prepare: Embedding, features: Features, test: Features, landmarks: int, seed: int) -> Space:
    """The same kernel, landmarks and rule for the width, with another normalisation of the embeddings."""
    chosen = np.sort(random_stream("landmarks", seed).permutation(len(features))[:landmarks])
    points = np.asarray(prepare(features[chosen]), dtype=np.float32)
    spread = 2 * float(np.square((points - points.mean(axis=0)).astype(np.float64)).sum(axis=1).mean())
    kernel, weights = OtherKernel(points, WIDTH / spread, prepare), _equal(features)
    rows = EmbeddedRows(kernel, features)
    return _space(Ridge(kernel_basis(kernel, rows, weights), features, weights, embedded=rows), test)


def linear_space(features: Features, test: Features, landmarks: int, seed: int) -> Space:
    """Normalised embeddings with a dot product instead of the kernel, and without landmarks."""
    values = root_normalize(features.astype(np.float64))
    mean = values.mean(axis=0)
    eigenvalues, vectors = eigenvectors((values - mean).T @ (values - mean) / len(values))
    basis = Basis(root_normalize, vectors, mean @ vectors, np.maximum(eigenvalues, 0))
    return _space(Ridge(basis, features, _equal(features)), test)


def _as_it_is(features: Floats) -> Floats:
    return features


def _unit(features: Floats) -> Floats:
    return np.asarray(features / np.maximum(np.linalg.norm(features, axis=-1, keepdims=True), 1e-12))


SPACES: dict[str, Callable[[Features, Features, int, int], Space]] = {
    "kernel": closed_form_space,
    "kernel, raw": lambda *arguments: kernel_space(_as_it_is, *arguments),
    "kernel, norm": lambda *arguments: kernel_space(_unit, *arguments),
    "linear": linear_space,
}
"""Function (embeddings (N, D), test (T, D), landmarks, seed) → space, by name."""


def _equal(features: Features) -> Double:
    return np.full(len(features), 1 / len(features))


def _space(ridge: Ridge, test: Features) -> Space:
    return Space(ridge, ridge.basis.coordinates(test))
