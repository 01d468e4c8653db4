"""The next questions: the most probable tags, the most useful answers, or random checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Literal

import numpy as np

from positively.labels import UNKNOWN
from positively.review.audit import AuditDesign
from positively.review.class_state import Column

Way = Literal["likeliest", "teaching", "audit"]
Pair = tuple[int, int]

MIXED: tuple[Way, ...] = ("likeliest", "likeliest", "teaching", "likeliest", "audit") * 2
"""The default mixture of ten questions: most find tags, some teach the model, some are random checks."""


@dataclass(frozen=True)
class Question:
    """Does this photo carry this tag?"""

    row: int
    column: int
    probability: float
    """Current probability that it does."""
    way: Way


def choose(
    way: Way, columns: Sequence[Column], design: AuditDesign, count: int, column: int | None, skip: Set[Pair]
) -> list[Question]:
    """Choose questions, the best first.

    Args:
        way: How to choose.
        columns: The classes as they are now.
        design: Draws of the audit.
        count: How many questions at most.
        column: One class; by default all.
        skip: Pairs to leave out.
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
    avoided: defaultdict[int, list[int]] = defaultdict(list)
    for row, index in skip:
        avoided[index].append(row)
    rows, values, indices = [], [], []
    for index in range(len(columns)) if column is None else [column]:
        chosen, most = columns[index], count + len(avoided[index])
        if way == "likeliest":
            best = chosen.ranking(most)
            worth = chosen.probabilities[best]
        else:
            best, worth = chosen.teaching(most)
        wanted = np.isin(best, avoided[index], invert=True) if avoided[index] else slice(None)
        rows.append(best[wanted][:count])
        values.append(worth[wanted][:count])
        indices.append(np.full(len(rows[-1]), index))
    if not rows:
        return []
    order = np.argsort(-np.concatenate(values), kind="stable")[:count]
    found = np.concatenate(rows)[order], np.concatenate(indices)[order]
    return list(zip(*(part.tolist() for part in found), strict=True))
