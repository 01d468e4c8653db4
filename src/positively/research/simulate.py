"""Simulation of a review on hidden labels: the value of answers for different query strategies."""

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
"""Query strategies. ``random`` asks for random unknown pairs, ``fixed`` for the most probable ones at the start."""
POLICIES: tuple[Policy, ...] = get_args(Policy)


@dataclass(frozen=True)
class Progress:
    """State of a review after some answers."""

    answers: int
    found: int
    """Number of accepted tags."""
    missing: int
    """True number of missing tags."""
    expected: float
    """Estimate of the model for that number."""
    estimate: Estimate | None
    """Estimate of the audit."""
    quality: float | None
    """Value of the caller's ``quality`` function."""


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
    """Simulate the review of a table with known labels, by a reviewer who is always right.

    Args:
        model: The table with hidden labels; it is changed.
        truth: True label states, shape (N, C). Pairs that are unknown here are skipped when asked.
        policy: Query strategy. All but ``fixed`` and ``random`` choose each question with the current model.
        answers: Number of answers.
        every: Number of answers between updates of the model; progress is recorded after each update.
        quality: Additional measure, such as the quality on other images.
        seed: Seed of random questions.

    Returns:
        Progress after each update.

    Raises:
        ConfigError: If the strategy is unknown.
    """
    if policy not in POLICIES:
        raise ConfigError(f"{option('policy', policy)}: choose from {', '.join(POLICIES)}.")

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
    """Pairs to ask, each chosen after the previous answer, until none is left. Pairs without truth are skipped."""
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
    """Current label states, shape (N, C)."""
    return np.stack([model.states(column) for column in range(len(model.classes))], axis=1)


@dataclass(frozen=True)
class Coverage:
    """Accuracy of the audit's estimates over many designs, for all classes together and for single classes."""

    answers: int
    held: float
    """Share of the 95 % intervals that contain the truth."""
    bias: float
    """Mean error, relative to the truth."""
    error: float
    """Root mean square error, relative to the truth."""
    width: float
    """Mean width of the intervals, relative to the truth."""
    class_held: float
    """Share of the intervals of single classes that contain the truth; NaN if no class had enough draws."""


def audit_coverage(
    model: ReviewModel,
    truth: States,
    answers: tuple[int, ...] = (100, 200, 500),
    simulations: int = 200,
    *,
    after: int = 0,
) -> list[Coverage]:
    """Draw many audits of a table with known labels and compare their estimates with the truth.

    Args:
        model: The table with hidden labels at the time of the audits; it is changed.
        truth: True label states, shape (N, C). Draws of unknown pairs are skipped.
        answers: Numbers of audit answers to evaluate.
        simulations: Number of audits.
        after: Number of answers to the most probable pairs between the draw and the audit.

    Returns:
        Accuracy for each number of answers.
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
    """A column with answers to these rows, and unchanged scores."""
    return replace(column, labels=column.labels.changed(rows, truth[rows], np.ones(len(rows), dtype=np.float32)))


def _left(column: Column, truth: States) -> int:
    """True number of missing tags."""
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
