"""Average precision, all points, exact under ties; and the check of scores and states that every metric begins with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from positively.errors import MetricError
from positively.labels import NEGATIVE, POSITIVE, States, check_states

Scores = npt.NDArray[np.floating[Any]]
Values = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def average_precision(scores: npt.ArrayLike, states: npt.ArrayLike) -> Values:
    """Average precision of each class over its known labels.

    Equal scores enter together, as in scikit-learn: AP is the mean, over the known positives, of the precision among
    the known labels that score at least as high.

    Args:
        scores: ``(N, C)`` numbers, higher means more likely; array or tensor.
        states: ``(N, C)`` of +1 positive, 0 unknown, −1 negative.

    Returns:
        ``(C,)`` fractions; NaN for a class without a known positive or without a known negative.

    >>> average_precision([[0.9, 0.2], [0.8, 0.7], [0.1, 0.4]], [[1, 1], [-1, 0], [1, -1]]).round(3).tolist()
    [0.833, 0.5]
    """
    return class_average_precision(*check_inputs(scores, states))


def mean_average_precision(scores: npt.ArrayLike, states: npt.ArrayLike) -> float:
    """Mean of the average precision over the classes that can be scored (mAP).

    Args:
        scores: ``(N, C)`` numbers, higher means more likely; array or tensor.
        states: ``(N, C)`` of +1 positive, 0 unknown, −1 negative.

    Returns:
        A fraction in [0, 1].

    Raises:
        MetricError: if the labels only list positives, or no class has both a known positive and a known negative.

    >>> round(mean_average_precision([[0.9, 0.2], [0.8, 0.7], [0.1, 0.4]], [[1, 1], [-1, 0], [1, -1]]), 3)
    0.667
    """
    checked_scores, checked_states = check_inputs(scores, states)
    scored = require_scorable(checked_states)
    return float(class_average_precision(checked_scores, checked_states)[scored].mean())


def class_average_precision(scores: Scores, states: States) -> Values:
    """``(C,)`` average precisions of inputs that were checked already."""
    precision = np.full(scores.shape[1], np.nan)
    for index, (positives, negatives) in enumerate(known_scores(scores, states)):
        if positives.size and negatives.size:
            hits, false_alarms = count_from(positives, positives), count_from(negatives, positives)
            precision[index] = np.mean(hits / (hits + false_alarms))
    return precision


def known_scores(scores: Scores, states: States) -> Iterator[tuple[Scores, Scores]]:
    """Yield, class by class, the ascending scores of its known positives and of its known negatives.

    Ranks need only the sorted values, never an argsort: numpy sorts values with SIMD, several times faster. That is
    why a loop over classes beats one vectorised argsort; it also needs the memory of a single column only.
    """
    for index in range(scores.shape[1]):
        column, state = scores[:, index], states[:, index]
        yield np.sort(column[state == POSITIVE]), np.sort(column[state == NEGATIVE])


def count_from(ascending: Scores, thresholds: Scores) -> Counts:
    """How many of the ascending values are at least as large as each threshold."""
    return np.asarray(ascending.size - np.searchsorted(ascending, thresholds, side="left"), dtype=np.int64)


def check_inputs(scores: npt.ArrayLike, states: npt.ArrayLike) -> tuple[Scores, States]:
    """Return scores and states as arrays of one ``(N, C)`` shape, or say what is wrong with them.

    A NaN is refused even where the label is unknown: it means that the model is broken.
    """
    checked_scores, checked_states = as_floats(scores), check_states(to_array(states))
    if checked_scores.ndim != 2 or checked_scores.shape != checked_states.shape:
        raise MetricError(
            f"Scores and label states must both be images × classes; their shapes are {checked_scores.shape} "
            f"and {checked_states.shape}."
        )
    missing = int(np.isnan(checked_scores).sum())
    if missing:
        raise MetricError(f"{missing} of {checked_scores.size} scores are NaN; check what the model gave out.")
    return checked_scores, checked_states


def as_floats(values: npt.ArrayLike) -> Scores:
    """Values as float32 or float64; both keep the order of what came in, so that ranks stay exact."""
    array = to_array(values)
    if array.dtype in (np.float32, np.float64):
        return array
    return array.astype(np.float32 if array.dtype == np.float16 else np.float64)


def to_array(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Take an array, nested lists, or a torch tensor of any device and kind, without importing torch."""
    if not hasattr(values, "detach"):
        return np.asarray(values)
    tensor: Any = values.detach().cpu()
    # numpy has no bfloat16; float32 holds every 16-bit and 8-bit float exactly.
    return np.asarray((tensor.float() if tensor.is_floating_point() and tensor.element_size() < 4 else tensor).numpy())


def scorable(states: States) -> Flags:
    """``(C,)`` flags: the class has a known positive and a known negative."""
    return np.asarray((states == POSITIVE).any(axis=0) & (states == NEGATIVE).any(axis=0))


def require_scorable(states: States) -> Flags:
    """``(C,)`` flags of the classes that can be scored, of which there must be one."""
    scored = scorable(states)
    if scored.any():
        return scored
    if (states == POSITIVE).any() and not (states == NEGATIVE).any():
        raise MetricError(
            "The labels only list positives; what is absent must be known too before scores can be judged."
        )
    raise MetricError("No class has both a known positive and a known negative label, so nothing can be scored.")
