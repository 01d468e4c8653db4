"""Summary of a review: the latest decision of every pair, counts by tag, tags gained per hour."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass

from positively.review.store import Action

SUGGESTED = frozenset({"likeliest", "photo"})
"""Ways of asking that suggest a tag; the others teach or check, and do not measure suggestions."""

_CHECKING = frozenset({"skip", "audit", "teaching"})
"""Ways in which an open pair could not be judged; in the others, an answer was cleared."""

_PAUSE_SECONDS = 60.0


@dataclass
class TagTally:
    """Decisions about one tag."""

    accepted: int = 0
    rejected: int = 0
    right: int = 0
    """Suggestions accepted."""
    judged: int = 0
    """Suggestions accepted or rejected: ``right / judged`` is the precision so far."""


@dataclass(frozen=True)
class _Decision:
    """The latest decision about one pair; 0 if there was none."""

    state: int = 0
    way: str = ""
    session: int = 0


def is_skip(state: int, way: str) -> bool:
    """Whether the pair was skipped because it cannot be judged."""
    return not state and way in _CHECKING


class Tally:
    """In-memory summary of the store, rebuilt after a restart."""

    def __init__(self) -> None:
        self.actions: list[Action] = []
        self.by_tag: defaultdict[str, TagTally] = defaultdict(TagTally)
        self.skipped: set[tuple[str, str]] = set()
        """Pairs that were skipped because they could not be judged."""
        self._history: defaultdict[tuple[str, str], list[_Decision]] = defaultdict(list)
        self._gained: defaultdict[int, int] = defaultdict(int)
        self._seconds: defaultdict[int, float] = defaultdict(float)
        self._last: dict[int, float] = {}

    def state(self, image: str, tag: str) -> int | None:
        """Latest decision of a pair: +1, −1, or 0 for left open; None if it was never asked."""
        history = self._history.get((image, tag))
        return history[-1].state if history else None

    def states(self) -> dict[tuple[str, str], int]:
        """Latest decision of every pair."""
        return {pair: history[-1].state for pair, history in self._history.items() if history}

    @property
    def is_checked(self) -> bool:
        """Whether any random check was answered."""
        return any(action.way == "audit" for action in self.actions)

    def add(self, action: Action) -> None:
        """Count an action."""
        self.actions.append(action)
        for image, tag, state in action.decisions:
            self._count(tag, self._latest(image, tag), -1)
            self._history[image, tag].append(_Decision(state, action.way, action.session))
            self._enter(image, tag)
        # Long pauses are not review time.
        gap = action.time - self._last.get(action.session, action.time)
        self._seconds[action.session] += min(max(gap, 0.0), _PAUSE_SECONDS)
        self._last[action.session] = action.time

    def undo(self) -> Action:
        """Remove the last action; its time still counts."""
        action = self.actions.pop()
        for image, tag, _ in action.decisions:
            self._count(tag, self._history[image, tag].pop(), -1)
            self._enter(image, tag)
        return action

    def gained(self, session: int | None = None) -> int:
        """Accepted tags, in total or in one session; tags that were rejected later do not count."""
        return sum(self._gained.values()) if session is None else self._gained[session]

    def minutes(self, session: int) -> float:
        """Minutes spent in a session; long pauses are shortened."""
        since = time.time() - self._last.get(session, time.time())
        return (self._seconds[session] + min(max(since, 0.0), _PAUSE_SECONDS)) / 60

    def _latest(self, image: str, tag: str) -> _Decision:
        history = self._history.get((image, tag))
        return history[-1] if history else _Decision()

    def _enter(self, image: str, tag: str) -> None:
        """Count the latest decision of a pair."""
        last = self._latest(image, tag)
        self._count(tag, last, +1)
        (self.skipped.add if is_skip(last.state, last.way) else self.skipped.discard)((image, tag))

    def _count(self, tag: str, decision: _Decision, sign: int) -> None:
        tally, state, is_suggested = self.by_tag[tag], decision.state, decision.way in SUGGESTED
        tally.accepted += sign * (state > 0)
        tally.rejected += sign * (state < 0)
        tally.right += sign * (state > 0 and is_suggested)
        tally.judged += sign * (state != 0 and is_suggested)
        self._gained[decision.session] += sign * (state > 0)
