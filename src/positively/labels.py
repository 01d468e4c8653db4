"""Label states, the sparse label table, and the masks that hide labels for a benchmark.

One convention everywhere: ``+1`` positive, ``0`` unknown, ``-1`` negative.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy

from positively.errors import LabelError, and_more
from positively.randomness import random_stream

States = npt.NDArray[np.int8]

# Rows that are made dense at once when a whole table has to be walked through.
_CHUNK_ENTRIES = 8_000_000


class LabelState(IntEnum):
    """What is known of one class in one image."""

    POSITIVE = 1
    UNKNOWN = 0
    NEGATIVE = -1


POSITIVE, UNKNOWN, NEGATIVE = LabelState.POSITIVE, LabelState.UNKNOWN, LabelState.NEGATIVE


def check_states(states: npt.ArrayLike) -> States:
    """Return ``states`` as int8, or say which value is none of +1, 0, −1.

    >>> check_states([[1, 0], [-1, 1]]).tolist()
    [[1, 0], [-1, 1]]
    """
    array = np.asarray(states)
    wrong = array[~np.isin(array, (1, 0, -1))]
    if wrong.size:
        raise LabelError(
            f"Label states are +1 (positive), 0 (unknown) and -1 (negative); found {wrong.flat[0]!s} "
            f"in {wrong.size} of {array.size} places."
        )
    return array.astype(np.int8)


def class_ratios(classes: int, ratio: float, spread: float, seed: int) -> npt.NDArray[np.float64]:
    """Share of the labels of each class that is known: σ(logit(ratio) + spread · z), z standard normal.

    >>> class_ratios(3, 0.5, 0.0, seed=0).tolist()
    [0.5, 0.5, 0.5]
    """
    if not spread or not 0 < ratio < 1:
        return np.full(classes, ratio)
    normal = random_stream("class ratios", seed).standard_normal(classes)
    return 1 / (1 + (1 - ratio) / ratio * np.exp(-spread * normal))


@dataclass(frozen=True, eq=False)
class LabelTable:
    """Images × classes, kept sparse: only what differs from the table's blank state is stored.

    ``offsets`` holds *state − blank*, so that a stored zero never occurs and a complete table (blank negative) is as
    small as one that lists positives alone (blank unknown).

    >>> table = LabelTable.from_positives(["a.jpg", "b.jpg"], ["cat", "dog"], [[0], [0, 1]])
    >>> table.states().tolist()
    [[1, 0], [1, 1]]
    >>> table.counts(POSITIVE).tolist()
    [2, 1]
    """

    images: Sequence[str]
    classes: tuple[str, ...]
    offsets: scipy.sparse.csr_array
    blank: LabelState = UNKNOWN
    root: Path = field(default_factory=Path)
    splits: Sequence[str] | None = None
    """Name of the part each image belongs to ("train", "test" …), if the file said so."""
    lines: npt.NDArray[np.int64] | None = None
    """Line of the file on which each image first stands, for messages."""
    source: str = "table"
    """Name of the table in messages."""
    origin: Path | None = None
    """File or folder the table was read from; None for a table made from arrays."""
    hashes: Sequence[str] | None = None
    """Content hash of each image, once somebody has read the files; travels with the table."""

    def __post_init__(self) -> None:
        if self.offsets.shape != (len(self.images), len(self.classes)):
            raise LabelError(
                f"{self.source}: {len(self.images)} images and {len(self.classes)} classes do not fit "
                f"a matrix of {self.offsets.shape[0]} × {self.offsets.shape[1]}."
            )
        if len(set(self.classes)) != len(self.classes):
            raise LabelError(f"{self.source}: class names must differ from one another.")
        if self.hashes is not None and len(self.hashes) != len(self.images):
            raise LabelError(f"{self.source}: {len(self.images)} images do not fit {len(self.hashes)} content hashes.")

    @classmethod
    def from_states(
        cls, images: Sequence[str], classes: Sequence[str], states: npt.ArrayLike, blank: LabelState = UNKNOWN
    ) -> LabelTable:
        """Make a table from a dense matrix of states, images × classes."""
        difference = check_states(states) - np.int8(blank)
        return cls(images, tuple(classes), scipy.sparse.csr_array(difference), blank)

    @classmethod
    def from_positives(
        cls,
        images: Sequence[str],
        classes: Sequence[str],
        positives: Sequence[Iterable[int]],
        blank: LabelState = UNKNOWN,
    ) -> LabelTable:
        """Make a table from the positive class indices of each image; everything else is ``blank``."""
        rows = [np.unique(np.fromiter(row, dtype=np.int32)) for row in positives]
        starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
        columns = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int32)
        values = np.full(len(columns), POSITIVE - blank, dtype=np.int8)
        matrix = scipy.sparse.csr_array((values, columns, starts), shape=(len(images), len(classes)))
        return cls(images, tuple(classes), matrix, blank)

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        known = ", ".join(f"{self.total(state):,} {state.name.lower()}" for state in LabelState)
        return f"LabelTable({len(self):,} images × {len(self.classes):,} classes: {known})"

    def digest(self) -> str:
        """Short name of the table's contents: images (what is in them, once they were read), classes and states."""
        code = hashlib.blake2b(repr((int(self.blank), self.classes)).encode(), digest_size=6)
        code.update("\0".join(self.images).encode("utf-8", "surrogateescape"))
        code.update("".join(self.hashes or ()).encode())
        matrix = self.offsets.sorted_indices()
        for part in (matrix.indptr, matrix.indices, matrix.data):
            code.update(part.tobytes())
        return code.hexdigest()

    def contents(self) -> npt.NDArray[np.int64]:
        """``(N,)`` number of the content of each image, in the order in which contents appear: copies share one."""
        if self.hashes is None:
            return np.arange(len(self))
        numbers: dict[str | int, int] = {}
        # An image that was not hashed is like no other.
        keys = (content or row for row, content in enumerate(self.hashes))
        return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)

    @property
    def paths(self) -> list[Path]:
        """Where each image lies."""
        return [self.root / image for image in self.images]

    def place(self, row: int) -> str:
        """Name a row as a person finds it: ``tags.csv line 14``."""
        return f"{self.source} row {row + 1}" if self.lines is None else f"{self.source} line {self.lines[row]}"

    def states(self, rows: npt.ArrayLike | slice | None = None) -> States:
        """Dense states of the rows asked for (all, unless told)."""
        chosen = self.offsets if rows is None else self.offsets[rows]
        states: States = (chosen.toarray() + np.int8(self.blank)).astype(np.int8)
        return states

    def select(self, rows: npt.ArrayLike) -> LabelTable:
        """Table of these rows, in this order."""
        index = np.asarray(rows)
        index = np.flatnonzero(index) if index.dtype == bool else index.astype(np.int64)
        listed: list[int] = index.tolist()
        return replace(
            self,
            images=[self.images[i] for i in listed],
            offsets=self.offsets[index],
            splits=None if self.splits is None else [self.splits[i] for i in listed],
            lines=None if self.lines is None else self.lines[index],
            hashes=None if self.hashes is None else [self.hashes[i] for i in listed],
        )

    def split(self, name: str) -> LabelTable:
        """Rows whose split column says ``name``."""
        if self.splits is None:
            raise LabelError(f"{self.source} has no split column, so there is no part '{name}' in it.")
        table = self.select(np.array([split == name for split in self.splits], dtype=bool))
        if not len(table):
            there_are = and_more(sorted(set(self.splits)))
            raise LabelError(f"{self.source}: no image belongs to the split '{name}'; there are {there_are}.")
        return table

    def with_classes(self, classes: Sequence[str]) -> LabelTable:
        """Same images with exactly these classes, in this order; a class the table lacks is blank throughout."""
        position = {name: i for i, name in enumerate(self.classes)}
        columns = np.array([position.get(name, len(self.classes)) for name in classes], dtype=np.int64)
        nothing = scipy.sparse.csr_array((len(self), 1), dtype=np.int8)
        padded = scipy.sparse.hstack([self.offsets, nothing], format="csr")
        return replace(self, classes=tuple(classes), offsets=scipy.sparse.csr_array(padded[:, columns]))

    def positives(self) -> scipy.sparse.csr_array:
        """Sparse 0/1 matrix of the positive labels."""
        return self._where(POSITIVE)

    def _where(self, state: LabelState) -> scipy.sparse.csr_array:
        if state == self.blank:
            raise LabelError(f"The {state.name.lower()} labels of this table are its blanks and are not listed.")
        listed = self.offsets.copy()
        listed.data = (listed.data == state - self.blank).astype(np.int8)
        listed.eliminate_zeros()
        return listed

    def counts(self, state: LabelState) -> npt.NDArray[np.int64]:
        """Number of images of each class in this state."""
        if state != self.blank:
            return np.asarray(self._where(state).sum(axis=0, dtype=np.int64)).reshape(-1)
        listed = np.bincount(self.offsets.indices, minlength=len(self.classes))
        return len(self) - listed.astype(np.int64)

    def total(self, state: LabelState) -> int:
        """Number of labels in this state, over all images and classes."""
        return int(self.counts(state).sum())

    @property
    def has_negatives(self) -> bool:
        """Whether anything is known to be absent."""
        return self.total(NEGATIVE) > 0

    @property
    def is_complete(self) -> bool:
        """Whether every label is known."""
        return self.total(UNKNOWN) == 0

    def frequencies(self) -> npt.NDArray[np.float64]:
        """Share of the images that carry each class as a known positive."""
        return self.counts(POSITIVE) / max(len(self), 1)

    def cooccurrence(self) -> scipy.sparse.csr_array:
        """Classes × classes: how many images carry both as known positives; the diagonal counts each class."""
        positives = self.positives().astype(np.int64)
        return scipy.sparse.csr_array(positives.T @ positives)

    def positives_only(self) -> LabelTable:
        """Same table with every negative forgotten: what is not positive is unknown."""
        return replace(self, offsets=self.positives(), blank=UNKNOWN)

    def with_known_ratio(self, ratio: float, seed: int = 0, spread: float = 0.0) -> LabelTable:
        """Hide labels: keep each one with probability ``ratio``, positives and negatives alike.

        With a ``spread`` the share differs from class to class (:func:`class_ratios`). One uniform draw per (image,
        class) from numpy's legacy generator, row by row; a label stays known where its draw is below the ratio, so that
        smaller ratios are nested in larger ones. Seed 0 over a table in annotation order is the mask of the published
        benchmarks.
        """
        if not 0.0 <= ratio <= 1.0:
            raise LabelError(f"The known ratio is a share between 0 and 1, not {ratio}.")
        if ratio == 1.0:
            return self
        shares = class_ratios(len(self.classes), ratio, spread, seed)
        # Fewer labels are known than hidden: list the known ones; otherwise keep the blank and list the hidden ones.
        blank = self.blank if self.blank == UNKNOWN or ratio > 0.5 else UNKNOWN
        generator = np.random.RandomState(seed)
        parts = []
        for rows in self._chunks():
            known = generator.random_sample((rows.stop - rows.start, len(self.classes))) < shares
            parts.append(scipy.sparse.csr_array(self.states(rows) * known - np.int8(blank)))
        return replace(self, offsets=scipy.sparse.csr_array(scipy.sparse.vstack(parts, format="csr")), blank=blank)

    def with_flipped_positives(self, share: float, seed: int = 0) -> LabelTable:
        """Label noise as it happens (figure 1b of the paper): this share of the positives is called negative.

        One draw a positive, so that smaller shares are nested in larger ones. On a table that only lists tags, where
        the flipped ones would be the only negatives, use :meth:`with_known_ratio` instead: there they are missing.

        >>> table = LabelTable.from_positives(["a.jpg", "b.jpg"], ["cat", "dog"], [[0], [0, 1]], blank=NEGATIVE)
        >>> table.with_flipped_positives(1.0).total(POSITIVE)
        0
        """
        if not 0.0 <= share <= 1.0:
            raise LabelError(f"The share of positives to flip lies between 0 and 1, not {share}.")
        if not self.has_negatives:
            raise LabelError(f"{self.source} has no negative labels, so that no positive can be flipped to one.")
        flipped = self.offsets.sorted_indices()
        is_positive = flipped.data == POSITIVE - self.blank
        draws = random_stream("flip", seed).random(int(is_positive.sum()))
        flipped.data[np.flatnonzero(is_positive)[draws < share]] = NEGATIVE - self.blank
        flipped.eliminate_zeros()
        return replace(self, offsets=flipped)

    def with_single_positive(self, seed: int = 0) -> LabelTable:
        """Keep one positive of each image, drawn at random; every other label, negatives included, is unknown.

        >>> table = LabelTable.from_positives(["a.jpg", "b.jpg"], ["cat", "dog"], [[0], [0, 1]])
        >>> table.with_single_positive().total(POSITIVE)
        2
        """
        positives = self.positives().sorted_indices()
        counts = np.diff(positives.indptr)
        draws = random_stream("one", seed).random(len(self))
        chosen = positives.indices[(positives.indptr[:-1] + (draws * counts).astype(np.int64))[counts > 0]]
        starts = np.concatenate([[0], np.cumsum(counts > 0)]).astype(np.int32)
        single = scipy.sparse.csr_array((np.ones(len(chosen), dtype=np.int8), chosen, starts), shape=positives.shape)
        return replace(self, offsets=single, blank=UNKNOWN)

    def _chunks(self) -> Iterator[slice]:
        step = max(1, _CHUNK_ENTRIES // max(len(self.classes), 1))
        for start in range(0, len(self), step):
            yield slice(start, min(start + step, len(self)))
