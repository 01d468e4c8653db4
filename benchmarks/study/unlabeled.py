"""Least squares with the known positives taken out of the unlabeled photos.

With U ⊇ P, as in the paper, the objective of a class is, up to a constant, ridge regression of the indicator of P::

    ½ (1/N) Σ_all f² − (1/N) Σ_P f + ½ λ‖w‖²  =  ½ (1/N) Σ_all (f − 1_P)² + ½ λ‖w‖² + constant

Without P in U the known positives have weight 0 in the first sum: nothing holds f down where it is pulled up::

    ½ (1/N) Σ_{not P} f² − (1/N) Σ_P f + ½ λ‖w‖²

With f = wᵀz + b, z̃ = (z, 1) and coordinates of covariance diag(e), Σ_all z̃z̃ᵀ = N diag(e, 1). So the system of a class
is that of all classes, D = diag(e + λ, 1), less its own positives, rows Z̃ of P::

    (D − Z̃ᵀZ̃ / N) w̃ = Z̃ᵀ1 / N   ⇒   w̃ = D⁻¹ Z̃ᵀ (N I − K)⁻¹ 1,   K = Z̃ D⁻¹ Z̃ᵀ

(Woodbury; n×n for n known positives). With G = Z̃_all D⁻¹ Z̃_allᵀ, K is a part of it and all fits are
f = G_{·P} (N I − K)⁻¹ 1: G serves every class and every change of labels. Leave-one-out is exact here too, with
a = z̃ᵀ(D − Z̃ᵀZ̃/N)⁻¹z̃ = G_ii + G_iP (N I − K)⁻¹ G_Pi: an unlabeled photo leaves the first sum, f / (1 − a/N); a
positive, which is not in it, the second, f − a/N.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from benchmarks.study.closed import Labels, Learned
from benchmarks.study.criteria import best_penalty, pu_ap
from benchmarks.study.problem import Problem
from benchmarks.study.spaces import Space
from positively.calibration import level_positives
from positively.labels import POSITIVE, States
from positively.probe.choice import PENALTIES


def without_positives(problem: Problem, labels: Labels) -> Learned:
    """λ by leave-one-out scores as in ``auto``; one step."""
    space, states = problem.space("kernel"), labels.states
    penalty = best_penalty([pu_ap(held_out(space, states, penalty), states) for penalty in PENALTIES])
    return Learned(space.test_scores(solve(space, states, penalty)), {"penalty": penalty, "soft_step": 0.0})


def solve(space: Space, states: States, penalty: float) -> Tensor:
    """Weights and, in the last row, intercepts (R+1)×C."""
    coordinates, scale = space.train.double(), _scale(space, penalty)
    solution = torch.zeros(len(scale), states.shape[1], dtype=torch.float64)
    for column in range(states.shape[1]):
        own = _with_one(coordinates[torch.from_numpy(states[:, column] == POSITIVE)])
        factor = _factor(own * scale @ own.T, len(states))
        solution[:, column] = scale * (own.T @ torch.cholesky_solve(torch.ones(len(own), 1).double(), factor)[:, 0])
    return solution


def held_out(space: Space, states: States, penalty: float) -> npt.NDArray[np.float64]:
    """N×C leave-one-out scores, known positives levelled."""
    if penalty not in space.cache:
        rows = _with_one(space.train) * _scale(space, penalty).sqrt().float()
        space.cache[penalty] = rows @ rows.T
    products, count = space.cache[penalty], len(states)
    scores = np.zeros(states.shape)
    for column in range(states.shape[1]):
        positive = torch.from_numpy(states[:, column] == POSITIVE)
        across = products[positive]
        factor = _factor(across[:, positive].double(), count).float()
        half = torch.linalg.solve_triangular(factor, across, upper=False)  # L⁻¹ G_P·, with L Lᵀ = N I − K
        fits = half.T @ torch.linalg.solve_triangular(factor, torch.ones(len(across), 1), upper=False)[:, 0]
        own = (products.diagonal() + half.square().sum(0)) / count
        scores[:, column] = torch.where(positive, fits - own, fits / (1 - own).clamp_min(1e-6)).numpy()
    return level_positives(scores, states)


def _scale(space: Space, penalty: float) -> Tensor:
    """D⁻¹, (R+1,)."""
    eigenvalues = space.ridge.basis.eigenvalues
    return torch.cat([1 / (eigenvalues + penalty), eigenvalues.new_ones(1)])


def _with_one(coordinates: Tensor) -> Tensor:
    return torch.cat([coordinates, coordinates.new_ones(len(coordinates), 1)], dim=1)


def _factor(products: Tensor, count: int) -> Tensor:
    """Cholesky factor of N I − K."""
    return torch.linalg.cholesky(count * torch.eye(len(products), dtype=products.dtype) - products)
