"""Summaries of scores for calibration: a few hundred bins per class instead of every image.

Bins follow the rank of the score and are narrow at the top, where the positives are: each of the first ``HEAD`` images
has its own bin, and below, each bin ends ``GROWTH`` times as deep as the last (140 bins for a million images). Classes
are independent, so a large table can be summarized in blocks of classes that ``join`` concatenates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from positively.errors import MetricError
from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, States
from positively.metrics.average_precision import Flags, Scores, Values, check_inputs, to_array

HEAD, GROWTH = 32, 1.1
# Squares of anything larger would overflow.
LARGEST = 1e100


@dataclass(frozen=True)
class Summary:
    """Scores and label states of C classes in B bins of descending score; counts are in images."""

    scores: Values
    """``(C, B)`` mean score of the bin."""
    known: Values
    """``(C, B)`` positives known at random."""
    unknown: Values
    """``(C, B)`` images whose label is unknown."""
    negative: Values
    """``(C, B)`` negatives known at random."""
    accepted: Values
    """``(C, B)`` reviewed pairs that are positive."""
    rejected: Values
    """``(C, B)`` reviewed pairs that are negative."""
    center: Values
    """``(C,)`` mean score over all images."""
    scale: Values
    """``(C,)`` standard deviation of the score over all images; 1 if all are equal."""

    @property
    def images(self) -> Values:
        """``(C, B)`` images in each bin."""
        return self.known + self.unknown + self.negative + self.accepted + self.rejected

    @property
    def positives(self) -> Values:
        """``(C,)`` known positives, including the reviewed ones."""
        return np.asarray((self.known + self.accepted).sum(axis=1))

    def select(self, classes: npt.NDArray[np.integer] | slice) -> Summary:
        """The summary of some classes, by index or slice."""
        return Summary(*(getattr(self, field.name)[classes] for field in fields(self)))


def join(parts: Sequence[Summary]) -> Summary:
    """Concatenate blocks of classes of the same images."""
    return Summary(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Summary)))


def summarize(
    scores: npt.ArrayLike, states: npt.ArrayLike, reviewed: npt.ArrayLike | None = None, leave_one_out: bool = True
) -> Summary:
    """Summarize the scores of all images in bins, for each class.

    Args:
        scores: ``(N, C)`` array or tensor of out-of-sample scores.
        states: ``(N, C)`` label states: +1 positive, 0 unknown, −1 negative.
        reviewed: ``(N, C)`` flags of pairs that were unknown, selected by their score and then decided by a person;
            none by default.
        leave_one_out: Whether the scores are leave-one-out scores of a probe (see ``rescale_loo``).

    Returns:
        The summary, which does not depend on the order of the images.

    >>> summary = summarize([[0.9], [0.1], [0.4]], [[1], [0], [-1]])
    >>> summary.scores.tolist(), summary.known.tolist(), summary.negative.tolist()
    ([[0.9, 0.4, 0.1]], [[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]])
    """
    checked, checked_states = check_inputs(scores, states)
    judged = np.zeros(checked.shape, np.bool_) if reviewed is None else to_array(reviewed).astype(np.bool_)
    if judged.shape != checked.shape:
        raise MetricError(f"The flags of reviewed pairs have shape {judged.shape}; the scores have {checked.shape}.")
    if not checked.size:
        raise MetricError(f"There must be at least one image and one class; the scores have shape {checked.shape}.")
    return join(
        [
            _summarize_class(checked[:, [index]], checked_states[:, [index]], judged[:, index], leave_one_out)
            for index in range(checked.shape[1])
        ]
    )


def _summarize_class(scores: Scores, states: States, judged: Flags, leave_one_out: bool) -> Summary:
    """Summary of one class; scores and states are ``(N, 1)``, to hold only one column in memory."""
    values = np.clip(scores.astype(np.float64), -LARGEST, LARGEST)
    column = (rescale_loo(values, states) if leave_one_out else values)[:, 0]
    # Break ties by label so that the order of the images does not matter.
    order = np.lexsort((judged, states[:, 0], -column))
    ordered, state, judged = column[order], states[order, 0], judged[order]
    starts = bin_starts(len(column))

    def per_bin(numbers: npt.NDArray[np.generic]) -> Values:
        return np.asarray(np.add.reduceat(numbers.astype(np.float64), starts))[None]

    # Use the ordered column, so that rounding does not depend on the order of the images either.
    scale = ordered.std(keepdims=True)
    return Summary(
        scores=per_bin(ordered) / np.diff(np.append(starts, len(column))),
        known=per_bin((state == POSITIVE) & ~judged),
        unknown=per_bin(state == UNKNOWN),
        negative=per_bin((state == NEGATIVE) & ~judged),
        accepted=per_bin((state == POSITIVE) & judged),
        rejected=per_bin((state == NEGATIVE) & judged),
        center=ordered.mean(keepdims=True),
        scale=np.where(scale > 0.0, scale, 1.0),
    )


def rescale_loo(
    scores: Scores,
    states: States,
    known: npt.NDArray[np.int64] | None = None,
    together: npt.NDArray[np.int64] | int = 1,
) -> Values:
    """Rescale leave-one-out scores of known positives to the level of hidden positives.

    The score of a probe is a sum over the known positives. A known positive is scored by the n − 1 others but a hidden
    positive by all n, so the score of a known positive is (n − 1)/n as high on average. With ten known positives per
    class, this would make the label frequency look a third too small.

    Args:
        scores: ``(N, C)`` leave-one-out scores.
        states: ``(N, C)`` states of these images.
        known: ``(C,)`` known positives of each class in the training set, if the images are a sample of it.
        together: ``(N, C)`` number of known positives that were left out together with each image, including itself.

    >>> rescale_loo(np.array([[0.2], [0.4], [0.3]]), np.array([[1], [1], [0]])).tolist()
    [[0.4], [0.8], [0.3]]
    """
    positive = states == POSITIVE
    count = positive.sum(axis=0) if known is None else known
    return np.where(positive, scores * (count / np.maximum(count - together, 1)), scores)


def bin_starts(images: int) -> npt.NDArray[np.int64]:
    """``(B,)`` first rank of each bin, for this number of images."""
    starts = list(range(min(HEAD, images)))
    start = HEAD
    while start < images:
        starts.append(start)
        start = int(start * GROWTH) + 1
    return np.array(starts, dtype=np.int64)
