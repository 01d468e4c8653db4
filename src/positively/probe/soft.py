"""The second step: unknown labels carry the probability that they are missing positives, or what the fit says of them.

Its scores leak: the label of an image raises its neighbours' targets, which then vouch for the image, so that
leave-one-out no longer hides it. What is chosen or read off is therefore based on label folds: the known labels of a
fold are set to unknown, both steps are done without them, and they are scored.
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
# Fits of a filled step. Parts of train, two masks: after seven mAP is 0.1 below that after twenty on COCO, and at 10 %
# known on VOC 0.4 to 0.9 below.
_ROUNDS = 8


@dataclass(frozen=True)
class SelfTraining:
    """The last fit: targets are 1 for known positives and ``strength`` · q for unknown labels, λ is ``factor`` · λ."""

    strength: float
    factor: float = 10**-0.5
    imputes: bool = False
    """Unknown labels carry what the fit itself says of them in place of q: it is then a fit to the known labels."""

    @property
    def fold_factor(self) -> float:
        """The same in a label fold, which leaves fewer labels to weigh λ against."""
        return self.factor * (1 - 1 / FOLDS if self.imputes else 1.0)


ONE_STEP = SelfTraining(0.0, 1.0)
SOFT_STEPS = (SelfTraining(0.25), SelfTraining(0.5))
"""What a soft step may be. Full strength gains little more where soft targets help, and loses where they do not."""


def imputing_step(share: float) -> SelfTraining:
    """A fit to the known labels, so large a share of all; λ goes with it, for there is less to weigh it against."""
    return SelfTraining(0.0, share / 2, imputes=True)


def impute(ridge: Ridge, penalty: float, states: States) -> Single:
    """Targets N×K of a fit to the known labels: 1, 0, and of an unknown label what the fit itself says of it.

    Least squares over the known labels alone, which differ from class to class, would take a decomposition for each.
    But a target equal to its fit pulls at nothing: the minimum of Σ_known (t − f)² + λN‖w‖² is the fixed point of
    t = f where unknown, and a round takes two products. A class without known negatives keeps its targets of 0.

    Args:
        ridge: The kernel's regression.
        penalty: λ.
        states: States N×K.
    """
    has_negatives = (states == NEGATIVE).any(axis=0)
    known = (states != UNKNOWN) | ~has_negatives
    targets: Single = (states == POSITIVE).astype(np.float32)
    hard = targets
    # The first fit takes what is unknown for absent.
    level = np.maximum((ridge.weights[:, None] * known).sum(axis=0).astype(np.float32), np.float32(1e-3))
    for _ in range(_ROUNDS):
        targets = np.where(known, hard, ridge.scores(ridge.moments(targets), penalty) / level).astype(np.float32)
        level = np.ones_like(level)
    return targets


def soft_part(calibration: Calibration, scores: Single, states: States) -> Single:
    """Return q = P(positive | image, unknown) where the label is unknown, else 0: N×K."""
    targets = calibration.soft_targets(scores, states)
    return np.where(states == UNKNOWN, targets, 0.0).astype(np.float32)


@dataclass(frozen=True)
class Fold:
    """What one label fold leaves to learn from, in a block of classes."""

    ridge: Ridge
    """The kernel's regression, by which targets were found."""
    hidden: npt.NDArray[np.bool_]
    """Known labels of this fold."""
    fits: tuple[tuple[Single, Double], ...]
    """Targets of each step, by the labels of the other folds, and their moments in that regression's basis."""
    first: Single | None
    """Its leave-one-out scores after one step, where the targets took them."""


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
    """The first step, done again without the labels of each fold in turn, and the targets that follow from it.

    Args:
        ridge: The kernel's regression.
        penalty: Its λ.
        calibration: Of the first step's scores, for these classes.
        states: States N×K of these classes.
        reviewed: Weights of those that a person gave because of a score.
        classes: Their indices.
        groups: Images that must not vouch for one another.
        seed: Seed of the folds.
        steps: What is to be compared.
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
            # Fewer known positives: lower scores, and fewer of the positives are known.
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
    """(K,) share of the known labels of one sign that a fold leaves."""
    return np.asarray(np.maximum((seen == sign).sum(axis=0) / np.maximum((states == sign).sum(axis=0), 1), 1e-3))


def level_of(targets: Single, weights: Double, step: SelfTraining) -> Double:
    """How high scores of each class stand, (K,): the mean of its targets.

    Rejected pairs, below 0, do not count; filled targets scatter around 0 where a tag is absent, and all of them do.
    """
    return np.asarray((weights[:, None] * (targets if step.imputes else np.maximum(targets, 0))).sum(axis=0))


def fold_scores(
    ridge: Ridge, penalty: float, folds: Iterator[Fold], means: Sequence[Double], steps: Sequence[SelfTraining]
) -> list[Single]:
    """Scores N×K after each of these steps: of a known label by the fold that hides it, of all else their mean.

    Args:
        ridge: The regression that is fitted to the folds' targets.
        penalty: λ of its first step.
        folds: From :func:`soft_folds`.
        means: (K,) for each step, their level when nothing is hidden: scores are brought to it.
        steps: What is compared.
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
