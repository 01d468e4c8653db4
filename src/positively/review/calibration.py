"""Calibration of a tag that is new in the review, from answers alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy

from positively.calibration import Calibration, rescale_loo, summarize
from positively.calibration.likelihood import TINY, fit_link, slope_prior, standardize, typical_slope
from positively.calibration.posterior import SMALLEST_SLOPE, is_learned
from positively.calibration.summary import Summary
from positively.labels import POSITIVE, UNKNOWN
from positively.probe.probe import LOGIT_ASINH_SCALE
from positively.review.class_state import Labels

Values = npt.NDArray[np.float64]

# The weak prior of offsets, and a one-sided bound.
_OFFSET_PRECISION, _NINE_IN_TEN = 5.0**-2, 1.2816
# Rejections among the most probable photos that are needed to see where the tag ends, and photos per answer.
_FEWEST_REJECTED, _LIKELIEST = 3, 2


def calibrate_review(scores: npt.NDArray[np.float32], labels: Labels) -> Calibration:
    """Calibration of one class without positives known at random.

    The known share of the positives is not known, so unknown labels carry no information, and neither do the photos the
    class was created from. It is a logistic regression on the answers, with a prior on slopes from other tables.
    Until some of the most probable photos are rejected, it is unknown where the tag ends, and only the order is valid.

    Args:
        scores: (N,) out-of-sample scores.
        labels: What is known.
    """
    states = labels.states[:, None]
    levelled = rescale_loo(scores[:, None], states)
    prior = slope_prior(summarize(levelled, states, states != UNKNOWN, False), typical_slope(LOGIT_ASINH_SCALE))
    judged = states if labels.examples is None else np.where(labels.examples[:, None], UNKNOWN, states)
    summary = summarize(levelled, judged, judged != UNKNOWN, leave_one_out=False)
    scaled, frequency = standardize(summary, LOGIT_ASINH_SCALE), np.full(1, TINY)
    link = fit_link(summary, scaled, frequency, prior)
    slope = np.maximum(link.slope, SMALLEST_SLOPE)
    logits = slope[:, None] * scaled + link.offset[:, None]
    p = scipy.special.expit(logits)
    deviation = _deviation((summary.accepted + summary.rejected) * p * (1 - p), scaled, prior.deviation)
    likely = scipy.special.expit(logits + _NINE_IN_TEN * deviation)
    positives = float((labels.states == POSITIVE).sum())
    return Calibration(
        slope=slope / summary.scale,
        offset=link.offset,
        center=summary.center,
        width=LOGIT_ASINH_SCALE * summary.scale,
        label_frequency=frequency,
        negative_frequency=np.zeros(1),
        common_label_frequency=TINY,
        positives=positives + (summary.unknown * p).sum(axis=1),
        at_most=positives + (summary.unknown * likely).sum(axis=1),
        learned=is_learned(summary) & _has_an_end(summary),
    )


def _deviation(information: Values, scaled: Values, slope_deviation: Values) -> Values:
    """``(C, B)`` standard deviation of logits if slope and offset are estimated from this information in each bin."""
    level = information.sum(axis=1, keepdims=True) + _OFFSET_PRECISION
    mixed = (information * scaled).sum(axis=1, keepdims=True)
    steep = (information * scaled**2).sum(axis=1, keepdims=True) + slope_deviation[:, None] ** -2
    return np.asarray(np.sqrt((steep - 2 * mixed * scaled + level * scaled**2) / (level * steep - mixed**2)))


def _has_an_end(summary: Summary) -> npt.NDArray[np.bool_]:
    """``(C,)`` whether some of the most probable photos were rejected."""
    answers = (summary.accepted + summary.rejected).sum(axis=1, keepdims=True)
    above = np.cumsum(summary.images, axis=1) - summary.images
    return np.asarray((summary.rejected * (above < _LIKELIEST * answers)).sum(axis=1) >= _FEWEST_REJECTED)
