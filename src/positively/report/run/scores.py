"""What can honestly be said of a run whose scores are no probabilities."""

from __future__ import annotations

import numpy as np

from positively.report.page import Picture, Section
from positively.report.run import figures as draw
from positively.report.run.contents import RunContents
from positively.report.run.judgement import measured_table
from positively.report.run.wording import MOST_CLASSES, known_counts, largest_classes, of_all
from positively.report.tables import Table


def scores_section(contents: RunContents) -> Section:
    """That nothing can be expected of plain scores, and what was measured if anything was."""
    text = (
        f"The method '{contents.config.get('method')}' gives scores that order photos by how likely they carry a tag. "
        "They are no probabilities, and the run has none of photos whose tags it did not learn from: how many tags are "
        "right, how many are missing and which look wrong cannot be told from it."
    )
    if contents.evaluation is None:
        text += (
            "\n\nTwo ways on: positively evaluate RUN test.csv measures it on photos whose tags are complete; method "
            "'auto' on a frozen backbone gives probabilities from the tags alone."
        )
    tables = [measured_table(contents)] if contents.evaluation is not None else []
    return Section("How good it is, and how we know", text, tables)


def thresholds_section(contents: RunContents) -> Section:
    """Counts and thresholds of every tag."""
    classes, thresholds, known = contents.classes, contents.thresholds, known_counts(contents)
    measured = (contents.evaluation or {}).get("average_precision")
    order = largest_classes(known if known is not None else np.zeros(len(classes)), len(classes))
    shown = order[:MOST_CLASSES]
    pictures = [
        Picture(
            "thresholds",
            f"From which score on a tag is given.{of_all(shown, classes)}",
            draw.plain_thresholds(classes, shown, thresholds),
            is_narrow=True,
        )
    ]
    if known is not None:
        caption = f"Photos that carry each tag on record.{of_all(shown, classes)}"
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
    note = "Thresholds were found on photos held out from training." if "holdout" in contents.parts else ""
    table = Table("All tags", tuple(head), tuple(rows), (note,) if note else (), is_sortable=True)
    return Section("Tag by tag", "", [table], pictures)
