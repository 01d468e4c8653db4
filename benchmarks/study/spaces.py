"""Coordinates of photos before a label is seen, for each way of comparing photos."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import normalize

from positively.models.heads import gaussian_kernel, root_normalize
from positively.probe import WIDTH, Basis, Kernel, decompose
from positively.probe.basis import Embedding, kernel_basis
from positively.probe.ridge import Ridge
from positively.randomness import random_stream

Features = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Space:
    """A decomposition, and where the test photos lie in it."""

    ridge: Ridge
    test: Tensor
    """T×R coordinates."""
    cache: dict[float, Tensor] = field(default_factory=dict)
    """What an estimator found by λ, if other labels can use it again."""

    @property
    def train(self) -> Tensor:
        """N×R coordinates."""
        return self.ridge.coordinates(torch.arange(len(self.ridge.weights)))

    def test_scores(self, solution: Tensor) -> npt.NDArray[np.float32]:
        """T×K scores by weights and, in the last row, intercepts (R+1)×K."""
        solved = solution.float()
        return (self.test @ solved[:-1] + solved[-1]).numpy()


@dataclass(frozen=True)
class OtherKernel(Kernel):
    """A Gaussian kernel of features that are prepared in another way than by root and norm."""

    prepare: Embedding

    def __call__(self, features: Tensor) -> Tensor:
        """Kernel values B×M of pooled features B×D."""
        return gaussian_kernel(self.prepare(features), self.landmarks.to(features.dtype), self.precision)


def closed_form_space(features: Features, test: Features, landmarks: int, seed: int) -> Space:
    """The space of ``positively.probe.fit``: root, norm, Gaussian kernel."""
    return _space(decompose(features, landmarks=landmarks, seed=seed)[0], test)


def kernel_space(prepare: Embedding, features: Features, test: Features, landmarks: int, seed: int) -> Space:
    """The same kernel, landmarks and rule for its width, of features prepared in another way."""
    chosen = np.sort(random_stream("landmarks", seed).permutation(len(features))[:landmarks])
    points = prepare(torch.from_numpy(features[chosen]))
    spread = 2 * float((points - points.mean(0)).double().square().sum(1).mean())
    kernel, weights = OtherKernel(points, WIDTH / spread, prepare), _equal(features)
    return _space(Ridge(kernel_basis(kernel, features, weights, range(len(features))), features, weights), test)


def linear_space(features: Features, test: Features, landmarks: int, seed: int) -> Space:
    """Root-normalised features as they are: a product of two photos in place of the kernel. There are no landmarks."""
    values = root_normalize(torch.from_numpy(features).double())
    mean = values.mean(0)
    eigenvalues, vectors = torch.linalg.eigh((values - mean).T @ (values - mean) / len(values))
    basis = Basis(root_normalize, vectors, mean @ vectors, eigenvalues.clamp_min(0))
    return _space(Ridge(basis, features, _equal(features)), test)


def _as_it_is(features: Tensor) -> Tensor:
    return features


def _unit(features: Tensor) -> Tensor:
    return normalize(features, dim=-1)


SPACES: dict[str, Callable[[Features, Features, int, int], Space]] = {
    "kernel": closed_form_space,
    "kernel, raw": lambda *arguments: kernel_space(_as_it_is, *arguments),
    "kernel, norm": lambda *arguments: kernel_space(_unit, *arguments),
    "linear": linear_space,
}
"""By name: (features N×D, test T×D, landmarks, seed) → space."""


def _equal(features: Features) -> Tensor:
    return torch.full((len(features),), 1 / len(features), dtype=torch.float64)


def _space(ridge: Ridge, test: Features) -> Space:
    return Space(ridge, ridge.basis.coordinates(test))
