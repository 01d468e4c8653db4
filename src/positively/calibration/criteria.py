"""Criteria that compare scores by positive labels alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from positively.calibration.summary import Summary
from positively.metrics.average_precision import Flags, Scores

TOP = 20
"""Is added to ranks, so that which of the first few images is first hardly matters."""


def log_rank(scores: Scores, positives: Flags, reference: npt.NDArray[np.bool_] | None = None) -> float:
    """Mean of −log(rank / N) over the known positives; NaN if there is none.

    Images of equal score share their mean rank.

    Args:
        scores: ``(N, C)``, of images whose own label did not shape them.
        positives: ``(N, C)``, the known positives to rank.
        reference: ``(N,)``, the images to rank them among; all by default.

    >>> log_rank(np.array([[3.0], [2.0], [1.0], [0.0]]), np.array([[True], [False], [False], [False]])).__round__(4)
    1.3863
    """
    ranks = log_ranks(scores, positives, reference)
    return float(ranks.mean()) if len(ranks) else float("nan")


def log_ranks(
    scores: Scores, positives: Flags, reference: npt.NDArray[np.bool_] | None = None
) -> npt.NDArray[np.float64]:
    """−log(rank / N) of every known positive, class by class: what :func:`log_rank` is the mean of."""
    found = [-np.log(one.rank / one.among) for one in _ranked(scores, positives, reference)]
    return np.concatenate([np.zeros(0), *found])


def pu_average_precision(
    scores: Scores,
    positives: Flags,
    reference: npt.NDArray[np.bool_] | None = None,
    share: float = 1.0,
    top: float = TOP,
) -> float:
    """Average precision from positives alone, times the share c of them that is known; NaN if no class has two.

    AP is the mean, over the positives i, of Σ_k [k stands at least as high as i] / rank(i), k over the positives too.
    Where positives are known at random, both ends of a pair i ≠ k are known with c², but those of i = k with c: in the
    AP of known positives against everything else, each vouches for itself 1/c times too much. At 10 % known that is
    most of what it sees, and λ chosen by it shrinks too little. Over the pairs i ≠ k its expectation is that of c · AP.

    With few known positives single places at the very top still decide, and those are luck: so 20 is added to every
    rank (chosen on parts of training photos: docs/study.md).

    Args:
        scores: ``(N, C)``, of images whose own label did not shape them.
        positives: ``(N, C)``, the known positives to rank.
        reference: ``(N,)``, the images to rank them among; all by default.
        share: Share of the table that the reference is, where it is a sample.
        top: What is added to every rank.

    Returns:
        The mean of the classes with two known positives or more.

    >>> pu_average_precision(np.array([[3.0], [2.0], [1.0], [0.0]]), np.array([[True], [False], [True], [False]]))
    0.043478260869565216
    """
    found = []
    for one in _ranked(scores, positives, reference):
        count, ordered = len(one.scores), np.sort(one.scores)
        if count >= 2:
            below = (np.searchsorted(ordered, one.scores, "left") + np.searchsorted(ordered, one.scores, "right")) / 2
            recall = (count - below - 0.5) / (count - 1)  # of the others; equal scores are half above one another
            found.append(max(one.referred, 1) * float((recall / (one.rank + share * top)).mean()))
    return float(np.mean(found)) if found else float("nan")


@dataclass(frozen=True)
class _Ranked:
    """The known positives of one class among the images of reference."""

    scores: npt.NDArray[np.floating]
    rank: npt.NDArray[np.float64]
    among: npt.NDArray[np.int64]
    """How many images each is ranked among, itself included."""
    referred: int
    """How many of them are images of reference."""


def _ranked(scores: Scores, positives: Flags, reference: npt.NDArray[np.bool_] | None) -> Iterator[_Ranked]:
    among = np.ones(len(scores), np.bool_) if reference is None else reference
    for index in np.flatnonzero(positives.any(axis=0)):
        column = np.sort(scores[among, index])
        chosen = positives[:, index]
        found, inside = scores[chosen, index], among[chosen]
        above = len(column) - (np.searchsorted(column, found, "left") + np.searchsorted(column, found, "right")) / 2
        # One that stands among the others itself is half above itself.
        rank = above + np.where(inside, 0.5, 1.0)
        yield _Ranked(found, rank, len(column) + np.where(inside, 0, 1), int(inside.sum()))


def summarized_pu_average_precision(summary: Summary) -> float:
    """:func:`pu_average_precision` of a table of which only bins are left.

    >>> from positively.calibration.summary import summarize
    >>> summarized_pu_average_precision(
    ...     summarize([[3.0], [2.0], [1.0], [0.0]], [[1], [0], [1], [0]], leave_one_out=False)
    ... )
    0.043478260869565216
    """
    judged = summary.take(np.flatnonzero(summary.positives >= 2))
    positives, images = judged.known + judged.accepted, judged.images
    if not len(positives):
        return float("nan")
    ranks = np.cumsum(images, axis=1) - images / 2 + 0.5
    above = np.cumsum(positives, axis=1) - positives / 2 - 0.5
    return float(((positives * above / (ranks + TOP)).sum(axis=1) / (positives.sum(axis=1) - 1)).mean())


def pooled_log_rank(summary: Summary) -> float:
    """Mean of −log(rank / N) over all known positives of classes that have two or more; NaN if none has.

    The only positive of a class is scored by a fit that saw none: its rank says nothing.

    >>> from positively.calibration.summary import summarize
    >>> pooled_log_rank(summarize([[4.0], [3.0], [1.0], [0.0]], [[1], [1], [0], [0]], leave_one_out=False)).__round__(4)
    1.0397
    """
    judged = summary.take(np.flatnonzero(summary.positives >= 2))
    positives, images = judged.known + judged.accepted, judged.images
    ranks = np.cumsum(images, axis=1) - images / 2 + 0.5
    total = positives.sum()
    if not total:
        return float("nan")
    return float((positives * -np.log(ranks / images.sum(axis=1, keepdims=True))).sum() / total)
