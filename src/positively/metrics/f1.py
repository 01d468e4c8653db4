"""Precision, recall and F1: overall (micro average over labels) and per class (macro average over classes)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from positively.errors import MetricError
from positively.labels import POSITIVE, UNKNOWN, States
from positively.metrics.average_precision import Flags, Scores, Values, as_floats, check_inputs, require_scorable


@dataclass(frozen=True)
class F1Scores:
    """OP, OR, OF1, CP, CR and CF1 as defined in the literature, as fractions."""

    overall_precision: float
    overall_recall: float
    overall_f1: float
    class_precision: float
    class_recall: float
    class_f1: float
    """Harmonic mean of the class precision and the class recall, not the mean of the F1 of each class."""


def f1_scores(scores: npt.ArrayLike, states: npt.ArrayLike, thresholds: npt.ArrayLike = 0.5) -> F1Scores:
    """Precision, recall and F1 at given thresholds, over the known labels.

    Args:
        scores: ``(N, C)`` array or tensor.
        states: ``(N, C)`` label states: +1 positive, 0 unknown, −1 negative.
        thresholds: One for all classes, or ``(C,)``. A class is predicted if its score is greater than or equal to
            its threshold.

    Returns:
        Six fractions, over the classes with a known positive and a known negative.

    Raises:
        MetricError: if no class can be scored, the shapes do not fit or a threshold is NaN.

    >>> f1_scores([[0.9, 0.2], [0.8, 0.7], [0.1, 0.4]], [[1, 1], [-1, 1], [-1, -1]]).overall_f1.__round__(3)
    0.667
    """
    checked_scores, checked_states = check_inputs(scores, states)
    return f1_of_predictions(reaches_threshold(checked_scores, thresholds), checked_states)


def top_k_f1(scores: npt.ArrayLike, states: npt.ArrayLike, k: int = 3) -> F1Scores:
    """Precision, recall and F1 if the ``k`` highest scores of each image are its predictions.

    Among equal scores, the class that comes first is predicted. A prediction whose label is unknown is not counted.

    Args:
        scores: ``(N, C)`` array or tensor.
        states: ``(N, C)`` label states: +1 positive, 0 unknown, −1 negative.
        k: Number of predictions for each image; if ``k`` is C or more, every class is predicted.

    Returns:
        Six fractions, over the classes with a known positive and a known negative.

    Raises:
        MetricError: if ``k`` is less than 1, no class can be scored, or the shapes do not fit.

    >>> top_k_f1([[0.9, 0.2], [0.8, 0.7], [0.1, 0.4]], [[1, -1], [1, 1], [-1, 1]], k=1).overall_precision
    1.0
    """
    checked_scores, checked_states = check_inputs(scores, states)
    return f1_of_predictions(among_top(checked_scores, k), checked_states)


def reaches_threshold(scores: Scores, thresholds: npt.ArrayLike) -> Flags:
    """``(N, C)`` flags of the scores that are greater than or equal to the threshold of their class."""
    limits = as_floats(thresholds).astype(np.float64)
    if limits.shape not in ((), (scores.shape[1],)):
        raise MetricError(
            f"Pass one threshold, or one for each of the {scores.shape[1]} classes; got shape {limits.shape}."
        )
    if np.isnan(limits).any():
        raise MetricError(f"{int(np.isnan(limits).sum())} of {limits.size} thresholds are NaN.")
    # Always compare with an array: with a plain number, numpy would compare in the precision of the scores.
    return np.asarray(scores >= np.broadcast_to(limits, scores.shape[1:]))


def among_top(scores: Scores, k: int) -> Flags:
    """``(N, C)`` flags of the ``k`` highest scores of each image; among equal scores the first classes win."""
    if k < 1:
        raise MetricError(f"k must be at least 1, not {k}.")
    classes = scores.shape[1]
    if k >= classes:
        return np.ones(scores.shape, dtype=np.bool_)
    last = np.partition(scores, classes - k, axis=1)[:, classes - k, None]
    above, tied = scores > last, scores == last
    places_left = k - above.sum(axis=1, keepdims=True)
    return np.asarray(above | (tied & (tied.cumsum(axis=1) <= places_left)))


def f1_of_predictions(predicted: Flags, states: States) -> F1Scores:
    """Scores of ``(N, C)`` predictions against checked states."""
    scored = require_scorable(states)
    positive = states == POSITIVE
    correct = (predicted & positive).sum(axis=0)[scored]
    chosen = (predicted & (states != UNKNOWN)).sum(axis=0)[scored]
    values = f1_of_counts(correct, chosen, positive.sum(axis=0)[scored])
    return F1Scores(*(float(value) for value in values))


def f1_of_counts(correct: npt.NDArray[Any], predicted: npt.NDArray[Any], positive: npt.NDArray[Any]) -> list[Values]:
    """OP, OR, OF1, CP, CR and CF1 from counts whose last axis is the classes; precision is 0 without predictions."""
    totals = [counts.sum(axis=-1) for counts in (correct, predicted, positive)]
    overall = _share(totals[0], totals[1]), _share(totals[0], totals[2])
    per_class = _share(correct, predicted).mean(axis=-1), _share(correct, positive).mean(axis=-1)
    return [*overall, _harmonic_mean(*overall), *per_class, _harmonic_mean(*per_class)]


def _share(part: npt.NDArray[Any], whole: npt.NDArray[Any]) -> Values:
    # If the whole is 0, so is the part, and 0 / 1 is the 0 we want.
    return np.asarray(part / np.maximum(whole, 1), dtype=np.float64)


def _harmonic_mean(first: Values, second: Values) -> Values:
    total = first + second
    return np.asarray(2.0 * first * second / np.where(total > 0.0, total, 1.0), dtype=np.float64)
