"""What a run says of itself when it is finished, read off scores of labels it did not see."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from positively.calibration import CalibratedScores, pooled_log_rank
from positively.errors import and_more
from positively.labels import POSITIVE, LabelTable
from positively.logs import logger


def describe_outcome(calibrated: Mapping[str, CalibratedScores], head: str, table: LabelTable) -> str:
    """One paragraph: how good it is, how many tags a photo, which classes it could not learn.

    Args:
        calibrated: What scores mean, by head.
        head: The head that is used.
        table: What was learned from.
    """
    scores = calibrated[head]
    calibration, summary, thresholds = scores.calibration, scores.summary, scores.thresholds()
    found = scores.expected(thresholds)
    images = max(float(summary.images.sum(axis=1).max(initial=0)), 1.0)
    written, true, most = summary.positives.sum(), calibration.positives.sum(), calibration.at_most.sum()
    given = found.tags.sum()
    right = np.nansum(found.precision * found.tags)
    known = written / max(true, 1e-12)
    if not given:
        return (
            "Nothing could be learned: no tag has three known photos whose looks tell them from the others. The run "
            "will give no tags. Tag more photos of each kind."
        )
    lines = [
        f"On photos like these it will give {given:.1f} tags each. Judged by tags it was not shown, about "
        f"{100 * right / max(given, 1e-12):.0f} % of them are right, and it finds about "
        f"{100 * right * images / max(true, 1e-12):.0f} % of the true ones.",
        f"{written / images:.1f} tags a photo are written down; about {true / images:.1f} are true, at most "
        f"{most / images:.1f}: some {100 * known:.0f} % of the true tags are known."
        + _doubt(known, most / max(true, 1)),
    ]
    lost = np.flatnonzero(~calibration.learned)
    if len(lost):
        counts = table.counts(POSITIVE)
        names = [f"'{table.classes[index]}' ({counts[index]:,})" for index in lost]
        lines.append(
            f"Not learned, so never predicted: {and_more(names)}. In brackets: photos that carry it. It takes three "
            "and more, whose looks tell them from the others."
        )
    if len(calibrated) > 1:
        qualities = ", ".join(f"{name} {pooled_log_rank(part.summary):.2f}" for name, part in calibrated.items())
        logger.debug(f"How high unseen tags rank (mean −log of the share of photos above), by head: {qualities}.")
    return "\n".join(lines)


def _doubt(known: float, room: float) -> str:
    """Where few tags are known, or few photos, the number of true ones is hardly identifiable, and that is said."""
    if known > 0.2 and room < 2:
        return ""
    return (
        " So few known tags leave that open: numbers and percentages may be off by half and more. Some verified "
        "absences (a column 'absent') or more tags make them firm."
    )
