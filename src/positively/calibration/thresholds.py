"""Thresholds on scores, chosen on held-out images.

A threshold is half-way between the score of the positive it was chosen at and the next lower score.

With few held-out positives, the best threshold of a class is mostly noise, so it is shrunk towards the median of all
classes; ``shrinkage`` is the number of pseudo-positives of the median. In a simulation (60 classes, 2 to 40 held-out
positives in the median class) this raised the overall F1 of unseen images by 4 to 19 points and the mean F1 of the
classes by up to 7 points (the largest loss was half a point). It lowered CF1 by up to 3 points, because CF1 uses the
mean precision and the mean recall and hardly penalizes thresholds that are too high for some classes and too low for
others.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from positively.errors import ConfigError
from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, States, check_states
from positively.metrics.average_precision import Counts, Scores, Values, check_inputs, count_from, scorable, to_array

# From the simulation. With known negatives, the criterion is less noisy and needs less shrinkage.
PU_SHRINKAGE, F1_SHRINKAGE = 4.0, 1.0
DEFAULT_THRESHOLD = 0.5

Criterion = Callable[[Counts, Counts], Values]


def pu_thresholds(scores: npt.ArrayLike, states: npt.ArrayLike, shrinkage: float = PU_SHRINKAGE) -> Values:
    """Thresholds from positives alone: maximize recall² / P(predicted) of each class.

    Recall is measured on the known positives and P(predicted) on all images. The ratio grows with precision and recall
    and needs no negatives (Lee & Liu, ICML 2003).

    Args:
        scores: ``(N, C)`` array or tensor of scores of held-out images.
        states: ``(N, C)`` label states: +1 positive, 0 unknown, −1 negative. Only the positives are used.
        shrinkage: Number of pseudo-positives of the median threshold; 0 means no shrinkage.

    Returns:
        ``(C,)`` thresholds; the median of the others for a class without positives, 0.5 if no class has any.

    >>> pu_thresholds([[0.9], [0.8], [0.2], [0.1]], [[1], [1], [0], [0]]).tolist()
    [0.5]
    """
    checked_scores, checked_states = check_inputs(scores, states)
    return _draw_to_median(_tuned_by_positives(checked_scores, checked_states), checked_states, shrinkage)


def f1_thresholds(scores: npt.ArrayLike, states: npt.ArrayLike, shrinkage: float = F1_SHRINKAGE) -> Values:
    """Thresholds from positives and negatives: maximize the F1 of each class over its known labels.

    Args:
        scores: ``(N, C)`` array or tensor of scores of held-out images.
        states: ``(N, C)`` label states: +1 positive, 0 unknown, −1 negative.
        shrinkage: Number of pseudo-positives of the median threshold; 0 means no shrinkage.

    Returns:
        ``(C,)`` thresholds; the median of the others for a class that lacks a known positive or a known negative,
        0.5 if all classes do.

    >>> f1_thresholds([[0.9], [0.7], [0.2], [0.8]], [[1], [-1], [-1], [0]]).tolist()
    [0.8]
    """
    checked_scores, checked_states = check_inputs(scores, states)
    return _draw_to_median(_tuned_by_f1(checked_scores, checked_states), checked_states, shrinkage)


def choose_thresholds(scores: npt.ArrayLike, states: npt.ArrayLike) -> Values:
    """Thresholds by F1 for classes with enough negatives, and by the positive-only criterion for the others.

    A class needs at least as many negatives as positives; with fewer, every threshold would look precise.

    Args:
        scores: ``(N, C)`` array or tensor of scores of held-out images.
        states: ``(N, C)`` label states: +1 positive, 0 unknown, −1 negative.

    Returns:
        ``(C,)`` thresholds; the median of the others for a class without positives, 0.5 if no class has any.

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
    """Indices of the classes with fewer known positives than ``least``, whose thresholds are unreliable.

    With the default, the threshold of such a class is mostly the median of the others. If most classes have so few
    positives, the median is unreliable too.

    Args:
        states: ``(N, C)`` label states of the images that the thresholds are chosen on.
        least: Minimum number of known positives.

    >>> few_positives([[1, 1], [1, 0], [1, 0], [1, 0]]).tolist()
    [1]
    """
    counts = (check_states(to_array(states)) == POSITIVE).sum(axis=0)
    return np.flatnonzero(counts < least)


def _tuned_by_positives(scores: Scores, states: States) -> Values:
    """``(C,)`` thresholds that maximize recall² / P(predicted); NaN for a class without positives."""
    thresholds = np.full(scores.shape[1], np.nan)
    for index in np.flatnonzero((states == POSITIVE).any(axis=0)):
        column = scores[:, index]
        # N and the squared number of positives are the same for every candidate and can be left out.
        thresholds[index] = _best_threshold(
            column[states[:, index] == POSITIVE], column, lambda hits, chosen: hits**2 / chosen
        )
    return thresholds


def _tuned_by_f1(scores: Scores, states: States) -> Values:
    """``(C,)`` thresholds that maximize F1; NaN for a class that lacks a known positive or a known negative."""
    thresholds = np.full(scores.shape[1], np.nan)
    for index in np.flatnonzero(scorable(states)):
        column, state = scores[:, index], states[:, index]
        # The lowest candidate finds every positive, so hits[0] is their number.
        thresholds[index] = _best_threshold(
            column[state == POSITIVE], column[state != UNKNOWN], lambda hits, chosen: 2 * hits / (chosen + hits[0])
        )
    return thresholds


def _best_threshold(positives: Scores, images: Scores, criterion: Criterion) -> float:
    """Threshold below the positive at which ``criterion(hits, predicted)`` is largest; the lowest one in a tie.

    Only the scores of positives are candidates, because any threshold between two of them predicts more images
    without another hit.
    """
    candidates, images = np.sort(positives), np.sort(images)
    best = int(criterion(count_from(candidates, candidates), count_from(images, candidates)).argmax())
    upper, below = float(candidates[best]), int(np.searchsorted(images, candidates[best]))
    if not below:
        return upper
    lower = float(images[below - 1])
    middle = lower / 2 + upper / 2
    # Between adjacent floats, or above −inf, no middle excludes the lower score.
    return middle if middle > lower else upper


def _draw_to_median(thresholds: Values, states: States, shrinkage: npt.ArrayLike) -> Values:
    """Shrink each threshold towards the median, by its number of positives; NaN becomes the median."""
    imaginary = np.asarray(shrinkage, dtype=np.float64)
    if not (imaginary >= 0.0).all():
        raise ConfigError(f"The shrinkage of thresholds must be at least 0, not {imaginary}.")
    finite = thresholds[np.isfinite(thresholds)]
    median = float(np.median(finite)) if finite.size else DEFAULT_THRESHOLD
    positives = (states == POSITIVE).sum(axis=0)
    weight = positives / np.maximum(positives + imaginary, 1.0)
    mixed = weight * thresholds + (1.0 - weight) * median
    # Rounding must not move a threshold past either end: it could exclude the positive it was chosen at.
    mixed = np.clip(mixed, np.minimum(thresholds, median), np.maximum(thresholds, median))
    return np.where(np.isnan(thresholds), median, mixed)
