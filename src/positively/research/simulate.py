"""The review on labels that are known and were hidden: what so many answers are worth, by every way of asking."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from positively.errors import ConfigError, option
from positively.labels import POSITIVE, UNKNOWN, States
from positively.randomness import random_stream
from positively.review import (
    FEWEST_ANSWERS,
    MIXED,
    Column,
    Estimate,
    Pair,
    ReviewModel,
    Way,
    draw_audit,
    estimate_missing,
)

Policy = Literal["likeliest", "teaching", "mixed", "random", "fixed"]
"""Ways of asking; ``random`` takes unknown pairs at random, ``fixed`` the likeliest at the start, in that order."""
POLICIES: tuple[Policy, ...] = get_args(Policy)


@dataclass(frozen=True)
class Progress:
    """Where a review stands after some answers."""

    answers: int
    found: int
    """Tags accepted."""
    missing: int
    """Tags that are really still missing."""
    expected: float
    """What the model believes that number to be."""
    estimate: Estimate | None
    """What the audit says of it."""
    quality: float | None
    """What the caller measured."""


def simulate(
    model: ReviewModel,
    truth: States,
    policy: Policy,
    answers: int,
    *,
    every: int = 100,
    quality: Callable[[ReviewModel], float] | None = None,
    seed: int = 0,
) -> list[Progress]:
    """Review a table whose labels are all known, by someone who is always right.

    Args:
        model: The table with its hidden labels; it is changed.
        truth: N×C states, which nobody saw; a pair that is unknown even here is put off when it is asked.
        policy: How to ask. All but ``fixed`` choose each question by the model as the last answer left it.
        answers: How many answers to give.
        every: Answers between renewals of the model, after each of which it is looked at.
        quality: What else to measure, such as its quality on other photos.
        seed: Seed of random questions.
    """
    if policy not in POLICIES:
        raise ConfigError(f"{option('policy', policy)}: there are {', '.join(POLICIES)}.")

    def look(given: int) -> Progress:
        overview = model.overview()
        return Progress(
            answers=given,
            found=sum(part.accepted for part in overview),
            missing=sum(_left(column, truth[:, index]) for index, column in enumerate(model.columns)),
            expected=sum(part.missing for part in overview),
            estimate=model.estimate(skip=put_off),
            quality=None if quality is None else quality(model),
        )

    put_off: set[Pair] = set()
    found = [look(0)]
    asked = _questions(model, truth, policy, seed, put_off)
    for given, (row, column) in enumerate(islice(asked, answers), start=1):
        model.answer(row, column, truth[row, column])
        if given % every == 0 or given == answers:
            model.renew()
            found.append(look(given))
    return found


def _questions(model: ReviewModel, truth: States, policy: Policy, seed: int, put_off: set[Pair]) -> Iterator[Pair]:
    """Pairs that can be judged, each chosen after the last was answered, until nothing is left; others are put off."""
    if policy == "fixed" or policy == "random":
        states = _states(model)
        rows, columns = np.nonzero((states == UNKNOWN) & (truth != UNKNOWN))
        order = random_stream("random questions", seed).permutation(len(rows))
        if policy == "fixed":
            likely = np.stack([model.probabilities(column) for column in range(states.shape[1])], axis=1)
            order = np.argsort(-likely[rows, columns], kind="stable")
        yield from zip(rows[order].tolist(), columns[order].tolist(), strict=True)
        return
    ways: tuple[Way, ...] = MIXED if policy == "mixed" else (policy,)
    for way in cycle(ways):
        asked = model.ask(way, 1, skip=put_off) or model.ask("likeliest", 1, skip=put_off)
        if not asked:
            return
        pair = asked[0].row, asked[0].column
        if truth[pair] == UNKNOWN:
            put_off.add(pair)
        else:
            yield pair


def _states(model: ReviewModel) -> States:
    """N×C states as they are now."""
    return np.stack([model.states(column) for column in range(len(model.classes))], axis=1)


@dataclass(frozen=True)
class Coverage:
    """How the audit's estimates did over many designs, of all classes together and of single ones."""

    answers: int
    held: float
    """Share of the 95 % intervals that held the truth."""
    bias: float
    """Mean error as a share of the truth."""
    error: float
    """Typical error as a share of the truth: root of the mean square."""
    width: float
    """Mean width of an interval as a share of the truth."""
    class_held: float
    """Share of the intervals of single classes that held; NaN if no class had draws enough."""


def audit_coverage(
    model: ReviewModel,
    truth: States,
    answers: tuple[int, ...] = (100, 200, 500),
    simulations: int = 200,
    *,
    after: int = 0,
) -> list[Coverage]:
    """Draw many audits of a table whose labels are known, and see what the page would say.

    Args:
        model: The table with its hidden labels, as it is when the audits are drawn; it is changed.
        truth: N×C states; draws of pairs that are unknown even here are put off.
        answers: Numbers of audit answers to look at.
        simulations: How many designs to draw.
        after: Answers to the likeliest that were given between the drawing and the audit.
    """
    start = model.columns
    if after:
        simulate(model, truth, "likeliest", after, every=after)
    whole: dict[int, list[tuple[float, float, float]]] = {count: [] for count in answers}
    single: dict[int, list[bool]] = {count: [] for count in answers}
    for seed in range(simulations):
        design = draw_audit(start, seed, 2 * max(answers))
        judged = np.flatnonzero(truth[design.rows, design.columns] != UNKNOWN)
        for count in answers:
            rows, columns = (part[: judged[count - 1] + 1] for part in (design.rows, design.columns))
            answered = [_answered(part, rows[columns == i], truth[:, i]) for i, part in enumerate(model.columns)]
            left = [_left(part, truth[:, index]) for index, part in enumerate(answered)]
            put_off = frozenset(
                (row, column)
                for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
                if not truth[row, column]
            )
            found, total = estimate_missing(design, answered, put_off=put_off), max(sum(left), 1)
            if found is not None:
                whole[count].append((found.missing / total, found.low / total, found.high / total))
            for index in np.flatnonzero(np.bincount(columns) >= FEWEST_ANSWERS).tolist():
                own = estimate_missing(design, answered, index, put_off)
                single[count] += [own.low <= left[index] <= own.high] if own is not None else []
    return [_coverage(count, np.array(whole[count]), single[count]) for count in answers]


def _answered(column: Column, rows: npt.NDArray[np.int64], truth: States) -> Column:
    """A column with answers to these rows; its scores stay, as they do for whoever answers nothing but the audit."""
    return replace(column, labels=column.labels.changed(rows, truth[rows], np.ones(len(rows), dtype=np.float32)))


def _left(column: Column, truth: States) -> int:
    """Tags that are really still missing."""
    return int(((truth == POSITIVE) & (column.labels.states == UNKNOWN)).sum())


def _coverage(count: int, shares: npt.NDArray[np.float64], single: list[bool]) -> Coverage:
    """Of estimates and bounds as shares of the truth."""
    middle, low, high = shares.T
    return Coverage(
        answers=count,
        held=float(((low <= 1) & (high >= 1)).mean()),
        bias=float(middle.mean() - 1),
        error=float(np.sqrt(((middle - 1) ** 2).mean())),
        width=float((high - low).mean()),
        class_held=float(np.mean(single)) if single else float("nan"),
    )
