"""The quality of a run: what was counted, what is expected, what was measured."""

from __future__ import annotations

from positively.report.page import Picture, Section
from positively.report.run import figures as draw
from positively.report.run.contents import RunContents
from positively.report.run.quality import Quality, overall_curve, reliability, wilson
from positively.report.run.wording import evaluated_table, percent
from positively.report.tables import Table
from positively.runs.card import describe_thresholds


def quality_section(contents: RunContents, quality: Quality) -> Section:
    """The quality of the run, and how it is known."""
    assert contents.calibrated is not None
    known, found = float(quality.known.sum()), float(quality.found.sum())
    lower, upper = (float(limit) for limit in wilson(found, known))
    counted = (
        f"Counted: {quality.judged:,} photos were scored by a classifier that had not seen their tags. "
        f"{found:,.0f} of {known:,.0f} known tags were found again, {percent(found / max(known, 1))} (95 % interval "
        f"{percent(lower)} to {percent(upper)})."
    )
    text = f"{counted} {_precision_text(quality)}"
    tables = []
    if contents.evaluation is not None:
        f1, measured = contents.evaluation["f1"], contents.evaluation
        text += (
            f"\n\nMeasured on {measured['images']:,} photos of {evaluated_table(contents)}, whose tags it did not see, "
            f"with {describe_thresholds(measured)}: {percent(f1['overall_precision'])} of the tags it gives are right, "
            f"and they cover {percent(f1['overall_recall'])} of the true tags."
        )
        tables = [measured_table(contents)]
    pictures = [
        Picture(
            "precision-recall",
            "Precision and recall. The line covers all tags together, from the most to the least probable. Each dot "
            "is one tag at its threshold; larger dots are more frequent tags."
            + (" The star was measured on other photos." if contents.evaluation else ""),
            draw.precision_recall(overall_curve(contents.calibrated), quality, contents.evaluation),
            is_narrow=True,
        ),
        Picture(
            "known-shares",
            "Check of the probabilities: expected and actual share of known tags. On the dashed line, both agree; bars "
            "are 95 % intervals."
            + ("" if quality.is_complete else " Known tags cannot show whether the number of missing tags is right."),
            draw.known_shares(reliability(contents.calibrated)),
            is_narrow=True,
        ),
    ]
    return Section("Quality", text, tables, pictures)


def _precision_text(quality: Quality) -> str:
    """What is known about wrong tags."""
    given, refuted = float(quality.given.sum()), float(quality.refuted.sum())
    each = f"{given / max(quality.judged, 1):.1f} tags per photo"
    if quality.is_complete:
        lower, upper = (float(limit) for limit in wilson(quality.found.sum(), given))
        return (
            f"Every label is known, so wrong tags are counted too: of {each}, "
            f"{percent(quality.overall_precision)} are right (95 % interval {percent(lower)} to {percent(upper)}; F1 "
            f"{percent(quality.overall_f1)})."
        )
    some = f"Of the tags it gives, {quality.found.sum():,.0f} are known to be right, {refuted:,.0f} known to be wrong. "
    return (
        "If tags are missing at random, it finds about the same share of the missing tags.\n\n"
        f"Expected: {'most ' if refuted else ''}absent tags are not known, so wrong tags cannot be counted. "
        f"{some if refuted else ''}By the probabilities, {percent(quality.overall_precision)} of the tags it gives are "
        f"right, and they cover {percent(quality.overall_recall)} of the true tags (F1 {percent(quality.overall_f1)}), "
        f"at {each}. This depends on the number of missing tags, for which only a bound is known: see the table of all "
        "tags."
    )


def measured_table(contents: RunContents) -> Table:
    """The measures in evaluation.json."""
    measured = contents.evaluation
    assert measured is not None
    names = {
        "f1": describe_thresholds(measured),
        "f1_at_half": "threshold 0.5 for every tag",
        "f1_top_3": "three tags per photo",
    }
    keys = ("overall_precision", "overall_recall", "overall_f1", "class_precision", "class_recall", "class_f1")
    rows = [(name, *(f"{100 * measured[key][part]:.1f}" for part in keys)) for key, name in names.items()]
    left_out = measured.get("left_out") or {}
    notes = [
        f"mAP {100 * measured['mean_average_precision']:.1f} over {len(measured['average_precision']) - len(left_out)} "
        f"of {len(measured['average_precision'])} tags, {measured['images']:,} photos. Unknown labels are not scored.",
        "Overall: every given tag has the same weight. By tag: every class has the same weight.",
    ]
    head = ("in percent", "precision overall", "recall", "F1", "precision by tag", "recall", "F1")
    return Table(f"Measured on {evaluated_table(contents)}", head, tuple(rows), tuple(notes))
