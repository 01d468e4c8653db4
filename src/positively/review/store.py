"""Decisions of a review in one SQLite file. Each is on disk before the page confirms it, and none is deleted.

One process uses the file at a time, by SQLite's own lock, which the system releases when the process ends. Every commit
is synced to the disk (``synchronous=FULL``), which takes a few milliseconds, so a power failure loses no decision.
"""

from __future__ import annotations

import io
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import numpy.typing as npt

from positively.errors import ConfigError, FileError, option
from positively.files import refuse_foreign
from positively.images.decode import content_hash
from positively.labels import LabelTable
from positively.tables.names import normalized

APPLICATION = 0x706F7331
"""Application id of our SQLite files: "pos1"."""

_SCHEMA = """
CREATE TABLE tables (id INTEGER PRIMARY KEY, time REAL NOT NULL, source TEXT NOT NULL);
CREATE TABLE images (name TEXT PRIMARY KEY, hash TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE sessions (id INTEGER PRIMARY KEY, time REAL NOT NULL);
CREATE TABLE actions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time REAL NOT NULL,
    session INTEGER NOT NULL REFERENCES sessions,
    way TEXT NOT NULL,
    new_tag TEXT,
    undone REAL
);
CREATE TABLE decisions (
    action INTEGER NOT NULL REFERENCES actions,
    image TEXT NOT NULL,
    tag TEXT NOT NULL,
    state INTEGER NOT NULL CHECK (state IN (-1, 0, 1)),
    PRIMARY KEY (action, image, tag)
) WITHOUT ROWID;
CREATE TABLE arrays (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE exports (id INTEGER PRIMARY KEY, time REAL NOT NULL, path TEXT NOT NULL, hash TEXT NOT NULL);
"""


@dataclass(frozen=True)
class Action:
    """One user action: pairs of image and tag with their decisions."""

    number: int
    time: float
    session: int
    way: str
    """How the question was asked, such as "likeliest" or "audit"."""
    new_tag: str | None
    """Tag that was created by it."""
    decisions: tuple[tuple[str, str, int], ...]
    """Image, tag and +1 (accepted), −1 (rejected) or 0 (left open)."""


class Spelling:
    """One spelling for names that differ only in case or spaces: the table's, else the first one used."""

    def __init__(self, classes: Sequence[str]) -> None:
        self._exact, self._spelled = frozenset(classes), {normalized(name): name for name in reversed(classes)}

    def __call__(self, tag: str) -> str:
        """The spelling of a tag."""
        return tag if tag in self._exact else self._spelled.setdefault(normalized(tag), tag)


