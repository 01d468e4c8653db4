"""How many of a class's positives are known, and how many there are, without knowing negatives.

Every label frequency c on a grid is tried: how well do c·σ(slope·x + offset) and the known labels of a class agree,
slope and offset integrated out? Frequencies of the classes of one table resemble each other: their logits are normal
around a common one, whose place and spread are learned from all classes together and integrated out as well. So a class
with many known positives is judged by itself, a class with few leans on the others, and what the scores cannot tell
(most, when a tenth is known) stays open and widens the bound.
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

# Links are fitted on the coarse grid; their evidence is smooth, and read off on the fine one.
COARSE_GRID = np.linspace(-5.0, 5.0, 17)
LOGIT_GRID = np.linspace(-5.0, 5.0, 101)
SPREAD_GRID = np.array([0.1, 0.2, 0.35, 0.6, 1.0, 1.6])
# The spread of logit(c) is about 0.35, give or take a factor of two, as long as a table does not show otherwise.
TYPICAL_SPREAD, SPREAD_FACTOR = 0.35, 2.0
# A class with fewer known positives has no shape to learn from.
FEWEST_POSITIVES = 3
# Before a table is seen, about half of its tags are known: logit(c) is normal around 0 with this deviation. Large
# tables outvote it; small ones, where few and many missing tags explain the labels alike, would else be told of up to
# three times too many (543 photos of COCO, 30 % known).
COMMON_DEVIATION = 0.6
# Some things (a knife on a laid table) are guessed from what is around them: their probability levels off below one,
# and c·p below c, as if fewer were known. One class in twenty is like that, and levels off anywhere. Chosen on 10,000
# photos of COCO that serve nothing else, and VOC's val.
PLATEAU_SHARE = 0.05
# Mean slopes of tables differ by this, and are found in a few rounds.
TABLE_DEVIATION, ROUNDS = 0.8, 4
# What the bound allows for beyond chance: errors of single classes in logit(c), and c a little too large for all of
# them, as the shape of the link is not quite the true one. Chosen so that bounds held on masks of COCO and VOC.
CLASS_ERROR, SHAPE_ERROR = 0.25, 0.08


@dataclass(frozen=True)
class Frequencies:
    """What is known of the label frequencies of C classes, on a grid of G logits."""

    posterior: Values
    """``(G, C)`` weights of the grid; a column sums to one."""
    common: float
    slope: float
    """Mean slope of this table's classes, before what few positives cost."""

    @property
    def label_frequency(self) -> Values:
        """``(C,)`` geometric means of c."""
        return np.asarray(np.exp(np.log(scipy.special.expit(LOGIT_GRID)) @ self.posterior))


def estimate_frequencies(summary: Summary, asinh_scale: float = ASINH_SCALE) -> Frequencies:
    """Label frequencies of all classes, and the slopes they go with.

    Every class with some known positives is asked, whether it was learned or not: those that happen to rank well would
    make c look large. A class with too few gets what the others have in common.

    Args:
        summary: counts of C classes.
        asinh_scale: standard deviations beyond which scores count like their asinh, to make the true logit straight. It
            cannot be learned: a straighter link with a smaller c explains the same labels. The default is that of the
            probe's scores.

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
    """``(G, K)``: values on the coarse grid → values of their cubic spline (not-a-knot) on the fine one.

    ``scipy.interpolate`` has it too; its import takes longer than the fit of a small table.
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
    """Most likely mean of all classes' slopes, given each class's slope and its variance under the present prior.

    Labels that leave the share s = variance / prior variance to the prior moved the slope by 1 − s of the way to what
    they wish by themselves, so that the moves are added up and divided by the shares.
    """
    precision = prior.deviation**-2
    heard = precision * np.clip(1.0 - variance * precision, 0.0, 1.0)
    moved = (precision * (slope - prior.mean)).sum() + (typical - mean) / TABLE_DEVIATION**2
    return mean + float(moved / (heard.sum() + TABLE_DEVIATION**-2))


def pool(evidence: Values) -> tuple[Values, float]:
    """Posterior of each class's logit(c) when the classes' logits are normal around an unknown common one.

    Args:
        evidence: ``(G, C)`` log-likelihoods of the grid.

    Returns:
        ``(G, C)`` weights, and the common label frequency.

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
    # Mixture over hyperparameters of each class's own posterior.
    posterior = shifted * (prior @ (weight[:, None] / fit))
    return posterior / posterior.sum(axis=0), float(scipy.special.expit(np.asarray(weight @ common)))


def _plateaus() -> Values:
    """``(G, G)`` for each c, weights of the levels below it at which c·p may stop growing: uniform from 0 to c."""
    level = scipy.special.expit(LOGIT_GRID)
    below = np.tril(np.broadcast_to(level * (1.0 - level), (len(level), len(level))))
    return np.asarray(below / below.sum(axis=1, keepdims=True))


def at_most(known: Values, posterior: Values, level: float = 0.9) -> Values:
    """Number of positives that is not exceeded with probability ``level``.

    With n known and label frequency c, every total being equally likely beforehand, the hidden positives follow the
    negative binomial distribution NB(n + 1, c); c follows the posterior, blurred by what the model gets wrong.

    Args:
        known: ``(C,)`` positives known at random.
        posterior: ``(G, C)`` weights over the grid of logits.
        level: probability that the bound holds.

    Returns:
        ``(C,)`` upper bounds, the known positives included.

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
