"""Evaluate a model's scores on one table of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt

from positively.errors import MetricError, and_more
from positively.labels import POSITIVE, States
from positively.metrics.average_precision import (
    check_inputs,
    class_average_precision,
    count_from,
    known_scores,
    require_scorable,
    scorable,
)
from positively.metrics.f1 import F1Scores, among_top, f1_of_counts, f1_of_predictions, reaches_threshold

_PERCENT_HEAD = ("OP", "OR", "OF1", "CP", "CR", "CF1")


@dataclass(frozen=True)
class Evaluation:
    """Metrics of one model on one table, as fractions; ``str()`` prints them in percent."""

    images: int
    mean_average_precision: float
    average_precision: dict[str, float]
    """Average precision of each class; NaN if the class cannot be scored."""
    f1: F1Scores
    """At the model's own thresholds."""
    f1_at_half: F1Scores
    """At a threshold of 0.5 for every class."""
    f1_top_3: F1Scores
    """With the three highest scores of each image as predictions."""
    left_out: dict[str, str]
    """Classes that could not be scored, and why."""

    @property
    def scored_classes(self) -> int:
        """Number of classes with a known positive and a known negative."""
        return len(self.average_precision) - len(self.left_out)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and dictionaries, ready for JSON; NaN becomes None."""
        precisions = {name: None if isnan(value) else value for name, value in self.average_precision.items()}
        return asdict(self) | {"average_precision": precisions, "scored_classes": self.scored_classes}

    def lines(self) -> list[str]:
        """Summary in percent, one string a line."""
        rows = {"own thresholds": self.f1, "threshold 0.5": self.f1_at_half, "top 3": self.f1_top_3}
        reasons: dict[str, list[str]] = {}
        for name, reason in self.left_out.items():
            reasons.setdefault(reason, []).append(name)
        return [
            f"mAP {100 * self.mean_average_precision:.2f} % over {self.scored_classes} of "
            f"{len(self.average_precision)} classes, {self.images:,} images",
            f"{'F1, in %':<15}" + "".join(f"{title:>7}" for title in _PERCENT_HEAD),
            *(f"{title:<15}" + "".join(f"{100 * x:7.2f}" for x in astuple(row)) for title, row in rows.items()),
            *(f"left out, {reason}: {and_more(names)}" for reason, names in reasons.items()),
        ]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def evaluate(
    scores: npt.ArrayLike, states: npt.ArrayLike, classes: Sequence[str], thresholds: npt.ArrayLike = 0.5
) -> Evaluation:
    """Evaluate scores against the known labels.

    Args:
        scores: ``(N, C)`` array or tensor of probabilities.
        states: ``(N, C)`` label states: +1 positive, 0 unknown, −1 negative.
        classes: The C class names.
        thresholds: The model's thresholds, one for all classes or ``(C,)``. They must not be chosen on these labels.

    Returns:
        mAP, the average precision of each class, F1 at three kinds of thresholds, and the classes left out.

    Raises:
        MetricError: if no class has both a known positive and a known negative, or the shapes do not fit.

    >>> result = evaluate([[0.9, 0.2], [0.8, 0.7], [0.1, 0.4]], [[1, 1], [-1, 0], [-1, 0]], ["cat", "dog"], 0.85)
    >>> result.mean_average_precision, result.left_out
    (1.0, {'dog': 'no known negative'})
    >>> print(result.lines()[0])
    mAP 100.00 % over 1 of 2 classes, 3 images
    """
    checked_scores, checked_states = check_inputs(scores, states)
    if len(classes) != checked_scores.shape[1]:
        raise MetricError(f"{len(classes)} class names were given for {checked_scores.shape[1]} columns of scores.")
    scored = require_scorable(checked_states)
    precision = class_average_precision(checked_scores, checked_states)
    return Evaluation(
        images=len(checked_scores),
        mean_average_precision=float(precision[scored].mean()),
        average_precision=dict(zip(classes, precision.tolist(), strict=True)),
        f1=f1_of_predictions(reaches_threshold(checked_scores, thresholds), checked_states),
        f1_at_half=f1_of_predictions(reaches_threshold(checked_scores, 0.5), checked_states),
        f1_top_3=f1_of_predictions(among_top(checked_scores, 3), checked_states),
        left_out=_reasons(checked_states, classes),
    )


def _reasons(states: States, classes: Sequence[str]) -> dict[str, str]:
    scored, has_positive = scorable(states), (states == POSITIVE).any(axis=0)
    return {
        classes[index]: "no known negative" if has_positive[index] else "no known positive"
        for index in np.flatnonzero(~scored).tolist()
    }


@dataclass(frozen=True)
class OracleF1:
    """Best F1 at one threshold for all classes, chosen on the test labels themselves."""

    overall_f1: float
    overall_threshold: float
    """One threshold for all classes."""
    class_f1: float
    class_threshold: float
    """One threshold for all classes; in CF1 every class has the same weight."""


def oracle_f1(scores: npt.ArrayLike, states: npt.ArrayLike) -> OracleF1:
    """Highest OF1 and highest CF1 over one threshold for all classes, from 0.01 to 0.99.

    The thresholds are chosen on the labels they are reported on, so the result is optimistic. Use it only to compare
    with the PU-MLC paper, which reports these numbers; use :func:`evaluate` otherwise. It is not an upper bound of
    :func:`evaluate`, because a separate threshold for each class can be better than one for all.

    Args:
        scores: ``(N, C)`` array or tensor of probabilities.
        states: ``(N, C)`` label states: +1 positive, 0 unknown, −1 negative.

    Returns:
        Both maxima, each with the lowest threshold that reaches it.

    >>> oracle_f1([[0.3], [0.2], [0.1]], [[1], [1], [-1]])
    OracleF1(overall_f1=1.0, overall_threshold=0.11, class_f1=1.0, class_threshold=0.11)
    """
    checked_scores, checked_states = check_inputs(scores, states)
    scored = require_scorable(checked_states)
    thresholds = np.arange(1, 100) / 100
    columns = known_scores(checked_scores[:, scored], checked_states[:, scored])
    counts = [(count_from(known, thresholds), count_from(absent, thresholds), known.size) for known, absent in columns]
    hits, false_alarms, positives = (np.stack(part, axis=-1) for part in zip(*counts, strict=True))
    _, _, overall, _, _, per_class = f1_of_counts(hits, hits + false_alarms, positives)
    best, best_class = int(overall.argmax()), int(per_class.argmax())
    return OracleF1(
        float(overall[best]), float(thresholds[best]), float(per_class[best_class]), float(thresholds[best_class])
    )
