"""Photos of a report: the most probable missing tags, certain and uncertain photos, suspicious tags."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from positively.missing import MissingTags, rank_missing
from positively.report.page import Gallery, Photo, Picture, Section
from positively.report.run import figures as draw
from positively.report.run.contents import RunContents
from positively.report.run.photos import PhotoBook, expected_mistakes, first_of_each
from positively.report.run.quality import Quality
from positively.report.run.wording import (
    MOST_CLASSES,
    largest_classes,
    of_all,
    on_record,
    percent,
    rounded,
    sampled,
    written_tags,
)
from positively.runs.saving import has_exact_scores

Values = npt.NDArray[np.float64]

_MISSING, _OTHERS, _EACH = 24, 12, 3


def listing(contents: RunContents) -> MissingTags | None:
    """The list of missing tags, if the run stored scores for it."""
    found = contents.out_of_sample
    if found is None or contents.states is None:
        return None
    calibration = found.calibrated.calibration
    return rank_missing(found.scores, contents.states, calibration, contents.images, contents.classes)


def missing_section(
    contents: RunContents, quality: Quality, missing: MissingTags | None, book: PhotoBook
) -> Section | None:
    """The probable missing tags with photos, their number, and the expected precision along the list."""
    classes, (known, scale) = contents.classes, on_record(contents, quality)
    positives, at_most = scale * quality.positives, scale * quality.at_most
    gone, most = (float(np.maximum(part - known, 0.0)[quality.learned].sum()) for part in (positives, at_most))
    if missing is not None and not len(missing):
        return None
    text = f"About {rounded(gone)} tags are expected to be missing, at most {rounded(most)}."
    shown = largest_classes(np.where(quality.learned, positives, -1.0), MOST_CLASSES)
    shown = shown[quality.learned[shown]]
    pictures = [
        Picture(
            "known-and-missing",
            "Photos known to carry a tag, photos expected to carry it (known and missing), and the upper bound, which "
            f"nine of ten tags do not exceed.{of_all(shown, classes)}",
            draw.known_and_missing(classes, shown, known, positives, at_most),
            is_narrow=True,
        )
    ]
    if missing is None:
        text += " The table is too large to store its scores; positively missing lists them."
        return Section("Missing tags", text, pictures=pictures)
    precision = missing.expected_precision
    depths = [depth for depth in (100, 500, 1000) if depth <= len(missing)] or [len(missing)]
    told = ", ".join(f"{percent(precision[depth - 1])} of the first {depth:,}" for depth in depths)
    text += f" Of the suggestions, most probable first, {told} are expected to be right."
    text += f" {how_scored(contents)}{sampled(contents)}"
    caption = "Expected share of right tags among the first suggestions."
    pictures.insert(0, Picture("missing-precision", caption, draw.expected_precision(precision), is_narrow=True))
    photos = [
        book.photo(
            *(missing[place].image, missing[place].tag, percent(missing[place].value)),
            lines=[written_tags(contents, int(missing.rows[place]))],
        )
        for place in first_of_each(missing, _MISSING, _EACH)
    ]
    about = f"At most {_EACH} photos per tag. The percentage is the probability that the photo carries the tag."
    galleries = [Gallery("The most probable missing tags", about, photos)]
    return Section("Missing tags", text, pictures=pictures, galleries=galleries)


def how_scored(contents: RunContents) -> str:
    """What the scores of the photos depend on: a fine-tuned network has seen the photos it learned from."""
    if has_exact_scores(contents.model):
        return "Every photo was scored without its own tags."
    return (
        "The head was fitted without a photo's own tags, but the network did learn from them, so it is more certain "
        "about these photos than about new ones."
    )


def photos_section(
    contents: RunContents, missing: MissingTags, probabilities: Values, thresholds: Values, book: PhotoBook
) -> Section:
    """The most certain and the most uncertain photos, and suspicious tags."""
    given, learned = probabilities >= thresholds, np.isfinite(thresholds)
    mistakes = expected_mistakes(probabilities[:, learned], given[:, learned])
    tagged = np.flatnonzero(given.any(axis=1))
    tagged = tagged[np.argsort(mistakes[tagged], kind="stable")]
    surest = _varied(tagged, probabilities[tagged].argmax(axis=1))
    doubtful = np.argsort(-mistakes, kind="stable")[:_OTHERS]
    first = first_of_each(missing.wrong, _OTHERS, _EACH)
    wrong = [place for place in first if _looks_wrong(missing, place, probabilities, thresholds)]

    def whole(row: int) -> Photo:
        order: list[int] = np.argsort(-probabilities[row], kind="stable").tolist()
        best = [index for index in order[:4] if given[row, index]] or order[:1]
        tags = ", ".join(f"{contents.classes[index]} {percent(probabilities[row, index])}" for index in best)
        return book.photo(contents.images[row], tags, lines=[written_tags(contents, row)])

    def doubted(row: int) -> Photo:
        photo = whole(row)
        return book.photo(
            contents.images[row], photo.title, lines=[f"{mistakes[row]:.1f} mistakes expected", *photo.lines]
        )

    galleries = [
        Gallery(
            "Most certain",
            f"Photos with the fewest expected mistakes, at most {_EACH} per tag.",
            [whole(row) for row in surest],
        ),
        Gallery(
            "Most uncertain",
            "Photos with the most tags that are expected to be wrong or missing.",
            [doubted(int(row)) for row in doubtful],
        ),
    ]
    if wrong:
        galleries.append(
            Gallery(
                "Suspicious tags",
                "Known tags that do not match the photo: a mistake, or a photo that is hard to recognize. The "
                "percentage is the probability by the photo alone.",
                [_wrong_photo(missing, place, probabilities, contents, book) for place in wrong],
                is_warning=True,
            )
        )
    return Section("Photos", how_scored(contents), galleries=galleries)


def _varied(rows: npt.NDArray[np.int64], kinds: npt.NDArray[np.int64]) -> list[int]:
    """The first rows, at most a few per class."""
    earlier: dict[int, int] = {}
    chosen: list[int] = []
    for row, kind in zip(rows.tolist(), kinds.tolist(), strict=True):
        earlier[kind] = earlier.get(kind, 0) + 1
        if earlier[kind] <= _EACH and len(chosen) < _OTHERS:
            chosen.append(row)
    return chosen


def _looks_wrong(missing: MissingTags, place: int, probabilities: Values, thresholds: Values) -> bool:
    column = missing.wrong.columns[place]
    return bool(probabilities[missing.wrong.rows[place], column] < 0.5 * thresholds[column])


def _wrong_photo(
    missing: MissingTags, place: int, probabilities: Values, contents: RunContents, book: PhotoBook
) -> Photo:
    found = missing.wrong[place]
    row = probabilities[int(missing.wrong.rows[place])]
    best = int(row.argmax())
    line = f"looks like: {contents.classes[best]} {percent(float(row[best]))}"
    return book.photo(found.image, found.tag, percent(float(row[missing.wrong.columns[place]])), [line])
