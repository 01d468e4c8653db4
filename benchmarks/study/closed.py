"""The closed form as it is, and with one thing changed."""

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
    """What a setting tells: states N×C, and how much each pair counts that was asked because of a score (or None)."""

    states: States
    reviewed: npt.NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Learned:
    """Scores T×C of the test photos, and what was chosen on the way to them."""

    scores: npt.NDArray[np.floating]
    chosen: dict[str, Any] = field(default_factory=dict)
    others: dict[str, npt.NDArray[np.floating]] = field(default_factory=dict)
    """Scores by other ways to use what was learned."""
    measures: dict[str, float] = field(default_factory=dict)
    """What else was measured."""


class RuledProbe(Probe):
    """The closed form with λ by another rule; all that follows it (one step or two) is as it is."""

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
    """``positively.probe.fit``, of which each option changes one thing.

    Args:
        problem: Photos and seed.
        labels: Of the photos to learn from.
        space: One of ``SPACES``.
        negatives: Whether known negatives are learned from too; pairs that a person rejected always are.
        step: The last step, if it is not to be chosen.
        rule: How λ is chosen, if not as it is.
    """
    where = problem.space(space)
    keeps_all = negatives or labels.reviewed is not None
    told = ProbeLabels(labels.states if keeps_all else known_positives(labels.states), labels.reviewed)
    options = {"step": step, "seed": problem.seed}
    probe = Probe(told, where.ridge, **options) if rule is None else RuledProbe(rule, told, where.ridge, **options)
    return _learned(where, probe)


def fixed(penalty: float) -> Rule:
    """The same λ for every table."""
    return lambda solution, states: penalty


def by_criterion(criterion: Criterion) -> Rule:
    """λ by another criterion over the same leave-one-out scores."""
    return lambda solution, states: best_penalty(
        [criterion(held_out(solution, states, penalty), states) for penalty in PENALTIES]
    )


def held_out(solution: Solution, states: States, penalty: float) -> npt.NDArray[np.floating]:
    """N×C leave-one-out scores after one step, known positives levelled."""
    targets = (states == POSITIVE).astype(np.float32)
    return rescale_loo(solution.ridge.held_out_scores(solution.moments, targets, penalty), states)


def _learned(space: Space, probe: Probe) -> Learned:
    penalty, step = probe.kernel.penalty, probe.step
    solution = space.ridge.solution(probe.kernel.moments, step.factor * penalty)
    return Learned(
        space.test_scores(solution), {"penalty": penalty, "soft_step": step.strength, "filled": step.imputes}
    )
