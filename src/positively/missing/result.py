"""The list of missing tags: pairs of image and tag, the most probable first, with their expected precision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from positively.errors import and_more, needs_extra, plural

Rows = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]

CAUTION_DEPTH = 500
"""First suggestions that :func:`caution` looks at."""
# It needs this share promised, and fewer known photos per tag than this.
_PROMISED, _ENOUGH_PHOTOS = 1 / 3, 20

PLACES = 4
"""Decimals of the probabilities in the lists."""


@dataclass(frozen=True)
class Suggestion:
    """A tag of an image that is probably missing or looks wrong."""

    image: str
    tag: str
    value: float
    """The probability of a missing tag, or the doubt about one that looks wrong."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of image and class, the largest value first."""

    images: Sequence[str]
    classes: tuple[str, ...]
    rows: Rows
    """``(K,)`` row of the image in the table."""
    columns: Rows
    """``(K,)`` number of the class."""
    values: npt.NDArray[np.float32]
    """``(K,)`` for missing tags, the probability that the image has the tag; for tags that look wrong, the log of how
    many times more the image looks like an average image of the table than like one with the tag."""

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> Suggestion: ...

    @overload
    def __getitem__(self, place: slice) -> list[Suggestion]: ...

    def __getitem__(self, place: int | slice) -> Suggestion | list[Suggestion]:
        if isinstance(place, slice):
            return [self[index] for index in range(*place.indices(len(self)))]
        row, column = int(self.rows[place]), int(self.columns[place])
        return Suggestion(self.images[row], self.classes[column], float(self.values[place]))

    def __repr__(self) -> str:
        return f"Pairs({plural(len(self), 'pair')} of image and tag)"

    def __iter__(self) -> Iterator[Suggestion]:
        return (self[place] for place in range(len(self)))

    def to_pandas(self) -> Any:
        """The list as a DataFrame with the columns image, tag and value.

        Raises:
            ConfigError: pandas is not installed.
        """
        return self._frame({"value": self.values})

    def _frame(self, values: dict[str, npt.NDArray[Any]]) -> Any:
        try:
            import pandas
        except ImportError as error:
            raise needs_extra("to_pandas", "pandas", "pandas") from error
        images = [self.images[row] for row in self.rows.tolist()]
        tags = [self.classes[column] for column in self.columns.tolist()]
        return pandas.DataFrame({"image": images, "tag": tags, **values})


@dataclass(frozen=True)
class ClassCounts:
    """Numbers of known and missing tags; every array is ``(C,)``."""

    known: Rows
    """Images with the tag in the table."""
    missing: Values
    """Expected number of images whose tag is missing from the table."""
    at_most: Values
    """Upper bound on the number of missing tags, which nine of ten classes do not exceed."""
    learned: npt.NDArray[np.bool_]
    """Whether the class can be judged: it has at least three known positives, which rank above other images."""


@dataclass(frozen=True)
class MissingTags(Pairs):
    """Unknown pairs of image and tag, the most probable first, without classes that cannot be judged.

    An item is a :class:`Suggestion`: ``found[0].image``, ``found[0].tag``, ``found[0].value``.

    Attributes:
        images: The N image names.
        classes: The C class names.
        rows: (K,) index into ``images`` of each pair.
        columns: (K,) index into ``classes`` of each pair.
        values: (K,) probability that the image has the tag; also ``probabilities``.
        counts: Numbers of known and missing tags of each class (:class:`ClassCounts`).
        wrong: Known tags that look wrong, as pairs; their ``values`` are no probabilities.
        root: Folder of the images.
    """

    counts: ClassCounts
    wrong: Pairs
    """Known tags whose image looks less like the tag than an average image does, the most doubtful first."""
    root: Path = field(default_factory=Path)
    """Folder of the images, for the thumbnails in a notebook."""

    @property
    def probabilities(self) -> npt.NDArray[np.float32]:
        """``(K,)`` probability that the image has the tag."""
        return self.values

    @property
    def caution(self) -> str | None:
        """A sentence if the expected precision is probably too high for this table, else None."""
        return caution(self.columns[:CAUTION_DEPTH], self.values[:CAUTION_DEPTH], self.counts.known)

    def __repr__(self) -> str:
        return f"MissingTags({len(self):,} suggestions, {len(self.wrong):,} tags that look wrong)"

    def __str__(self) -> str:
        """A short description."""
        return describe(self)

    def _repr_html_(self) -> str:
        """The description with the first suggestions as thumbnails, for notebooks."""
        from positively.missing.html import to_html

        return to_html(self)

    def to_pandas(self) -> Any:
        """The list as a DataFrame with the columns image, tag, probability and expected_precision.

        Raises:
            ConfigError: pandas is not installed.
        """
        return self._frame({"probability": self.values, "expected_precision": self.expected_precision})

    def above(self, probability: float) -> MissingTags:
        """The suggestions with at least this probability, rounded as in the lists; the counts stay the same."""
        count = int((rounded(self.values) >= probability).sum())
        return replace(self, rows=self.rows[:count], columns=self.columns[:count], values=self.values[:count])

    def write(self, folder: str | Path, form: Literal["csv", "parquet"] = "csv") -> list[Path]:
        """Write the lists and the counts to a folder, as ``positively missing`` does."""
        from positively.missing.files import MissingFolder

        return MissingFolder(folder).write(self, form, {})

    @cached_property
    def expected_precision(self) -> Values:
        """``(K,)`` expected share of correct tags among the first 1, 2, 3 … suggestions."""
        return np.cumsum(self.values, dtype=np.float64) / np.arange(1, len(self) + 1)


