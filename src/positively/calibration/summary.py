"""What calibration needs to know of the scores of a table: a few hundred bins a class instead of every image.

Bins follow the rank of the score and are fine at the top, where positives are: the first ``HEAD`` images of a class
have a bin each, further down each bin reaches ``GROWTH`` times as deep as the last: 140 bins for a million images.
Classes are independent, so that a large table is summarized block by block of classes and put together by ``join``.
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
    """Scores and label states of C classes in B bins of descending score; counts are numbers of images."""

    scores: Values
    """``(C, B)`` mean score of the bin."""
    known: Values
    """``(C, B)`` positives known at random."""
    unknown: Values
    """``(C, B)`` images whose label is unknown."""
    negative: Values
    """``(C, B)`` negatives known at random."""
    accepted: Values
    """``(C, B)`` pairs a person reviewed and found positive."""
    rejected: Values
    """``(C, B)`` pairs a person reviewed and found negative."""
    center: Values
    """``(C,)`` mean score over all images."""
    scale: Values
    """``(C,)`` standard deviation of the score over all images; 1 where all are equal."""

    @property
    def images(self) -> Values:
        """``(C, B)`` images in each bin."""
        return self.known + self.unknown + self.negative + self.accepted + self.rejected

    @property
    def positives(self) -> Values:
        """``(C,)`` positives on record, known at random or reviewed."""
        return np.asarray((self.known + self.accepted).sum(axis=1))

    def select(self, classes: npt.NDArray[np.integer] | slice) -> Summary:
        """The summary of some classes, by index or slice."""
        return Summary(*(getattr(self, field.name)[classes] for field in fields(self)))


def join(parts: Sequence[Summary]) -> Summary:
    """Put blocks of classes of the same images together, in this order."""
    return Summary(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Summary)))


def summarize(
    scores: npt.ArrayLike, states: npt.ArrayLike, reviewed: npt.ArrayLike | None = None, leave_one_out: bool = True
) -> Summary:
    """Bins of the scores of all images, class by class.

    Args:
        scores: ``(N, C)`` out-of-sample scores; array or tensor.
        states: ``(N, C)`` of +1 positive, 0 unknown, −1 negative.
        reviewed: ``(N, C)`` flags of pairs that were unknown, chosen by score and judged by a person; none by default.
        leave_one_out: whether an image's score was made without its own label (see ``rescale_loo``).

    Returns:
        The summary, without regard to the order of the images.

    >>> summary = summarize([[0.9], [0.1], [0.4]], [[1], [0], [-1]])
    >>> summary.scores.tolist(), summary.known.tolist(), summary.negative.tolist()
    ([[0.9, 0.4, 0.1]], [[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]])
    """
    checked, checked_states = check_inputs(scores, states)
    judged = np.zeros(checked.shape, np.bool_) if reviewed is None else to_array(reviewed).astype(np.bool_)
    if judged.shape != checked.shape:
        raise MetricError(f"Which pairs were reviewed has the shape {judged.shape}, scores have {checked.shape}.")
    if not checked.size:
        raise MetricError(f"Scores of the shape {checked.shape} mean nothing: there must be an image and a class.")
    return join(
        [
            _summarize_class(checked[:, [index]], checked_states[:, [index]], judged[:, index], leave_one_out)
            for index in range(checked.shape[1])
        ]
    )


def _summarize_class(scores: Scores, states: States, judged: Flags, leave_one_out: bool) -> Summary:
    """Summary of one class, whose scores and states are ``(N, 1)``: no more than a column is held in memory."""
    values = np.clip(scores.astype(np.float64), -LARGEST, LARGEST)
    column = (rescale_loo(values, states) if leave_one_out else values)[:, 0]
    # Ties follow the label, so that the order of the images does not matter; images of one score share one x anyway.
    order = np.lexsort((judged, states[:, 0], -column))
    ordered, state, judged = column[order], states[order, 0], judged[order]
    starts = bin_starts(len(column))

    def per_bin(numbers: npt.NDArray[np.generic]) -> Values:
        return np.asarray(np.add.reduceat(numbers.astype(np.float64), starts))[None]

    # From the ordered column, so that sums do not depend on the order of the images either.
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
    """Lift leave-one-out scores of known positives to where a hidden positive of the same looks would stand.

    A score of the closed form is a sum over the known positives. A known positive is scored by the n − 1 others, a
    hidden one by all n, so that on average it stands (n − 1)/n as high. With ten known positives a class that is enough
    to make the label frequency look a third too small.

    Args:
        scores: ``(N, C)`` leave-one-out scores.
        states: ``(N, C)`` states of these images.
        known: ``(C,)`` known positives of each class, if the images are a sample of those that were learned from.
        together: ``(N, C)`` known positives that were left out together with each image, itself among them.

    >>> rescale_loo(np.array([[0.2], [0.4], [0.3]]), np.array([[1], [1], [0]])).tolist()
    [[0.4], [0.8], [0.3]]
    """
    positive = states == POSITIVE
    count = positive.sum(axis=0) if known is None else known
    return np.where(positive, scores * (count / np.maximum(count - together, 1)), scores)


def bin_starts(images: int) -> npt.NDArray[np.int64]:
    """``(B,)`` ranks at which the bins of so many images start."""
    starts = list(range(min(HEAD, images)))
    start = HEAD
    while start < images:
        starts.append(start)
        start = int(start * GROWTH) + 1
    return np.array(starts, dtype=np.int64)
