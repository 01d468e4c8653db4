"""The state of a review for the page, as dictionaries for JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict
from itertools import chain
from typing import Any, Literal

import numpy as np

from positively.errors import and_more
from positively.review.audit import Estimate, Precision
from positively.review.query import MIXED, Question, Way
from positively.review.session import Pair, ReviewSession

CANDIDATES = 10
"""Number of tags that are suggested for one photo."""

_WORTH = 0.2
"""Minimum probability of a tag that counts when photos are ordered by missing tags."""

_SETTLED_MINUTES = 2.0
"""Minutes before tags per hour are shown."""

_CHECKED = 0.5
"""The precision is checked for suggestions of at least this probability."""


def ranking(session: ReviewSession, tag: str, count: int, exclude: Collection[int] = ()) -> list[int]:
    """Open photos of a tag, most probable first, without some."""
    left_out = set(exclude)
    ranked = session.model.ranking(session.column(tag), limit=count + len(left_out))
    return [row for row in ranked.tolist() if row not in left_out][:count]


def pairs(session: ReviewSession, tag: str, rows: Iterable[int]) -> list[dict[str, Any]]:
    """Photos of one tag, with probability and state."""
    rows, column = list(rows), session.column(tag)
    for row in rows:
        session.check_row(row)
    states, likely = session.model.states(column), session.model.probabilities(column)
    return [
        {"row": row, "name": session.table.images[row], "probability": _rounded(likely[row]), "state": int(states[row])}
        for row in rows
    ]


def photo(session: ReviewSession, row: int) -> dict[str, Any]:
    """One photo: known tags, decided tags, and candidates, most probable first."""
    session.check_row(row)
    image, classes = session.table.images[row], list(session.model.classes)
    recorded = zip(session.table.classes, session.table.states([row])[0].tolist(), strict=True)
    decided = {tag: state for tag in classes if (state := session.tally.state(image, tag))}
    return {
        "row": row,
        "name": image,
        "known": [tag for tag, state in recorded if state > 0 and tag not in decided],
        "decided": decided,
        "candidates": [
            {"tag": classes[column], "probability": _rounded(likely)}
            for column, likely in session.model.photo(row)[:CANDIDATES]
        ],
    }


def promising(session: ReviewSession, count: int, exclude: Collection[int] = ()) -> list[int]:
    """Photos ordered by the expected number of missing tags."""
    expected = np.zeros(len(session.table))
    for column in range(len(session.model.classes)):
        likely = session.model.probabilities(column)
        expected += np.where((session.model.states(column) == 0) & (likely >= _WORTH), likely, 0.0)
    left_out = set(exclude)
    order = np.argsort(-expected, kind="stable")[: count + len(left_out)]
    return [row for row in order.tolist() if row not in left_out][:count]


def questions(
    session: ReviewSession, way: Way | Literal["mixed"], count: int, exclude: Iterable[Pair] = (), begin: int = 0
) -> list[dict[str, Any]]:
    """The next questions; skipped ones are not asked again.

    Args:
        session: The review.
        way: One of the model's ways, or the mixture.
        count: How many questions at most.
        exclude: Pairs that are on the screen.
        begin: Number of questions of the mixture that were asked before.
    """
    classes, taken, skip = list(session.model.classes), set(exclude), session.left_open()
    ways = MIXED if way == "mixed" else (way,)
    turns = [ways[(begin + number) % len(ways)] for number in range(count)]
    if "audit" in turns and session.unchecked and not session.tally.is_checked:
        session.start_audit()  # keeps all answers, and covers new tags
    offers = {turn: _offers(session, turn, 2 * count + len(taken), skip) for turn in ways}
    found = []
    for turn in turns:
        # A way without questions gives its turn to the first way, in a mixture the most probable tags.
        for question in chain(offers[turn], offers[ways[0]]):
            pair = question.row, classes[question.column]
            if pair not in taken:
                taken.add(pair)
                found.append(question)
                break
    return [
        {
            "row": question.row,
            "name": session.table.images[question.row],
            "tag": classes[question.column],
            "probability": _rounded(question.probability),
            "way": question.way,
        }
        for question in found
    ]


def _offers(session: ReviewSession, way: Way, count: int, skip: frozenset[tuple[int, int]]) -> Iterator[Question]:
    """Questions of one way, chosen lazily."""
    yield from session.model.ask(way, count, skip=skip)


def status(session: ReviewSession) -> dict[str, Any]:
    """The state of the review: counts of every tag, progress, estimates and advice."""
    with session.lock:  # every answer changes these counts
        tally, model = session.tally, session.model
        tags = []
        for progress in model.overview():
            counts = tally.by_tag[progress.name]
            tags.append(
                {
                    "name": progress.name,
                    "known": progress.known,
                    "gained": counts.accepted,
                    "rejected": counts.rejected,
                    "missing": _rounded(progress.missing),
                    "learned": bool(progress.learned),
                    "right": counts.right,
                    "judged": counts.judged,
                }
            )
        minutes, gained = tally.minutes(session.store.session), tally.gained(session.store.session)
        rate = round(60 * gained / minutes) if minutes >= _SETTLED_MINUTES else None
        skip = session.left_open()
        estimate, precision = model.estimate(skip=skip), model.precision(_CHECKED, skip)
        return {
            "version": session.version,
            "source": session.table.source,
            "photos": len(session.table),
            "tags": tags,
            "gained": tally.gained(),
            "rejected": sum(counts.rejected for counts in tally.by_tag.values()),
            "session": {"gained": gained, "minutes": _rounded(minutes), "an_hour": rate},
            "estimate": _numbers(estimate),
            "precision": _numbers(precision),
            "unchecked": len(session.unchecked),
            "advice": _advice(session, model.advice(estimate, skip)),
            "can_undo": bool(tally.actions),
        }


def _advice(session: ReviewSession, advice: str) -> str:
    """What the model advises, its caution, and for which new tags the advice does not hold yet."""
    tags = session.model.overview()
    if not any(tag.learned for tag in tags):
        return advice
    early = [f"“{tag.name}”" for tag in tags[len(session.table.classes) :] if not tag.learned]
    told = [advice, session.model.caution() or ""]
    if early:
        told.append(f"This does not hold for {and_more(early, 3)} yet: accept and reject some photos.")
    return " ".join(part for part in told if part)


def _rounded(value: float) -> float:
    return round(float(value), 4)


def _numbers(found: Estimate | Precision | None) -> dict[str, float] | None:
    return None if found is None else {name: round(value, 4) for name, value in asdict(found).items()}
