"""Images in the eigenbasis of a covariance: what every class, every λ and every change of labels shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from positively.distributed import agree, broadcast, sum_over_processes
from positively.embedding.rows import FeatureRows
from positively.errors import ConfigError
from positively.models.heads import gaussian_kernel, root_normalize

Embedding = Callable[[Tensor], Tensor]

BLOCK_ROWS = 4096
# Kernel values are single precision: eigenvalues of the landmarks' kernel below this share of the largest are noise.
_SMALLEST_EIGENVALUE = 1e-6


@dataclass(frozen=True)
class Basis:
    """Coordinates z = transformᵀ embed(x) − center of an image with pooled features x.

    Over the (weighted) images of the table, z has mean 0 and covariance diag(``eigenvalues``).
    """

    embed: Embedding
    """Pooled features B×D, as they come from the backbone, → B×M."""
    transform: Tensor
    """M×R, double precision."""
    center: Tensor
    eigenvalues: Tensor

    def coordinates(self, features: npt.NDArray[np.float32]) -> Tensor:
        """Coordinates B×R of pooled features B×D (or B×P×R of B×P×D), single precision."""
        # Whitening magnifies the rounding of kernel values: only the result is rounded.
        embedded = self.embed(as_tensor(features, self.transform.device).double())
        return (embedded @ self.transform - self.center).float()

    def fold(self, solution: Tensor) -> tuple[Tensor, Tensor]:
        """Weights M×K and intercepts (K,) over ``embed(x)`` for a solution (R+1)×K over coordinates."""
        return self.transform @ solution[:-1], solution[-1] - self.center @ solution[:-1]


@dataclass(frozen=True)
class Kernel:
    """A Gaussian kernel with some images: exp(−precision ‖a − l‖²) of root-normalised features."""

    landmarks: Tensor
    """M×D, after root and norm."""
    precision: float

    def __call__(self, features: Tensor) -> Tensor:
        """Kernel values B×M of pooled features B×D."""
        return gaussian_kernel(root_normalize(features), self.landmarks.to(features.dtype), self.precision)


def choose_kernel(points: Tensor, width: float) -> Kernel:
    """The kernel exp(−width ‖a−b‖² / mean ‖a−b‖²) with these landmarks, given by their pooled features M×D."""
    landmarks = root_normalize(points)
    spread = 2 * float((landmarks - landmarks.mean(0)).double().square().sum(1).mean())
    return Kernel(landmarks, width / spread if spread > 0 else 1.0)


def kernel_basis(kernel: Kernel, features: FeatureRows, weights: Tensor, rows: range) -> Basis:
    """Nyström's approximation: kernel values with the landmarks, whitened by K_mm^(−1/2).

    Args:
        kernel: From :func:`choose_kernel`.
        features: N×D pooled features, or N×(1+P)×D with parts, which do not count.
        weights: (N,) sample weights that sum to 1, double precision; their device is where it is computed.
        rows: The rows this process adds up.
    """
    points = kernel.landmarks.double()
    eigenvalues, vectors = torch.linalg.eigh(gaussian_kernel(points, points, kernel.precision))
    large = eigenvalues > _SMALLEST_EIGENVALUE * eigenvalues[-1]
    first, covariance = _moments(features, kernel, weights, rows)
    return _turned(kernel, vectors[:, large] / eigenvalues[large].sqrt(), first, covariance)


def linear_basis(features: FeatureRows, weights: Tensor, rows: range) -> Basis:
    """Raw pooled features, standardised; the arguments are those of :func:`kernel_basis`."""
    first, covariance = _moments(features, _identity, weights, rows)
    variance = covariance.diagonal()
    scale = torch.where(variance > 1e-12 * variance.max(), variance, torch.inf).rsqrt()
    return _turned(_identity, torch.diag(scale), first, covariance)


def _identity(features: Tensor) -> Tensor:
    return features


def _moments(features: FeatureRows, embed: Embedding, weights: Tensor, rows: range) -> tuple[Tensor, Tensor]:
    """Weighted mean (M,) and covariance M×M of embedded features, over the rows of all processes."""

    def add_up() -> tuple[Tensor, Tensor]:
        first = second = weights.new_zeros(())
        for part in row_blocks(rows):
            values = as_tensor(features[part], weights.device).double()
            if not torch.isfinite(values).all():
                row = part.start + int((~torch.isfinite(values)).flatten(1).any(dim=1).nonzero()[0])
                raise ConfigError(f"The features of row {row} are not finite numbers.")
            values = embed(whole(values))
            weighted = values * weights[part, None]
            first, second = first + weighted.sum(0), second + values.T @ weighted
        return first, second

    first, second = (sum_over_processes(part) for part in agree(add_up))
    return first, second - torch.outer(first, first)


def _turned(embed: Embedding, whitening: Tensor, mean: Tensor, covariance: Tensor) -> Basis:
    """Turn whitened coordinates to the axes of their covariance."""
    whitened = whitening.T @ covariance @ whitening
    eigenvalues, vectors = torch.linalg.eigh((whitened + whitened.T) / 2)
    # Eigenvectors are not unique: all processes take those of the first.
    transform, eigenvalues = (
        part.to(mean.device) for part in broadcast(((whitening @ vectors).cpu(), eigenvalues.cpu()))
    )
    return Basis(embed, transform, mean @ transform, eigenvalues.clamp_min(0))


def whole(features: Tensor) -> Tensor:
    """Features B×D of the images themselves, where B×(1+P)×D holds those of parts as well."""
    return features[:, 0] if features.ndim == 3 else features


class WholeImages:
    """Rows N×D of the images themselves, of features that may hold parts as well."""

    def __init__(self, features: FeatureRows) -> None:
        self.features = features

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, rows: Any) -> npt.NDArray[np.float32]:
        chosen = self.features[rows]
        return chosen[:, 0] if chosen.ndim == 3 else chosen


def as_rows(features: Any) -> FeatureRows:
    """Lists and tensors as an array; what gives rows when they are asked for stays as it is."""
    if isinstance(features, list | tuple | Tensor):
        return np.asarray(features.detach().cpu() if isinstance(features, Tensor) else features, dtype=np.float32)
    rows: FeatureRows = features
    return rows


def as_tensor(features: npt.NDArray[np.float32], device: torch.device) -> Tensor:
    """Features as a tensor, single precision."""
    return torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32)).to(device)


def row_blocks(rows: range) -> Iterator[slice]:
    """Consecutive pieces of some rows, small enough to be held beside everything else."""
    for start in range(rows.start, rows.stop, BLOCK_ROWS):
        yield slice(start, min(start + BLOCK_ROWS, rows.stop))
