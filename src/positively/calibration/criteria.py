"""Criteria that compare scores by positive labels alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from positively.calibration.summary import Summary
from positively.metrics.average_precision import Flags, Scores


def log_rank(scores: Scores, positives: Flags, reference: npt.NDArray[np.bool_] | None = None) -> float:
    """Mean of −log(rank / N) over the known positives; NaN if there is none.

    Close to the best choice at every share of known labels, where average precision over known positives shrinks too
    little when few are known and AUC too much when many are. Images of equal score share their mean rank.

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
    among = np.ones(len(scores), np.bool_) if reference is None else reference
    found_ranks = [np.zeros(0)]
    for index in np.flatnonzero(positives.any(axis=0)):
        column = np.sort(scores[among, index])
        chosen = positives[:, index]
        found = scores[chosen, index]
        above = len(column) - (np.searchsorted(column, found, "left") + np.searchsorted(column, found, "right")) / 2
        # One that stands among the others itself is half above itself.
        rank = above + np.where(among[chosen], 0.5, 1.0)
        found_ranks.append(-np.log(rank / (len(column) + np.where(among[chosen], 0, 1))))
    return np.concatenate(found_ranks)


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
