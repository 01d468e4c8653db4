"""What a training expects of its model, from scores of labels that the model did not see."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from positively.calibration import CalibratedScores, pooled_log_rank
from positively.errors import and_more
from positively.labels import POSITIVE, LabelTable
from positively.logs import logger
from positively.runs.folder import RunFolder
from positively.runs.saving import load_model_config


def describe_outcome(calibrated: Mapping[str, CalibratedScores], head: str, table: LabelTable) -> str:
    """One paragraph: how many tags a photo gets, how many of them are right, which classes were not learned.

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
            "Nothing could be learned, so the run gives no tags: a tag needs at least three photos that look different "
            "from the rest. Tag more photos of each kind."
        )
    lines = [
        f"On photos like these, it will give {given:.1f} tags per photo. About "
        f"{100 * right / max(given, 1e-12):.0f} % of them are right, and they cover about "
        f"{100 * right * images / max(true, 1e-12):.0f} % of the true tags.",
        f"The table lists {written / images:.1f} tags per photo; about {true / images:.1f} are true (at most "
        f"{most / images:.1f}), so about {100 * known:.0f} % of the true tags are known."
        + _doubt(known, most / max(true, 1)),
    ]
    lost = np.flatnonzero(~calibration.learned)
    if len(lost):
        counts = table.counts(POSITIVE)
        names = [f"'{table.classes[index]}' ({counts[index]:,})" for index in lost]
        lines.append(
            f"Not learned, so never given: {and_more(names)}, with the number of photos that carry the tag. A tag "
            "needs at least three photos that look different from the rest."
        )
    return "\n".join(lines)


def log_heads(calibrated: Mapping[str, CalibratedScores]) -> None:
    """Log, for those who ask for details, how high unseen tags rank by each head."""
    qualities = ", ".join(f"{name} {pooled_log_rank(part.summary):.2f}" for name, part in calibrated.items())
    logger.debug(f"Mean −log of the share of photos that rank above an unseen tag, by head: {qualities}.")


def _doubt(known: float, room: float) -> str:
    """Where few tags or few photos are known, the number of true tags is hardly identifiable."""
    if known > 0.2 and room < 2:
        return ""
    return (
        " With so few known tags, these numbers may be wrong by half or more. Some verified absences (a column "
        "'absent') or more tags make them reliable."
    )


def gives_tags(folder: RunFolder) -> bool:
    """Whether a finished run gives any tags, by its calibration; True if it has none."""
    if not folder.calibration.exists():
        return True
    scores = folder.read_calibration(load_model_config(folder)["head"])
    return bool(scores.expected(scores.thresholds()).tags.sum())
