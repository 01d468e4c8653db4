"""The list of missing tags: pairs of image and tag, likeliest first, and what is expected of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


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

    def __getitem__(self, place: int) -> Suggestion:
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

    @cached_property
    def expected_precision(self) -> Values:
        """``(K,)`` share of the first 1, 2, 3 … suggestions that is expected to be right."""
        return np.cumsum(self.values, dtype=np.float64) / np.arange(1, len(self) + 1)
