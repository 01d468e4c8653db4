"""L2-regularised logistic regression of all classes at once, with the penalty chosen by cross-validation.

The penalty is the one with the lowest log-loss on held-out labels. This rule was chosen on a fifth of coco-mini's
training images, which were not used for training, with complete labels, in the kernel, with two masks. BCE over known
labels at 10 % known: mAP 46.4 and 45.9 by log-loss, 46.1 and 45.5 by mAP over held-out known labels. Unknown as
negative at 10 %: 44.4 and 44.4 by log-loss, 43.6 and 44.0 by log-rank of held-out positives, 40.7 and 41.6 by their
AP. At 50 % all are equal to within 0.2.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from benchmarks.study.closed import Labels, Learned
from benchmarks.study.criteria import best_penalty
from benchmarks.study.problem import Problem
from positively.labels import NEGATIVE, POSITIVE, States
from positively.randomness import random_stream

L2 = tuple(float(value) for value in 10.0 ** np.arange(-3.0, -7.6, -0.5))
"""From strong to weak; each solution starts from the previous one."""
FOLDS = 3
# Values without improvement after which a path ends.
_PATIENCE = 2
_PATH_ITERATIONS, _LAST_ITERATIONS = 6, 40  # five folds and twice the iterations moved mAP by 0.1

Start = tuple[Tensor, Tensor]


def over_known(problem: Problem, labels: Labels, *, space: str = "kernel") -> Learned:
    """BCE over known labels, positive and negative."""
    return _fit(problem, labels.states, space)


def unknown_as_negative(problem: Problem, labels: Labels, *, space: str = "kernel") -> Learned:
    """BCE over all labels, with unknown labels as negatives."""
    return _fit(problem, np.where(labels.states == POSITIVE, POSITIVE, NEGATIVE).astype(np.int8), space)


def _fit(problem: Problem, states: States, space: str) -> Learned:
    where = problem.space(space)
    inputs, eigenvalues = torch.from_numpy(where.train), torch.from_numpy(where.ridge.basis.eigenvalues).float()
    l2 = choose_l2(inputs, eigenvalues, states, problem.seed)
    weight, bias = solve(inputs, torch.from_numpy(states), l2, eigenvalues=eigenvalues, iterations=_LAST_ITERATIONS)
    return Learned((torch.from_numpy(where.test) @ weight + bias).numpy(), {"l2": l2})


def choose_l2(inputs: Tensor, eigenvalues: Tensor, states: States, seed: int) -> float:
    """L2 penalty with the lowest log-loss on held-out images, interpolated between grid points.

    Args:
        inputs: Coordinates, shape (N, R).
        eigenvalues: Eigenvalues of their covariance, shape (R,).
        states: Label states, shape (N, C); unknown labels are ignored.
        seed: Seed of the folds of images.

    Returns:
        The penalty.
    """
    quality: list[float] = []
    for scores in held_out_path(inputs, eigenvalues, states, seed):
        quality.append(log_likelihood(scores, states))
        if len(quality) - 1 - int(np.argmax(quality)) >= _PATIENCE:
            break
    return best_penalty(quality, L2[: len(quality)])


def held_out_path(inputs: Tensor, eigenvalues: Tensor, states: States, seed: int) -> Iterator[npt.NDArray[np.float32]]:
    """Iterate over the L2 penalties; yields held-out scores of shape (N, C)."""
    fold = torch.from_numpy(random_stream("logistic folds", seed).permutation(len(states)) % FOLDS)
    known = torch.from_numpy(states)
    parts = [(inputs[fold != number], known[fold != number], fold == number) for number in range(FOLDS)]
    starts: list[Start | None] = [None] * FOLDS
    for l2 in L2:
        scores = torch.empty(states.shape)
        for number, (seen, labels, held) in enumerate(parts):
            options = {"eigenvalues": eigenvalues, "iterations": _PATH_ITERATIONS}
            starts[number] = weight, bias = solve(seen, labels, l2, start=starts[number], **options)
            scores[held] = inputs[held] @ weight + bias
        yield scores.numpy()


def log_likelihood(scores: npt.NDArray[np.floating], states: States) -> float:
    """Mean log-likelihood of the known labels."""
    known = states != 0
    return -float(np.logaddexp(0, -scores[known] * states[known]).mean())


def solve(
    inputs: Tensor,
    states: Tensor,
    l2: float,
    *,
    start: Start | None = None,
    eigenvalues: Tensor | None = None,
    iterations: int = 50,
) -> Start:
    """Minimise Σ_known BCE / N + l2 ‖w‖² by L-BFGS, for all classes at once.

    Args:
        inputs: Inputs, shape (N, R).
        states: Label states, shape (N, C); unknown labels are ignored.
        l2: Strength of the penalty.
        start: Initial weights and biases; default: zeros and the share of positives.
        eigenvalues: Eigenvalues of the covariance of the inputs, shape (R,), if it is diagonal. They are used for
            preconditioning, which reduces the iterations to a tenth.
        iterations: Maximum number of iterations.

    Returns:
        Weights, shape (R, C), and biases, shape (C,).
    """
    targets, known = (states == POSITIVE).float(), (states != 0).float()
    share = (targets.sum(0) / known.sum(0).clamp_min(1)).clamp(1e-4, 0.5)
    curvature = (known.mean(0) * share * (1 - share)).clamp_min(1e-8)
    weight, bias = start or (torch.zeros(inputs.shape[1], states.shape[1]), share.logit())
    unit = torch.ones(()) if eigenvalues is None else (curvature * eigenvalues[:, None] + 2 * l2).rsqrt()
    bias_unit = torch.ones(()) if eigenvalues is None else curvature.rsqrt()
    inner, inner_bias = (weight / unit).requires_grad_(), (bias / bias_unit).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [inner, inner_bias], max_iter=iterations, history_size=10, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        weight = inner * unit
        logits = inputs @ weight + inner_bias * bias_unit
        terms = binary_cross_entropy_with_logits(logits, targets, known, reduction="sum")
        value = terms / len(inputs) + l2 * weight.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return (inner * unit).detach(), (inner_bias * bias_unit).detach()
