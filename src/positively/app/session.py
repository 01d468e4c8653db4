"""One review: the table, its features, the store of decisions and the model that learns from each of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import RLock
from typing import Any

import numpy as np
import numpy.typing as npt

from positively.app.browsing import diverse_order
from positively.app.renewal import Renewal
from positively.app.store import DecisionStore
from positively.app.tally import Tally
from positively.errors import ConfigError
from positively.labels import LabelTable
from positively.missing.audit import AuditDesign
from positively.missing.review import ReviewModel
from positively.probe import find_series

Pair = tuple[int, str]
"""Row of a photo, and a tag."""


class ReviewSession:
    """What the page asks for and tells; any thread may call any method.

    Whatever is decided goes to the store first and to the model then, in one order for both.

    Args:
        table: What is reviewed.
        features: N×D features of its photos.
        store: Decisions, those of earlier sessions included.
        model: More for :class:`ReviewModel`, such as its seed.
    """

    def __init__(self, table: LabelTable, features: Any, store: DecisionStore, **model: Any) -> None:
        self.table, self.store, self.tally = table, store, Tally()
        self.lock = RLock()
        self.row_of = {image: row for row, image in enumerate(table.images)}
        self._features = features
        self._diverse: npt.NDArray[np.int64] | None = None
        groups = find_series(features, table.contents())
        self.model = ReviewModel(features, table.states(), list(table.classes), groups=groups, **model)
        self.version = 0
        for action in store.actions():
            self.tally.add(action)
        self._replay()
        self._restore_audit()
        self.renewal = Renewal(self.model.renew, self._changed)

    def close(self) -> None:
        """Let the background finish and close the store."""
        self.renewal.stop()
        self.store.close()

    def _replay(self) -> None:
        """Tell the model what was decided before this process began."""
        for action in self.tally.actions:
            for new in {tag: None for _, tag, state in action.decisions if state > 0 and tag not in self.model.classes}:
                # What a tag was made from is no answer; all that came later is.
                rows = [self.row_of[image] for image, tag, _ in action.decisions if tag == new and image in self.row_of]
                self.model.add_class(new, rows)
        decided = {
            (self.row_of[image], tag): state
            for (image, tag), state in self.tally.states().items()
            if image in self.row_of and tag in self.model.classes
        }
        self._tell(decided)
        if any(decided.values()):
            self.model.renew()

    def _restore_audit(self) -> None:
        """Go on with the draws of an earlier session; for other photos or tags they are drawn anew."""
        stored = self.store.arrays("audit")
        names = stored.pop("names", np.zeros(0, dtype=str)).tolist()
        if stored and names == self._names(len(stored["missing"])):
            self.model.audit = AuditDesign.from_arrays(stored)
        else:
            self._store_audit()
        self.model.ask("audit", 0, skip=self.left_open())  # the count leaves out what could not be judged

    def left_open(self) -> frozenset[tuple[int, int]]:
        """Rows and columns of the pairs that were asked and left open."""
        column = {name: number for number, name in enumerate(self.model.classes)}
        return frozenset(
            (self.row_of[image], column[tag])
            for (image, tag), state in self.tally.states().items()
            if not state and image in self.row_of and tag in column
        )

    def start_audit(self) -> None:
        """Draw the pairs of the check anew, from what is open now."""
        with self.lock:
            self.model.start_audit()
            self._store_audit()

    def _store_audit(self) -> None:
        arrays = self.model.audit.to_arrays()
        self.store.save_arrays("audit", {**arrays, "names": np.array(self._names(len(arrays["missing"])), dtype=str)})

    def _names(self, classes: int) -> list[str]:
        """What rows and columns of an audit stand for."""
        return [*self.model.classes[:classes], "", *self.table.images]

    def _tell(self, states: dict[Pair, int]) -> None:
        if states:
            column = {name: number for number, name in enumerate(self.model.classes)}
            rows = np.array([row for row, _ in states], dtype=np.int64)
            columns = np.array([column[tag] for _, tag in states], dtype=np.int64)
            self.model.answer(rows, columns, np.array(list(states.values()), dtype=np.int8))
        self._changed()

    def _changed(self) -> None:
        with self.lock:
            self.version += 1

    def decide(self, pairs: Iterable[Pair], state: int, way: str, only_open: bool = False) -> list[Pair]:
        """Write what was decided of some pairs, and learn from it.

        Args:
            pairs: Rows and tags.
            state: +1 accepted, −1 rejected, 0 left open.
            way: How they were asked.
            only_open: Leave out pairs that were decided meanwhile, in another tab.

        Returns:
            The pairs that changed.
        """
        with self.lock:
            changed = {pair: state for pair in pairs if self._is_news(pair, state, only_open)}
            if not changed:
                return []
            decisions = [(self.table.images[row], tag, state) for row, tag in changed]
            self.tally.add(self.store.add(way, decisions))
            self._tell(changed)
        self.renewal.add(len(changed))
        return list(changed)

    def _is_news(self, pair: Pair, state: int, only_open: bool) -> bool:
        row, tag = pair
        self.column(tag)
        if not 0 <= row < len(self.table):
            raise ConfigError(f"There is no photo {row}; the table has {len(self.table):,}.")
        before = self.tally.state(self.table.images[row], tag)
        return not (before and only_open) and before != state

    def undo(self) -> tuple[str, list[Pair]] | None:
        """Take the last action back, whenever and wherever it was done.

        Returns:
            What it was in a few words, and its pairs; None if there is nothing left to undo.
        """
        with self.lock:
            if not self.tally.actions:
                return None
            self.store.undo(self.tally.actions[-1].number)
            action = self.tally.undo()
            pairs = [(self.row_of[image], tag) for image, tag, _ in action.decisions if image in self.row_of]
            if action.new_tag is not None and action.new_tag in self.model.classes[len(self.table.classes) :]:
                self.model.remove_class(action.new_tag)
                if len(self.model.audit.missing) > len(self.model.classes):
                    self.start_audit()
            states = {pair: self.tally.state(self.table.images[pair[0]], pair[1]) or 0 for pair in pairs}
            self._tell({pair: state for pair, state in states.items() if pair[1] in self.model.classes})
        self.renewal.add(len(pairs))
        tags = sorted({tag for _, tag, _ in action.decisions})
        what = f"{len(action.decisions)} photos" if len(action.decisions) > 1 else "1 photo"
        about = f"the new tag {action.new_tag}" if action.new_tag else f"{', '.join(tags[:3])}, {what}"
        return about, pairs

    def add_tag(self, name: str, rows: Sequence[int]) -> str:
        """Add a tag that nobody had, from a few photos that carry it; returns its name, tidied."""
        name = " ".join(name.split())
        if not name or any(mark in name for mark in ";|"):
            raise ConfigError("A tag has a name, without ; and | in it, which separate tags in tables.")
        if not rows or not all(0 <= row < len(self.table) for row in rows):
            raise ConfigError("A new tag begins with photos that carry it. Pick some, three or more if you can.")
        with self.lock:
            alike = next((tag for tag in self.model.classes if tag.casefold() == name.casefold()), None)
            if alike is not None:
                raise ConfigError(f"There is a tag '{alike}' already.")
            chosen = sorted(set(rows))
            action = self.store.add("new tag", [(self.table.images[row], name, 1) for row in chosen], new_tag=name)
            self.tally.add(action)
            self.model.add_class(name, chosen)
            self._changed()
        self.renewal.add(len(chosen))
        return name

    def browse(self, order: str) -> npt.NDArray[np.int64]:
        """All photos in the table's order, or so that each looks unlike those before it."""
        if order == "table":
            return np.arange(len(self.table))
        with self.lock:
            if self._diverse is None:
                self._diverse = diverse_order(self._features, len(self.table))
        return self._diverse

    def column(self, tag: str) -> int:
        """Number of a tag in the model."""
        try:
            return self.model.classes.index(tag)
        except ValueError:
            raise ConfigError(f"There is no tag '{tag}'.") from None
