"""Criteria over the grid of λ, compared with the mAP of each λ on the test images."""

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
    """Evaluate the grid of λ: ``penalty``, every criterion on out-of-sample scores, and ``mAP`` on the test images.

    Out-of-sample scores are exact leave-one-out scores after one step. After a soft step, where leave-one-out would
    leak, they come from label folds.
    """
    space, states = problem.space("kernel"), known_positives(labels.states)
    found = []
    for penalty in PENALTIES:
        probe = RuledProbe(fixed(penalty), ProbeLabels(states), space.ridge, step=step, seed=problem.seed)
        scores = probe.loo_scores
        if step == ONE_STEP:  # scores of folds are already on the level of all positives
            scores = rescale_loo(scores, states)
        solution = space.ridge.solution(probe.kernel.moments, step.factor * penalty)
        entry = {name: criterion(scores, states) for name, criterion in CRITERIA.items()}
        found.append({"penalty": penalty, **entry, "mAP": problem.quality(space.test_scores(solution))})
    return found


@dataclass(frozen=True)
class Agreement:
    """Agreement of a criterion with the mAP on test images."""

    correlation: float
    """Spearman's rank correlation over the grid."""
    regret: float
    """MAP of the best λ of the grid − mAP of the λ with the best criterion."""


def agreement(history: Sequence[dict[str, float]], criterion: str) -> Agreement:
    """Agreement of one criterion with the mAP over the λ of a sweep.

    Example:
        >>> agreement([{"mAP": 0.3, "AP": 1.0}, {"mAP": 0.5, "AP": 2.0}, {"mAP": 0.4, "AP": 3.0}], "AP")
        Agreement(correlation=0.5, regret=0.1)
    """
    quality = np.array([entry["mAP"] for entry in history])
    values = np.array([entry[criterion] for entry in history])
    correlation = float(spearmanr(values, quality).statistic)
    return Agreement(round(correlation, 12), round(float(quality.max() - quality[np.nanargmax(values)]), 12))
