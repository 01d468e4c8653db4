"""One review: the table, its embeddings, the store of decisions, and the model that learns from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import numpy.typing as npt

from positively.errors import ConfigError
from positively.labels import LabelTable, States
from positively.probe import find_series, reviewed_labels
from positively.review.audit import AuditDesign
from positively.review.browsing import diverse_order
from positively.review.model import ReviewModel
from positively.review.renewal import Renewal
from positively.review.store import DecisionStore, Spelling
from positively.review.tally import Tally, is_skip
from positively.tables.names import normalized
from positively.tables.options import ReadOptions
from positively.tables.write_back import check_tag, row_format

Pair = tuple[int, str]
"""Row of a photo, and a tag."""


class ReviewSession:
    """The operations of the page; thread-safe.

    Every decision goes first to the store and then to the model, in the same order.

    Args:
        table: What is reviewed.
        features: N×D features of its photos.
        store: Decisions, those of earlier sessions included.
        source: File the table was read from; a new tag must fit into it.
        options: How it was read.
        model: Options of :class:`ReviewModel`, such as its seed.
    """

    def __init__(
        self,
        table: LabelTable,
        features: Any,
        store: DecisionStore,
        source: Path | None = None,
        options: ReadOptions | None = None,
        **model: Any,
    ) -> None:
        self.table, self.store, self.tally = table, store, Tally()
        self._source, self._options = source, options or ReadOptions()
        self.lock = RLock()
        self.row_of = {image: row for row, image in enumerate(table.images)}
        self._features = features
        self._diverse: npt.NDArray[np.int64] | None = None
        for action in store.actions():
            self.tally.add(action)
        groups, states = find_series(features, table.contents()), table.states()
        reviewed = self._written_back(states)
        self.model = ReviewModel(features, states, list(table.classes), groups=groups, reviewed=reviewed, **model)
        self.version = 0
        self._replay()
        self._restore_audit()
        self.renewal = Renewal(self.model.renew, self._changed)

    def close(self) -> None:
        """Stop the background work and close the store."""
        self.renewal.stop()
        self.store.close()

    def _written_back(self, states: States) -> npt.NDArray[np.bool_]:
        """N×C labels that a review selected by their score: those the table lists, and those of this review."""
        column = {name: number for number, name in enumerate(self.table.classes)}
        listed = reviewed_labels(self.table)
        flags = np.zeros(states.shape, dtype=np.bool_) if listed is None else listed.toarray().astype(np.bool_)
        for (image, tag), state in self.tally.states().items():
            if image in self.row_of and tag in column:
                place = self.row_of[image], column[tag]
                flags[place] = state != 0 and states[place] == state
        return flags

    def _replay(self) -> None:
        """Apply the stored decisions to the model."""
        there = set(self.model.classes)
        for action in self.tally.actions:
            for new in sorted({tag for _, tag, state in action.decisions if state > 0} - there):
                # The photos a tag was created from are not answers; everything later is.
                rows = [self.row_of[image] for image, tag, _ in action.decisions if tag == new and image in self.row_of]
                self.model.add_class(new, rows)
                there.add(new)
        decided = {
            (self.row_of[image], tag): state
            for (image, tag), state in self.tally.states().items()
            if image in self.row_of and tag in there
        }
        self._update_model(decided)
        if any(decided.values()):
            self.model.renew()

    def _restore_audit(self) -> None:
        """Restore the random checks of an earlier session, or draw new ones if photos or classes differ."""
        stored = self.store.arrays("audit")
        images = stored.pop("images", np.zeros(0, dtype=str)).tolist()
        if images == list(self.table.images) and stored.keys() == self.model.audit.to_arrays().keys():
            spell = Spelling(self.model.classes)
            stored["classes"] = np.array([spell(name) for name in stored["classes"].tolist()], dtype=str)
            if set(self.table.classes) <= set(stored["classes"].tolist()):
                self.model.audit = AuditDesign.from_arrays(stored)
        self._store_audit()

    def left_open(self) -> frozenset[tuple[int, int]]:
        """Rows and columns of skipped pairs."""
        column = {name: number for number, name in enumerate(self.model.classes)}
        return frozenset(
            (self.row_of[image], column[tag])
            for image, tag in self.tally.skipped
            if image in self.row_of and tag in column
        )

    def decided(self) -> dict[tuple[str, str], int]:
        """A snapshot of the latest decision for every image and tag."""
        with self.lock:
            return self.tally.states()

    def start_audit(self) -> None:
        """Draw new random checks from the open pairs."""
        with self.lock:
            self.model.start_audit()
            self._store_audit()

    def _store_audit(self) -> None:
        images = np.array(self.table.images, dtype=str)
        self.store.save_arrays("audit", {**self.model.audit.to_arrays(), "images": images})

    def _leave_audit(self, tag: str) -> None:
        """Remove a tag from the random checks; a later tag of the same name is a different tag."""
        audit = self.model.audit
        if tag in audit.classes:
            self.model.audit = replace(audit, classes=np.where(audit.classes == tag, "", audit.classes))
            self._store_audit()

    @property
    def unchecked(self) -> list[str]:
        """Tags that the random checks do not cover."""
        covered = set(self.model.audit.classes.tolist())
        return [name for name in self.model.classes if name not in covered]

    def _update_model(self, states: dict[Pair, int]) -> None:
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
        """Store decisions about some pairs, and learn from them.

        Args:
            pairs: Rows and tags.
            state: +1 accepted, −1 rejected, 0 cleared or skipped.
            way: How they were asked; "skip" for what cannot be judged.
            only_open: Leave out pairs that were decided meanwhile, in another tab.

        Returns:
            The pairs that changed.
        """
        with self.lock:
            # A decision that repeats a known label only clears an opposite decision.
            wanted = {pair: 0 if state and self.recorded(*pair) == state else state for pair in pairs}
            changed = {pair: new for pair, new in wanted.items() if self._is_news(pair, new, way, only_open)}
            if not changed:
                return []
            decisions = [(self.table.images[row], tag, new) for (row, tag), new in changed.items()]
            self.tally.add(self.store.add(way, decisions))
            self._update_model(changed)
        self.renewal.add(len(changed))
        return list(changed)

    def _is_news(self, pair: Pair, state: int, way: str, only_open: bool) -> bool:
        row, tag = pair
        image = self.table.images[row]
        before = self.tally.state(image, tag) or 0
        if not (state or before):
            return is_skip(state, way) and (image, tag) not in self.tally.skipped
        return not (before and only_open) and before != state

    def recorded(self, row: int, tag: str) -> int:
        """State of a pair before the review."""
        self.check_row(row)
        return int(self.model.columns[self.column(tag)].labels.before[row])

    def is_open(self, pair: Pair) -> bool:
        """Whether a pair is open: its tag exists, and it was neither answered nor skipped."""
        row, tag = pair
        if tag not in self.model.classes:
            return False
        is_known = self.model.columns[self.column(tag)].labels.states[row] != 0
        return not (is_known or (self.table.images[row], tag) in self.tally.skipped)

    def check_row(self, row: int) -> None:
        """Raise if the photo does not exist."""
        if not 0 <= row < len(self.table):
            raise ConfigError(f"Photo {row} does not exist; the table has {len(self.table):,} photos.")

    def undo(self) -> tuple[str, list[Pair]] | None:
        """Undo the last action, also of an earlier session or another page.

        Returns:
            A short description and the pairs of the action; None if there is nothing to undo.
        """
        with self.lock:
            if not self.tally.actions:
                return None
            self.store.undo(self.tally.actions[-1].number)
            action = self.tally.undo()
            pairs = [(self.row_of[image], tag) for image, tag, _ in action.decisions if image in self.row_of]
            if action.new_tag is not None and action.new_tag in self.model.classes[len(self.table.classes) :]:
                self.model.remove_class(action.new_tag)
                self._leave_audit(action.new_tag)
            states = {pair: self.tally.state(self.table.images[pair[0]], pair[1]) or 0 for pair in pairs}
            self._update_model({pair: state for pair, state in states.items() if pair[1] in self.model.classes})
        self.renewal.add(len(pairs))
        tags = sorted({tag for _, tag, _ in action.decisions})
        what = f"{len(action.decisions)} photos" if len(action.decisions) > 1 else "1 photo"
        about = f"the new tag {action.new_tag}" if action.new_tag else f"{', '.join(tags[:3])}, {what}"
        return about, pairs

    def add_tag(self, name: str, rows: Sequence[int]) -> str:
        """Add a new tag from a few photos that carry it; returns its cleaned name."""
        is_listed = self._source is not None and row_format(self._source) is not None
        # Reviews of a folder are written as a table with ; between tags.
        name = check_tag(name, self._source, self._options if is_listed else replace(self._options, separator=";"))
        if not rows or not all(0 <= row < len(self.table) for row in rows):
            raise ConfigError("A new tag needs photos that carry it. Pick at least one, better three or more.")
        with self.lock:
            alike = next((tag for tag in self.model.classes if normalized(tag) == normalized(name)), None)
            if alike is not None:
                raise ConfigError(f"The tag '{alike}' exists already.")
            chosen = sorted(set(rows))
            action = self.store.add("new tag", [(self.table.images[row], name, 1) for row in chosen], new_tag=name)
            self.tally.add(action)
            self.model.add_class(name, chosen)
            self._changed()
        self.renewal.add(len(chosen))
        return name

    def browse(self, order: str) -> npt.NDArray[np.int64]:
        """All photos in the order of the table, or in a varied order."""
        if order == "table":
            return np.arange(len(self.table))
        with self.lock:
            if self._diverse is None:
                self._diverse = diverse_order(self._features, len(self.table))
        return self._diverse

    def column(self, tag: str) -> int:
        """Column of a tag in the model."""
        try:
            return self.model.classes.index(tag)
        except ValueError:
            raise ConfigError(f"The tag '{tag}' does not exist.") from None
