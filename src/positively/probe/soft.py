"""The soft step: unknown labels carry the probability that they are missing positives.

Its scores leak: the label of an image raises its neighbours' targets, which then vouch for the image, so that
leave-one-out no longer hides it. What is chosen or read off is therefore based on label folds: the known positives of a
fold are set to unknown, both steps are done without them, and they are scored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from positively.calibration import Calibration
from positively.labels import POSITIVE, UNKNOWN, States
from positively.probe.labels import label_folds, targets_of
from positively.probe.ridge import Ridge

FOLDS = 5


@dataclass(frozen=True)
class Step:
    """The last fit: targets are 1 for known positives and ``strength`` · q for unknown labels, λ is ``factor`` · λ."""

    strength: float
    factor: float = 10**-0.5


ONE_STEP = Step(0.0, 1.0)
SOFT_STEPS = (Step(0.25), Step(0.5))
"""What a soft step may be. Full strength gains little more where soft targets help, and loses where they do not."""


def soft_part(calibration: Calibration, scores: Tensor, states: States) -> Tensor:
    """Return q = P(positive | image, unknown) where the label is unknown, else 0: N×K."""
    targets = calibration.soft_targets(scores.cpu().numpy(), states)
    return torch.from_numpy(np.where(states == UNKNOWN, targets, 0.0).astype(np.float32)).to(scores.device)


@dataclass(frozen=True)
class Fold:
    """What one label fold leaves to learn from, in a block of classes."""

    hidden: npt.NDArray[np.bool_]
    """Known positives of this fold."""
    hard: Tensor
    """Known positives of the other folds."""
    soft: Tensor
    """q of everything that is unknown in this fold."""


def soft_folds(
    ridge: Ridge,
    penalty: float,
    calibration: Calibration,
    states: States,
    reviewed: npt.NDArray[np.float32],
    classes: npt.NDArray[np.int64],
    groups: npt.NDArray[np.int64] | None,
    seed: int,
) -> Iterator[Fold]:
    """The first step, done again without the labels of each fold in turn.

    Args:
        ridge: The kernel's regression.
        penalty: Its λ.
        calibration: Of the first step's scores, for these classes.
        states: States N×K of these classes.
        reviewed: Weights of those that a person gave because of a score.
        classes: Their indices.
        groups: Images that must not vouch for one another.
        seed: Seed of the folds.
    """
    fold_of = label_folds(states, classes, groups, FOLDS, seed)
    known = np.maximum((states == POSITIVE).sum(axis=0), 1)
    for fold in range(FOLDS):
        hidden = fold_of == fold
        seen = np.where(hidden, UNKNOWN, states).astype(np.int8)
        share = np.maximum((seen == POSITIVE).sum(axis=0) / known, 1e-3)
        hard = torch.from_numpy(targets_of(seen, reviewed)).to(ridge.weights.device)
        scores = ridge.held_out_scores(ridge.moments(hard), hard, penalty)
        level = torch.from_numpy(share).float().to(scores.device)
        # Fewer known positives: lower scores, and fewer of the positives are known.
        fewer = replace(calibration, label_frequency=calibration.label_frequency * share)
        yield Fold(hidden, hard, soft_part(fewer, scores / level, seen))


def level_of(targets: Tensor, weights: Tensor) -> Tensor:
    """How high scores of each class stand, (K,): the mean of its targets, of those above 0."""
    return (weights[:, None] * targets.clamp_min(0)).sum(0)


def fold_scores(
    ridge: Ridge, penalty: float, folds: Iterator[Fold], means: Sequence[Tensor], steps: Sequence[Step]
) -> list[Tensor]:
    """Scores N×K after each of these steps: of a known positive by the fold that hides it, of all else their mean.

    Args:
        ridge: The regression that is fitted to the folds' targets.
        penalty: λ of its first step.
        folds: From :func:`soft_folds`.
        means: (K,) for each step, their level when nothing is hidden: scores are brought to it.
        steps: What is compared.
    """
    blank = [torch.zeros((), device=ridge.weights.device)] * len(steps)
    means_of_folds, own, known = list(blank), list(blank), torch.zeros((), dtype=torch.bool)
    for fold in folds:
        hidden = torch.from_numpy(fold.hidden).to(fold.hard.device)
        known = known.to(hidden.device) | hidden
        hard, soft = ridge.moments(fold.hard), ridge.moments(fold.soft)
        for place, (step, mean) in enumerate(zip(steps, means, strict=True)):
            moments = hard + step.strength * soft
            targets = fold.hard + step.strength * fold.soft
            scores = ridge.held_out_scores(moments, targets, step.factor * penalty)
            scores = scores * (mean / level_of(targets, ridge.weights).clamp_min(1e-12)).float()
            means_of_folds[place] = means_of_folds[place] + scores / FOLDS
            own[place] = torch.where(hidden, scores, own[place])
    return [torch.where(known, hidden, seen) for hidden, seen in zip(own, means_of_folds, strict=True)]
