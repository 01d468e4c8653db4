"""The numbers of a run that are to be seen first."""

from __future__ import annotations

from positively.report.page import Section, Tile
from positively.report.run.contents import RunContents
from positively.report.run.quality import Quality
from positively.report.run.wording import evaluated_table, known_counts, percent, rounded


def summary_section(contents: RunContents, quality: Quality | None) -> Section:
    """The numbers that are to be seen first."""
    photos = len(contents.parts)
    kinds = f"{len(contents.classes):,}"
    remark = f"{kinds} tags to choose from" if quality is None else f"{quality.learned.sum():,} of {kinds} tags learned"
    tiles = [Tile(f"{photos:,}", "photos", remark)]
    known = known_counts(contents)
    if known is not None:
        total = float(known.sum())
        tiles.append(Tile(f"{total:,.0f}", "tags written down", f"{total / max(photos, 1):.1f} a photo"))
    if quality is not None and quality.given.any():
        scale = photos / max(quality.judged, 1)
        true, most = scale * quality.positives.sum(), scale * quality.at_most.sum()
        share = float(quality.known.sum() / max(quality.positives.sum(), 1e-12))
        tiles += [
            Tile(percent(quality.overall_precision), "of the tags it gives are right", quality.counted),
            Tile(percent(quality.overall_recall), "of the true tags are found", quality.counted),
            Tile(
                f"{quality.given.sum() / max(quality.judged, 1):.1f}",
                "tags a photo",
                f"where {(quality.positives.sum()) / max(quality.judged, 1):.1f} are true",
            ),
        ]
        if not quality.is_complete:
            remark = f"at most {rounded(most)}; {percent(share)} are known"
            tiles.insert(-3, Tile(f"≈ {rounded(true)}", "tags are true", remark))
    if contents.evaluation is not None:
        measured = contents.evaluation
        where = f"measured on {measured['images']:,} photos of {evaluated_table(contents)}"
        tiles.append(Tile(percent(measured["mean_average_precision"]), "mean average precision", where))
    return Section("At a glance", _doubt(quality), tiles=tiles)


def _doubt(quality: Quality | None) -> str:
    """Where little is known, what is expected is hardly more than a guess, and that is said."""
    if quality is None:
        return ""
    if not quality.given.any():
        return (
            "Nothing could be learned: no tag has three known photos whose looks tell them from the others, and the "
            "run gives no tags. Tag more photos of each kind."
        )
    share = quality.known.sum() / max(float(quality.positives.sum()), 1e-12)
    room = quality.at_most.sum() / max(float(quality.positives.sum()), 1e-12)
    if share > 0.2 and room < 2:
        return ""
    return (
        "So few tags are known that the number of true ones is hardly to be found out: what is expected here may be "
        "off by half and more. Some verified absences (a column 'absent') or more tags make it firm."
    )
