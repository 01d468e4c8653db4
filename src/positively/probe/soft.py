"""The second step of a probe, in which unknown labels have soft targets.

The targets are the probabilities that unknown labels are positive, or the fitted values themselves. Leave-one-out
scores of this step would leak, because the label of an image raises the targets of its neighbors. Out-of-sample scores
therefore come from label folds: the known labels of a fold are set to unknown, both steps are done without them, and
the fold is scored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from positively.calibration import Calibration
from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, States
from positively.probe.labels import label_folds, targets_of
from positively.probe.linalg import Double, Single
from positively.probe.ridge import Ridge

FOLDS = 5
# Rounds of an imputing step. On parts of train with two masks, mAP after seven rounds is 0.1 lower than after twenty on
# COCO, and 0.4 to 0.9 lower on VOC at 10 % known.
_ROUNDS = 8


@dataclass(frozen=True)
class SelfTraining:
    """Settings of the last fit.

    Targets are 1 for known positives and ``strength`` · q for unknown labels; λ is multiplied by ``factor``.
    """

    strength: float
    factor: float = 10**-0.5
    imputes: bool = False
    """Whether targets of unknown labels are the fitted values instead of q, which fits the known labels only."""

    @property
    def fold_factor(self) -> float:
        """``factor`` in a label fold, which has fewer labels."""
        return self.factor * (1 - 1 / FOLDS if self.imputes else 1.0)


ONE_STEP = SelfTraining(0.0, 1.0)
SOFT_STEPS = (SelfTraining(0.25), SelfTraining(0.5))
"""Candidates for the soft step. Full strength gains little where soft targets help, and loses where they do not."""


def imputing_step(share: float) -> SelfTraining:
    """A fit to the known labels only, which are this share of all labels; λ is scaled accordingly."""
    return SelfTraining(0.0, share / 2, imputes=True)


def impute(ridge: Ridge, penalty: float, states: States) -> Single:
    """Targets N×K of a fit to the known labels only: 1, 0, and the fitted value for an unknown label.

    Least squares on the known labels, which differ between classes, would need one decomposition per class. However, a
    target that equals its fit has no effect: the minimum of Σ_known (t − f)² + λN‖w‖² is the fixed point of t = f for
    unknown labels, and one round takes two products. Classes without known negatives keep targets of 0.

    Args:
        ridge: The kernel's regression.
        penalty: λ.
        states: States N×K.
    """
    has_negatives = (states == NEGATIVE).any(axis=0)
    known = (states != UNKNOWN) | ~has_negatives
    targets: Single = (states == POSITIVE).astype(np.float32)
    hard = targets
    # In the first fit, unknown labels are negatives.
    level = np.maximum((ridge.weights[:, None] * known).sum(axis=0).astype(np.float32), np.float32(1e-3))
    for _ in range(_ROUNDS):
        targets = np.where(known, hard, ridge.scores(ridge.moments(targets), penalty) / level).astype(np.float32)
        level = np.ones_like(level)
    return targets


def soft_part(calibration: Calibration, scores: Single, states: States) -> Single:
    """N×K probabilities q = P(positive | image, unknown) of unknown labels; 0 for known labels."""
    targets = calibration.soft_targets(scores, states)
    return np.where(states == UNKNOWN, targets, 0.0).astype(np.float32)


@dataclass(frozen=True)
class Fold:
    """Targets without the labels of one fold, for a block of classes."""

    ridge: Ridge
    """The kernel regression that the targets come from."""
    hidden: npt.NDArray[np.bool_]
    """Known labels of this fold."""
    fits: tuple[tuple[Single, Double], ...]
    """Targets of each step from the labels of the other folds, and their moments in the basis of ``ridge``."""
    first: Single | None
    """Leave-one-out scores after one step, if they were computed."""


def soft_folds(
    ridge: Ridge,
    penalty: float,
    calibration: Calibration,
    states: States,
    reviewed: npt.NDArray[np.float32],
    classes: npt.NDArray[np.int64],
    groups: npt.NDArray[np.int64] | None,
    seed: int,
    steps: Sequence[SelfTraining],
) -> Iterator[Fold]:
    """Repeat the first step without the labels of each fold, and yield the targets of the second step.

    Args:
        ridge: The kernel regression.
        penalty: Its λ.
        calibration: Calibration of the first step's scores, for these classes.
        states: States N×K of these classes.
        reviewed: Weights of the reviewed pairs.
        classes: Indices of these classes.
        groups: (N,) groups of images that are left out together.
        seed: Seed of the folds.
        steps: The steps to compare.
    """
    fold_of = label_folds(states, classes, groups, FOLDS, seed)
    for fold in range(FOLDS):
        hidden = fold_of == fold
        seen = np.where(hidden, UNKNOWN, states).astype(np.int8)
        hard = targets_of(seen, reviewed)
        moments, soft_moments = ridge.moments(hard), np.zeros(())
        soft, first = np.zeros((), dtype=np.float32), None
        if any(step.strength for step in steps):
            share, absent = (_share_left(seen, states, sign) for sign in (POSITIVE, NEGATIVE))
            first = ridge.held_out_scores(moments, hard, penalty)
            # With fewer known positives, scores and label frequencies are lower.
            frequency, negative = calibration.label_frequency * share, calibration.negative_frequency * absent
            fewer = replace(calibration, label_frequency=frequency, negative_frequency=negative)
            soft = soft_part(fewer, np.asarray(first / share.astype(np.float32), np.float32), seen)
            soft_moments = ridge.moments(soft)
        fits = []
        for step in steps:
            if step.imputes:
                filled = impute(ridge, step.fold_factor * penalty, seen)
                fits.append((filled, ridge.moments(filled)))
            else:
                fits.append((hard + np.float32(step.strength) * soft, moments + step.strength * soft_moments))
        yield Fold(ridge, hidden, tuple(fits), first)


def _share_left(seen: States, states: States, sign: int) -> npt.NDArray[np.float64]:
    """(K,) share of the known labels of one sign outside of a fold."""
    return np.asarray(np.maximum((seen == sign).sum(axis=0) / np.maximum((states == sign).sum(axis=0), 1), 1e-3))


def level_of(targets: Single, weights: Double, step: SelfTraining) -> Double:
    """Level of the scores of each class, (K,): the mean of its targets.

    Targets of rejected pairs, which are below 0, are left out. Imputed targets scatter around 0, and all of them count.
    """
    return np.asarray((weights[:, None] * (targets if step.imputes else np.maximum(targets, 0))).sum(axis=0))


def fold_scores(
    ridge: Ridge, penalty: float, folds: Iterator[Fold], means: Sequence[Double], steps: Sequence[SelfTraining]
) -> list[Single]:
    """Scores N×K after each step: of a known label by the fold that hides it, otherwise the mean over folds.

    Args:
        ridge: The regression to fit to the targets of the folds.
        penalty: λ of its first step.
        folds: From :func:`soft_folds`.
        means: For each step, the (K,) level of the targets when nothing is hidden; scores are rescaled to it.
        steps: The steps to compare.
    """
    blank = [np.zeros((), dtype=np.float32)] * len(steps)
    means_of_folds, own, known = list(blank), list(blank), np.zeros((), dtype=np.bool_)
    for fold in folds:
        known = known | fold.hidden
        for place, (step, mean, (targets, moments)) in enumerate(zip(steps, means, fold.fits, strict=True)):
            is_own = ridge is fold.ridge
            if is_own and step == ONE_STEP and fold.first is not None:
                scores = fold.first
            else:
                moments = moments if is_own else ridge.moments(targets)
                scores = ridge.held_out_scores(moments, targets, step.fold_factor * penalty)
            scores = scores * (mean / np.maximum(level_of(targets, ridge.weights, step), 1e-12)).astype(np.float32)
            means_of_folds[place] = means_of_folds[place] + scores / np.float32(FOLDS)
            own[place] = np.where(fold.hidden, scores, own[place])
    return [np.where(known, hidden, seen) for hidden, seen in zip(own, means_of_folds, strict=True)]
