"""Write report.html of a finished run."""

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

# The first bytes of a page show whether positively wrote it.
_MARK = '<meta name="generator" content="positively">'
_HEAD_CHARACTERS = 1000


def write_run_report(
    run: str | Path,
    out: str | Path | None = None,
    *,
    images: str | Path | None = None,
    table: LabelTable | None = None,
) -> Path:
    """Write a one-page summary of a run as self-contained HTML.

    Args:
        run: The run folder.
        out: The page; default: report.html in the run folder.
        images: Folder of the images; default: where they were when the run was trained.
        table: The table the run was trained on, if available.

    Returns:
        The page.

    Raises:
        RunError: There is no finished run.
        FileError: Another file is in the place of the page.
        ImageError: None of the run's images is in the given folder.
    """
    contents = read_contents(run, table)
    page = Path(out) if out is not None else contents.folder.report
    refuse_foreign(page, _is_report)
    likely = [contents.root] if contents.root is not None else []
    root = photo_root(contents.folder.path, contents.images, contents.config, images, likely)
    book = PhotoBook(root, contents.images)
    title = f"Run {contents.folder.path.absolute().name} of {contents.source}"
    write_text(page, render_page(run_sections(contents, book), title, _lead(contents)))
    contents.folder.record(page)
    return page


def _is_report(page: Path) -> bool:
    return _MARK in page.read_text(encoding="utf-8", errors="replace")[:_HEAD_CHARACTERS]


def run_sections(contents: RunContents, book: PhotoBook) -> list[Section]:
    """All sections of the report, the most useful first."""
    calibrated, missing = contents.calibrated, listing(contents)
    # The list of missing tags decides how many are missing, so that the page has one number.
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
        # A tag that was not learned has no reliable probability, so only its known labels count.
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
        f"Trained on {contents.source} ({len(contents.parts):,} photos) with method {config.get('method')} and "
        f"backbone {config.get('backbone')}."
    )
