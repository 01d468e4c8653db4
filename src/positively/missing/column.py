"""One tag in a review: what was known, what was answered, and what its scores say about the rest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from positively.calibration import Calibration
from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, States

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# A tag that cannot be calibrated is not believed beyond this.
_MODEST = 0.5
# Photos at the top of a tag that are held in order; whoever asks for more has them sorted.
_TOP = 512


@dataclass(frozen=True)
class ClassProgress:
    """How far the review of one tag is."""

    name: str
    known: int
    """Photos that carried it before the review."""
    accepted: int
    rejected: int
    missing: float
    """Expected number of photos that carry it and are still unknown."""
    at_most: float
    """Number that nine of ten tags do not exceed."""
    learned: bool
    """Whether the tag can be judged; if not, its order is worth something, its probabilities are not."""


@dataclass(frozen=True)
class Labels:
    """What is known of one tag, photo by photo; never changed, only replaced."""

    before: States
    """(N,) states before the review."""
    states: States
    """(N,) states now."""
    examples: Flags | None = None
    """(N,) photos that a new tag was made from: chosen because they carry it, so that no probability follows."""

    @property
    def reviewed(self) -> Flags:
        """(N,) labels that a person gave because of a score."""
        return np.asarray(self.states != self.before)

    @property
    def at_random(self) -> bool:
        """Whether any positive was known before the review, and so at random."""
        return bool((self.before == POSITIVE).any())

    def changed(self, rows: Rows, states: States) -> Labels:
        """With answers: +1, −1, or 0 for what was known before the review."""
        now = self.states.copy()
        now[rows] = np.where(states == UNKNOWN, self.before[rows], states)
        return Labels(self.before, now, self.examples)

    def equals(self, other: Labels) -> bool:
        """Whether the same is known."""
        return np.array_equal(self.states, other.states)


@dataclass(frozen=True, eq=False)
class Column:
    """One tag, complete at one moment: readers never wait for whoever makes the next."""

    name: str
    labels: Labels
    scores: npt.NDArray[np.float32]
    """(N,) by labels other than the photo's own."""
    calibration: Calibration
    """Of this class alone."""
    base: Column | None = None
    """The column as it was last renewed, if this one was updated since."""

    @property
    def learned(self) -> bool:
        """Whether probabilities are worth the name."""
        return bool(self.calibration.learned[0])

    @cached_property
    def probabilities(self) -> npt.NDArray[np.float32]:
        """(N,) 1 known, 0 rejected, else the probability that the tag is missing."""
        states = self.labels.states
        hidden = self.calibration.soft_targets(self.scores[:, None], states[:, None])[:, 0].astype(np.float32)
        return hidden if self.learned else np.where(states == UNKNOWN, _MODEST * hidden, hidden)

    def ready(self) -> Column:
        """With everything computed that a reader would else wait for."""
        _ = self.probabilities, self.missing, self._top
        return self

    @cached_property
    def missing(self) -> float:
        """Expected number still missing."""
        return float(self.probabilities[self.labels.states == UNKNOWN].sum(dtype=np.float64))

    def ranking(self, limit: int | None = None) -> Rows:
        """Rows still unknown, likeliest first."""
        if limit is not None and limit <= _TOP:
            return self._top[:limit]
        return self._ranked(None)

    @cached_property
    def _top(self) -> Rows:
        return self._ranked(_TOP)

    def _ranked(self, limit: int | None) -> Rows:
        return ranked(self.scores, np.flatnonzero(self.labels.states == UNKNOWN), limit)

    def progress(self) -> ClassProgress:
        """Counts for a person to read."""
        labels = self.labels
        positive = int((labels.states == POSITIVE).sum())
        unknown = int((labels.states == UNKNOWN).sum())
        bound = float(self.calibration.at_most[0]) - positive
        return ClassProgress(
            name=self.name,
            known=int((labels.before == POSITIVE).sum()),
            accepted=int((labels.reviewed & (labels.states == POSITIVE)).sum()),
            rejected=int((labels.reviewed & (labels.states == NEGATIVE)).sum()),
            missing=self.missing,
            at_most=min(max(bound, self.missing), float(unknown)),
            learned=self.learned,
        )


def ranked(values: npt.NDArray[np.floating], rows: Rows, limit: int | None = None) -> Rows:
    """Rows in descending order of their values, ties in their own order; no more than ``limit`` of them."""
    if limit is not None and limit < len(rows):
        least = np.partition(values[rows], len(rows) - limit)[len(rows) - limit]
        rows = rows[values[rows] >= least]
    ordered = rows[np.argsort(-values[rows], kind="stable")]
    return ordered[:limit]
