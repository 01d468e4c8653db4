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
    """One tag that is probably missing, or (in the list of wrong ones) probably wrong."""

    image: str
    tag: str
    probability: float
    """That the image carries the tag."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of image and class in an order that matters."""

    images: Sequence[str]
    classes: tuple[str, ...]
    rows: Rows
    """``(K,)`` row of the image in the table."""
    columns: Rows
    """``(K,)`` number of the class."""
    probabilities: Values
    """``(K,)`` that the image carries the tag."""

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> Suggestion:
        row, column = int(self.rows[place]), int(self.columns[place])
        return Suggestion(self.images[row], self.classes[column], float(self.probabilities[place]))

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
    """Known tags that look wrong, the least likely first."""

    @cached_property
    def expected_precision(self) -> Values:
        """``(K,)`` share of the first 1, 2, 3 … suggestions that is expected to be right."""
        return np.cumsum(self.probabilities) / np.arange(1, len(self) + 1)
