"""The model of a review: embeddings in memory, and labels that change with every answer."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from positively.embedding.rows import FeatureRows
from positively.errors import LabelError, and_more
from positively.labels import POSITIVE, UNKNOWN, States, check_states
from positively.missing.result import CAUTION_DEPTH, caution
from positively.probe import LANDMARKS, ONE_STEP, Probe, decompose
from positively.probe.labels import ProbeLabels
from positively.probe.linalg import Double, as_rows, row_blocks
from positively.probe.ridge import Ridge
from positively.review.audit import (
    DRAWS,
    AuditDesign,
    Estimate,
    Expectations,
    Precision,
    draw_audit,
    estimate_missing,
    estimate_precision,
)
from positively.review.calibration import calibrate_review
from positively.review.class_state import ClassProgress, Column, Labels, Rows
from positively.review.query import Pair, Question, Way, choose

# λ before there are labels to choose it by.
_FIRST_PENALTY = 1e-2

# Share of right suggestions below which the review should stop.
_WORTH_ASKING = 0.1


class ReviewModel:
    """A table under review. Every method may be called from any thread.

    Scores are leave-one-out scores of the probe's first step, over the known positives of each class. A changed label
    updates one class with one product. :meth:`renew` chooses λ and calibrates again.

    Args:
        features: N×D embeddings: an array, or an object that returns rows.
        states: N×C label states, array or scipy sparse matrix; C may be 0.
        classes: C names.
        groups: (N,) photos of equal value (copies, a series) are scored without each other.
        reviewed: N×C flags of labels from an earlier review, which were unknown before.
        seed: Seed of landmarks and draws.
        landmarks: Number of photos the kernel compares with.
    """

    def __init__(
        self,
        features: Any,
        states: Any,
        classes: Sequence[str],
        *,
        groups: npt.ArrayLike | None = None,
        reviewed: Any = None,
        seed: int = 0,
        landmarks: int = LANDMARKS,
    ) -> None:
        given = check_states(_dense(states))
        flags = (
            None
            if reviewed is None
            else reviewed.toarray()
            if scipy.sparse.issparse(reviewed)
            else np.asarray(reviewed)
        )
        if given.ndim != 2 or given.shape[1] != len(classes) or (flags is not None and flags.shape != given.shape):
            raise LabelError(f"States (and flags of reviewed ones) are photos × {len(classes)} classes.")
        self._seed = seed
        self._ridge: Ridge = decompose(features, len(given), groups=groups, landmarks=landmarks, seed=seed)[0]
        rows, columns = np.nonzero(np.zeros(given.shape) if flags is None else flags * given)
        answered = given[rows, columns]
        given[rows, columns] = UNKNOWN
        labels = [Labels.blank(column.copy()) for column in given.T]
        self._writing, self._renewing = threading.RLock(), threading.Lock()
        self._columns: tuple[Column, ...]
        self._fit, self._columns = self._renewed(_checked(classes), labels)
        self._start = Expectations(self._columns)
        if len(rows):
            self.answer(rows, columns, answered)
            self.renew()
        self.audit = draw_audit(self._columns, seed)

    # Labels and probabilities.

    @property
    def audit(self) -> AuditDesign:
        """Random checks, drawn in advance; stored ones can be set."""
        return self._audit

    @audit.setter
    def audit(self, design: AuditDesign) -> None:
        self._audit = design.recalling(self._start)  # the first design of a review is drawn from its initial state

    @property
    def classes(self) -> list[str]:
        """Names of the classes; :meth:`add_class` adds to them."""
        return [column.name for column in self._columns]

    @property
    def columns(self) -> tuple[Column, ...]:
        """A snapshot of the classes; later answers do not change it."""
        return self._columns

    def states(self, column: int) -> States:
        """(N,) states of a class."""
        return self._columns[column].labels.states.copy()

    def probabilities(self, column: int) -> npt.NDArray[np.float64]:
        """(N,) 1 for known, 0 for rejected, else the probability that the tag is missing."""
        return self._columns[column].probabilities.astype(np.float64)

    def ranking(self, column: int, limit: int | None = None) -> Rows:
        """Rows in which a class is unknown, most probable first."""
        return self._columns[column].ranking(limit).copy()

    def photo(self, row: int) -> list[tuple[int, float]]:
        """Unknown classes of a photo with their probabilities, most probable first."""
        columns = self._columns
        open_ = [
            (index, float(column.probabilities[row]))
            for index, column in enumerate(columns)
            if column.labels.states[row] == UNKNOWN
        ]
        return sorted(open_, key=lambda pair: -pair[1])

    def overview(self) -> list[ClassProgress]:
        """Progress of each class."""
        return [column.progress for column in self._columns]

    # Questions.

    def ask(self, way: Way, count: int, column: int | None = None, skip: Set[Pair] = frozenset()) -> list[Question]:
        """Questions for the user, the best first.

        Args:
            way: ``likeliest``, ``teaching`` (most useful to the model) or ``audit`` (random checks).
            count: How many at most.
            column: One class; all by default.
            skip: Pairs (row, column) that the user could not judge.
        """
        return choose(way, self._columns, self.audit, count, column, skip)

    def estimate(self, column: int | None = None, skip: Set[Pair] = frozenset()) -> Estimate | None:
        """Tags still missing, estimated by random checks, in one class or all; None with too few answers.

        Args:
            column: One class; all by default.
            skip: Pairs that the user could not judge, which are left out.
        """
        return estimate_missing(self.audit, self._columns, column, skip)

    def precision(self, min_probability: float = 0.5, skip: Set[Pair] = frozenset()) -> Precision | None:
        """Precision of pairs of at least this probability, by random checks; None with too few answers.

        Args:
            min_probability: Minimum probability, at the time of the draw.
            skip: Pairs that the user could not judge.
        """
        return estimate_precision(self.audit, self._columns, min_probability, skip)

    def advice(self, found: Estimate | None, skip: Set[Pair] = frozenset()) -> str:
        """Advice in one or two sentences: whether to continue, and how much is left, over the learned classes.

        Args:
            found: Result of :meth:`estimate` for all classes.
            skip: Pairs that the user could not judge.
        """
        columns = self._columns
        if not columns:
            return "Pick a few photos that share something and give it a name. It is then found in all other photos."
        if not choose("likeliest", columns, self.audit, 1, None, skip):
            return "No questions are left."
        learned = {index: column for index, column in enumerate(columns) if column.learned}
        if not learned:
            return "Accept and reject some photos to get an estimate of how many are missing."
        place = {index: number for number, index in enumerate(learned)}
        put_off = frozenset((row, place[index]) for row, index in skip if index in place)
        asked = choose("likeliest", [*learned.values()], self.audit, 50, None, put_off)
        if not asked:
            names = and_more([column.name for column in columns if not column.learned])
            return (
                f"No questions are left for the tags that could be learned. Accept and reject some photos of {names}."
            )
        right = sum(question.probability for question in asked)
        right = right if found is None else min(right, found.missing)
        text = f"About {right:.0f} of the next {len(asked)} suggestions will be right"
        text = text if right >= _WORTH_ASKING * len(asked) else f"This is a good moment to stop. {text}"
        if found is None:
            left = sum(column.progress.missing for column in learned.values())
            return f"{text}. The model expects about {left:,.0f} missing tags; random checks give a better estimate."
        return f"{text}; about {found.missing:,.0f} tags ({found.low:,.0f}–{found.high:,.0f}) are still missing."

    def caution(self) -> str | None:
        """The caution of ``positively missing`` for the list as it is now."""
        columns = [column for column in self._columns if column.learned]
        first = choose("likeliest", columns, self.audit, CAUTION_DEPTH, None, frozenset())
        known = np.array([(column.labels.states == POSITIVE).sum() for column in columns], dtype=np.int64)
        places = np.array([question.column for question in first], dtype=np.int64)
        return caution(places, np.array([question.probability for question in first]), known)

    # Changes.

    def answer(self, rows: npt.ArrayLike, columns: npt.ArrayLike, states: npt.ArrayLike) -> None:
        """Apply answers.

        Args:
            rows: (K,) photos, or one.
            columns: (K,) classes, or one.
            states: (K,) +1 accept, −1 reject, 0 restore the state before the review.
        """
        row, column, state = (
            part.reshape(-1).astype(np.int64)
            for part in np.broadcast_arrays(np.asarray(rows), np.asarray(columns), check_states(states))
        )
        with self._writing:
            self._check(row, column)
            changed = list(self._columns)
            for index in np.unique(column).tolist():
                own = column == index
                old = changed[index]
                labels = old.labels.changed(row[own], state[own].astype(np.int8), old.surprise(row[own]))
                changed[index] = self._updated(changed[index], labels)
            self._columns = tuple(changed)

    def add_class(self, name: str, rows: npt.ArrayLike) -> int:
        """Create a class from photos that carry it; returns its index."""
        chosen = np.unique(np.asarray(rows, dtype=np.int64))
        with self._writing:
            _checked([*self.classes, name])
            self._check(chosen, np.zeros(0, np.int64))
            before = np.zeros(len(self._ridge.weights), dtype=np.int8)
            examples = np.zeros(len(before), dtype=np.bool_)
            examples[chosen] = True
            labels = Labels(before, examples.astype(np.int8), np.ones(len(before), dtype=np.float32), examples)
            self._columns = (*self._columns, self._new(name, labels))
            return len(self._columns) - 1

    def remove_class(self, name: str) -> None:
        """Remove a class that :meth:`add_class` created."""
        with self._writing:
            found = [column for column in self._columns if column.name == name]
            if not found or found[0].labels.examples is None:
                raise LabelError(f"The tag '{name}' was not added in this review, so it cannot be removed.")
            self._columns = tuple(column for column in self._columns if column.name != name)

    def renew(self) -> None:
        """Choose λ and calibrate again with the current labels.

        Readers and answers do not wait: it works on a snapshot and applies the answers that came meanwhile at the end.
        """
        with self._renewing:
            old = self._columns
            fit, renewed = self._renewed([column.name for column in old], [column.labels for column in old])
            fresh = {column.name: column for column in renewed}
            with self._writing:
                self._fit = fit
                self._columns = tuple(self._carried(fresh.get(column.name), column) for column in self._columns)

    def start_audit(self) -> None:
        """Draw new random checks from what is unknown now, new classes included."""
        with self._writing:
            design = draw_audit(self._columns, self._seed, DRAWS, self.audit.number + 1)
            self.audit = design if len(design) else self.audit

    def scores(self, features: FeatureRows) -> npt.NDArray[np.float32]:
        """Scores B×C of new photos with the current labels."""
        fit, columns = self._fit, self._columns
        moments = [fit.moments(column.labels) for column in columns]
        solved = self._ridge.solution(np.stack(moments, axis=1), fit.penalty).astype(np.float32)
        rows = as_rows(features)
        parts = [self._ridge.basis.coordinates(rows[part]) @ solved[:-1] + solved[-1] for part in row_blocks(len(rows))]
        return np.concatenate(parts)

    def _renewed(self, names: Sequence[str], labels: Sequence[Labels]) -> tuple[Fit, tuple[Column, ...]]:
        """λ, scores and probabilities for these labels."""
        if not names:
            return Fit(self._ridge, _FIRST_PENALTY), ()
        states = np.stack([one.states for one in labels], axis=1)
        reviewed = np.stack([one.reviewed * one.surprise for one in labels], axis=1)
        probe = Probe(ProbeLabels(states, reviewed), self._ridge, step=ONE_STEP, seed=self._seed)
        fit, columns = Fit(self._ridge, probe.kernel.penalty), []
        for index, (name, one) in enumerate(zip(names, labels, strict=True)):
            scores = probe.held_out_scores(np.array([index]))[:, 0].copy()
            calibration = (
                probe.calibration.select(np.array([index])) if one.at_random else calibrate_review(scores, one)
            )
            columns.append(Column(name, one, scores, calibration, fit.influence).ready())
        return fit, tuple(columns)

    def _carried(self, fresh: Column | None, column: Column) -> Column:
        """A current column with the new fit."""
        if fresh is None:
            return self._new(column.name, column.labels)
        return fresh if fresh.labels is column.labels else self._updated(fresh, column.labels)

    def _updated(self, column: Column, labels: Labels) -> Column:
        """The same class with other labels."""
        base = column.base or column
        if labels.equals(base.labels):
            return base
        # More positives give higher scores, but the calibration belongs to the old level.
        level = np.float32(base.labels.level / labels.level if base.labels.level and labels.level else 1.0)
        scores = level * self._fit.scores(labels)
        return Column(column.name, labels, scores, column.calibration, self._fit.influence, base).ready()

    def _new(self, name: str, labels: Labels) -> Column:
        scores = self._fit.scores(labels)
        return Column(name, labels, scores, calibrate_review(scores, labels), self._fit.influence).ready()

    def _check(self, rows: Rows, columns: Rows) -> None:
        """Raise if a row or a column does not exist."""
        for what, places, count in (("photos", rows, len(self._ridge.weights)), ("tags", columns, len(self._columns))):
            wrong = places[(places < 0) | (places >= count)]
            if len(wrong):
                raise LabelError(
                    f"There are {count} {what}, numbered from 0; number {and_more(wrong.tolist())} does not exist."
                )


class Fit:
    """The part of the fit that all classes share: the regression and its λ."""

    def __init__(self, ridge: Ridge, penalty: float) -> None:
        self._ridge, self.penalty = ridge, penalty
        self._left_out = ridge.left_out(penalty).hold()
        self.influence = ridge.influence(penalty)

    def moments(self, labels: Labels) -> Double:
        """Moments of one class."""
        rows = np.flatnonzero(labels.targets)
        return self._ridge.target_moments(rows, labels.targets[rows])

    def scores(self, labels: Labels) -> npt.NDArray[np.float32]:
        """(N,) scores of one class, each without the photo's own label."""
        fits = self._ridge.scores(self.moments(labels)[:, None], self.penalty)
        return self._left_out(fits, labels.targets[:, None])[:, 0]


def _checked(classes: Sequence[str]) -> list[str]:
    """Class names, checked for duplicates."""
    twice = [name for name, count in Counter(classes).items() if count > 1]
    if twice:
        raise LabelError(f"The tag '{twice[0]}' exists already; names must be unique.")
    return list(classes)


def _dense(array: Any) -> npt.NDArray[Any]:
    return np.asarray(array.toarray() if scipy.sparse.issparse(array) else array)
