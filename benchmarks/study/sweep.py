"""Criteria over the whole grid of λ, against the mAP that each λ has on the test photos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from benchmarks.study.closed import Labels, RuledProbe, fixed
from benchmarks.study.criteria import CRITERIA
from benchmarks.study.masks import known_positives
from benchmarks.study.problem import Problem
from positively.calibration import rescale_loo
from positively.probe import ONE_STEP, SelfTraining
from positively.probe.choice import PENALTIES
from positively.probe.labels import ProbeLabels

STEPS = {"one step": ONE_STEP, "soft step": SelfTraining(0.5)}


def sweep(problem: Problem, labels: Labels, step: SelfTraining) -> list[dict[str, float]]:
    """One entry a λ: ``penalty``, every criterion by out-of-sample scores, and ``mAP`` on the test photos.

    Out-of-sample scores are exact leave-one-out after one step and those of label folds after a soft step, where
    leave-one-out would leak.
    """
    space, states = problem.space("kernel"), known_positives(labels.states)
    found = []
    for penalty in PENALTIES:
        probe = RuledProbe(fixed(penalty), ProbeLabels(states), space.ridge, step=step, seed=problem.seed)
        scores = probe.loo_scores
        if step == ONE_STEP:  # a fold's scores are at the level of all positives already
            scores = rescale_loo(scores, states)
        solution = space.ridge.solution(probe.kernel.moments, step.factor * penalty)
        entry = {name: criterion(scores, states) for name, criterion in CRITERIA.items()}
        found.append({"penalty": penalty, **entry, "mAP": problem.quality(space.test_scores(solution))})
    return found


@dataclass(frozen=True)
class Agreement:
    """How a criterion's order of the λ fits that of the mAP on test photos."""

    correlation: float
    """Spearman's, over the grid."""
    regret: float
    """MAP of the best λ of the grid − mAP of the λ with the best criterion."""


def agreement(history: Sequence[dict[str, float]], criterion: str) -> Agreement:
    """Of one criterion with the mAP, over the λ of a sweep.

    >>> agreement([{"mAP": 0.3, "AP": 1.0}, {"mAP": 0.5, "AP": 2.0}, {"mAP": 0.4, "AP": 3.0}], "AP")
    Agreement(correlation=0.5, regret=0.1)
    """
    quality = np.array([entry["mAP"] for entry in history])
    values = np.array([entry[criterion] for entry in history])
    correlation = float(spearmanr(values, quality).statistic)
    return Agreement(round(correlation, 12), round(float(quality.max() - quality[np.nanargmax(values)]), 12))
