"""Estimate the share of positives that are known, and the number of positives, without negatives.

For each label frequency c on a grid, we compute the evidence of c·σ(slope·x + offset) for the known labels of a class,
with slope and offset integrated out. The model is hierarchical: the logits of the frequencies of all classes in a table
are normal around a common value, whose location and spread are estimated from all classes and integrated out. A class
with many known positives is therefore estimated on its own, and a class with few is shrunk towards the others. What
the scores cannot determine widens the upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy

from positively.calibration.likelihood import (
    ASINH_SCALE,
    Link,
    SlopePrior,
    fit_link,
    slope_prior,
    standardize,
    typical_slope,
)
from positively.calibration.summary import Summary
from positively.metrics.average_precision import Values

# Links are fitted on the coarse grid; their evidence is smooth and is interpolated on the fine one.
COARSE_GRID = np.linspace(-5.0, 5.0, 17)
LOGIT_GRID = np.linspace(-5.0, 5.0, 101)
SPREAD_GRID = np.array([0.1, 0.2, 0.35, 0.6, 1.0, 1.6])
# Prior of the spread of logit(c): 0.35, within a factor of two.
TYPICAL_SPREAD, SPREAD_FACTOR = 0.35, 2.0
# A class with fewer known positives is not used for the estimate.
FEWEST_POSITIVES = 3
# Prior of the common frequency: logit(c) is normal around 0 (half of the tags are known) with this deviation. Large
# tables override it. Without it, small tables, where few and many missing tags explain the labels equally well, would
# get estimates up to three times too high (543 images of COCO, 30 % known).
COMMON_DEVIATION = 0.6
# Some objects are recognized from their context (a knife on a laid table), so their probability levels off below one,
# and c·p below c, as if fewer were known. The model assumes this for one class in twenty, at any level. Chosen on
# 10,000 images of COCO that are used for nothing else, and on the val part of VOC.
PLATEAU_SHARE = 0.05
# Standard deviation of the mean slope between tables, and the number of rounds that estimate it.
TABLE_DEVIATION, ROUNDS = 0.8, 4
# Model errors that the bound allows for: errors of single classes in logit(c), and a c that is slightly too large for
# all classes because the link is only approximate. Chosen so that the bounds hold on masks of COCO and VOC.
CLASS_ERROR, SHAPE_ERROR = 0.25, 0.08


@dataclass(frozen=True)
class Frequencies:
    """Posterior of the label frequencies of C classes, on a grid of G logits."""

    posterior: Values
    """``(G, C)`` weights of the grid; a column sums to one."""
    common: float
    slope: float
    """Mean slope of this table's classes, before the correction for few positives."""

    @property
    def label_frequency(self) -> Values:
        """``(C,)`` geometric means of c."""
        return np.asarray(np.exp(np.log(scipy.special.expit(LOGIT_GRID)) @ self.posterior))


def estimate_frequencies(summary: Summary, asinh_scale: float = ASINH_SCALE) -> Frequencies:
    """Estimate the label frequency of every class.

    All classes with at least three known positives are used, whether they were learned or not, because selecting the
    classes that rank well would make c look too large. The other classes get the common estimate.

    Args:
        summary: Counts of C classes.
        asinh_scale: Number of standard deviations beyond which scores grow like asinh, so that the logit is linear.
            It cannot be estimated, because another scale with a smaller c explains the same labels. The default suits
            the scores of a probe.

    Returns:
        The frequencies.

    >>> from positively.calibration.summary import summarize
    >>> generator = np.random.default_rng(0)
    >>> truth = generator.random((2000, 4)) < 0.2
    >>> known = truth & (generator.random(truth.shape) < 0.5)
    >>> summary = summarize(generator.normal(3.0 * truth), known.astype(int), leave_one_out=False)
    >>> round(estimate_frequencies(summary, asinh_scale=np.inf).common, 1)
    0.5
    """
    evidence = np.zeros((len(LOGIT_GRID), len(summary.center)))
    asked = np.flatnonzero(summary.known.sum(axis=1) >= FEWEST_POSITIVES)
    typical = mean = typical_slope(asinh_scale)
    if asked.size:
        part = summary.select(asked)
        scaled, grid = (
            standardize(part, asinh_scale),
            np.repeat(scipy.special.expit(COARSE_GRID)[:, None], asked.size, axis=1),
        )
        link: Link | None = None
        for _ in range(ROUNDS):
            prior = slope_prior(part, mean)
            link = fit_link(part, scaled, grid, prior, start=link)
            slope, variance, fine = (_spline() @ found for found in (link.slope, link.variance, link.evidence))
            posterior, _ = pool(fine)
            moments = (posterior * slope).sum(axis=0), (posterior * variance).sum(axis=0)
            mean = _mean_slope(mean, typical, prior, *moments)
        evidence[:, asked] = fine
    posterior, common = pool(evidence)
    return Frequencies(posterior, common, mean)


