"""Random checks: pairs drawn with known probabilities give an unbiased count of missing tags for any model.

Pairs are drawn with replacement from those that were unknown when the design was drawn. Let q be the probability at
that time that a pair is missing, and g the probability that it is drawn. Then Σ q + mean((y − q) / g) over the first
draws is an unbiased estimate of the number missing at that time, for any model; a good model makes it precise.

The estimate of what is still missing leaves out the top of each class once all its pairs are answered, because nothing
remains to be estimated there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import scipy

from positively.labels import POSITIVE, UNKNOWN
from positively.randomness import random_stream
from positively.review.class_state import Column

Rows = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]

DRAWS = 2000
FEWEST_ANSWERS = 30
# Share of the draws that is uniform over all pairs, so that no pair is drawn too rarely.
_EVEN_SHARE = 0.2
# A few draws have large weights, so the interval is longer upwards. On COCO and VOC, 97 to 99 % of such 95 % intervals
# contained the true number.
_DOWN, _UP = 0.85, 1.2


@dataclass(frozen=True)
class Estimate:
    """Tags still missing, with a 95 % interval: unbiased, from random checks and other answers."""

    missing: float
    low: float
    high: float
    answers: int
    """Number of random checks; a pair may have been drawn more than once."""


@dataclass(frozen=True)
class Precision:
    """Precision above some probability with a 95 % interval, from random checks alone."""

    right: float
    low: float
    high: float
    stated: float
    """Precision that the model expected when the checks were drawn."""
    answers: int


class Expectations:
    """Expectations for every pair when a design was drawn: N×C numbers, too many to store with it.

    Args:
        columns: The classes as they are now.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self.q = {
            column.name: np.where(column.labels.states == UNKNOWN, column.probabilities, np.nan).astype(np.float32)
            for column in columns
        }
        """(N,) of each class; NaN if the label was known."""
        self._doubt = sum(float(np.nansum(_doubt(q))) for q in self.q.values())
        self._count = sum(int((~np.isnan(q)).sum()) for q in self.q.values())

    def chances(self, q: npt.NDArray[np.float32]) -> Values:
        """Probability of each pair, proportional to the standard deviation of its label (optimal if q is right)."""
        even = _EVEN_SHARE if self._doubt else 1.0
        chances = (1 - even) * _doubt(q) / max(self._doubt, 1e-300) + even / max(self._count, 1)
        return np.where(np.isnan(q), 0.0, chances)

    def variance(self, q: npt.NDArray[np.float32]) -> float:
        """Σ q(1 − q) / g of pairs that were unknown."""
        return float((_doubt(q) ** 2 / self.chances(q)).sum())


def _doubt(q: npt.NDArray[np.float32]) -> Values:
    """Standard deviation of labels."""
    exact = q.astype(np.float64)
    return np.sqrt(exact * (1 - exact))


