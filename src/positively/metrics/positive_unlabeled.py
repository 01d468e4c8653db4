"""Average precision from positives alone, to compare scores when no negative is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from positively.errors import MetricError
from positively.labels import POSITIVE, check_states
from positively.metrics.average_precision import Flags, Scores, as_floats, check_inputs, to_array

TOP = 20
"""Added to every rank, which reduces the influence of the order of the first few images."""


def pu_average_precision(states: npt.ArrayLike, scores: npt.ArrayLike, *, top: float = TOP) -> float:
    """Estimate average precision from known positives alone, up to the factor c.

    The expected value is c · AP, where c is the share of the positives that are known. Because c is the same for every
    model on the same labels, the result can be used to compare models and to choose hyperparameters.

    AP is a sum over pairs (i, k) of positives. If positives are known at random, a pair with i ≠ k is known with
    probability c², but a pair with i = k with probability c. The plain AP of known positives against all other images
    therefore gives the pairs i = k a weight that is 1/c too large; at 10 % known they dominate, and a penalty λ chosen
    by it is too small. This function uses only the pairs i ≠ k.

    With few known positives, single images at the top of the ranking would decide the result. Adding ``top`` to every
    rank reduces this noise; the default of 20 was chosen on training photos only (docs/research/study.md).

    The states come first, as in scikit-learn's metrics:
    ``make_scorer(po.metrics.pu_average_precision, response_method="decision_function")`` returns a scorer.

    Args:
        states: ``(N, C)`` or ``(N,)`` label states: +1 positive, 0 unknown, −1 negative. Only the positives are used.
            Array, tensor or scipy sparse matrix.
        scores: Array or tensor of the same shape; a higher score means more likely. The score of an image must not
            depend on its own label (use leave-one-out or cross-validated scores).
        top: Number added to every rank.

    Returns:
        The mean over the classes with at least two known positives; NaN if there is none.

    Raises:
        MetricError: if the shapes differ or a score is NaN.

    >>> pu_average_precision([1, 0, 1, 0], [3.0, 2.0, 1.0, 0.0])
    0.043478260869565216
    """
    known = check_states(to_array(states))
    values = as_floats(scores)
    if known.shape != values.shape or known.ndim not in (1, 2):
        raise MetricError(
            f"Label states and scores must have the same shape, images × classes; got {known.shape} and {values.shape}."
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
    """:func:`pu_average_precision` of checked inputs, optionally ranked among some of the images only.

    Args:
        scores: ``(N, C)`` out-of-sample scores.
        positives: ``(N, C)`` flags of the known positives to rank.
        reference: ``(N,)`` flags of the images to rank them among; all by default.
        share: Share of the table in the reference, if it is a sample.
        top: Number added to every rank.
    """
    found = []
    for one in ranked(scores, positives, reference):
        count, ordered = len(one.scores), np.sort(one.scores)
        if count >= 2:
            below = (np.searchsorted(ordered, one.scores, "left") + np.searchsorted(ordered, one.scores, "right")) / 2
            recall = (count - below - 0.5) / (count - 1)  # of the other positives; a tie counts as one half
            found.append(max(one.referred, 1) * float((recall / (one.rank + share * top)).mean()))
    return float(np.mean(found)) if found else float("nan")


@dataclass(frozen=True)
class Ranked:
    """The known positives of one class, ranked among the reference images."""

    scores: npt.NDArray[np.floating]
    rank: npt.NDArray[np.float64]
    among: npt.NDArray[np.int64]
    """Number of images that each one is ranked among, including itself."""
    referred: int
    """Number of these positives that are reference images."""


def ranked(scores: Scores, positives: Flags, reference: npt.NDArray[np.bool_] | None) -> Iterator[Ranked]:
    """Yield the known positives of each class that has any, with their ranks."""
    among = np.ones(len(scores), np.bool_) if reference is None else reference
    for index in np.flatnonzero(positives.any(axis=0)):
        column = np.sort(scores[among, index])
        chosen = positives[:, index]
        found, inside = scores[chosen, index], among[chosen]
        above = len(column) - (np.searchsorted(column, found, "left") + np.searchsorted(column, found, "right")) / 2
        # A positive that is itself a reference image counts as half above itself.
        rank = above + np.where(inside, 0.5, 1.0)
        yield Ranked(found, rank, len(column) + np.where(inside, 0, 1), int(inside.sum()))
