"""From which score on a class counts as present, chosen on held-out images.

A threshold is put half-way between the positive it was chosen at and the next lower score: the same images are
predicted, and so is a new one that scores a hair less than that positive.

What a class with few held-out positives prefers is mostly noise, so its threshold is drawn towards the median of all
classes: ``shrinkage`` is the number of imaginary positives that vote for the median. In simulation (60 classes, 2 to 40
held-out positives in the median class) this raised the overall F1 of unseen images by 4 to 19 points and the mean F1 of
the classes by up to 7 (at worst it lost half a point). It costs up to 3 points of CF1, which, being made of the mean
precision and the mean recall, is kind to thresholds that are far too high for some classes and far too low for others.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from positively.errors import ConfigError
from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, States, check_states
from positively.metrics.average_precision import Counts, Scores, Values, check_inputs, count_from, scorable, to_array

# From the simulation. Where negatives are known the criterion is less noisy and needs less help.
PU_SHRINKAGE, F1_SHRINKAGE = 4.0, 1.0
DEFAULT_THRESHOLD = 0.5

Criterion = Callable[[Counts, Counts], Values]


def pu_thresholds(scores: npt.ArrayLike, states: npt.ArrayLike, shrinkage: float = PU_SHRINKAGE) -> Values:
    """Thresholds from positives alone: the largest recall² / P(predicted) of each class.

    Recall is that of the known positives, P(predicted) the share of all images, whatever their label; the quotient
    grows with precision and recall and needs no negative (Lee & Liu, ICML 2003).

    Args:
        scores: ``(N, C)`` scores of held-out images; array or tensor.
        states: ``(N, C)`` of +1 positive, 0 unknown, −1 negative; only the positives are read.
        shrinkage: imaginary positives that vote for the median threshold; 0 trusts each class alone.

    Returns:
        ``(C,)`` thresholds; the median of the others for a class without a positive, 0.5 if no class has one.

    >>> pu_thresholds([[0.9], [0.8], [0.2], [0.1]], [[1], [1], [0], [0]]).tolist()
    [0.5]
    """
    checked_scores, checked_states = check_inputs(scores, states)
    return _draw_to_median(_tuned_by_positives(checked_scores, checked_states), checked_states, shrinkage)


def f1_thresholds(scores: npt.ArrayLike, states: npt.ArrayLike, shrinkage: float = F1_SHRINKAGE) -> Values:
    """Thresholds from positives and negatives: the largest F1 of each class over its known labels.

    Args:
        scores: ``(N, C)`` scores of held-out images; array or tensor.
        states: ``(N, C)`` of +1 positive, 0 unknown, −1 negative.
        shrinkage: imaginary positives that vote for the median threshold; 0 trusts each class alone.

    Returns:
        ``(C,)`` thresholds; the median of the others for a class that lacks a known positive or a known negative,
        0.5 if every class does.

    >>> f1_thresholds([[0.9], [0.7], [0.2], [0.8]], [[1], [-1], [-1], [0]]).tolist()
    [0.8]
    """
    checked_scores, checked_states = check_inputs(scores, states)
    return _draw_to_median(_tuned_by_f1(checked_scores, checked_states), checked_states, shrinkage)


def choose_thresholds(scores: npt.ArrayLike, states: npt.ArrayLike) -> Values:
    """Thresholds by F1 where a class has negatives enough, by the positive-only criterion elsewhere.

    Enough is as many as positives: a few hand-marked absences beside many tags would make every threshold look precise.

    Args:
        scores: ``(N, C)`` scores of held-out images; array or tensor.
        states: ``(N, C)`` of +1 positive, 0 unknown, −1 negative.

    Returns:
        ``(C,)`` thresholds; the median of the others for a class without a positive, 0.5 if no class has one.

    >>> scores = [[0.9, 0.9, 0.1], [0.7, 0.3, 0.2], [0.2, 0.3, 0.3]]
    >>> choose_thresholds(scores, [[1, 1, 0], [-1, 0, 0], [-1, 0, 0]]).round(2).tolist()
    [0.75, 0.68, 0.7]
    """
    checked_scores, checked_states = check_inputs(scores, states)
    judged = scorable(checked_states)
    judged &= (checked_states == NEGATIVE).sum(axis=0) >= (checked_states == POSITIVE).sum(axis=0)
    thresholds = np.where(
        judged, _tuned_by_f1(checked_scores, checked_states), _tuned_by_positives(checked_scores, checked_states)
    )
    return _draw_to_median(thresholds, checked_states, np.where(judged, F1_SHRINKAGE, PU_SHRINKAGE))


def few_positives(states: npt.ArrayLike, least: float = PU_SHRINKAGE) -> npt.NDArray[np.int64]:
    """Indices of the classes with fewer known positives than ``least``, whose thresholds deserve no trust.

    By default those whose threshold, chosen from positives alone, is mostly the median of the others: the imaginary
    positives outvote the real ones. If that is most classes, the median is no better, and 0.5 may do as well.

    Args:
        states: ``(N, C)`` of the images the thresholds are chosen on.
        least: Known positives from which on a class speaks for itself.

    >>> few_positives([[1, 1], [1, 0], [1, 0], [1, 0]]).tolist()
    [1]
    """
    counts = (check_states(to_array(states)) == POSITIVE).sum(axis=0)
    return np.flatnonzero(counts < least)


def _tuned_by_positives(scores: Scores, states: States) -> Values:
    """``(C,)`` thresholds of the largest recall² / P(predicted); NaN for a class without a positive."""
    thresholds = np.full(scores.shape[1], np.nan)
    for index in np.flatnonzero((states == POSITIVE).any(axis=0)):
        column = scores[:, index]
        # Both denominators are the same for every candidate: N, and the number of positives squared.
        thresholds[index] = _best_threshold(
            column[states[:, index] == POSITIVE], column, lambda hits, chosen: hits**2 / chosen
        )
    return thresholds


def _tuned_by_f1(scores: Scores, states: States) -> Values:
    """``(C,)`` thresholds of the largest F1; NaN for a class that lacks a known positive or a known negative."""
    thresholds = np.full(scores.shape[1], np.nan)
    for index in np.flatnonzero(scorable(states)):
        column, state = scores[:, index], states[:, index]
        # The lowest candidate finds every positive, so that hits[0] counts them.
        thresholds[index] = _best_threshold(
            column[state == POSITIVE], column[state != UNKNOWN], lambda hits, chosen: 2 * hits / (chosen + hits[0])
        )
    return thresholds


def _best_threshold(positives: Scores, images: Scores, criterion: Criterion) -> float:
    """Cut below the positive at which ``criterion(hits, predicted)`` is largest; the lowest such positive in a tie.

    Only positives are candidates: going further down without finding one more can only predict more in vain.
    """
    candidates, images = np.sort(positives), np.sort(images)
    best = int(criterion(count_from(candidates, candidates), count_from(images, candidates)).argmax())
    upper, below = float(candidates[best]), int(np.searchsorted(images, candidates[best]))
    if not below:
        return upper
    lower = float(images[below - 1])
    middle = lower / 2 + upper / 2
    # Between neighbouring floats, or above −inf, there is no half-way that still leaves the lower score out.
    return middle if middle > lower else upper


def _draw_to_median(thresholds: Values, states: States, shrinkage: npt.ArrayLike) -> Values:
    """Mix each threshold with the median one, by its number of positives; what is missing becomes the median."""
    imaginary = np.asarray(shrinkage, dtype=np.float64)
    if not (imaginary >= 0.0).all():
        raise ConfigError(f"The shrinkage of thresholds is a number of positives, 0 or more, not {imaginary}.")
    finite = thresholds[np.isfinite(thresholds)]
    median = float(np.median(finite)) if finite.size else DEFAULT_THRESHOLD
    positives = (states == POSITIVE).sum(axis=0)
    weight = positives / np.maximum(positives + imaginary, 1.0)
    mixed = weight * thresholds + (1.0 - weight) * median
    # Rounding must not carry a threshold past either end: it could drop the very positive it was chosen at.
    mixed = np.clip(mixed, np.minimum(thresholds, median), np.maximum(thresholds, median))
    return np.where(np.isnan(thresholds), median, mixed)
