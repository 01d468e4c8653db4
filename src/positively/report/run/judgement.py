"""How good a run is, and how we know."""

from __future__ import annotations

from positively.report.page import Picture, Section
from positively.report.run import figures as draw
from positively.report.run.contents import RunContents
from positively.report.run.quality import Quality, overall_curve, reliability, wilson
from positively.report.run.wording import evaluated_table, percent
from positively.report.tables import Table
from positively.runs.card import describe_thresholds


def quality_section(contents: RunContents, quality: Quality) -> Section:
    """How good it is, and how we know."""
    assert contents.calibrated is not None
    known, found = float(quality.known.sum()), float(quality.found.sum())
    lower, upper = (float(limit) for limit in wilson(found, known))
    counted = (
        f"Counted: each of {quality.judged:,} photos was scored by a classifier that had not seen its tags, and "
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
            "Precision and recall. The line goes from the likeliest tag to the least likely, all tags together; a dot "
            "is one tag at its own threshold, larger for a more frequent one."
            + (" The star is what was measured on other photos." if contents.evaluation else ""),
            draw.precision_recall(overall_curve(contents.calibrated), quality, contents.evaluation),
            is_narrow=True,
        ),
        Picture(
            "known-shares",
            "What can be checked of the probabilities: a tag is known if it is there and was written down. Points on "
            "the dashed line say that as many tags are known as the probabilities expect; bars are 95 % intervals. "
            + ("" if quality.is_complete else "Whether the missing are as many as expected, positives cannot show."),
            draw.known_shares(reliability(contents.calibrated)),
            is_narrow=True,
        ),
    ]
    return Section("How good it is, and how we know", text, tables, pictures)


def _precision_text(quality: Quality) -> str:
    """What can be said of wrong tags."""
    given, refuted = float(quality.given.sum()), float(quality.refuted.sum())
    each = f"{given / max(quality.judged, 1):.1f} tags a photo"
    if quality.is_complete:
        lower, upper = (float(limit) for limit in wilson(quality.found.sum(), given))
        return (
            f"Every label is known, so that wrong tags are counted as well: of {each}, "
            f"{percent(quality.overall_precision)} are right (95 % interval {percent(lower)} to {percent(upper)}; F1 "
            f"{percent(quality.overall_f1)})."
        )
    some = f"Of the tags it gives, {quality.found.sum():,.0f} are known to be right, {refuted:,.0f} known to be wrong. "
    return (
        "If tags were left out at random, it finds about the same share of the true tags that nobody wrote down.\n\n"
        f"Expected: {'most of ' if refuted else ''}what is absent was not written down, so that wrong tags cannot be "
        f"counted. {some if refuted else ''}Probabilities say that {percent(quality.overall_precision)} of the tags it "
        f"gives are right and that it finds {percent(quality.overall_recall)} of the true ones (F1 "
        f"{percent(quality.overall_f1)}), at {each}. They rest on how many tags are missing, and that has a bound "
        "only: see the table of all tags."
    )


def measured_table(contents: RunContents) -> Table:
    """What evaluation.json measured."""
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
        "Over all: every tag given counts the same. By tag: every kind of tag counts the same.",
    ]
    head = ("in percent", "precision over all", "recall", "F1", "precision by tag", "recall", "F1")
    return Table(f"Measured on {evaluated_table(contents)}", head, tuple(rows), tuple(notes))
