"""Precision-recall curves, one for each class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from positively.metrics.average_precision import Scores, Values, check_inputs, count_from, known_scores


class PrecisionRecallCurve(NamedTuple):
    """Curve of one class: T ascending thresholds and T + 1 points; the last point is precision 1 at recall 0."""

    precision: Values
    recall: Values
    thresholds: Values


def precision_recall_curve(scores: npt.ArrayLike, states: npt.ArrayLike) -> list[PrecisionRecallCurve | None]:
    """Precision and recall of each class at every distinct score, over its known labels.

    Args:
        scores: ``(N, C)`` array or tensor.
        states: ``(N, C)`` label states: +1 positive, 0 unknown, −1 negative.

    Returns:
        C curves in scikit-learn's layout; None for a class that lacks a known positive or a known negative.

    >>> (curve,) = precision_recall_curve([[0.9], [0.8], [0.1], [0.5]], [[1], [-1], [1], [0]])
    >>> curve.thresholds.tolist(), curve.recall.tolist()
    ([0.1, 0.8, 0.9], [1.0, 0.5, 0.5, 0.0])
    """
    columns = known_scores(*check_inputs(scores, states))
    return [_curve(*column) if all(part.size for part in column) else None for column in columns]


def _curve(positives: Scores, negatives: Scores) -> PrecisionRecallCurve:
    thresholds = np.unique(np.concatenate([positives, negatives]))
    hits, false_alarms = count_from(positives, thresholds), count_from(negatives, thresholds)
    return PrecisionRecallCurve(
        np.append(hits / (hits + false_alarms), 1.0),
        np.append(hits / positives.size, 0.0),
        thresholds.astype(np.float64),
    )
