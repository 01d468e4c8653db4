"""Probability of each tag given its score, fitted on labels that are mostly unknown."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import scipy

from positively.calibration.likelihood import (
    ASINH_SCALE,
    TINY,
    fit_link,
    negative_frequency,
    slope_prior,
    standardize,
    typical_slope,
)
from positively.calibration.priors import FEWEST_POSITIVES, at_most, estimate_frequencies
from positively.calibration.summary import LARGEST, Summary, summarize
from positively.labels import NEGATIVE, POSITIVE
from positively.metrics.average_precision import Flags, Values, as_floats, check_inputs

# Per standard deviation of the score: a class without a fitted slope still keeps the order of its scores.
SMALLEST_SLOPE = 0.05
# One-sided 5 % quantile of the normal distribution, for the test that known positives rank above the other images.
LEARNED_DEVIATIONS = 1.645


@dataclass(frozen=True)
class Calibration:
    """Map scores to probabilities: logit = slope · f(score − center) + offset; every array is ``(C,)``.

    ``f(v) = width · asinh(v / width)``. With infinite width, f(v) = v and the center is zero, so
    logit = slope · score + offset.
    """

    slope: Values
    offset: Values
    center: Values
    width: Values
    label_frequency: Values
    """Share c of the class's positives that are known."""
    negative_frequency: Values
    """Share d of the class's negatives that are known."""
    common_label_frequency: float
    positives: Values
    """Expected number of positives in the table, known and hidden."""
    at_most: Values
    """Upper bound on the number of positives that holds with probability 0.9."""
    learned: Flags
    """Whether at least three positives rank above the other images by more than chance; if not, do not use the
    probabilities."""

    def select(self, classes: npt.NDArray[np.integer] | Flags) -> Calibration:
        """The calibration of some classes, by index or flag."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        return Calibration(**{n: v if n == "common_label_frequency" else v[classes] for n, v in arrays.items()})

    def logits(self, scores: npt.ArrayLike) -> Values:
        """``(N, C)`` logits of the tags."""
        distance = np.clip(as_floats(scores).astype(np.float64), -LARGEST, LARGEST) - self.center
        is_scaled = np.isfinite(self.width)
        width = np.where(is_scaled, self.width, 1.0)
        return np.asarray(
            self.slope * np.where(is_scaled, width * np.arcsinh(distance / width), distance) + self.offset
        )

    def probabilities(self, scores: npt.ArrayLike) -> Values:
        """``(N, C)`` probabilities P(tag | score)."""
        return np.asarray(scipy.special.expit(self.logits(scores)))

    def soft_targets(self, scores: npt.ArrayLike, states: npt.ArrayLike) -> Values:
        """``(N, C)`` probabilities given score *and* label: 1 if known positive, 0 if known negative, q if unknown.

        q = (1−c)p / [(1−c)p + (1−d)(1−p)] is the probability that an unknown label is a hidden positive.
        """
        checked, checked_states = check_inputs(scores, states)
        hidden = hidden_share(self.probabilities(checked), self.label_frequency, self.negative_frequency)
        return np.where(checked_states == POSITIVE, 1.0, np.where(checked_states == NEGATIVE, 0.0, hidden))


def calibrate(
    scores: npt.ArrayLike,
    states: npt.ArrayLike,
    reviewed: npt.ArrayLike | None = None,
    *,
    leave_one_out: bool = True,
    asinh_scale: float = np.inf,
    frequency_asinh_scale: float = ASINH_SCALE,
) -> Calibration:
    """Fit probabilities to out-of-sample scores from positive and unknown labels.

    Args:
        scores: ``(N, C)`` array or tensor of out-of-sample scores (leave-one-out or cross-validated).
        states: ``(N, C)`` label states: +1 positive, 0 unknown, −1 negative.
        reviewed: ``(N, C)`` flags of pairs that were unknown, selected by their score and then decided by a person;
            none by default. All other known labels are assumed to be known at random.
        leave_one_out: Whether the scores are leave-one-out scores of a probe (see ``rescale_loo``).
        asinh_scale: Number of standard deviations beyond which the logit grows like asinh. The default, infinity,
            makes logits linear in the score; 2 gives more accurate probabilities, especially high ones.
        frequency_asinh_scale: The same for the estimate of the label frequencies, where it matters more (see
            ``estimate_frequencies``). The default suits a probe; use infinity for logits of a network.

    Returns:
        The calibration, with ``probabilities(scores)`` and the estimated number of positives of each class.

    Raises:
        MetricError: if the shapes differ, a score is NaN or there is no image or class.

    >>> generator = np.random.default_rng(0)
    >>> truth = generator.random((2000, 4)) < 0.2
    >>> known = truth & (generator.random(truth.shape) < 0.5)
    >>> options = {"leave_one_out": False, "frequency_asinh_scale": np.inf}
    >>> result = calibrate(generator.normal(3.0 * truth), known.astype(int), **options)
    >>> bool(abs(result.positives.sum() / truth.sum() - 1) < 0.15)
    True
    """
    return calibrate_summary(summarize(scores, states, reviewed, leave_one_out), asinh_scale, frequency_asinh_scale)


def calibrate_summary(
    summary: Summary, asinh_scale: float = np.inf, frequency_asinh_scale: float = ASINH_SCALE
) -> Calibration:
    """:func:`calibrate` from a summary of the scores."""
    frequencies = estimate_frequencies(summary, frequency_asinh_scale)
    c = frequencies.label_frequency
    d = np.minimum(negative_frequency(summary, c), 1.0 - TINY)
    slope, offset = _fit(summary, asinh_scale, c, typical_slope(asinh_scale, frequencies.slope, frequency_asinh_scale))
    slope = np.maximum(slope, SMALLEST_SLOPE)
    p = scipy.special.expit(slope[:, None] * standardize(summary, asinh_scale) + offset[:, None])
    positives = summary.positives + (summary.unknown * hidden_share(p, c[:, None], d[:, None])).sum(axis=1)
    bound = at_most(summary.known.sum(axis=1), frequencies.posterior)
    straight = not np.isfinite(asinh_scale)
    return Calibration(
        slope=slope / summary.scale,
        offset=offset - slope * summary.center / summary.scale if straight else offset,
        center=np.zeros_like(slope) if straight else summary.center,
        width=asinh_scale * summary.scale,
        label_frequency=c,
        negative_frequency=d,
        common_label_frequency=frequencies.common,
        positives=positives,
        at_most=np.minimum(np.maximum(bound, positives), summary.positives + summary.unknown.sum(axis=1)),
        learned=is_learned(summary),
    )


def _fit(summary: Summary, asinh_scale: float, frequency: Values, mean_slope: float) -> tuple[Values, Values]:
    """``(C,)`` slopes and offsets per standard deviation; without a slope, a class has a constant probability."""
    prior = slope_prior(summary, mean_slope)
    link = fit_link(summary, standardize(summary, asinh_scale), frequency, prior)
    share = np.clip(summary.known.sum(axis=1) / frequency / summary.images.sum(axis=1), 1e-6, 1.0 - 1e-6)
    sloping = (summary.positives > 0.0) & (link.slope > 0.0) & ~_flat(summary)
    return np.where(sloping, link.slope, 0.0), np.where(sloping, link.offset, np.log(share / (1.0 - share)))


def hidden_share(probability: Values, frequency: Values, negative: Values) -> Values:
    """Probability q that an unknown label is a hidden positive: (1−c)p / [(1−c)p + (1−d)(1−p)].

    >>> float(hidden_share(np.array(0.5), np.array(0.5), np.array(0.0)).round(3))
    0.333
    """
    present = (1.0 - frequency) * probability
    return np.asarray(present / np.maximum(present + (1.0 - negative) * (1.0 - probability), TINY))


def _flat(summary: Summary) -> Flags:
    return np.asarray(summary.scores[:, 0] <= summary.scores[:, -1])


def is_learned(summary: Summary) -> Flags:
    """``(C,)`` flags of the classes with at least three positives that rank above the others by more than chance."""
    positives, images = summary.known + summary.accepted, summary.images
    total, count = images.sum(axis=1), positives.sum(axis=1)
    # Mann–Whitney statistic: share of the images that rank below a bin, plus half of those in the bin.
    below = (total[:, None] - np.cumsum(images, axis=1) + 0.5 * images) / total[:, None]
    mean = (positives * below).sum(axis=1) / np.maximum(count, 1.0)
    deviations = (mean - 0.5) * np.sqrt(12.0 * count)
    return np.asarray((count >= FEWEST_POSITIVES) & (deviations > LEARNED_DEVIATIONS) & ~_flat(summary))
