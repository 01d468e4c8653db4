"""Average precision with exact handling of ties, and the input checks that all metrics share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from positively.errors import LabelError, MetricError
from positively.labels import NEGATIVE, POSITIVE, LabelTable, States, check_states

Scores = npt.NDArray[np.floating[Any]]
Values = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def average_precision(scores: npt.ArrayLike, states: npt.ArrayLike) -> Values:
    """Average precision of each class over its known labels.

    AP is the mean, over the known positives, of the precision among the known labels with an equal or higher score.
    Ties are handled as in scikit-learn: images with equal scores share one threshold.

    Args:
        scores: ``(N, C)`` array or tensor; a higher score means more likely.
        states: ``(N, C)`` label states: +1 positive, 0 unknown, −1 negative.

    Returns:
        ``(C,)`` fractions; NaN for a class that lacks a known positive or a known negative.

    Raises:
        MetricError: if the shapes differ or a score is NaN.
        LabelError: if a state is none of +1, 0 and −1.

    >>> average_precision([[0.9, 0.2], [0.8, 0.7], [0.1, 0.4]], [[1, 1], [-1, 0], [1, -1]]).round(3).tolist()
    [0.833, 0.5]
    """
    return class_average_precision(*check_inputs(scores, states))


def mean_average_precision(scores: npt.ArrayLike, states: npt.ArrayLike) -> float:
    """Mean average precision (mAP) over the classes that can be scored.

    A class can be scored if it has at least one known positive and one known negative.

    Args:
        scores: ``(N, C)`` array or tensor; a higher score means more likely.
        states: ``(N, C)`` label states: +1 positive, 0 unknown, −1 negative.

    Returns:
        A fraction in [0, 1].

    Raises:
        MetricError: if no class can be scored, the shapes differ or a score is NaN.

    >>> round(mean_average_precision([[0.9, 0.2], [0.8, 0.7], [0.1, 0.4]], [[1, 1], [-1, 0], [1, -1]]), 3)
    0.667
    """
    checked_scores, checked_states = check_inputs(scores, states)
    scored = require_scorable(checked_states)
    return float(class_average_precision(checked_scores, checked_states)[scored].mean())


def class_average_precision(scores: Scores, states: States) -> Values:
    """``(C,)`` average precisions of checked inputs."""
    precision = np.full(scores.shape[1], np.nan)
    for index, (positives, negatives) in enumerate(known_scores(scores, states)):
        if positives.size and negatives.size:
            hits, false_alarms = count_from(positives, positives), count_from(negatives, positives)
            precision[index] = np.mean(hits / (hits + false_alarms))
    return precision


def known_scores(scores: Scores, states: States) -> Iterator[tuple[Scores, Scores]]:
    """Yield, for each class, the sorted scores of its known positives and of its known negatives.

    A loop over classes is faster than one vectorized argsort because numpy sorts plain values with SIMD, and it needs
    the memory of one column only.
    """
    for index in range(scores.shape[1]):
        column, state = scores[:, index], states[:, index]
        yield np.sort(column[state == POSITIVE]), np.sort(column[state == NEGATIVE])


def count_from(ascending: Scores, thresholds: Scores) -> Counts:
    """Count the ascending values that are greater than or equal to each threshold."""
    return np.asarray(ascending.size - np.searchsorted(ascending, thresholds, side="left"), dtype=np.int64)


def check_inputs(scores: npt.ArrayLike, states: npt.ArrayLike) -> tuple[Scores, States]:
    """Return scores and states as arrays of the same ``(N, C)`` shape.

    A NaN score is an error even where the label is unknown, because it means that the model is broken.
    """
    checked_scores, checked_states = as_floats(scores), check_states(to_array(states))
    if checked_scores.ndim != 2 or checked_states.ndim != 2:
        raise MetricError(
            f"Pass 2-D arrays of scores and label states, images × classes; got {checked_scores.shape} and "
            f"{checked_states.shape}. For one class, pass columns: scores[:, None], states[:, None]."
        )
    if checked_scores.shape != checked_states.shape:
        raise MetricError(
            f"Scores and label states must have the same shape, images × classes; got {checked_scores.shape} and "
            f"{checked_states.shape}."
        )
    missing = int(np.isnan(checked_scores).sum())
    if missing:
        raise MetricError(f"{missing} of {checked_scores.size} scores are NaN; check the model's output.")
    return checked_scores, checked_states


def as_floats(values: npt.ArrayLike) -> Scores:
    """Convert to float32 or float64; both preserve the order of the input, so ranks stay exact."""
    array = to_array(values)
    if array.dtype in (np.float32, np.float64):
        return array
    return array.astype(np.float32 if array.dtype == np.float16 else np.float64)


def to_array(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Convert nested lists, an array, a sparse matrix or a torch tensor to an array, without importing torch."""
    given: Any = values
    if isinstance(given, LabelTable):
        raise LabelError("Label states are an array, not a table: pass table.states().")
    if hasattr(given, "toarray"):
        return np.asarray(given.toarray())
    if not hasattr(given, "detach"):
        return np.asarray(given)
    tensor = given.detach().cpu()
    # numpy has no bfloat16; float32 represents every 16-bit and 8-bit float exactly.
    return np.asarray((tensor.float() if tensor.is_floating_point() and tensor.element_size() < 4 else tensor).numpy())


def scorable(states: States) -> Flags:
    """``(C,)`` flags of the classes with a known positive and a known negative."""
    return np.asarray((states == POSITIVE).any(axis=0) & (states == NEGATIVE).any(axis=0))


def require_scorable(states: States) -> Flags:
    """``(C,)`` flags of the classes that can be scored; raises if there are none."""
    scored = scorable(states)
    if scored.any():
        return scored
    if (states == POSITIVE).any() and not (states == NEGATIVE).any():
        raise MetricError(
            "The labels contain positives only. Scores can be evaluated only where some labels are known negatives."
        )
    raise MetricError("No class has both a known positive and a known negative, so no class can be scored.")
