"""What to ask next: the likeliest, what teaches most, or what was drawn for the audit."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Literal

import numpy as np

from positively.labels import UNKNOWN
from positively.missing.audit import AuditDesign
from positively.missing.column import Column

Way = Literal["likeliest", "teaching", "audit"]
Pair = tuple[int, int]

MIXED: tuple[Way, ...] = ("likeliest", "likeliest", "teaching", "likeliest", "audit") * 2
"""What a page asks by itself, of every ten questions: most to find tags, some to learn, some to check."""


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
    found: dict[Pair, None] = {}
    for _, row, index in design.pairs(columns):
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
        if way == "likeliest":
            rows = chosen.ranking(most)
            worth = chosen.probabilities[rows]
        else:
            rows, worth = chosen.teaching(most)
        wanted = [place for place, row in enumerate(rows.tolist()) if row not in avoided][:count]
        pairs += [(row, index) for row in rows[wanted].tolist()]
        values += worth[wanted].tolist()
    order_of_all = np.argsort(-np.array(values), kind="stable")[:count]
    return [pairs[place] for place in order_of_all.tolist()]
