"""Average precision from positives alone: what scores of positive-unlabeled labels can be compared by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from positively.errors import MetricError
from positively.labels import POSITIVE, check_states
from positively.metrics.average_precision import Flags, Scores, as_floats, check_inputs, to_array

TOP = 20
"""Is added to ranks, so that which of the first few images is first hardly matters."""


def pu_average_precision(states: npt.ArrayLike, scores: npt.ArrayLike, *, top: float = TOP) -> float:
    """Average precision from positives alone, times the share c of them that is known; NaN if no class has two.

    AP is the mean, over the positives i, of Σ_k [k stands at least as high as i] / rank(i), k over the positives too.
    Where positives are known at random, both ends of a pair i ≠ k are known with c², but those of i = k with c: in the
    AP of known positives against everything else, each vouches for itself 1/c times too much. At 10 % known that is
    most of what it sees, and λ chosen by it shrinks too little. Over the pairs i ≠ k its expectation is that of c · AP.

    With few known positives single places at the very top still decide, and those are luck: so 20 is added to every
    rank (chosen on parts of training photos: docs/research/study.md).

    States come first, as scikit-learn calls a metric:
    ``make_scorer(po.metrics.pu_average_precision, response_method="decision_function")`` is a scorer.

    Args:
        states: ``(N, C)`` or ``(N,)`` of +1 positive, 0 unknown, −1 negative; only the positives are read. Array,
            tensor or scipy sparse matrix.
        scores: numbers of the same shape, higher means more likely, of images whose own label did not shape them.
        top: What is added to every rank.

    Returns:
        The mean of the classes with two known positives or more.

    Raises:
        MetricError: if the shapes differ or a score is NaN.

    >>> pu_average_precision([1, 0, 1, 0], [3.0, 2.0, 1.0, 0.0])
    0.043478260869565216
    """
    known = check_states(to_array(states.toarray() if hasattr(states, "toarray") else states))
    values = as_floats(scores)
    if known.shape != values.shape or known.ndim not in (1, 2):
        raise MetricError(
            f"Label states and scores must both be images × classes; their shapes are {known.shape} and {values.shape}."
        )
    if known.ndim == 1:
        known, values = known[:, None], values[:, None]
    values, known = check_inputs(values, known)
    return pair_average_precision(values, known == POSITIVE, top=top)


def pair_average_precision(
    scores: Scores,
    positives: Flags,
    reference: npt.NDArray[np.bool_] | None = None,
    share: float = 1.0,
    top: float = TOP,
) -> float:
    """:func:`pu_average_precision` of inputs that were checked already, among some of the images.

    Args:
        scores: ``(N, C)``, of images whose own label did not shape them.
        positives: ``(N, C)``, the known positives to rank.
        reference: ``(N,)``, the images to rank them among; all by default.
        share: Share of the table that the reference is, where it is a sample.
        top: What is added to every rank.
    """
    found = []
    for one in ranked(scores, positives, reference):
        count, ordered = len(one.scores), np.sort(one.scores)
        if count >= 2:
            below = (np.searchsorted(ordered, one.scores, "left") + np.searchsorted(ordered, one.scores, "right")) / 2
            recall = (count - below - 0.5) / (count - 1)  # of the others; equal scores are half above one another
            found.append(max(one.referred, 1) * float((recall / (one.rank + share * top)).mean()))
    return float(np.mean(found)) if found else float("nan")


@dataclass(frozen=True)
class Ranked:
    """The known positives of one class among the images of reference."""

    scores: npt.NDArray[np.floating]
    rank: npt.NDArray[np.float64]
    among: npt.NDArray[np.int64]
    """How many images each is ranked among, itself included."""
    referred: int
    """How many of them are images of reference."""


def ranked(scores: Scores, positives: Flags, reference: npt.NDArray[np.bool_] | None) -> Iterator[Ranked]:
    """Yield the known positives of each class that has any, with their ranks."""
    among = np.ones(len(scores), np.bool_) if reference is None else reference
    for index in np.flatnonzero(positives.any(axis=0)):
        column = np.sort(scores[among, index])
        chosen = positives[:, index]
        found, inside = scores[chosen, index], among[chosen]
        above = len(column) - (np.searchsorted(column, found, "left") + np.searchsorted(column, found, "right")) / 2
        # One that stands among the others itself is half above itself.
        rank = above + np.where(inside, 0.5, 1.0)
        yield Ranked(found, rank, len(column) + np.where(inside, 0, 1), int(inside.sum()))
