"""A check that no model can spoil: pairs drawn with known probabilities say how many tags are really missing.

Pairs are drawn one by one, with replacement, from those that were unknown when the design was made. With q the
probability that a pair is missing, as it was then, and g that of being drawn, Σ q + mean((y − q) / g) over the first
draws is unbiased for the number missing then, whatever the model is worth; a good model makes it precise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student

from positively.labels import POSITIVE, UNKNOWN
from positively.missing.column import Column
from positively.randomness import random_stream

Rows = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]

DRAWS = 2000
FEWEST_ANSWERS = 30
# Share of the draws that is spread evenly over all pairs, so that none is drawn too rarely.
_EVEN_SHARE = 0.2


@dataclass(frozen=True)
class Estimate:
    """Tags still missing, with a 95 % interval: unbiased, by audit answers and what else was answered."""

    missing: float
    low: float
    high: float
    answers: int
    """Audit draws it rests on."""


@dataclass(frozen=True)
class AuditDesign:
    """Pairs to ask, fixed in advance; K draws over the C classes there were."""

    rows: Rows
    """(K,) row of each draw."""
    columns: Rows
    """(K,) class of each draw."""
    chances: Values
    """(K,) probability g of the pair at each draw."""
    expected: Values
    """(K,) probability q that the pair is missing, as it was."""
    missing: Values
    """(C,) Σ q of each class."""
    share: Values
    """(C,) Σ g of each class."""
    variance: Values
    """(C,) Σ q(1 − q) / g of each class: what (y − q) / g would vary by, were q right."""
    accepted: Rows
    """(C,) answers accepted before the design was made: they are none of its pairs."""
    put_off: set[tuple[int, int]] = field(default_factory=set, compare=False)
    """Pairs the user could not judge. They are left out as if never drawn, so that the estimate is about pairs that can
    be judged; not stored, since :meth:`ReviewModel.ask` is told."""

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Plain arrays, to be stored."""
        return {part.name: getattr(self, part.name) for part in fields(self) if part.name != "put_off"}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> AuditDesign:
        """What :meth:`to_arrays` gave."""
        given: dict[str, Any] = {part.name: arrays[part.name] for part in fields(cls) if part.name != "put_off"}
        return cls(**given)

    def __len__(self) -> int:
        return len(self.rows)

    def pairs(self) -> list[tuple[int, int]]:
        """Row and class of every draw."""
        return list(zip(self.rows.tolist(), self.columns.tolist(), strict=True))


def draw(columns: Sequence[Column], seed: int = 0, draws: int = DRAWS) -> AuditDesign:
    """Fix the pairs to ask.

    Args:
        columns: The classes as they are now.
        seed: Seed of the draws.
        draws: How many.
    """
    probabilities = [column.probabilities.astype(np.float64) for column in columns]
    unknown = [column.labels.states == UNKNOWN for column in columns]
    doubt = [np.sqrt(q * (1 - q)) * open_ for q, open_ in zip(probabilities, unknown, strict=True)]
    total, count = sum(float(part.sum()) for part in doubt), sum(int(part.sum()) for part in unknown)
    chances = [
        (1 - _EVEN_SHARE) * part / max(total, 1e-300) + (_EVEN_SHARE if total else 1.0) * open_ / max(count, 1)
        for part, open_ in zip(doubt, unknown, strict=True)
    ]
    share = np.array([part.sum() for part in chances])
    generator = random_stream("audit", seed)
    of_class = generator.choice(len(share), draws, p=share / share.sum()) if count else np.zeros(0, np.int64)
    rows = np.zeros(len(of_class), np.int64)
    for index in np.unique(of_class):
        drawn = of_class == index
        places = generator.random(int(drawn.sum())) * share[index]
        rows[drawn] = np.searchsorted(np.cumsum(chances[index]), places, side="right").clip(0, len(chances[index]) - 1)
    pairs = list(zip(of_class.tolist(), rows.tolist(), strict=True))
    return AuditDesign(
        rows=rows,
        columns=of_class.astype(np.int64),
        chances=np.array([chances[index][row] for index, row in pairs]),
        expected=np.array([probabilities[index][row] for index, row in pairs]),
        missing=np.array([q[open_].sum() for q, open_ in zip(probabilities, unknown, strict=True)]),
        share=share,
        variance=np.array(
            [
                (q * (1 - q) / np.where(open_, g, np.inf)).sum()
                for q, g, open_ in zip(probabilities, chances, unknown, strict=True)
            ]
        ),
        accepted=np.array([accepted(column) for column in columns], dtype=np.int64),
    )


def accepted(column: Column) -> int:
    """Pairs that were unknown before the review and are positive now."""
    return int(((column.labels.before == UNKNOWN) & (column.labels.states == POSITIVE)).sum())


def answers(design: AuditDesign, columns: Sequence[Column]) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Draws that count, in order, and whether each was right.

    Draws count up to the first that is still to be asked: later ones that happen to be answered were answered because
    of their score. One that was put off is passed over.
    """
    places, right = [], []
    for place, (row, index) in enumerate(design.pairs()):
        state = columns[index].labels.states[row]
        if state != UNKNOWN:
            places.append(place)
            right.append(state == POSITIVE)
        elif (row, index) not in design.put_off:
            break
    return np.array(places, dtype=np.int64), np.array(right, dtype=np.bool_)


def estimate(design: AuditDesign, columns: Sequence[Column], column: int | None = None) -> Estimate | None:
    """How many tags are still missing, of one class or of all that the design covers; None with too few answers.

    Args:
        design: From :func:`draw`.
        columns: The classes as they are now, those of the design first.
        column: One class; its draws alone count.
    """
    places, right = answers(design, columns)
    chosen: slice | list[int] = slice(None) if column is None else [column]
    if column is not None:
        if column >= len(design.missing):
            return None
        own = design.columns[places] == column
        places, right = places[own], right[own]
    if len(places) < FEWEST_ANSWERS:
        return None
    share = float(design.share[chosen].sum())
    surprise = (right - design.expected[places]) * share / design.chances[places]
    model = float(design.variance[chosen].sum() * share)
    middle, low, high = interval(surprise, model)
    total = float(design.missing[chosen].sum())
    covered = columns[: len(design.missing)] if column is None else [columns[column]]
    done = sum(accepted(part) for part in covered) - int(design.accepted[chosen].sum())
    unknown = sum(int((part.labels.states == UNKNOWN).sum()) for part in covered)
    middle, low, high = (float(np.clip(total + value - done, 0, unknown)) for value in (middle, low, high))
    return Estimate(middle, low, high, len(places))


def interval(surprise: Values, variance: float) -> tuple[float, float, float]:
    """Mean of draws and its 95 % interval, at least as wide as the model's own variance makes it."""
    count = len(surprise)
    spread = np.sqrt(max(float(surprise.var(ddof=1)), variance) / count) * float(student.ppf(0.975, count - 1))
    middle = float(surprise.mean())
    return middle, middle - spread, middle + spread