@dataclass(frozen=True, eq=False)
class AuditDesign:
    """Pairs to ask, drawn in advance: K draws over C classes."""

    rows: Rows
    """(K,) row of each draw."""
    columns: Rows
    """(K,) class of each draw, a number among ``classes``."""
    chances: Values
    """(K,) probability g of the pair at each draw."""
    expected: Values
    """(K,) probability q that the pair is missing, at the time of the draw."""
    classes: npt.NDArray[np.str_]
    """(C,) names."""
    missing: Values
    """(C,) Σ q of each class."""
    share: Values
    """(C,) Σ g of each class."""
    variance: Values
    """(C,) Σ q(1 − q) / g of each class: what (y − q) / g would vary by, were q right."""
    accepted: Rows
    """(C,) pairs accepted before the design was drawn."""
    number: int = 0
    """Number of earlier designs of the review."""
    expectations: Expectations | None = None
    """Expectations for all pairs; not stored, see :meth:`recalling`."""

    def __len__(self) -> int:
        return len(self.rows)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Plain arrays for storage."""
        return {part.name: np.asarray(getattr(self, part.name)) for part in fields(self) if part.name != "expectations"}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> AuditDesign:
        """Inverse of :meth:`to_arrays`."""
        given: dict[str, Any] = {part.name: arrays[part.name] for part in fields(cls) if part.name in arrays}
        return cls(**{**given, "number": int(given.get("number", 0))})

    def recalling(self, expectations: Expectations) -> AuditDesign:
        """The design with these expectations, if it was drawn from them."""
        q = [expectations.q.get(name) for name in self.classes.tolist()]
        if any(part is None for part in q) or len(q) != len(expectations.q):
            return self
        there = [part for part in q if part is not None]
        drawn = [there[index][row] for index, row in zip(self.columns.tolist(), self.rows.tolist(), strict=True)]
        same = np.allclose([np.nansum(part, dtype=np.float64) for part in there], self.missing, rtol=1e-3, atol=1e-3)
        return (
            replace(self, expectations=expectations) if same and np.allclose(drawn, self.expected, atol=1e-3) else self
        )

    def pairs(self, columns: Sequence[Column]) -> Iterator[tuple[int, int, int]]:
        """Draws in order: number, row, and index of their class among the current classes."""
        place = {column.name: index for index, column in enumerate(columns)}
        now = [place.get(name) for name in self.classes.tolist()]
        for draw, (row, index) in enumerate(zip(self.rows.tolist(), self.columns.tolist(), strict=True)):
            found = now[index]
            if found is not None:
                yield draw, row, found


def draw_audit(columns: Sequence[Column], seed: int = 0, draws: int = DRAWS, number: int = 0) -> AuditDesign:
    """Draw the pairs to ask.

    Args:
        columns: The classes as they are now.
        seed: Seed of the draws.
        draws: Number of draws.
        number: Number of earlier designs of the review; each has its own draws.
    """
    expectations = Expectations(columns)
    q = list(expectations.q.values())
    chances = [expectations.chances(part) for part in q]
    share = np.array([part.sum() for part in chances])
    generator = random_stream("audit", seed, *([number] if number else []))
    chosen = generator.choice(len(share), draws, p=share / share.sum()) if share.sum() else np.zeros(0)
    index, rows = chosen.astype(np.int64), np.zeros(len(chosen), np.int64)
    for place in np.unique(index):
        own = index == place
        bounds = np.cumsum(chances[place])
        rows[own] = np.searchsorted(bounds, generator.random(int(own.sum())) * bounds[-1], side="right")
    pairs = list(zip(index.tolist(), rows.tolist(), strict=True))
    return AuditDesign(
        rows=rows,
        columns=index,
        chances=np.array([chances[place][row] for place, row in pairs]),
        expected=np.array([q[place][row] for place, row in pairs], dtype=np.float64),
        classes=np.array([column.name for column in columns], dtype=np.str_),
        missing=np.array([np.nansum(part, dtype=np.float64) for part in q]),
        share=share,
        variance=np.array([expectations.variance(part[~np.isnan(part)]) for part in q]),
        accepted=np.array([column.labels.found for column in columns], dtype=np.int64),
        number=number,
        expectations=expectations,
    )


def counted_draws(
    design: AuditDesign, columns: Sequence[Column], put_off: Set[tuple[int, int]] = frozenset()
) -> tuple[Rows, Rows, npt.NDArray[np.bool_]]:
    """Draws that count, their classes, and whether each was right.

    Draws count up to the first open one: later answered draws were answered because of their score. Skipped draws are
    ignored, so the estimate is about pairs that can be judged. A pair that was answered for another reason before its
    turn counts.
    """
    found = []
    for draw, row, index in design.pairs(columns):
        state = columns[index].labels.states[row]
        if state != UNKNOWN:
            found.append((draw, index, state == POSITIVE))
        elif (row, index) not in put_off:
            break
    draws, classes, right = np.array(found, dtype=np.int64).reshape(-1, 3).T
    return draws, classes, right.astype(np.bool_)


def estimate_missing(
    design: AuditDesign,
    columns: Sequence[Column],
    column: int | None = None,
    put_off: Set[tuple[int, int]] = frozenset(),
) -> Estimate | None:
    """Estimate the number of tags still missing, in one class or all; None with too few answers.

    A later design that was read from a store has no expectations. Then the total is estimated and the found tags are
    subtracted. This is unbiased too, but its interval does not shrink towards the end of a review.

    Args:
        design: From :func:`draw_audit`.
        columns: The classes as they are now.
        column: One class: only its own draws count, and the minimum number of answers is the same.
        put_off: Pairs the user could not judge.
    """
    draws, classes, right = counted_draws(design, columns, put_off)
    names = design.classes.tolist()
    wanted = [index for index, part in enumerate(columns) if column in (None, index) and part.name in names]
    if column is not None:
        own = classes == column
        draws, classes, right = draws[own], classes[own], right[own]
    if len(draws) < FEWEST_ANSWERS:
        return None
    rows, inside, done = design.rows[draws], np.zeros(len(draws), np.bool_), 0
    chosen = [names.index(columns[index].name) for index in wanted]
    settled: list[Settled] = []
    for index, place in zip(wanted, chosen, strict=True):
        part, own = columns[index], classes == index
        done += part.labels.found - int(design.accepted[place])
        if design.expectations is not None:
            passed = frozenset(row for row, other in put_off if other == index)
            settled.append(_settled(part, design.expectations, rows[own], passed))
            inside[own] = settled[-1].inside
            done -= settled[-1].found
    numbers = np.array(estimate_total(design, draws, right, chosen, inside, settled))
    unknown = sum(columns[index].labels.unknown for index in wanted)
    missing, low, high = np.clip(numbers - done, 0, unknown).tolist()
    pairs = np.unique(np.stack([rows, classes]), axis=1)
    return Estimate(missing, low, high, pairs.shape[1])


@dataclass(frozen=True, eq=False)
class Settled:
    """The top of one class that is answered to the last pair."""

    inside: npt.NDArray[np.bool_]
    """Which draws of the class are of it."""
    found: int
    """Pairs in it that were accepted."""
    expected: float
    """Σ q of it."""
    variance: float
    """Σ q(1 − q) / g of it."""


# An answer changes one class; the others are cached.
_STORED: WeakKeyDictionary[Column, tuple[Any, Settled]] = WeakKeyDictionary()


def _settled(column: Column, expectations: Expectations, drawn: Rows, put_off: frozenset[int]) -> Settled:
    key = (expectations, drawn.tobytes(), put_off)
    stored = _STORED.get(column)
    if stored is not None and stored[0] == key:
        return stored[1]
    q = expectations.q[column.name]
    top = settled_rows(column, ~np.isnan(q), drawn, put_off)
    found = int((column.labels.states[top] == POSITIVE).sum())
    expected, variance = float(q[top].sum(dtype=np.float64)), expectations.variance(q[top])
    settled = Settled(np.isin(drawn, top), found, expected, variance)
    _STORED[column] = key, settled
    return settled


def settled_rows(column: Column, covered: npt.NDArray[np.bool_], drawn: Rows, put_off: Set[int]) -> Rows:
    """Rows at the top of a class that are all answered, and would be without the random checks.

    The choice must not depend on the draws. Scores do not, because each leaves out the photo's own label. The last row
    was not drawn, so the review has reached it on its own.

    Args:
        column: The class.
        covered: (N,) pairs of the design.
        drawn: Rows of draws that count.
        put_off: Rows the user could not judge.
    """
    answered = np.flatnonzero((column.labels.states != UNKNOWN) & covered)
    if not len(np.setdiff1d(answered, drawn)):
        return answered[:0]
    bar = next((column.scores[row] for row in column.ranking(len(put_off) + 1).tolist() if row not in put_off), -np.inf)
    top = answered[column.scores[answered] > bar]
    least = column.scores[np.setdiff1d(top, drawn)].min(initial=np.inf)
    return np.asarray(top[column.scores[top] >= least])


def estimate_total(
    design: AuditDesign,
    draws: Rows,
    right: npt.NDArray[np.bool_],
    chosen: Sequence[int],
    inside: npt.NDArray[np.bool_] | None = None,
    settled: Sequence[Settled] = (),
) -> tuple[float, float, float]:
    """Estimate the number of tags missing when the design was drawn, with a 95 % interval, without settled pairs.

    Args:
        design: From :func:`draw_audit`.
        draws: Numbers of the answered draws of the chosen classes, at least two.
        right: Whether each was found to be missing.
        chosen: Numbers of classes of the design.
        inside: Which draws are of settled pairs; none by default.
        settled: The settled pairs of each class.
    """
    share, count = float(design.share[chosen].sum()), len(draws)
    surprises = (right - design.expected[draws]) * share / design.chances[draws]
    missing, variance = float(design.missing[chosen].sum()), float(design.variance[chosen].sum())
    if inside is not None and design.expectations is not None:
        surprises = np.where(inside, 0.0, surprises)
        missing -= sum(part.expected for part in settled)
        variance = max(variance - sum(part.variance for part in settled), 0.0)
    # A few draws may vary little by chance: use at least the variance that the model expects.
    variance = max(float(surprises.var(ddof=1)), variance * share)
    spread = float(np.sqrt(variance / count) * _student(count))
    total = missing + float(surprises.mean())
    return total, total - _DOWN * spread, total + _UP * spread


def estimate_precision(
    design: AuditDesign,
    columns: Sequence[Column],
    min_probability: float = 0.5,
    put_off: Set[tuple[int, int]] = frozenset(),
) -> Precision | None:
    """Estimate the precision of pairs with at least this probability; None with too few answers among them.

    Draws have weight 1 / g. The interval is Wilson's, with the effective number of draws.
    """
    draws, _, right = counted_draws(design, columns, put_off)
    above = design.expected[draws] >= min_probability
    draws, right = draws[above], right[above]
    if len(draws) < FEWEST_ANSWERS:
        return None
    weights = 1 / design.chances[draws]
    share, stated = (float(np.average(part, weights=weights)) for part in (right, design.expected[draws]))
    count = float(weights.sum() ** 2 / (weights**2).sum())
    squared = float(_student(len(draws))) ** 2 / count
    middle = (share + squared / 2) / (1 + squared)
    spread = np.sqrt(squared * (share * (1 - share) + squared / 4)) / (1 + squared)
    return Precision(share, float(middle - spread), float(middle + spread), stated, len(draws))


def _student(count: int) -> float:
    """Standard errors to either side that hold 95 % of the means of so many draws."""
    return float(scipy.special.stdtrit(count - 1, 0.975))
