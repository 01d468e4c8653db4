"""The list of missing tags: pairs of image and tag, likeliest first, and what is expected of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from positively.errors import and_more

Rows = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]

PLACES = 4
"""Decimals of the probabilities in the lists."""


@dataclass(frozen=True)
class Suggestion:
    """One tag of one image, that is probably missing or looks wrong."""

    image: str
    tag: str
    value: float
    """Of a missing tag the probability; of one that looks wrong, the doubt."""


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
    """``(K,)`` of missing tags, the probability that the image carries the tag; of tags that look wrong, the log of how
    many times more the image looks like any image of the table than like one with the tag."""

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

    def __iter__(self) -> Iterator[Suggestion]:
        return (self[place] for place in range(len(self)))


@dataclass(frozen=True)
class ClassCounts:
    """How many tags are there and how many are missing; every array is ``(C,)``."""

    known: Rows
    """Images that carry the tag on record."""
    missing: Values
    """Expected number of images that carry it without being on record."""
    at_most: Values
    """Number of missing that nine of ten classes do not exceed."""
    learned: npt.NDArray[np.bool_]
    """Whether the class can be judged: three known positives or more, which rank above the other images."""


@dataclass(frozen=True)
class MissingTags(Pairs):
    """Every unknown pair of image and tag, likeliest first; classes that cannot be judged are left out."""

    counts: ClassCounts
    wrong: Pairs
    """Known tags whose image looks less like the tag than an average image does, the most doubtful first."""

    @property
    def probabilities(self) -> npt.NDArray[np.float32]:
        """``(K,)`` that the image carries the tag."""
        return self.values

    def __repr__(self) -> str:
        return f"MissingTags({len(self):,} suggestions, {len(self.wrong):,} tags that look wrong)"

    def __str__(self) -> str:
        """What was found, in a few lines."""
        return describe(self)

    def above(self, probability: float) -> MissingTags:
        """The suggestions that are at least so probable, as far as the lists show it; the counts stay."""
        count = int((rounded(self.values) >= probability).sum())
        return replace(self, rows=self.rows[:count], columns=self.columns[:count], values=self.values[:count])

    def write(self, folder: str | Path, form: Literal["csv", "parquet"] = "csv") -> list[Path]:
        """Write the lists and the counts into a folder of their own, as ``positively missing`` does."""
        from positively.missing.files import MissingFolder

        return MissingFolder(folder).write(self, form, {})

    @cached_property
    def expected_precision(self) -> Values:
        """``(K,)`` share of the first 1, 2, 3 … suggestions that is expected to be right."""
        return np.cumsum(self.values, dtype=np.float64) / np.arange(1, len(self) + 1)


def rounded(values: npt.NDArray[np.floating]) -> Values:
    """Values as the lists show them, to four places."""
    return np.asarray(np.round(values.astype(np.float64), PLACES), dtype=np.float64)


def describe(found: MissingTags) -> str:
    """A few lines for people: how many are missing, how far the list can be trusted, what cannot be judged."""
    counts, judged = found.counts, found.counts.learned
    if not judged.any():
        return (
            "Nothing can be judged: no tag has three known photos whose looks tell them from the others. Tag more "
            "photos of each kind."
        )
    missing, most, known = (float(part[judged].sum()) for part in (counts.missing, counts.at_most, counts.known))
    # With a tenth of the tags known, the number of the others is hardly identifiable: the bound is what is honest.
    is_open = known < 0.2 * (known + missing) or most > 2 * missing + 10
    about = (
        f"At most {most:,.0f}, perhaps {missing:,.0f}," if is_open else f"About {missing:,.0f} (at most {most:,.0f})"
    )
    kinds = f" of {judged.sum():,} kinds" if not judged.all() else ""
    lines = [f"{about} tags{kinds} are missing, beside {known:,.0f} of them that are written down."]
    depths = [depth for depth in (100, 500, 1000, 2000, 5000, 10_000) if depth <= len(found)] or [len(found)]
    shares = [
        f"{100 * found.expected_precision[depth - 1]:.0f} % of the first {depth:,}" for depth in depths[:4] if depth
    ]
    if shares:
        hedge = " So few tags are known that this may be too high: look at the first ones." if is_open else ""
        lines.append(f"Suggestions, likeliest first: {len(found):,}. Expected to be right: {', '.join(shares)}.{hedge}")
    order = [
        c for c in np.argsort(-counts.missing * judged, kind="stable")[:5] if judged[c] and counts.missing[c] >= 0.5
    ]
    listed = [f"'{found.classes[c]}' {counts.missing[c]:,.0f} (at most {counts.at_most[c]:,.0f})" for c in order]
    if listed:
        lines.append(f"Most are missing of {', '.join(listed)}.")
    # Those with many photos first: they surprise most.
    unsure = [c for c in np.argsort(-counts.known, kind="stable") if not judged[c]]
    lost = [f"'{found.classes[c]}' ({counts.known[c]:,})" for c in unsure]
    if lost:
        lines.append(
            f"Cannot be judged, so not in the list: {and_more(lost)}. In brackets: photos that carry it. It takes "
            "three and more, whose looks tell them from the others."
        )
    if len(found.wrong):
        lines.append(
            f"Known tags whose photo looks less like the tag than an average photo: {len(found.wrong):,}, the most "
            "doubtful first in a list of their own. Most of them are right all the same: look before you delete."
        )
    return "\n".join(lines)
