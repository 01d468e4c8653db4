"""Thresholds on probabilities that maximize the expected F1 or reach a given precision.

With calibrated probabilities, the expected number of correct tags among the top images of a class is the sum of their
probabilities. The threshold that maximizes the expected F1 is half of that F1, so thresholds of all classes are on
one scale, and those of rare classes can be shrunk towards the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from positively.calibration.posterior import Calibration
from positively.calibration.summary import Summary
from positively.metrics.average_precision import Values

# Number of pseudo-positives with which the threshold of a class is shrunk towards the mean of all classes.
SHRINKAGE = 4.0


@dataclass(frozen=True)
class Expected:
    """Expected quality of thresholds on images like those of the table; every array is ``(C,)``."""

    precision: Values
    """NaN for a class that is never predicted."""
    recall: Values
    f1: Values
    tags: Values
    """Predicted tags per image for each class; the sum over classes is the number of tags of an image."""


def expected_f1_thresholds(calibration: Calibration, summary: Summary, shrinkage: float = SHRINKAGE) -> Values:
    """Thresholds on the probability that maximize the expected F1 of each class.

    Args:
        calibration: The calibration of the scores.
        summary: The table's out-of-sample scores.
        shrinkage: Number of pseudo-positives with which each threshold is shrunk towards the mean of the learned
            classes.

    Returns:
        ``(C,)`` probabilities; a tag is predicted if its probability is greater than or equal to the threshold.
    """
    right, given, total = _running(calibration, summary)
    f1 = 2.0 * right / np.maximum(given + total, 1e-12)
    # The threshold that maximizes the expected F1 is half of that F1 (Lipton et al., 2014).
    best = 0.5 * f1.max(axis=1, initial=0.0)
    weight = np.where(calibration.learned, summary.positives, 0.0)
    if not weight.any():
        return np.full(len(best), 0.5)
    mean = float(np.average(best, weights=np.minimum(weight, 10.0)))
    share = weight / (weight + max(shrinkage, 1e-12))
    return np.asarray(share * best + (1.0 - share) * mean)


def precision_thresholds(calibration: Calibration, summary: Summary, precision: float) -> Values:
    """The lowest thresholds at which each class reaches a given expected precision.

    Args:
        calibration: The calibration of the scores.
        summary: The table's out-of-sample scores.
        precision: Minimum expected share of correct tags.

    Returns:
        ``(C,)`` probabilities; infinite for a class that cannot reach this precision.
    """
    probabilities = bin_probabilities(calibration, summary)
    right, given, _ = _running(calibration, summary)
    enough = right >= precision * given
    last = enough.shape[1] - 1 - enough[:, ::-1].argmax(axis=1)
    thresholds = np.take_along_axis(probabilities, last[:, None], axis=1)[:, 0]
    return np.where(enough.any(axis=1) & calibration.learned, thresholds, np.inf)


def expected(calibration: Calibration, summary: Summary, thresholds: npt.ArrayLike) -> Expected:
    """Expected precision, recall, F1 and number of tags per image at given thresholds.

    Args:
        calibration: The calibration of the scores.
        summary: The table's out-of-sample scores.
        thresholds: One probability for all classes, or ``(C,)``.

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
    """Cumulative expected correct tags and predicted tags, ``(C, B)``, and expected positives, ``(C, 1)``."""
    right = np.cumsum(summary.images * bin_probabilities(calibration, summary), axis=1)
    return right, np.cumsum(summary.images, axis=1), right[:, -1:]
