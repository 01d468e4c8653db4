"""The most important numbers of a run, and what is wrong with it."""

from __future__ import annotations

import numpy as np

from positively.errors import and_more
from positively.missing import MissingTags
from positively.report.page import Section, Tile
from positively.report.run.contents import RunContents
from positively.report.run.quality import Quality
from positively.report.run.wording import evaluated_table, known_counts, percent, rounded

# A tag is learned badly if fewer of its known tags than this share are found again.
_BADLY = 0.25


def summary_section(contents: RunContents, quality: Quality | None, missing: MissingTags | None = None) -> Section:
    """The most important numbers, and which tags are not to be relied on."""
    photos = len(contents.parts)
    kinds = f"{len(contents.classes):,}"
    remark = (
        f"{kinds} kinds of tags" if quality is None else f"{quality.learned.sum():,} of {kinds} kinds of tags learned"
    )
    tiles = [Tile(f"{photos:,}", "photos", remark)]
    known = known_counts(contents)
    if known is not None:
        total = float(known.sum())
        tiles.append(Tile(f"{total:,.0f}", "known tags", f"{total / max(photos, 1):.1f} per photo"))
    if quality is not None and quality.given.any():
        scale = photos / max(quality.judged, 1)
        true, most = scale * quality.positives.sum(), scale * quality.at_most.sum()
        share = float(quality.known.sum() / max(quality.positives.sum(), 1e-12))
        tiles += [
            Tile(percent(quality.overall_precision), "of the tags it gives are right", quality.counted),
            Tile(percent(quality.overall_recall), "of the true tags are found", quality.counted),
            Tile(
                f"{quality.given.sum() / max(quality.judged, 1):.1f}",
                "tags per photo",
                f"{(quality.positives.sum()) / max(quality.judged, 1):.1f} are true",
            ),
        ]
        if not quality.is_complete:
            remark = f"at most {rounded(most)}; {percent(share)} are known"
            tiles.insert(-3, Tile(f"≈ {rounded(true)}", "true tags", remark))
    if contents.evaluation is not None:
        measured = contents.evaluation
        where = f"measured on {measured['images']:,} photos of {evaluated_table(contents)}"
        tiles.append(Tile(percent(measured["mean_average_precision"]), "mean average precision", where))
    return Section("At a glance", "" if quality is None else _problems(contents, quality, missing), tiles=tiles)


def _problems(contents: RunContents, quality: Quality, missing: MissingTags | None) -> str:
    """What a reader has to know before relying on the numbers: paragraphs, empty if there is nothing."""
    if not quality.given.any():
        return (
            "Nothing could be learned, so the run gives no tags: a tag needs at least three photos that look different "
            "from the rest. Tag more photos of each kind."
        )
    found, known = quality.found, quality.known
    bad = np.flatnonzero(quality.learned & (known > 0) & (found < _BADLY * known))
    bad = bad[np.argsort(-known[bad], kind="stable")]
    told = [f"{contents.classes[index]}: {found[index]:,.0f} of {known[index]:,.0f}" for index in bad]
    lost = [contents.classes[index] for index in np.flatnonzero(~quality.learned)]
    paragraphs = []
    if told:
        paragraphs.append(f"Learned badly (known tags found again): {and_more(told, 8)}. Do not rely on these tags.")
    if lost:
        paragraphs.append(
            f"Not learned, so never given: {and_more(lost, 8)}. A tag needs at least three photos that look different "
            "from the rest."
        )
    if missing is not None and missing.caution:
        paragraphs.append(missing.caution)
    return "\n\n".join([*paragraphs, *_doubt(quality)])


def _doubt(quality: Quality) -> list[str]:
    """Where few tags are known, what is expected is hardly more than a guess."""
    share = quality.known.sum() / max(float(quality.positives.sum()), 1e-12)
    room = quality.at_most.sum() / max(float(quality.positives.sum()), 1e-12)
    if share > 0.2 and room < 2:
        return []
    return [
        "So few tags are known that the number of true tags is uncertain: the expected numbers may be wrong by half or "
        "more. Some verified absences (a column 'absent') or more tags make them reliable."
    ]
