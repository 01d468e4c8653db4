"""From which probability on a tag is given: by expected F1, or for a wished precision.

Where probabilities are calibrated nothing else is needed: among the images of a table, ranked by a class, the expected
number of right tags down to some rank is the sum of the probabilities so far. Thresholds are probabilities; the largest
F1 is reached at half of itself, so all thresholds live on one scale and a rare class can lean on the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from positively.calibration.posterior import Calibration
from positively.calibration.summary import Summary
from positively.metrics.average_precision import Values

# Imaginary positives that vote for the mean threshold of all classes.
SHRINKAGE = 4.0


@dataclass(frozen=True)
class Expected:
    """What thresholds are expected to do on images like those of the table; ``(C,)`` unless said otherwise."""

    precision: Values
    """NaN where no tag is given."""
    recall: Values
    f1: Values
    tags: Values
    """Tags given per image, by class; their sum is the number of tags of a photo."""


def expected_f1_thresholds(calibration: Calibration, summary: Summary, shrinkage: float = SHRINKAGE) -> Values:
    """Thresholds on the probability that make the expected F1 of each class largest.

    Args:
        calibration: what the scores mean.
        summary: the table's out-of-sample scores.
        shrinkage: imaginary positives that vote for the mean threshold of the learned classes.

    Returns:
        ``(C,)`` probabilities; a tag is given where its probability is at least the threshold.
    """
    right, given, total = _running(calibration, summary)
    f1 = 2.0 * right / np.maximum(given + total, 1e-12)
    # The largest expected F1 is reached by giving what is likelier than half of it (Lipton et al., 2014).
    best = 0.5 * f1.max(axis=1, initial=0.0)
    weight = np.where(calibration.learned, summary.positives, 0.0)
    if not weight.any():
        return np.full(len(best), 0.5)
    mean = float(np.average(best, weights=np.minimum(weight, 10.0)))
    share = weight / (weight + max(shrinkage, 1e-12))
    return np.asarray(share * best + (1.0 - share) * mean)


def precision_thresholds(calibration: Calibration, summary: Summary, precision: float) -> Values:
    """The lowest thresholds at which each class is expected to be right in at least this share of its tags.

    Args:
        calibration: what the scores mean.
        summary: the table's out-of-sample scores.
        precision: wished share of right tags.

    Returns:
        ``(C,)`` probabilities; infinite for a class that cannot be that precise.
    """
    probabilities = bin_probabilities(calibration, summary)
    right, given, _ = _running(calibration, summary)
    enough = right >= precision * given
    last = enough.shape[1] - 1 - enough[:, ::-1].argmax(axis=1)
    thresholds = np.take_along_axis(probabilities, last[:, None], axis=1)[:, 0]
    return np.where(enough.any(axis=1) & calibration.learned, thresholds, np.inf)


def expected(calibration: Calibration, summary: Summary, thresholds: npt.ArrayLike) -> Expected:
    """Expected precision, recall, F1 and tags an image at given thresholds.

    Args:
        calibration: what the scores mean.
        summary: the table's out-of-sample scores.
        thresholds: one probability for all, or ``(C,)``.

    >>> from positively.calibration import calibrate_summary, summarize
    >>> generator = np.random.default_rng(0)
    >>> truth = generator.random((500, 2)) < 0.3
    >>> summary = summarize(generator.normal(4.0 * truth), np.where(truth, 1, -1), leave_one_out=False)
    >>> calibration = calibrate_summary(summary)
    >>> thresholds = expected_f1_thresholds(calibration, summary)
    >>> bool((expected(calibration, summary, thresholds).f1 > 0.9).all())
    True
    """
    probabilities = bin_probabilities(calibration, summary)
    chosen = summary.images * (probabilities >= np.broadcast_to(np.asarray(thresholds), len(probabilities))[:, None])
    right, given = (chosen * probabilities).sum(axis=1), chosen.sum(axis=1)
    total = (summary.images * probabilities).sum(axis=1)
    return Expected(
        precision=np.where(given > 0.0, right / np.maximum(given, 1.0), np.nan),
        recall=right / np.maximum(total, 1e-12),
        f1=2.0 * right / np.maximum(given + total, 1e-12),
        tags=given / np.maximum(summary.images.sum(axis=1), 1.0),
    )


def bin_probabilities(calibration: Calibration, summary: Summary) -> Values:
    """``(C, B)`` probabilities of the bins."""
    return calibration.probabilities(summary.scores.T).T


def _running(calibration: Calibration, summary: Summary) -> tuple[Values, Values, Values]:
    """Expected right tags and given tags down to each bin, ``(C, B)``, and expected positives ``(C, 1)``."""
    right = np.cumsum(summary.images * bin_probabilities(calibration, summary), axis=1)
    return right, np.cumsum(summary.images, axis=1), right[:, -1:]
