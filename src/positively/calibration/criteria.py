"""Criteria that compare scores with positive labels alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from positively.calibration.summary import Summary
from positively.metrics.average_precision import Flags, Scores
from positively.metrics.positive_unlabeled import TOP, ranked


def log_rank(scores: Scores, positives: Flags, reference: npt.NDArray[np.bool_] | None = None) -> float:
    """Mean of −log(rank / N) over the known positives; NaN if there is none.

    Images with equal scores share their mean rank.

    Args:
        scores: ``(N, C)`` out-of-sample scores.
        positives: ``(N, C)`` flags of the known positives to rank.
        reference: ``(N,)`` flags of the images to rank them among; all by default.

    >>> log_rank(np.array([[3.0], [2.0], [1.0], [0.0]]), np.array([[True], [False], [False], [False]])).__round__(4)
    1.3863
    """
    ranks = log_ranks(scores, positives, reference)
    return float(ranks.mean()) if len(ranks) else float("nan")


def log_ranks(
    scores: Scores, positives: Flags, reference: npt.NDArray[np.bool_] | None = None
) -> npt.NDArray[np.float64]:
    """−log(rank / N) of every known positive; :func:`log_rank` is their mean."""
    found = [-np.log(one.rank / one.among) for one in ranked(scores, positives, reference)]
    return np.concatenate([np.zeros(0), *found])


def summarized_pu_average_precision(summary: Summary) -> float:
    """``pu_average_precision`` computed from a summary.

    >>> from positively.calibration.summary import summarize
    >>> summarized_pu_average_precision(
    ...     summarize([[3.0], [2.0], [1.0], [0.0]], [[1], [0], [1], [0]], leave_one_out=False)
    ... )
    0.043478260869565216
    """
    judged = summary.select(np.flatnonzero(summary.positives >= 2))
    positives, images = judged.known + judged.accepted, judged.images
    if not len(positives):
        return float("nan")
    ranks = np.cumsum(images, axis=1) - images / 2 + 0.5
    above = np.cumsum(positives, axis=1) - positives / 2 - 0.5
    return float(((positives * above / (ranks + TOP)).sum(axis=1) / (positives.sum(axis=1) - 1)).mean())


def pooled_log_rank(summary: Summary) -> float:
    """Mean of −log(rank / N) over the known positives of all classes with at least two; NaN if there is none.

    A class with one positive is left out: its leave-one-out score comes from a fit without any positive.

    >>> from positively.calibration.summary import summarize
    >>> pooled_log_rank(summarize([[4.0], [3.0], [1.0], [0.0]], [[1], [1], [0], [0]], leave_one_out=False)).__round__(4)
    1.0397
    """
    judged = summary.select(np.flatnonzero(summary.positives >= 2))
    positives, images = judged.known + judged.accepted, judged.images
    ranks = np.cumsum(images, axis=1) - images / 2 + 0.5
    total = positives.sum()
    if not total:
        return float("nan")
    return float((positives * -np.log(ranks / images.sum(axis=1, keepdims=True))).sum() / total)
