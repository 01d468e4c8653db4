"""Maximum likelihood fit of the link between score and probability, for a given label frequency.

The probability of a class at a scaled score x is p = σ(slope·x + offset). Positives are known at random with the label
frequency c and negatives with the negative frequency d. A label is therefore known positive with probability c·p,
known negative with probability d·(1 − p), and unknown otherwise.

A pair that a person reviewed was unknown before and was selected by its score, so it contributes (1 − c)·p or
(1 − d)·(1 − p). Without the factors 1 − c and 1 − d, a review of the top of the list would make c look like 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from positively.calibration.summary import Summary
from positively.metrics.average_precision import Values

# A ridge score is about c·p, so its logit is not linear in the standardized score z; k·asinh(z/k) is closer to linear.
# Complete labels of COCO and VOC prefer k from 1.5 to 2. For the estimate of label frequencies, k = 1.2 was chosen on
# these two datasets only; it gives correct frequencies from 10 to 90 % known.
ASINH_SCALE = 1.2
# Slopes of the classes of COCO and VOC in these units. With n positives, slopes are smaller by about LOSS/n and their
# variance is larger by NOISE/n.
TYPICAL_SLOPE, SLOPE_DEVIATION = 2.3, 0.4
SLOPE_LOSS, SLOPE_NOISE = 1.5, 3.0
# Typical score of a likely positive, in standard deviations above the mean.
TOP = 4.0
TINY = 1e-12
# Fisher scoring with Levenberg damping converges in about ten steps; classes with almost no slope need more.
MOST_STEPS, TOLERANCE = 40, 1e-3
BLOCK = 32


@dataclass(frozen=True)
class SlopePrior:
    """Normal priors of the slope (logits per standard deviation of the scaled score) and of the offset (weak)."""

    mean: Values
    deviation: Values
    offset_mean: float = -4.0
    offset_deviation: float = 5.0

    def select(self, classes: slice) -> SlopePrior:
        """The priors of some classes."""
        return replace(self, mean=self.mean[classes], deviation=self.deviation[classes])


def typical_slope(asinh_scale: float, known: float = TYPICAL_SLOPE, known_scale: float = ASINH_SCALE) -> float:
    """Convert a slope to another score scale, with the same logit at the score of a likely positive.

    >>> round(typical_slope(np.inf), 2)
    1.32
    """
    return known * float(asinh_distance(TOP, known_scale) / asinh_distance(TOP, asinh_scale))


def slope_prior(summary: Summary, mean: float) -> SlopePrior:
    """Prior of the slopes; with few positives, scores are noisy, and slopes are smaller and vary more."""
    count = np.maximum(summary.positives, 1.0)
    return SlopePrior(mean - SLOPE_LOSS / count, np.sqrt(SLOPE_DEVIATION**2 + SLOPE_NOISE / count))


class Link(NamedTuple):
    """Fitted links, one for each label frequency and class; all arrays have the same shape ``(…, C)``."""

    slope: Values
    offset: Values
    variance: Values
    """Posterior variance of the slope."""
    evidence: Values
    """Log marginal likelihood (Laplace approximation over slope and offset), up to a constant."""


def standardize(summary: Summary, asinh_scale: float = ASINH_SCALE) -> Values:
    """``(C, B)`` standardized scores of the bins; logarithmic beyond ``asinh_scale`` standard deviations."""
    distance = (summary.scores - summary.center[:, None]) / summary.scale[:, None]
    return asinh_distance(distance, asinh_scale)


def asinh_distance(distance: Values | float, asinh_scale: float) -> Values:
    """``asinh_scale · asinh(distance / asinh_scale)``: linear up to about ``asinh_scale``, logarithmic beyond."""
    return np.asarray(asinh_scale * np.arcsinh(distance / asinh_scale) if np.isfinite(asinh_scale) else distance)


def negative_frequency(summary: Summary, frequency: Values) -> Values:
    """Share d of the negatives that are known, if there are ``known / frequency`` positives; shape of ``frequency``."""
    known, negative = summary.known.sum(axis=1), summary.negative.sum(axis=1)
    absent = np.maximum(summary.images.sum(axis=1) - known / frequency, negative)
    return np.asarray(np.where(negative > 0.0, negative / np.maximum(absent, TINY), 0.0))


def fit_link(summary: Summary, scaled: Values, frequency: Values, prior: SlopePrior, start: Link | None = None) -> Link:
    """Fit the most likely slope and offset of each class for each label frequency.

    Args:
        summary: Counts of C classes in B bins.
        scaled: ``(C, B)`` standardized scores of the bins.
        frequency: ``(…, C)`` label frequencies to assume.
        prior: Priors of slopes and offsets.
        start: Initial links, with the shape of ``frequency``.

    Returns:
        Links with the shape of ``frequency``.

    >>> from positively.calibration.summary import summarize
    >>> summary = summarize([[3.0], [2.0], [1.0], [0.0]], [[1], [1], [-1], [-1]])
    >>> link = fit_link(summary, standardize(summary), np.array([0.999]), slope_prior(summary, 2.0))
    >>> bool(link.slope[0] > 0)
    True
    """
    if start is None:
        share = summary.positives / np.maximum(summary.images.sum(axis=1), 1.0) / frequency
        offset = np.log(np.clip(share, 1e-6, 0.9)) - 1.5
        start = Link(np.broadcast_to(prior.mean, frequency.shape), offset, offset, offset)
    # A block of classes fits into the CPU cache and stops when all of its classes have converged.
    blocks = [slice(first, first + BLOCK) for first in range(0, len(scaled), BLOCK)]
    parts = [
        _fit_block(
            _Model(summary.select(block), scaled[block], frequency[..., block], prior.select(block)),
            start.slope[..., block],
            start.offset[..., block],
        )
        for block in blocks
    ]
    return Link(*(np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)))


def _fit_block(model: _Model, slope: Values, offset: Values) -> Link:
    damping = np.full(slope.shape, 1e-3)
    state = model.at(slope, offset)
    for _ in range(MOST_STEPS):
        steeper, higher = _direction(state, damping)
        proposed = model.at(slope + steeper, offset + higher)
        gain = proposed.value - state.value
        better = gain >= 0.0
        slope, offset = np.where(better, slope + steeper, slope), np.where(better, offset + higher, offset)
        state = _Local(*(np.where(better, new, old) for new, old in zip(proposed, state, strict=True)))
        damping = np.clip(np.where(better, damping / 10.0, damping * 10.0), 1e-9, 1e9)
        if np.abs(gain).max() < TOLERANCE:
            break
    determinant = state.first * state.second - state.mixed**2
    evidence = state.value - 0.5 * np.log(determinant * model.prior.deviation**2)
    return Link(slope, offset, state.second / determinant, evidence)


class _Local(NamedTuple):
    """Penalized log-likelihood at a point, its gradient and its expected curvature; each ``(…, C)``."""

    value: Values
    by_slope: Values
    by_offset: Values
    first: Values
    mixed: Values
    second: Values


def _direction(state: _Local, damping: Values) -> tuple[Values, Values]:
    """One step of Fisher scoring with Levenberg damping, with a limited length."""
    first, second = state.first * (1.0 + damping), state.second * (1.0 + damping)
    determinant = first * second - state.mixed**2
    steeper = (second * state.by_slope - state.mixed * state.by_offset) / determinant
    higher = (first * state.by_offset - state.mixed * state.by_slope) / determinant
    shorten = 1.0 / np.maximum(np.maximum(np.abs(steeper), np.abs(higher) / 3.0), 1.0)
    return steeper * shorten, higher * shorten


class _Model:
    """The likelihood of C classes for given label frequencies; sums run over the last axis, the bins."""

    def __init__(self, summary: Summary, scaled: Values, frequency: Values, prior: SlopePrior) -> None:
        self.scaled, self.prior = scaled, prior
        self.c = np.clip(frequency, TINY, 1.0 - TINY)[..., None]
        self.d = np.clip(negative_frequency(summary, frequency), 0.0, 1.0 - TINY)[..., None]
        self.present, self.absent = summary.known + summary.accepted, summary.negative + summary.rejected
        self.unknown, self.reviewed = summary.unknown, summary.accepted + summary.rejected
        self.open_to_chance = summary.known + summary.unknown + summary.negative
        self.constant = summary.known.sum(axis=1) * np.log(self.c[..., 0])
        self.constant = self.constant + summary.accepted.sum(axis=1) * np.log(1.0 - self.c[..., 0])
        self.constant = self.constant + summary.negative.sum(axis=1) * np.log(np.maximum(self.d[..., 0], TINY))
        self.constant = self.constant + summary.rejected.sum(axis=1) * np.log(1.0 - self.d[..., 0])

    def at(self, slope: Values, offset: Values) -> _Local:
        c, d, prior = self.c, self.d, self.prior
        lever = self.scaled  # derivative of the logit with respect to the slope
        logits = np.clip(slope[..., None] * lever + offset[..., None], -40.0, 40.0)
        p = 1.0 / (1.0 + np.exp(-logits))
        q = 1.0 - p
        rest = np.maximum(1.0 - d - (c - d) * p, TINY)
        hidden = (c - d) * p * q / rest
        log_p = np.log(p)
        value = (self.present + self.absent) * log_p - self.absent * logits + self.unknown * np.log(rest)
        pull = self.present * q - self.absent * p - self.unknown * hidden
        # Fisher information of one label about its logit, over the three label states.
        information = self.open_to_chance * (c * p * q**2 + d * p**2 * q + hidden * (c - d) * p * q)
        information = information + self.reviewed * p * q
        steep, high = (slope - prior.mean) / prior.deviation, (offset - prior.offset_mean) / prior.offset_deviation
        weighted = information * lever
        return _Local(
            value=value.sum(axis=-1) + self.constant - 0.5 * (steep**2 + high**2),
            by_slope=(pull * lever).sum(axis=-1) - steep / prior.deviation,
            by_offset=pull.sum(axis=-1) - high / prior.offset_deviation,
            first=(weighted * lever).sum(axis=-1) + prior.deviation**-2,
            mixed=weighted.sum(axis=-1),
            second=information.sum(axis=-1) + prior.offset_deviation**-2,
        )
