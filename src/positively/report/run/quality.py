"""The quality of a run for each class, as far as positives alone show it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from positively.calibration import CalibratedScores
from positively.calibration.expected_f1 import bin_probabilities

Values = npt.NDArray[np.float64]

# Two-sided 95 % of a normal distribution.
_DEVIATIONS = 1.96


@dataclass(frozen=True)
class Quality:
    """Precision and recall of a run on its own photos; every array is ``(C,)``.

    Recall is counted: the share of known tags that the classifier finds again without having seen them. Precision is
    counted only if every label is known. Otherwise absent tags are not known and precision is an expected value,
    between the share known to be right and what the bound on the number of positives allows.
    """

    judged: int
    """Photos with scores that do not depend on their own tags; all counts are over these photos."""
    known: Values
    """Known positives among them."""
    found: Values
    """Those of them that reach the threshold."""
    given: Values
    """Photos that get the tag."""
    refuted: Values
    """Those of them that are known not to carry the tag."""
    is_complete: bool
    """Whether every label is known, so that precision is counted."""
    positives: Values
    """Expected positives, known and hidden."""
    at_most: Values
    frequency: Values
    """Share of the positives that is known."""
    thresholds: Values
    precision: Values
    """Expected share of right tags; NaN if the tag is never given."""
    recall: Values
    """Expected share of the positives that is found."""
    learned: npt.NDArray[np.bool_]

    @property
    def precision_range(self) -> tuple[Values, Values]:
        """If counted, the 95 % interval; else the share known to be right and what ``at_most`` allows."""
        if self.is_complete:
            return wilson(self.found, self.given)
        lower = self.found / np.maximum(self.given, 1.0)
        upper = self.precision * self.at_most / np.maximum(self.positives, 1e-12)
        return np.minimum(lower, self.precision), np.clip(upper, self.precision, 1.0)

    @property
    def recall_range(self) -> tuple[Values, Values]:
        """95 % interval of the counted recall."""
        return wilson(self.found, self.known)

    @property
    def counted(self) -> str:
        """Whether precision is counted or expected."""
        return "counted" if self.is_complete else "expected"

    @property
    def right(self) -> float:
        """Expected number of right tags among those given."""
        return float(np.nansum(self.precision * self.given))

    @property
    def overall_precision(self) -> float:
        """Expected share of right tags."""
        return self.right / max(float(self.given.sum()), 1e-12)

    @property
    def overall_recall(self) -> float:
        """Expected share of the true tags that is given."""
        return self.right / max(float(self.positives.sum()), 1e-12)

    @property
    def overall_f1(self) -> float:
        """Harmonic mean of the two."""
        return 2 * self.right / max(float(self.given.sum() + self.positives.sum()), 1e-12)


def judge(calibrated: CalibratedScores, thresholds: Values, counts: CalibratedScores | None = None) -> Quality:
    """Judge thresholds by the out-of-sample scores behind a calibration.

    Args:
        calibrated: What the run's scores mean.
        thresholds: ``(C,)`` thresholds of the probabilities.
        counts: Calibration that gives the number of positives, so that a page has one number; by default the same.
    """
    calibration, summary, counts = calibrated.calibration, calibrated.summary, counts or calibrated
    judged, counted_photos = (int(part.images.sum(axis=1).max(initial=0)) for part in (summary, counts.summary))
    reaches = bin_probabilities(calibration, summary) >= thresholds[:, None]
    expected = calibrated.expected(thresholds)
    known, absent = summary.known + summary.accepted, summary.negative + summary.rejected
    found, given = (known * reaches).sum(axis=1), (summary.images * reaches).sum(axis=1)
    is_complete = not summary.unknown.any()
    counted = found / np.where(given > 0, given, np.nan), found / np.maximum(known.sum(axis=1), 1.0)
    precision, recall = counted if is_complete else (expected.precision, expected.recall)
    learned = calibration.learned & np.isfinite(thresholds)
    # For a tag that was not learned, only the known labels count.
    positives, at_most = (
        np.where(learned, part * judged / max(counted_photos, 1), known.sum(axis=1))
        for part in (counts.calibration.positives, counts.calibration.at_most)
    )
    return Quality(
        judged=judged,
        known=known.sum(axis=1),
        found=found,
        given=given,
        refuted=(absent * reaches).sum(axis=1),
        is_complete=is_complete,
        positives=positives,
        at_most=at_most,
        frequency=counts.calibration.label_frequency,
        thresholds=thresholds,
        precision=precision,
        recall=recall,
        learned=learned,
    )


def wilson(hits: npt.ArrayLike, trials: npt.ArrayLike) -> tuple[Values, Values]:
    """Wilson's 95 % interval of a share; [0, 1] if there were no trials.

    >>> [float(limit.round(2)) for limit in wilson(8, 10)]
    [0.49, 0.94]
    """
    k, n = np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    square = _DEVIATIONS**2
    center = (k + square / 2) / (n + square)
    half = _DEVIATIONS / (n + square) * np.sqrt(np.maximum(k * (n - k), 0.0) / np.maximum(n, 1.0) + square / 4)
    return np.where(n > 0, np.maximum(center - half, 0.0), 0.0), np.where(n > 0, np.minimum(center + half, 1.0), 1.0)


def overall_curve(calibrated: CalibratedScores) -> tuple[Values, Values]:
    """Expected recall and precision over all learned classes, from the most to the least probable tag."""
    learned = calibrated.calibration.learned
    probabilities = bin_probabilities(calibrated.calibration, calibrated.summary)
    total = max(float((probabilities * calibrated.summary.images).sum()), 1e-12)
    p, n = probabilities[learned].ravel(), calibrated.summary.images[learned].ravel()
    order = np.argsort(-p, kind="stable")
    right, given = np.cumsum((p * n)[order]), np.cumsum(n[order])
    return right / total, right / np.maximum(given, 1e-12)


@dataclass(frozen=True)
class Reliability:
    """Pairs of photo and tag in B bins, with the expected and the actual number of known tags."""

    expected: Values
    """``(B,)`` expected share of known tags."""
    pairs: Values
    known: Values


def reliability(calibrated: CalibratedScores, bins: int = 12) -> Reliability:
    """Expected share of known tags, c·p, and the actual share.

    This is the check of a probability p that positives allow: a tag is known if it is present (p) and recorded (c).
    Bins hold about the same number of expected known tags. Reviewed pairs are left out, because they were chosen by
    score.
    """
    calibration, summary = calibrated.calibration, calibrated.summary
    learned = calibration.learned
    shares = calibration.label_frequency[:, None] * bin_probabilities(calibration, summary)
    pairs = summary.known + summary.unknown + summary.negative
    share, pairs, known = (part[learned].ravel() for part in (shares, pairs, summary.known))
    order = np.argsort(share, kind="stable")
    share, pairs, known = share[order], pairs[order], known[order]
    mass = np.cumsum(share * pairs)
    place = np.minimum((mass / max(mass[-1], 1e-12) * bins).astype(int), bins - 1) if len(mass) else np.zeros(0, int)
    pairs_in, known_in, mass_in = (
        np.bincount(place, weights=weights, minlength=bins).astype(np.float64)
        for weights in (pairs, known, share * pairs)
    )
    used = pairs_in > 0
    return Reliability((mass_in / np.maximum(pairs_in, 1.0))[used], pairs_in[used], known_in[used])
