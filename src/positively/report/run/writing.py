"""A finished run → report.html."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from positively.files import refuse_foreign, write_text
from positively.labels import POSITIVE, LabelTable
from positively.report.page import Section, render_page
from positively.report.run.classes import classes_section, together_section
from positively.report.run.contents import RunContents, read_contents
from positively.report.run.judgement import quality_section
from positively.report.run.photos import PhotoBook
from positively.report.run.quality import judge
from positively.report.run.scores import scores_section, thresholds_section
from positively.report.run.suggestions import listing, missing_section, photos_section
from positively.report.run.summary import summary_section
from positively.report.run.training import environment_section, training_section
from positively.runs.sources import photo_root

# By the first bytes of a page one can tell whether it is ours.
_MARK = '<meta name="generator" content="positively">'
_HEAD_CHARACTERS = 1000


def write_run_report(
    run: str | Path,
    out: str | Path | None = None,
    *,
    images: str | Path | None = None,
    table: LabelTable | None = None,
) -> Path:
    """Write what is to be known of a run as one self-contained page.

    Args:
        run: The run folder.
        out: The page; default: report.html in the run folder.
        images: Folder in which the images lie; default: where they were when the run was trained.
        table: What the run was trained on, if at hand.

    Returns:
        The page.

    Raises:
        RunError: There is no finished run.
        FileError: Another page lies where this one is to be written.
        ImageError: None of the run's images lies in the folder that was named.
    """
    contents = read_contents(run, table)
    page = Path(out) if out is not None else contents.folder.report
    refuse_foreign(page, _is_report)
    likely = [contents.root] if contents.root is not None else []
    root = photo_root(contents.folder.path, contents.images, contents.config, images, likely)
    book = PhotoBook(root, contents.images)
    title = f"Report of {contents.folder.path.absolute().name}"
    write_text(page, render_page(run_sections(contents, book), title, _lead(contents)))
    contents.folder.record(page)
    return page


def _is_report(page: Path) -> bool:
    return _MARK in page.read_text(encoding="utf-8", errors="replace")[:_HEAD_CHARACTERS]


def run_sections(contents: RunContents, book: PhotoBook) -> list[Section]:
    """Everything that can be said of a run, the most useful first."""
    calibrated, missing = contents.calibrated, listing(contents)
    # One answer to how many tags are missing: that of the list.
    counts = contents.out_of_sample.calibrated if contents.out_of_sample is not None else None
    quality = judge(calibrated, contents.thresholds, counts) if calibrated is not None else None
    sections: list[Section | None] = [summary_section(contents, quality, missing)]
    soft = None
    if quality is None:
        sections += [scores_section(contents), thresholds_section(contents)]
    else:
        if quality.given.any():
            sections.append(missing_section(contents, quality, missing, book))
            sections.append(quality_section(contents, quality))
        sections.append(classes_section(contents, quality))
    if missing is not None and calibrated is not None and quality is not None and quality.given.any():
        assert contents.out_of_sample is not None and contents.states is not None
        scores, calibration = contents.out_of_sample.scores, contents.out_of_sample.calibrated.calibration
        # A tag that was not learned has no probability to be trusted: what is on record is all there is.
        if not quality.is_complete:
            soft = calibration.soft_targets(scores, contents.states)
            soft = np.where(calibration.learned, soft, contents.states == POSITIVE)
        probabilities = calibration.probabilities(scores)
        sections.append(photos_section(contents, missing, probabilities, contents.thresholds, book))
    sections.append(together_section(contents, soft))
    sections += [training_section(contents), environment_section(contents)]
    return [section for section in sections if section is not None]


def _lead(contents: RunContents) -> str:
    config = contents.config
    return (
        f"Learned from {contents.source} ({len(contents.parts):,} photos) by {config.get('method')} on "
        f"{config.get('backbone')}."
    )