@cache
def _spline() -> Values:
    """``(G, K)`` matrix that interpolates from the coarse to the fine grid (cubic spline, not-a-knot).

    We do not use ``scipy.interpolate`` because its import takes longer than the fit of a small table.
    """
    unit = np.eye(len(COARSE_GRID))
    before, after = np.eye(len(unit), k=-1), np.eye(len(unit), k=1)
    left, right = before + 4 * unit + after, 6 * (before - 2 * unit + after)
    left[[0, -1]] = right[[0, -1]] = 0
    left[0, :3] = left[-1, -3:] = 1, -2, 1
    curvature = np.linalg.solve(left, right)
    place = (LOGIT_GRID - COARSE_GRID[0]) / (COARSE_GRID[1] - COARSE_GRID[0])
    piece = np.minimum(place.astype(int), len(unit) - 2)
    high = (place - piece)[:, None]
    low = 1 - high
    curved = (low**3 - low) * curvature[piece] + (high**3 - high) * curvature[piece + 1]
    return np.asarray(low * unit[piece] + high * unit[piece + 1] + curved / 6)


def _mean_slope(mean: float, typical: float, prior: SlopePrior, slope: Values, variance: Values) -> float:
    """Most likely mean of the slopes, given each class's slope and its variance under the current prior.

    With s = variance / prior variance, the labels move a slope by 1 − s of the way from the prior mean to their own
    estimate. The update is the sum of these moves divided by the sum of the shares.
    """
    precision = prior.deviation**-2
    heard = precision * np.clip(1.0 - variance * precision, 0.0, 1.0)
    moved = (precision * (slope - prior.mean)).sum() + (typical - mean) / TABLE_DEVIATION**2
    return mean + float(moved / (heard.sum() + TABLE_DEVIATION**-2))


def pool(evidence: Values) -> tuple[Values, float]:
    """Posterior of each class's logit(c) if the logits of all classes are normal around an unknown common value.

    Args:
        evidence: ``(G, C)`` log-likelihoods on the grid.

    Returns:
        ``(G, C)`` posterior weights, and the common label frequency.

    >>> sharp = -0.5 * ((LOGIT_GRID[:, None] - np.array([0.0, 0.1])) / 0.05) ** 2
    >>> weights, common = pool(np.column_stack([sharp, np.zeros(101)]))
    >>> round(common, 1), bool(0.3 < scipy.special.expit(LOGIT_GRID @ weights)[2] < 0.7)
    (0.5, True)
    """
    shifted = np.exp(evidence - evidence.max(axis=0))
    shifted = (1.0 - PLATEAU_SHARE) * shifted + PLATEAU_SHARE * (_plateaus() @ shifted)
    common, spread = (part.ravel() for part in np.meshgrid(LOGIT_GRID[::2], SPREAD_GRID))
    log_prior = -0.5 * ((LOGIT_GRID[:, None] - common) / spread) ** 2
    log_prior -= np.logaddexp.reduce(log_prior, axis=0)
    prior = np.exp(log_prior)
    fit = np.maximum(prior.T @ shifted, 1e-300)  # hyperparameters × classes
    hyper = np.log(fit).sum(axis=1) - 0.5 * (np.log(spread / TYPICAL_SPREAD) / np.log(SPREAD_FACTOR)) ** 2
    hyper -= 0.5 * (common / COMMON_DEVIATION) ** 2
    weight = np.exp(hyper - hyper.max())
    weight /= weight.sum()
    # The posterior of each class is a mixture over the hyperparameters.
    posterior = shifted * (prior @ (weight[:, None] / fit))
    return posterior / posterior.sum(axis=0), float(scipy.special.expit(np.asarray(weight @ common)))


def _plateaus() -> Values:
    """``(G, G)`` weights of the levels at which c·p may level off, for each c: uniform from 0 to c."""
    level = scipy.special.expit(LOGIT_GRID)
    below = np.tril(np.broadcast_to(level * (1.0 - level), (len(level), len(level))))
    return np.asarray(below / below.sum(axis=1, keepdims=True))


def at_most(known: Values, posterior: Values, level: float = 0.9) -> Values:
    """Upper bound on the number of positives that holds with probability ``level``.

    With n known positives, label frequency c and a uniform prior on the total, the number of hidden positives follows
    the negative binomial distribution NB(n + 1, c). c follows its posterior, widened by the model errors.

    Args:
        known: ``(C,)`` positives known at random.
        posterior: ``(G, C)`` weights over the grid of logits.
        level: Probability that the bound holds.

    Returns:
        ``(C,)`` upper bounds, including the known positives.

    >>> sure = (np.abs(LOGIT_GRID) < 1e-9).astype(float)[:, None]
    >>> bool(55 < at_most(np.array([50.0]), sure)[0] < 140)
    True
    """
    blur = np.exp(-0.5 * ((LOGIT_GRID[:, None] - LOGIT_GRID) / CLASS_ERROR) ** 2)
    weights = (blur / blur.sum(axis=0)) @ posterior
    frequency = (1.0 - SHAPE_ERROR) * scipy.special.expit(LOGIT_GRID)[:, None]
    low, high = np.zeros(known.shape), np.full(known.shape, 40.0) * (known + 3.0) / frequency[0]
    for _ in range(60):
        middle = 0.5 * (low + high)
        covered = (weights * scipy.special.betainc(known + 1.0, middle + 1.0, frequency)).sum(axis=0) >= level
        low, high = np.where(covered, low, middle), np.where(covered, middle, high)
    return np.asarray(known + high)