class DecisionStore:
    """The file of decisions, opened for one table; thread-safe."""

    def __init__(self, path: Path, table: LabelTable) -> None:
        self.path = path
        self._lock = RLock()
        self._classes = table.classes
        with _as_sentences(path):
            refuse_foreign(path, _is_review)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(path, timeout=0.5, isolation_level=None, check_same_thread=False)
            self._open(table)

    def _open(self, table: LabelTable) -> None:
        try:
            # First, so that the lock is held from the start.
            self._file.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._file.execute("PRAGMA synchronous=FULL")
            with self._transaction():
                if not self._file.execute("SELECT 1 FROM sqlite_master").fetchone():
                    for statement in _SCHEMA.split(";"):
                        self._file.execute(statement)
                    self._file.execute(f"PRAGMA application_id={APPLICATION}")
                self._refuse_other_table(table)
            self._file.execute("PRAGMA journal_mode=WAL")  # after the application id is in the file itself
            with self._transaction():
                self._remember(table)
                self.session = int(self._insert("INSERT INTO sessions (time) VALUES (?)", time.time()))
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """Close the file."""
        with self._lock, suppress(sqlite3.Error):
            self._file.close()

    def add(self, way: str, decisions: Iterable[tuple[str, str, int]], new_tag: str | None = None) -> Action:
        """Write one action to disk."""
        pairs, now = tuple(decisions), time.time()
        with self._transaction():
            columns = "INSERT INTO actions (time, session, way, new_tag) VALUES (?, ?, ?, ?)"
            number = self._insert(columns, now, self.session, way, new_tag)
            rows = [(number, *pair) for pair in pairs]
            self._file.executemany("INSERT INTO decisions (action, image, tag, state) VALUES (?, ?, ?, ?)", rows)
        return Action(number, now, self.session, way, new_tag, pairs)

    def undo(self, number: int) -> None:
        """Mark an action as undone; it stays in the file."""
        with self._transaction():
            self._file.execute("UPDATE actions SET undone = ? WHERE id = ?", (time.time(), number))

    def actions(self) -> list[Action]:
        """All actions that were not undone, oldest first, with tags spelled as in the table."""
        spell = Spelling(self._classes)
        with self._lock, _as_sentences(self.path):
            pairs: dict[int, list[tuple[str, str, int]]] = {}
            columns = "SELECT action, image, tag, state FROM decisions JOIN actions ON action = id"
            for number, image, tag, state in self._file.execute(f"{columns} WHERE undone IS NULL ORDER BY id"):
                pairs.setdefault(number, []).append((image, spell(tag), state))
            columns = "SELECT id, time, session, way, new_tag FROM actions WHERE undone IS NULL ORDER BY id"
            return [
                Action(number, when, session, way, new_tag and spell(new_tag), tuple(pairs.get(number, ())))
                for number, when, session, way, new_tag in self._file.execute(columns)
            ]

    def save_arrays(self, group: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Store named arrays, replacing those of the same group."""
        with self._transaction():
            self._file.execute("DELETE FROM arrays WHERE name LIKE ? || '/%'", (group,))
            for name, array in arrays.items():
                value = io.BytesIO()
                np.save(value, array, allow_pickle=False)
                self._file.execute("INSERT INTO arrays VALUES (?, ?)", (f"{group}/{name}", value.getvalue()))

    def arrays(self, group: str) -> dict[str, npt.NDArray[Any]]:
        """Arrays of a group by name."""
        with self._lock, _as_sentences(self.path):
            rows = self._file.execute("SELECT name, value FROM arrays WHERE name LIKE ? || '/%'", (group,)).fetchall()
        values = {name.partition("/")[2]: io.BytesIO(value) for name, value in rows}
        return {name: np.load(value, allow_pickle=False) for name, value in values.items()}

    def add_export(self, path: Path) -> None:
        """Record an exported file, so that it may be replaced later."""
        with self._transaction():
            row = (time.time(), str(path.resolve()), content_hash(path))
            self._insert("INSERT INTO exports (time, path, hash) VALUES (?, ?, ?)", *row)

    def is_own_export(self, path: Path) -> bool:
        """Whether a file was exported from this review and is unchanged."""
        with self._lock, _as_sentences(self.path):
            found = self._file.execute("SELECT hash FROM exports WHERE path = ?", (str(path.resolve()),)).fetchall()
        return bool(found) and (content_hash(path),) in found

    def _refuse_other_table(self, table: LabelTable) -> None:
        stored = dict(self._file.execute("SELECT name, hash FROM images"))
        sources = [source for (source,) in self._file.execute("SELECT DISTINCT source FROM tables")]
        hashes = table.hashes or [""] * len(table)
        now = dict(zip(table.images, hashes, strict=True))
        names = sum(name in now for name in stored)
        contents = sum(bool(code) and now.get(name) == code for name, code in stored.items())
        # A table of the same name may have edited photos; for another name, the contents must match.
        if stored and 2 * (names if table.source in sources else contents) < len(stored):
            raise ConfigError(
                f"{self.path} holds the review of other photos: {len(stored):,} photos of {', '.join(sources)}; "
                f"{names:,} of them are in {table.source}, {contents:,} with the same content. "
                f"Choose another file with {option('out', 'FILE')}."
            )

    def _remember(self, table: LabelTable) -> None:
        self._insert("INSERT INTO tables (time, source) VALUES (?, ?)", time.time(), table.source)
        rows = zip(table.images, table.hashes or [""] * len(table), strict=True)
        # A table without hashes keeps the stored ones.
        update = "ON CONFLICT (name) DO UPDATE SET hash = excluded.hash WHERE excluded.hash <> ''"
        self._file.executemany(f"INSERT INTO images VALUES (?, ?) {update}", rows)

    def _insert(self, statement: str, *values: object) -> int:
        return int(self._file.execute(statement, values).lastrowid or 0)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """An atomic transaction, on disk at the end."""
        with self._lock, _as_sentences(self.path):
            self._file.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._file.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # a failed commit has already rolled back
                    self._file.execute("ROLLBACK")
                raise


def _is_review(path: Path) -> bool:
    """Whether a file is empty or holds decisions, by its first bytes, because SQLite could change it."""
    with path.open("rb") as file:
        header = file.read(100)
    is_database = len(header) == 100 and header.startswith(b"SQLite format 3\0")
    return not header or (is_database and int.from_bytes(header[68:72]) == APPLICATION)


@contextmanager
def _as_sentences(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise ConfigError(
                f"{path} is open in another review. Continue there, or stop it first (Ctrl-C in its terminal)."
            ) from None
        raise FileError(
            f"{path} cannot be used: {error}. Check the disk and the permissions, or choose another file with "
            f"{option('out', 'FILE')}."
        ) from None
    except sqlite3.DatabaseError as error:
        fix = f"Restore it from a backup, or choose another file with {option('out', 'FILE')}"
        raise FileError(f"{path} cannot be read: {error}. {fix}.") from None
    except OSError as error:
        raise FileError(
            f"{path} cannot be used: {error.strerror}. Choose another file with {option('out', 'FILE')}."
        ) from None
