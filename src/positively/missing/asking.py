"""What to ask next: the likeliest, what teaches most, or what was drawn for the audit."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Literal

import numpy as np

from positively.labels import UNKNOWN
from positively.missing.audit import AuditDesign
from positively.missing.column import Column, Rows, ranked

Way = Literal["likeliest", "teaching", "audit"]
Pair = tuple[int, int]


@dataclass(frozen=True)
class Question:
    """Does this photo carry this tag?"""

    row: int
    column: int
    probability: float
    """That it does, as far as known now."""
    way: Way


def choose(
    way: Way, columns: Sequence[Column], design: AuditDesign, count: int, column: int | None, skip: Set[Pair]
) -> list[Question]:
    """Questions of one way of asking, the best first.

    Args:
        way: How to choose.
        columns: The classes as they are now.
        design: Draws of the audit.
        count: How many questions at most.
        column: One class; all by default.
        skip: Pairs that are not to be asked.
    """
    is_audit = way == "audit"
    pairs = _drawn(columns, design, count, column, skip) if is_audit else _best(way, columns, count, column, skip)
    return [Question(row, index, float(columns[index].probabilities[row]), way) for row, index in pairs]


def _drawn(
    columns: Sequence[Column], design: AuditDesign, count: int, column: int | None, skip: Set[Pair]
) -> list[Pair]:
    design.put_off.update(skip & set(design.pairs()))
    found: dict[Pair, None] = {}
    for row, index in design.pairs():
        if len(found) == count:
            break
        if column in (None, index) and (row, index) not in skip and columns[index].labels.states[row] == UNKNOWN:
            found[row, index] = None
    return list(found)


def _best(way: Way, columns: Sequence[Column], count: int, column: int | None, skip: Set[Pair]) -> list[Pair]:
    pairs: list[Pair] = []
    values: list[float] = []
    for index in range(len(columns)) if column is None else [column]:
        chosen = columns[index]
        avoided = {row for row, other in skip if other == index}
        most = count + len(avoided)
        order = chosen.ranking(most) if way == "likeliest" else teaching_order(chosen, most)
        rows = [row for row in order.tolist() if row not in avoided][:count]
        worth = chosen.probabilities if way == "likeliest" else teaching_worth(chosen)
        pairs += [(row, index) for row in rows]
        values += worth[rows].tolist()
    order_of_all = np.argsort(-np.array(values), kind="stable")[:count]
    return [pairs[place] for place in order_of_all.tolist()]


def teaching_worth(column: Column) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """(N,) how much an answer is expected to teach."""
    q = column.probabilities
    return np.asarray(q * (1 - q))


def teaching_order(column: Column, limit: int) -> Rows:
    """Rows still unknown, what teaches most first."""
    return ranked(teaching_worth(column), np.flatnonzero(column.labels.states == UNKNOWN), limit)
