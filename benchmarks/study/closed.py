"""The probe, and the probe with one change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.study.criteria import Criterion, best_penalty
from benchmarks.study.masks import known_positives
from benchmarks.study.problem import Problem
from benchmarks.study.spaces import Space
from positively.calibration import rescale_loo
from positively.labels import POSITIVE, States
from positively.probe import Probe, SelfTraining
from positively.probe.choice import PENALTIES
from positively.probe.labels import ProbeLabels
from positively.probe.solution import Solution

Rule = Callable[[Solution, States], float]


@dataclass(frozen=True)
class Labels:
    """Label states of a setting (N, C), and the weight of each pair that was asked because of its score, or None."""

    states: States
    reviewed: npt.NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Learned:
    """Scores of the test images, shape (T, C), and the values chosen on the way."""

    scores: npt.NDArray[np.floating]
    chosen: dict[str, Any] = field(default_factory=dict)
    others: dict[str, npt.NDArray[np.floating]] = field(default_factory=dict)
    """Scores from other uses of the result."""
    measures: dict[str, float] = field(default_factory=dict)
    """Other measures."""


class RuledProbe(Probe):
    """The probe with another rule for λ; the steps after it are unchanged."""

    def __init__(self, rule: Rule, *arguments: Any, **options: Any) -> None:
        self._rule = rule
        super().__init__(*arguments, **options)

    def _choose_penalty(self, solution: Solution) -> float:
        return self._rule(solution, self.labels.states(np.arange(self.labels.shape[1])))


def auto(
    problem: Problem,
    labels: Labels,
    *,
    space: str = "kernel",
    negatives: bool = False,
    step: SelfTraining | None = None,
    rule: Rule | None = None,
) -> Learned:
    """Fit ``positively.probe.fit``, with one change per option.

    Args:
        problem: Images and seed.
        labels: Labels of the training images.
        space: One of ``SPACES``.
        negatives: Whether to learn from known negatives; pairs rejected by a person are always used.
        step: The last step; default: chosen.
        rule: How λ is chosen; default: as in the product.

    Returns:
        Scores and chosen values.
    """
    where = problem.space(space)
    keeps_all = negatives or labels.reviewed is not None
    told = ProbeLabels(labels.states if keeps_all else known_positives(labels.states), labels.reviewed)
    options = {"step": step, "seed": problem.seed}
    probe = Probe(told, where.ridge, **options) if rule is None else RuledProbe(rule, told, where.ridge, **options)
    return _learned(where, probe)


def fixed(penalty: float) -> Rule:
    """Rule with a constant λ."""
    return lambda solution, states: penalty


def by_criterion(criterion: Criterion) -> Rule:
    """Rule that chooses λ with another criterion on the same leave-one-out scores."""
    return lambda solution, states: best_penalty(
        [criterion(held_out(solution, states, penalty), states) for penalty in PENALTIES]
    )


def held_out(solution: Solution, states: States, penalty: float) -> npt.NDArray[np.floating]:
    """Leave-one-out scores (N, C) after one step, rescaled for known positives."""
    targets = (states == POSITIVE).astype(np.float32)
    return rescale_loo(solution.ridge.held_out_scores(solution.moments, targets, penalty), states)


def _learned(space: Space, probe: Probe) -> Learned:
    penalty, step = probe.kernel.penalty, probe.step
    solution = space.ridge.solution(probe.kernel.moments, step.factor * penalty)
    return Learned(
        space.test_scores(solution), {"penalty": penalty, "soft_step": step.strength, "filled": step.imputes}
    )