def caution(columns: npt.NDArray[np.integer], probabilities: npt.NDArray[np.floating], known: Rows) -> str | None:
    """A sentence if the expected precision of a list is probably too high, else None.

    It is if the list promises much and the tags it names first are known on few photos each. Measured on 374
    incomplete tables (``benchmarks/caution.py``): the sentence comes on 117 of them, and on 90 of those the list was
    more than 5 points worse than promised; without the sentence, 63 of 257 were.

    Args:
        columns: Class of each of the first :data:`CAUTION_DEPTH` suggestions.
        probabilities: Their probabilities.
        known: Photos known to carry each class.
    """
    if not len(columns) or probabilities.sum() < _PROMISED * CAUTION_DEPTH:
        return None
    # The harmonic mean: a few tags known on thousands of photos do not outweigh those known on three.
    photos = 1.0 / np.mean(1.0 / np.maximum(known[columns], 1))
    if photos >= _ENOUGH_PHOTOS:
        return None
    return (
        "These shares are uncertain, and may be too high, because the suggested tags are known on few photos (about "
        f"{photos:.0f} each): look at the first suggestions before you accept many."
    )


def rounded(values: npt.NDArray[np.floating]) -> Values:
    """Values with the four decimals of the lists."""
    return np.asarray(np.round(values.astype(np.float64), PLACES), dtype=np.float64)


def describe(found: MissingTags) -> str:
    """What was found, in a few lines: how many tags are missing, how reliable the list is, what cannot be judged."""
    counts, judged = found.counts, found.counts.learned
    if not judged.any():
        return (
            "No tag can be judged: a tag needs at least three known photos that look different from the rest. "
            "Tag more photos of each kind."
        )
    missing, most, known = (float(part[judged].sum()) for part in (counts.missing, counts.at_most, counts.known))
    # With a tenth of the tags known, the number of the others is hardly identifiable, and only the bound is certain.
    is_open = known < 0.2 * (known + missing) or most > 2 * missing + 10
    kinds = f" (of {plural(int(judged.sum()), 'kind')})" if not judged.all() else ""
    about = "Perhaps" if is_open else "About"
    are_missing = "is missing" if round(missing) == 1 else "are missing"
    lines = [
        f"{about} {plural(round(missing), 'tag')}{kinds} {are_missing}, at most {most:,.0f}; {known:,.0f} are known."
    ]
    depths = [depth for depth in (100, 500, 1000, 2000, 5000, 10_000) if depth <= len(found)] or [len(found)]
    shares = [
        f"{100 * found.expected_precision[depth - 1]:.0f} % of the first {depth:,}" for depth in depths[:4] if depth
    ]
    if shares:
        lines.append(f"Suggestions, most probable first: {len(found):,}. Expected to be correct: {', '.join(shares)}.")
    if found.caution:
        lines.append(found.caution)
    order = [
        c for c in np.argsort(-counts.missing * judged, kind="stable")[:5] if judged[c] and counts.missing[c] >= 0.5
    ]
    listed = [f"'{found.classes[c]}' {counts.missing[c]:,.0f} (at most {counts.at_most[c]:,.0f})" for c in order]
    if listed:
        lines.append(f"Most often missing: {', '.join(listed)}.")
    # Those with many photos come first, because they are the most surprising.
    unsure = [c for c in np.argsort(-counts.known, kind="stable") if not judged[c]]
    lost = [f"'{found.classes[c]}' ({counts.known[c]:,})" for c in unsure]
    if lost:
        lines.append(
            f"Not judged, so not in the list: {and_more(lost)}, with the number of photos that carry the tag. A tag "
            "needs at least three photos that look different from the rest."
        )
    if len(found.wrong):
        lines.append(
            f"Suspicious tags: {plural(len(found.wrong), 'known tag')} whose photo looks less like the tag than an "
            "average photo. Most of them are correct: look at the photos before you remove any."
        )
    return "\n".join(lines)
