"""Photos of a run's report: the most probable missing tags, the surest, the most doubtful, tags that look wrong."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from positively.missing import MissingTags, rank_missing
from positively.report.page import Gallery, Photo, Picture, Section
from positively.report.run import figures as draw
from positively.report.run.contents import RunContents
from positively.report.run.photos import PhotoBook, expected_mistakes, first_of_each
from positively.report.run.wording import percent, sampled, written_tags

Values = npt.NDArray[np.float64]

_MISSING, _OTHERS, _EACH = 24, 12, 3


def listing(contents: RunContents) -> MissingTags | None:
    """The list of missing tags, where the run has what it takes."""
    if contents.calibrated is None or contents.scores is None or contents.states is None:
        return None
    calibration = contents.calibrated.calibration
    return rank_missing(contents.scores, contents.states, calibration, contents.images, contents.classes)


def missing_section(contents: RunContents, missing: MissingTags, book: PhotoBook) -> Section:
    """The tags that are probably missing, with photos, and how far down the list it pays to look."""
    if not len(missing):
        return Section("Missing tags", "No label of this table is unknown for a tag that was learned.")
    places = first_of_each(missing, _MISSING, _EACH)
    photos = [
        book.photo(
            *(found.image, found.tag, percent(found.probability)),
            lines=[written_tags(contents, int(missing.rows[place]))],
        )
        for place in places
        for found in [missing[place]]
    ]
    precision = missing.expected_precision
    depths = [depth for depth in (100, 500, 1000, 5000, 10000) if depth <= len(missing)] or [len(missing)]
    told = ", ".join(f"{percent(precision[depth - 1])} of the first {depth:,}" for depth in depths[:3])
    return Section(
        "Missing tags",
        f"Every photo was scored without its own tags. Of the {len(missing):,} tags that nobody wrote down, likeliest "
        f"first, {told} are expected to be missing.{_leak(contents)}{sampled(contents)}",
        galleries=[
            Gallery(
                "The most probable missing tags",
                f"The likeliest, not more than {_EACH} of a tag; the percentage is the probability that the photo "
                "carries it.",
                photos,
            )
        ],
        pictures=[
            Picture(
                "missing-precision",
                "How far down the list it pays to look: expected share of right ones among the first suggestions.",
                draw.expected_precision(precision),
                is_narrow=True,
            )
        ],
    )


def _leak(contents: RunContents) -> str:
    """A network that learned knows the photos it learned from, whatever its head was spared."""
    if contents.config.get("depth", "probe") == "probe":
        return ""
    return " The network itself did learn from these photos, so that it is surer of them than of new ones."


def photos_section(
    contents: RunContents, missing: MissingTags, probabilities: Values, cuts: Values, book: PhotoBook
) -> Section:
    """The surest, the most doubtful, and known tags that look wrong."""
    given = probabilities >= cuts
    mistakes = expected_mistakes(probabilities, given)
    tagged = np.flatnonzero(given.any(axis=1))
    surest = tagged[np.argsort(mistakes[tagged], kind="stable")][:_OTHERS]
    doubtful = np.argsort(-mistakes, kind="stable")[:_OTHERS]
    wrong = [place for place in first_of_each(missing.wrong, _OTHERS, _EACH) if _looks_wrong(missing, place, cuts)]

    def whole(row: int) -> Photo:
        order: list[int] = np.argsort(-probabilities[row], kind="stable").tolist()
        best = [index for index in order[:4] if given[row, index]] or order[:1]
        tags = ", ".join(f"{contents.classes[index]} {percent(probabilities[row, index])}" for index in best)
        return book.photo(contents.images[row], tags, lines=[written_tags(contents, row)])

    def doubted(row: int) -> Photo:
        photo = whole(row)
        return book.photo(photo.name, photo.title, lines=[f"{mistakes[row]:.1f} mistakes expected", *photo.lines])

    galleries = [
        Gallery("The surest", "Photos with the fewest mistakes to be expected.", [whole(int(row)) for row in surest]),
        Gallery(
            "The most doubtful",
            "Photos with the most tags that are expected to be wrong or left out. Tagging these in full teaches most.",
            [doubted(int(row)) for row in doubtful],
        ),
    ]
    if wrong:
        galleries.append(
            Gallery(
                "Known tags that look wrong",
                "Tags on record that the photo itself does not bear out: a slip, or a view that is hard to see. The "
                "percentage is the probability by looks alone.",
                [_wrong_photo(missing, place, probabilities, contents, book) for place in wrong],
            )
        )
    return Section("Photos", "As the classifier sees them without having seen their tags.", galleries=galleries)


def _looks_wrong(missing: MissingTags, place: int, cuts: Values) -> bool:
    return bool(missing.wrong.probabilities[place] < 0.5 * cuts[missing.wrong.columns[place]])


def _wrong_photo(
    missing: MissingTags, place: int, probabilities: Values, contents: RunContents, book: PhotoBook
) -> Photo:
    found = missing.wrong[place]
    row = probabilities[int(missing.wrong.rows[place])]
    best = int(row.argmax())
    line = f"looks like: {contents.classes[best]} {percent(float(row[best]))}"
    return book.photo(found.image, found.tag, percent(found.probability), [line])
