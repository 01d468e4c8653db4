"""Equal numbers of answers, spent in four ways.

The unit is A, the number of positives in the table: the cost of all tags of all images, at one answer per tag. Plans,
at a quarter, a half and all of A:

* ``positives``: that many random positives, and nothing else.
* ``pairs``: that many random pairs of image and tag; most answers are no.
* ``photos``: completely labeled images; an image costs one answer per tag, plus one for "no more tags".
* ``asked``: answers to the questions of the review page, after a start of A / 15 random tags, which count.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.study import closed
from benchmarks.study.closed import Labels
from benchmarks.study.problem import Problem
from benchmarks.study.settings import Setting
from benchmarks.study.variants import AN, BCE, Variant
from positively.files import write_with
from positively.labels import POSITIVE, UNKNOWN, States
from positively.randomness import random_stream
from positively.review import MIXED, ReviewModel

SHARES = (0.25, 0.5, 1.0)
START, BATCH = 1 / 15, 1 / 30
"""Random tags at the start of a review, and answers between two updates of its model, as shares of A."""
_KINDS = ("states", "reviewed")


def positives(truth: States, seed: int, count: int) -> States:
    """A number of random positives; nothing else is known."""
    return _drawn(truth, seed, count, np.flatnonzero(truth == POSITIVE))


def pairs(truth: States, seed: int, count: int) -> States:
    """A number of random labels, positives and negatives alike."""
    return _drawn(truth, seed, count, np.flatnonzero(truth != UNKNOWN))


def photos(truth: States, seed: int, answers: int) -> States:
    """Completely labeled images in random order, as many as the answers allow."""
    order = random_stream("budget", seed).permutation(len(truth))
    spent = np.cumsum((truth[order] == POSITIVE).sum(axis=1) + 1)
    states = np.zeros_like(truth)
    chosen = order[spent <= answers]
    states[chosen] = truth[chosen]
    return states


def _drawn(truth: States, seed: int, count: int, places: np.ndarray) -> States:
    states = np.zeros_like(truth)
    chosen = random_stream("budget", seed).permutation(places)[:count]
    states.flat[chosen] = truth.flat[chosen]
    return states


def asked(problem: Problem) -> dict[float, Labels]:
    """Labels after each share of A answers in a simulated review by a reviewer who is always right."""
    file = problem.folder and problem.folder / f"review-{len(problem.rows)}-{problem.landmarks}-seed{problem.seed}.npz"
    if file is None or not file.exists():
        found = _review(problem)
        if file is None:
            return found
        arrays = {f"{kind}{share}": getattr(one, kind) for share, one in found.items() for kind in _KINDS}
        write_with(file, partial(_save, arrays=arrays))
    with np.load(file) as stored:
        return {share: Labels(*(stored[f"{kind}{share}"] for kind in _KINDS)) for share in SHARES}


def _save(path: Path, arrays: dict[str, Any]) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)


def _review(problem: Problem) -> dict[float, Labels]:
    truth, total = problem.truth, int((problem.truth == POSITIVE).sum())
    states = positives(truth, problem.seed, round(START * total))
    classes = [str(number) for number in range(truth.shape[1])]
    model = ReviewModel(problem.features, states, classes, seed=problem.seed, landmarks=problem.landmarks)
    given, found = int((states != UNKNOWN).sum()), {}
    for share in SHARES:
        while given < round(share * total):
            count = min(max(round(BATCH * total), 1), round(share * total) - given)
            rows, columns = _questions(model, truth, count)
            model.answer(rows, columns, truth[rows, columns])
            model.renew()
            given += len(rows)
        labels = [column.labels for column in model.columns]
        reviewed = np.stack([one.reviewed * one.surprise for one in labels], axis=1).astype(np.float32)
        found[share] = Labels(np.stack([one.states for one in labels], axis=1), reviewed)
    return found


def _questions(model: ReviewModel, truth: States, count: int) -> tuple[np.ndarray, np.ndarray]:
    """A batch of the page's mix of questions. Pairs without truth are skipped."""
    unjudged = frozenset(zip(*(part.tolist() for part in np.nonzero(truth == UNKNOWN)), strict=True))
    taken: list[tuple[int, int]] = []
    for way, times in [*Counter(MIXED).items(), ("likeliest", len(MIXED))]:  # fill up if audits run out
        wanted = min(round(count * times / len(MIXED)), count - len(taken))
        questions = model.ask(way, wanted, skip=unjudged | set(taken))
        taken += [(question.row, question.column) for question in questions]
    rows, columns = zip(*taken, strict=True)
    return np.array(rows), np.array(columns)


def _drawn_labels(problem: Problem, plan: str, share: float) -> Labels:
    count = round(share * int((problem.truth == POSITIVE).sum()))
    return Labels({"positives": positives, "pairs": pairs, "photos": photos}[plan](problem.truth, problem.seed, count))


def _asked_labels(problem: Problem, share: float) -> Labels:
    return asked(problem)[share]


_PLANS = {
    "positives": "positives alone",
    "pairs": "random pairs",
    "photos": "whole images",
    "asked": "questions of the review",
}


def _setting(plan: str, share: float) -> Setting:
    labels = partial(_asked_labels, share=share) if plan == "asked" else partial(_drawn_labels, plan=plan, share=share)
    title = f"{_PLANS[plan]}, {share:g} A answers"
    has_negatives, ratio = plan != "positives", share if plan == "positives" else 0.0
    name = f"budget-{plan}-{100 * share:.0f}"
    return Setting(name, title, labels, ratio, has_negatives=has_negatives, answers=share, plan=_PLANS[plan])


def _plain(problem: Problem, labels: Labels) -> closed.Learned:
    return closed.auto(problem, Labels(labels.states), negatives=True)


SETTINGS = tuple(_setting(plan, share) for plan in _PLANS for share in SHARES)
TOLD = Variant("auto-told", "auto", partial(closed.auto, negatives=True), 5, chooses_step=True)
PLAIN = Variant("auto-plain", "auto, answers as plain labels", _plain, 5, against=TOLD.name, chooses_step=True)
RIVAL, BLANK = (Variant(v.name, v.title, v.learn, v.seconds, against=TOLD.name) for v in (BCE, AN))
VARIANTS = (TOLD, PLAIN, RIVAL, BLANK)


def fits(setting: Setting, variant: Variant) -> bool:
    """Whether a row fits a plan: BCE needs negatives, and without any, unknown labels count as negative."""
    plan = setting.name.split("-")[1]
    return {TOLD: True, PLAIN: plan == "asked", RIVAL: plan != "positives", BLANK: plan == "positives"}[variant]
