"""One tag in a review: its labels, its answers, and the probabilities of the rest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from positively.calibration import Calibration
from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, States
from positively.probe.labels import targets_of

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# Upper limit of probabilities of a tag that cannot be calibrated.
_MODEST = 0.5
# Weights above 0 mark reviewed pairs.
_LEAST_SURPRISE = 1e-4
# Number of top photos of a tag that are kept sorted.
_TOP = 512


@dataclass(frozen=True)
class ClassProgress:
    """How far the review of one tag is."""

    name: str
    known: int
    """Photos known to carry the tag before the review."""
    accepted: int
    rejected: int
    missing: float
    """Expected number of unknown photos that carry the tag."""
    at_most: float
    """Number that nine of ten tags do not exceed."""
    learned: bool
    """Whether the tag can be judged; if not, its order is useful but its probabilities are not."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of one tag; immutable."""

    before: States
    """(N,) states before the review."""
    states: States
    """(N,) states now."""
    surprise: npt.NDArray[np.float32]
    """(N,) weights of a rejection: small if the tag was not expected; 1 without an answer."""
    examples: Flags | None = None
    """(N,) photos a new tag was created from; chosen by the user, so they are not a random sample."""

    @classmethod
    def blank(cls, states: States) -> Labels:
        """Before the first answer."""
        return cls(states, states, np.ones(len(states), dtype=np.float32))

    @property
    def reviewed(self) -> Flags:
        """(N,) labels given in the review."""
        return np.asarray(self.states != self.before)

    @property
    def at_random(self) -> bool:
        """Whether any positive was known before the review, and so independent of scores."""
        return bool((self.before == POSITIVE).any())

    @cached_property
    def unknown(self) -> int:
        """How many photos are still open."""
        return int((self.states == UNKNOWN).sum())

    @cached_property
    def found(self) -> int:
        """How many were unknown before the review and carry the tag now."""
        return int(((self.before == UNKNOWN) & (self.states == POSITIVE)).sum())

    @cached_property
    def targets(self) -> npt.NDArray[np.float32]:
        """(N,) targets of the regression."""
        return targets_of(self.states, self.reviewed * self.surprise)

    @cached_property
    def level(self) -> float:
        """How high scores stand: they grow with the number of positives they are made from."""
        return float(np.maximum(self.targets, 0).sum(dtype=np.float64))

    def changed(self, rows: Rows, states: States, surprise: npt.NDArray[np.float32]) -> Labels:
        """Labels with new answers: +1, −1, or 0 to restore the state before the review."""
        now, weights = self.states.copy(), self.surprise.copy()
        now[rows] = np.where(states == UNKNOWN, self.before[rows], states)
        weights[rows] = np.where(states == UNKNOWN, 1.0, surprise)
        return Labels(self.before, now, weights, self.examples)

    def equals(self, other: Labels) -> bool:
        """Whether the labels are equal."""
        return np.array_equal(self.states, other.states) and np.array_equal(self.surprise, other.surprise)


@dataclass(frozen=True, eq=False)
class Column:
    """A consistent snapshot of one tag, so readers never wait for updates."""

    name: str
    labels: Labels
    scores: npt.NDArray[np.float32]
    """(N,) scores without the photo's own label, at the level of their calibration."""
    calibration: Calibration
    """Of this class alone."""
    influence: npt.NDArray[np.float32]
    """(N,) how far the label of each photo moves the scores of all."""
    base: Column | None = None
    """The column as it was last renewed, if this one was updated since."""

    @property
    def learned(self) -> bool:
        """Whether the tag has calibrated probabilities."""
        return bool(self.calibration.learned[0])

    @cached_property
    def probabilities(self) -> npt.NDArray[np.float32]:
        """(N,) 1 known, 0 rejected, else the probability that the tag is missing."""
        states = self.labels.states
        return np.where(states == UNKNOWN, self._hidden(self.scores), states == POSITIVE).astype(np.float32)

    def _hidden(self, scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Probability that an unknown tag is missing, by its score."""
        blank = np.zeros((len(scores), 1), dtype=np.int8)
        hidden: npt.NDArray[np.float64] = self.calibration.soft_targets(scores[:, None], blank)[:, 0]
        return hidden if self.learned else _MODEST * hidden

    def surprise(self, rows: Rows) -> npt.NDArray[np.float32]:
        """Weight of a rejection of these photos: the odds that they carry the tag, at most 1.

        The mean of the two targets an answer can give then stays what it was for an unknown label, up to even odds.
        """
        likely = self._hidden(self.scores[rows]).clip(_LEAST_SURPRISE, 0.5)
        return np.asarray(likely / (1 - likely), dtype=np.float32)

    def ready(self) -> Column:
        """Compute everything that readers need."""
        _ = self.probabilities, self.missing, self.progress, self._top
        return self

    @cached_property
    def missing(self) -> float:
        """Expected number still missing."""
        return float(self.probabilities[self.labels.states == UNKNOWN].sum(dtype=np.float64))

    def ranking(self, limit: int | None = None) -> Rows:
        """Unknown rows, most probable first."""
        if limit is not None and limit <= _TOP:
            return self._top[:limit]
        return self._ranked(limit, self.scores)

    @cached_property
    def _top(self) -> Rows:
        return self._ranked(_TOP, self.scores)

    def _ranked(self, limit: int | None, values: npt.NDArray[np.float32]) -> Rows:
        """Unknown rows in descending order of some values, with stable ties."""
        rows = np.flatnonzero(self.labels.states == UNKNOWN)
        if limit is not None and limit < len(rows):
            least = np.partition(values[rows], len(rows) - limit)[len(rows) - limit]
            rows = rows[values[rows] >= least]
        return rows[np.argsort(-values[rows], kind="stable")][:limit]

    def teaching(self, limit: int) -> tuple[Rows, npt.NDArray[np.float32]]:
        """Unknown rows, the most useful answer first, and their worth.

        That is what the variance q(1 − q) of the answer moves the scores of all photos by, as a share of their level:
        most where the model is in doubt, where photos are many, and in tags with few positives.
        """
        rows = self._teaching if limit <= _TOP else self._ranked(None, self._worth)
        return rows[:limit], self._worth[rows[:limit]]

    @cached_property
    def _worth(self) -> npt.NDArray[np.float32]:
        q = self.probabilities
        return np.asarray(q * (1 - q) * self.influence / max(self.labels.level, 0.5))

    @cached_property
    def _teaching(self) -> Rows:
        return self._ranked(_TOP, self._worth)

    @cached_property
    def progress(self) -> ClassProgress:
        """Counts for the page."""
        labels = self.labels
        positive = int((labels.states == POSITIVE).sum())
        bound = float(self.calibration.at_most[0]) - positive
        is_untouched = self.base is None and labels.at_random and not labels.reviewed.any()
        # Before the first answer, the count is that of `positively missing`, which sums over all photos.
        missing = max(float(self.calibration.positives[0]) - positive, 0.0) if is_untouched else self.missing
        return ClassProgress(
            name=self.name,
            known=int((labels.before == POSITIVE).sum()),
            accepted=int((labels.reviewed & (labels.states == POSITIVE)).sum()),
            rejected=int((labels.reviewed & (labels.states == NEGATIVE)).sum()),
            missing=missing,
            at_most=min(max(bound, missing), float(labels.unknown)),
            learned=self.learned,
        )
