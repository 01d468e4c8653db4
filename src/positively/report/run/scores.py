"""The report of a run whose scores are not probabilities."""

from __future__ import annotations

import numpy as np

from positively.report.page import Picture, Section
from positively.report.run import figures as draw
from positively.report.run.contents import RunContents
from positively.report.run.judgement import measured_table
from positively.report.run.wording import MOST_CLASSES, known_counts, largest_classes, of_all
from positively.report.tables import Table


def scores_section(contents: RunContents) -> Section:
    """Why plain scores give no expected quality, and what was measured."""
    text = (
        f"The method '{contents.config.get('method')}' gives scores that rank photos by how likely they carry a tag. "
        "The scores are not probabilities, and the run has no scores of photos it did not learn from. So it cannot "
        "tell how many tags are right, how many are missing and which are suspicious."
    )
    if contents.evaluation is None:
        text += (
            "\n\nTo measure it, run positively evaluate RUN test.csv on photos with complete tags. To get "
            "probabilities from the tags alone, train with method 'auto' on a frozen backbone."
        )
    tables = [measured_table(contents)] if contents.evaluation is not None else []
    return Section("Quality", text, tables)


def thresholds_section(contents: RunContents) -> Section:
    """Counts and thresholds of every tag."""
    classes, thresholds, known = contents.classes, contents.thresholds, known_counts(contents)
    measured = (contents.evaluation or {}).get("average_precision")
    order = largest_classes(known if known is not None else np.zeros(len(classes)), len(classes))
    shown = order[:MOST_CLASSES]
    pictures = [
        Picture(
            "thresholds",
            f"Threshold of the score of each tag.{of_all(shown, classes)}",
            draw.plain_thresholds(classes, shown, thresholds),
            is_narrow=True,
        )
    ]
    if known is not None:
        caption = f"Photos known to carry each tag.{of_all(shown, classes)}"
        pictures.insert(0, Picture("known", caption, draw.known_counts(classes, shown, known), is_narrow=True))
    head = ["tag", *(["known"] if known is not None else []), "threshold", *(["AP, measured"] if measured else [])]
    rows = []
    for index in order.tolist():
        row = [classes[index], *([f"{known[index]:,.0f}"] if known is not None else [])]
        row.append(f"{thresholds[index]:.3f}" if np.isfinite(thresholds[index]) else "never given")
        if measured:
            value = measured.get(classes[index])
            row.append("–" if value is None else f"{100 * value:.1f}")
        rows.append(tuple(row))
    note = "The thresholds were chosen on held-out photos." if "holdout" in contents.parts else ""
    table = Table("All tags", tuple(head), tuple(rows), (note,) if note else (), is_sortable=True)
    return Section("Tag by tag", "", [table], pictures)
