"""What a review has come to: the latest decision of every pair, counts by tag, tags gained an hour."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass

from positively.app.store import Action

SUGGESTED = frozenset({"likeliest", "photo"})
"""Ways of asking that suggest a tag; the others ask to learn or to check, and tell nothing of suggestions."""

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


class Tally:
    """Kept in memory beside the store, from which it is made anew after a restart."""

    def __init__(self) -> None:
        self.actions: list[Action] = []
        self.by_tag: defaultdict[str, TagTally] = defaultdict(TagTally)
        self._history: defaultdict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
        self._gained: defaultdict[int, int] = defaultdict(int)
        self._seconds: defaultdict[int, float] = defaultdict(float)
        self._last: dict[int, float] = {}

    def state(self, image: str, tag: str) -> int | None:
        """What was decided last of a pair: +1, −1, 0 for left open; None if it was never asked."""
        history = self._history.get((image, tag))
        return history[-1][0] if history else None

    def states(self) -> dict[tuple[str, str], int]:
        """What was decided last of every pair."""
        return {pair: history[-1][0] for pair, history in self._history.items() if history}

    def add(self, action: Action) -> None:
        """Count an action."""
        self.actions.append(action)
        for image, tag, state in action.decisions:
            self._count(tag, self._latest(image, tag), -1, action.session)
            self._history[image, tag].append((state, action.way))
            self._count(tag, (state, action.way), +1, action.session)
        # A coffee is not review time.
        gap = action.time - self._last.get(action.session, action.time)
        self._seconds[action.session] += min(max(gap, 0.0), _PAUSE_SECONDS)
        self._last[action.session] = action.time

    def undo(self) -> Action:
        """Take the last action out again; time stays spent."""
        action = self.actions.pop()
        for image, tag, state in action.decisions:
            self._count(tag, (state, action.way), -1, action.session)
            self._history[image, tag].pop()
            self._count(tag, self._latest(image, tag), +1, action.session)
        return action

    def gained(self, session: int | None = None) -> int:
        """Tags accepted, in all or in one session."""
        return sum(self._gained.values()) if session is None else self._gained[session]

    def minutes(self, session: int) -> float:
        """Time spent in a session, long pauses cut short."""
        since = time.time() - self._last.get(session, time.time())
        return (self._seconds[session] + min(max(since, 0.0), _PAUSE_SECONDS)) / 60

    def _latest(self, image: str, tag: str) -> tuple[int, str]:
        history = self._history.get((image, tag))
        return history[-1] if history else (0, "")

    def _count(self, tag: str, decision: tuple[int, str], sign: int, session: int) -> None:
        state, way = decision
        tally = self.by_tag[tag]
        tally.accepted += sign * (state > 0)
        tally.rejected += sign * (state < 0)
        tally.right += sign * (state > 0 and way in SUGGESTED)
        tally.judged += sign * (state != 0 and way in SUGGESTED)
        self._gained[session] += sign * (state > 0)
