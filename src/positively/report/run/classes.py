"""The part of a report about single tags, and about tags that occur together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from positively.errors import and_more
from positively.labels import POSITIVE
from positively.report.page import Picture, Section
from positively.report.run import figures as draw
from positively.report.run.contents import RunContents
from positively.report.run.quality import Quality
from positively.report.run.wording import MOST_CLASSES, largest_classes, of_all, on_record, percent
from positively.report.tables import Table

Values = npt.NDArray[np.float64]

_MOST_TOGETHER = 14


def classes_section(contents: RunContents, quality: Quality) -> Section:
    """Every tag with counts, bounds, threshold, precision and recall."""
    assert contents.calibrated is not None
    classes = contents.classes
    known, scale = on_record(contents, quality)
    shown = largest_classes(np.where(quality.learned, quality.positives, -1.0), MOST_CLASSES)
    learned = shown[quality.learned[shown]]
    lost = np.flatnonzero(~quality.learned)
    text = ""
    if len(lost):
        names = [f"{classes[index]} ({known[index]:,.0f})" for index in lost[np.argsort(-known[lost], kind="stable")]]
        text = (
            f"{len(lost):,} of {len(classes):,} tags could not be learned and are never given: {and_more(names, 12)}, "
            "with the number of photos that carry them. A tag needs at least three photos that look different from the "
            "rest."
        )
    if scale > 1:
        text += (
            f"\n\nThese numbers come from the {quality.judged:,} held-out photos; numbers of photos are scaled to the "
            "whole table."
        )
    pictures = []
    if len(learned):
        some = of_all(learned, classes)
        common = contents.calibrated.calibration.common_label_frequency
        pictures = [
            Picture(
                "thresholds",
                f"Threshold of each tag, precision at the threshold ({quality.counted}), and the share of known tags "
                f"that were found again, with a 95 % interval.{some}",
                draw.thresholds_by_class(classes, learned, quality),
                is_narrow=True,
            ),
        ]
        if not quality.is_complete:
            pictures.append(
                Picture(
                    "label-frequency",
                    "Label frequency: the share of the true tags that is known. The line ends at the smallest share "
                    f"that the bound allows; estimates for tags with few photos use those of the other tags.{some}",
                    draw.label_frequencies(classes, learned, quality, common),
                    is_narrow=True,
                )
            )
    return Section("Tag by tag", text, [class_table(contents, quality, known, scale)], pictures)


def class_table(contents: RunContents, quality: Quality, known: Values, scale: float) -> Table:
    """One row per tag, the most frequent first."""
    measured = (contents.evaluation or {}).get("average_precision")
    head = ["tag", "known", "expected", "at most", "known share", "threshold", f"precision, {quality.counted}"]
    head += ["95 % interval" if quality.is_complete else "range", f"recall, {quality.counted}"]
    head += ["known tags found again", "95 % interval", *(["AP, measured"] if measured else [])]
    (low, high), (least, most) = quality.precision_range, quality.recall_range
    rows = []
    for index in largest_classes(known, len(known)).tolist():
        row = [contents.classes[index], f"{known[index]:,.0f}"]
        if quality.learned[index]:
            row += [
                f"{scale * quality.positives[index]:,.0f}",
                f"{scale * quality.at_most[index]:,.0f}",
                percent(quality.frequency[index]),
                percent(quality.thresholds[index]),
                percent(quality.precision[index]),
                f"{100 * low[index]:.0f}–{100 * high[index]:.0f}" if quality.given[index] else "–",
                percent(quality.recall[index]),
                f"{quality.found[index]:,.0f} of {quality.known[index]:,.0f}",
                f"{100 * least[index]:.0f}–{100 * most[index]:.0f}",
            ]
        else:
            row += ["not learned", *["–"] * 8]
        if measured:
            value = measured.get(contents.classes[index])
            row.append("–" if value is None else f"{100 * value:.1f}")
        rows.append(tuple(row))
    notes = [
        "Expected and at most: photos that carry the tag, known or not; nine of ten tags stay below 'at most'.",
        "Range of the precision: from the tags known to be right to what 'at most' allows. It is not a confidence "
        "interval, because absent tags are not known.",
        "Found again: known tags that reach the threshold without having been seen; 95 % Wilson interval in percent.",
    ]
    shown = notes[-1:] if quality.is_complete else notes
    return Table("All tags", tuple(head), tuple(rows), tuple(shown), is_sortable=True)


def together_section(contents: RunContents, soft: Values | None) -> Section | None:
    """Which tags occur together, among known tags and as expected."""
    if contents.states is None or len(contents.classes) < 2:
        return None
    known = (contents.states == POSITIVE).astype(np.float64)
    counts = {"known": known.T @ known}
    if soft is not None:
        # A tag does not pair with itself: the diagonal counts photos.
        pairs = soft.T @ soft
        np.fill_diagonal(pairs, soft.sum(axis=0))
        counts["expected"] = pairs
    last = list(counts.values())[-1]
    shown = largest_classes(np.diag(last), _MOST_TOGETHER)
    shown = shown[np.diag(last)[shown] > 0]
    if len(shown) < 2:
        return None
    shares = {
        title: (matrix / np.maximum(np.diag(matrix), 1e-12)[:, None])[np.ix_(shown, shown)]
        for title, matrix in counts.items()
    }
    off = ~np.eye(len(shown), dtype=bool)
    largest = max(0.05, *(float(part[off].max()) for part in shares.values()))
    text = "Each cell is the share of the photos with the tag of the row that also carry the tag of the column."
    if soft is not None:
        text += (
            " A known pair needs both tags to be known. The expected pairs multiply the probabilities of the two tags "
            "in each photo, as if the tags were independent given the photo."
        )
    pictures = [
        Picture(
            f"together-{title.replace(' ', '-')}",
            f"{title.capitalize()} pairs: share of the photos with the tag of the row that carry the tag of the column."
            f"{of_all(shown, contents.classes)}",
            draw.together(contents.classes, shown, part, largest),
            is_narrow=True,
        )
        for title, part in shares.items()
    ]
    return Section("Tags that occur together", text, [_pairs_table(contents.classes, counts)], pictures)


def _pairs_table(classes: Sequence[str], counts: dict[str, Values], most: int = 15) -> Table:
    """The most frequent pairs."""
    last = np.triu(list(counts.values())[-1], k=1)
    order = np.argsort(-last, axis=None, kind="stable")[:most]
    places = [divmod(int(place), len(classes)) for place in order if last.flat[place] >= 0.5]
    rows = [
        (f"{classes[a]} + {classes[b]}", *(f"{matrix[a, b]:,.0f}" for matrix in counts.values())) for a, b in places
    ]
    return Table("Most frequent pairs", ("photos with both", *counts), tuple(rows))
