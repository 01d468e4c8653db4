"""Least squares with the known positives excluded from the unlabeled images.

With U ⊇ P, as in the paper, the objective of a class is, up to a constant, ridge regression of the indicator of P::

    ½ (1/N) Σ_all f² − (1/N) Σ_P f + ½ λ‖w‖²  =  ½ (1/N) Σ_all (f − 1_P)² + ½ λ‖w‖² + constant

Without P in U the known positives have weight 0 in the first sum, so nothing limits f where it is pulled up::

    ½ (1/N) Σ_{not P} f² − (1/N) Σ_P f + ½ λ‖w‖²

With f = wᵀz + b, z̃ = (z, 1) and coordinates of covariance diag(e), Σ_all z̃z̃ᵀ = N diag(e, 1). The system of a class is
that of all classes, D = diag(e + λ, 1), minus its own positives, rows Z̃ of P::

    (D − Z̃ᵀZ̃ / N) w̃ = Z̃ᵀ1 / N   ⇒   w̃ = D⁻¹ Z̃ᵀ (N I − K)⁻¹ 1,   K = Z̃ D⁻¹ Z̃ᵀ

(Woodbury; n×n for n known positives). With G = Z̃_all D⁻¹ Z̃_allᵀ, K is a block of it and all fits are
f = G_{·P} (N I − K)⁻¹ 1, so G serves every class and every change of labels. Leave-one-out is exact here too, with
a = z̃ᵀ(D − Z̃ᵀZ̃/N)⁻¹z̃ = G_ii + G_iP (N I − K)⁻¹ G_Pi: removing an unlabeled image changes the first sum, f / (1 − a/N);
removing a positive, which is not in it, changes the second one, f − a/N.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy

from benchmarks.study.closed import Labels, Learned
from benchmarks.study.criteria import best_penalty, pu_ap
from benchmarks.study.problem import Problem
from benchmarks.study.spaces import Space
from positively.calibration import rescale_loo
from positively.labels import POSITIVE, States
from positively.probe.choice import PENALTIES
from positively.probe.linalg import Double, Floats


def without_positives(problem: Problem, labels: Labels) -> Learned:
    """Fit with λ by leave-one-out scores as in ``auto``, with one step."""
    space, states = problem.space("kernel"), labels.states
    penalty = best_penalty([pu_ap(held_out(space, states, penalty), states) for penalty in PENALTIES])
    return Learned(space.test_scores(solve(space, states, penalty)), {"penalty": penalty, "soft_step": 0.0})


def solve(space: Space, states: States, penalty: float) -> Double:
    """Weights and, in the last row, intercepts, shape (R + 1, C)."""
    coordinates, scale = space.train.astype(np.float64), _scale(space, penalty)
    solution = np.zeros((len(scale), states.shape[1]))
    for column in range(states.shape[1]):
        own = _with_one(coordinates[states[:, column] == POSITIVE])
        factor = _factor(own * scale @ own.T, len(states))
        solution[:, column] = scale * (own.T @ scipy.linalg.cho_solve((factor, True), np.ones(len(own))))
    return solution


def held_out(space: Space, states: States, penalty: float) -> npt.NDArray[np.float64]:
    """Leave-one-out scores, rescaled for known positives, shape (N, C)."""
    if penalty not in space.cache:
        rows = _with_one(space.train) * np.sqrt(_scale(space, penalty)).astype(np.float32)
        space.cache[penalty] = rows @ rows.T
    products, count = space.cache[penalty], len(states)
    scores = np.zeros(states.shape)
    for column in range(states.shape[1]):
        positive = states[:, column] == POSITIVE
        across = products[positive]
        factor = _factor(across[:, positive].astype(np.float64), count)
        half = scipy.linalg.solve_triangular(factor, across, lower=True)  # L⁻¹ G_P·, with L Lᵀ = N I − K
        fits = half.T @ scipy.linalg.solve_triangular(factor, np.ones(len(across)), lower=True)
        own = (products.diagonal() + np.square(half).sum(axis=0)) / count
        scores[:, column] = np.where(positive, fits - own, fits / np.maximum(1 - own, 1e-6))
    return rescale_loo(scores, states)


def _scale(space: Space, penalty: float) -> Double:
    """Diagonal of D⁻¹, shape (R + 1,)."""
    return np.append(1 / (space.ridge.basis.eigenvalues + penalty), 1.0)


def _with_one(coordinates: Floats) -> Floats:
    return np.append(coordinates, np.ones((len(coordinates), 1), coordinates.dtype), axis=1)


def _factor(products: Double, count: int) -> Double:
    """Cholesky factor of N I − K."""
    return np.linalg.cholesky(count * np.eye(len(products)) - products)
