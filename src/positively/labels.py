"""Label states, the sparse label table, and masks that hide labels for benchmarks.

Label states are ``+1`` positive, ``0`` unknown and ``-1`` negative everywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from html import escape
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy

from positively.errors import LabelError, and_more
from positively.randomness import random_stream

States = npt.NDArray[np.int8]

# Number of states that are made dense at once when a whole table is processed.
_CHUNK_ENTRIES = 8_000_000


class LabelState(IntEnum):
    """Label of one class in one image."""

    POSITIVE = 1
    UNKNOWN = 0
    NEGATIVE = -1


POSITIVE, UNKNOWN, NEGATIVE = LabelState.POSITIVE, LabelState.UNKNOWN, LabelState.NEGATIVE


def check_states(states: npt.ArrayLike) -> States:
    """Return ``states`` as int8; raise a LabelError if a value is none of +1, 0, −1.

    >>> check_states([[1, 0], [-1, 1]]).tolist()
    [[1, 0], [-1, 1]]
    """
    array = np.asarray(states)
    wrong = array[~np.isin(array, (1, 0, -1))]
    if wrong.size and wrong.dtype.kind == "f" and np.isnan(wrong).all():
        raise LabelError("Label states contain NaN. Use 0 for unknown labels, for example Y.fillna(0).")
    if wrong.size:
        raise LabelError(
            f"Label states must be +1 (positive), 0 (unknown) or -1 (negative); found {wrong.flat[0]!s} "
            f"in {wrong.size} of {array.size} places."
        )
    return array.astype(np.int8)


def class_ratios(classes: int, ratio: float, spread: float, seed: int) -> npt.NDArray[np.float64]:
    """Known ratio of each class: σ(logit(ratio) + spread · z) with z standard normal.

    >>> class_ratios(3, 0.5, 0.0, seed=0).tolist()
    [0.5, 0.5, 0.5]
    """
    if not spread or not 0 < ratio < 1:
        return np.full(classes, ratio)
    normal = random_stream("class ratios", seed).standard_normal(classes)
    return 1 / (1 + (1 - ratio) / ratio * np.exp(-spread * normal))


# Rows of the table that a notebook shows.
_SHOWN_CLASSES = 10


@dataclass(frozen=True, eq=False)
class LabelTable:
    """Sparse label states of images × classes.

    Only states that differ from the ``blank`` state are stored, as ``offsets`` = state − blank. A complete table (blank
    negative) is therefore as small as a table that lists positives only (blank unknown).

    Attributes:
        images: The N image names, relative to ``root``.
        classes: The C class names.
        offsets: N×C sparse matrix of state − blank.
        blank: State of all labels that are not stored.
        root: Folder of the images.

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
    """Split of each image ("train", "test" …), if the file has one."""
    lines: npt.NDArray[np.int64] | None = None
    """First line of each image in the file, for messages."""
    source: str = "table"
    """Name of the table in messages."""
    origin: Path | None = None
    """File or folder the table was read from; None for a table made from arrays."""
    hashes: Sequence[str] | None = None
    """Content hash of each image, once the files have been read."""
    reviewed: scipy.sparse.csr_array | None = None
    """N×C flags of labels that were decided because of their score, and so are not known at random."""

    def __post_init__(self) -> None:
        if self.offsets.shape != (len(self.images), len(self.classes)):
            raise LabelError(
                f"{self.source}: {len(self.images)} images and {len(self.classes)} classes do not fit "
                f"a matrix of {self.offsets.shape[0]} × {self.offsets.shape[1]}."
            )
        if len(set(self.classes)) != len(self.classes):
            raise LabelError(f"{self.source}: class names must differ from each other.")
        if self.hashes is not None and len(self.hashes) != len(self.images):
            raise LabelError(f"{self.source}: {len(self.images)} images do not fit {len(self.hashes)} content hashes.")
        if self.reviewed is not None and self.reviewed.shape != self.offsets.shape:
            raise LabelError(f"{self.source}: flags of reviewed labels must have the shape of the labels.")

    @classmethod
    def from_states(
        cls, images: Sequence[str], classes: Sequence[str], states: npt.ArrayLike, blank: LabelState = UNKNOWN
    ) -> LabelTable:
        """Make a table from a dense matrix of states.

        Args:
            images: N image names.
            classes: C class names.
            states: N×C label states: +1 positive, 0 unknown, −1 negative.
            blank: The state that is not stored; choose the most frequent one.
        """
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
        """Make a table from the positive classes of each image.

        Args:
            images: N image names.
            classes: C class names.
            positives: For each image, the indices of its positive classes.
            blank: State of all other labels.
        """
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

    def _repr_html_(self) -> str:
        """The size of the table and its most frequent classes, for notebooks."""
        counts = self.counts(POSITIVE)
        rows = "".join(
            f"<tr><td>{escape(self.classes[column])}</td><td>{counts[column]:,}</td></tr>"
            for column in np.argsort(-counts, kind="stable")[:_SHOWN_CLASSES]
        )
        return f"<p>{escape(repr(self))}</p><table><tr><th>class</th><th>images</th></tr>{rows}</table>"

    def digest(self) -> str:
        """Short hash of images (names, and contents if they were read), classes and states."""
        code = hashlib.blake2b(repr((int(self.blank), self.classes)).encode(), digest_size=6)
        code.update("\0".join(self.images).encode("utf-8", "surrogateescape"))
        code.update("".join(self.hashes or ()).encode())
        matrix = self.offsets.sorted_indices()
        for part in (matrix.indptr, matrix.indices, matrix.data):
            code.update(part.tobytes())
        if self.reviewed is not None:
            code.update(np.stack(self.reviewed.nonzero()).tobytes())
        return code.hexdigest()

    def contents(self) -> npt.NDArray[np.int64]:
        """``(N,)`` content number of each image, in order of appearance; copies have the same number."""
        if self.hashes is None:
            return np.arange(len(self))
        numbers: dict[str | int, int] = {}
        # An image without a hash is not a copy of any other.
        keys = (content or row for row, content in enumerate(self.hashes))
        return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)

    @property
    def paths(self) -> list[Path]:
        """Path of each image."""
        return [self.root / image for image in self.images]

    def place(self, row: int) -> str:
        """Name of a row for messages: ``tags.csv line 14``."""
        return f"{self.source} row {row + 1}" if self.lines is None else f"{self.source} line {self.lines[row]}"

    def states(self, rows: npt.ArrayLike | slice | None = None) -> States:
        """Dense N×C label states of some rows; of all rows by default."""
        chosen = self.offsets if rows is None else self.offsets[rows]
        states: States = (chosen.toarray() + np.int8(self.blank)).astype(np.int8)
        return states

    def select(self, rows: npt.ArrayLike) -> LabelTable:
        """Table of these rows, by index or flag, in this order."""
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
            reviewed=None if self.reviewed is None else self.reviewed[index],
        )

    def split(self, name: str) -> LabelTable:
        """Table of the rows of one split.

        Raises:
            LabelError: if the table has no such split.
        """
        if self.splits is None:
            raise LabelError(f"{self.source} has no split column, so it has no split '{name}'.")
        table = self.select(np.array([split == name for split in self.splits], dtype=bool))
        if not len(table):
            there_are = and_more(sorted(set(self.splits)))
            raise LabelError(f"{self.source}: no image belongs to the split '{name}'; its splits are {there_are}.")
        return table

    def with_classes(self, classes: Sequence[str]) -> LabelTable:
        """Table with exactly these classes, in this order; a new class is blank for all images."""
        position = {name: i for i, name in enumerate(self.classes)}
        columns = np.array([position.get(name, len(self.classes)) for name in classes], dtype=np.int64)
        nothing = scipy.sparse.csr_array((len(self), 1), dtype=np.int8)

        def moved(matrix: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
            return scipy.sparse.csr_array(scipy.sparse.hstack([matrix, nothing], format="csr")[:, columns])

        reviewed = None if self.reviewed is None else moved(self.reviewed)
        return replace(self, classes=tuple(classes), offsets=moved(self.offsets), reviewed=reviewed)

    def positives(self) -> scipy.sparse.csr_array:
        """Sparse 0/1 matrix of the positive labels."""
        return self._where(POSITIVE)

    def _where(self, state: LabelState) -> scipy.sparse.csr_array:
        if state == self.blank:
            raise LabelError(f"The {state.name.lower()} labels of this table are blank and therefore not listed.")
        listed = self.offsets.copy()
        listed.data = (listed.data == state - self.blank).astype(np.int8)
        listed.eliminate_zeros()
        return listed

    def counts(self, state: LabelState) -> npt.NDArray[np.int64]:
        """``(C,)`` number of images of each class in this state."""
        if state != self.blank:
            return np.asarray(self._where(state).sum(axis=0, dtype=np.int64)).reshape(-1)
        listed = np.bincount(self.offsets.indices, minlength=len(self.classes))
        return len(self) - listed.astype(np.int64)

    def total(self, state: LabelState) -> int:
        """Number of labels in this state, over all images and classes."""
        return int(self.counts(state).sum())

    @property
    def has_negatives(self) -> bool:
        """Whether any label is negative."""
        return self.total(NEGATIVE) > 0

    @property
    def is_complete(self) -> bool:
        """Whether no label is unknown."""
        return self.total(UNKNOWN) == 0

    def frequencies(self) -> npt.NDArray[np.float64]:
        """``(C,)`` share of the images in which each class is a known positive."""
        return self.counts(POSITIVE) / max(len(self), 1)

    def cooccurrence(self) -> scipy.sparse.csr_array:
        """C×C number of images in which both classes are known positives; the diagonal counts each class."""
        positives = self.positives().astype(np.int64)
        return scipy.sparse.csr_array(positives.T @ positives)

    def positives_only(self) -> LabelTable:
        """Table with all negatives set to unknown."""
        return replace(self, offsets=self.positives(), blank=UNKNOWN)

    def with_known_ratio(self, ratio: float, seed: int = 0, spread: float = 0.0) -> LabelTable:
        """Hide labels: keep each positive and each negative with probability ``ratio``.

        The labels known at a smaller ratio are a subset of those known at a larger ratio with the same seed. Seed 0 on
        a table in annotation order gives the masks of the published benchmarks: one uniform draw per image and class
        from numpy's legacy generator, row by row.

        Args:
            ratio: Share of the labels to keep.
            seed: Seed of the mask.
            spread: If above 0, the share differs between classes (:func:`class_ratios`).
        """
        if not 0.0 <= ratio <= 1.0:
            raise LabelError(f"The known ratio must be between 0 and 1, not {ratio}.")
        if ratio == 1.0:
            return self
        shares = class_ratios(len(self.classes), ratio, spread, seed)
        # Store the smaller set: the known labels, or the hidden ones as differences from the blank.
        blank = self.blank if self.blank == UNKNOWN or ratio > 0.5 else UNKNOWN
        generator = np.random.RandomState(seed)
        parts = []
        for rows in self._chunks():
            known = generator.random_sample((rows.stop - rows.start, len(self.classes))) < shares
            parts.append(scipy.sparse.csr_array(self.states(rows) * known - np.int8(blank)))
        return replace(self, offsets=scipy.sparse.csr_array(scipy.sparse.vstack(parts, format="csr")), blank=blank)

    def with_flipped_positives(self, share: float, seed: int = 0) -> LabelTable:
        """Add label noise (figure 1b of the paper): turn this share of the positives into negatives.

        The positives flipped with a smaller share are a subset of those flipped with a larger one. For a table that
        only lists tags, use :meth:`with_known_ratio` instead, because the flipped labels would be the only negatives.

        >>> table = LabelTable.from_positives(["a.jpg", "b.jpg"], ["cat", "dog"], [[0], [0, 1]], blank=NEGATIVE)
        >>> table.with_flipped_positives(1.0).total(POSITIVE)
        0
        """
        if not 0.0 <= share <= 1.0:
            raise LabelError(f"The share of positives to flip must be between 0 and 1, not {share}.")
        if not self.has_negatives:
            raise LabelError(f"{self.source} has no negative labels, so positives cannot be flipped to negative.")
        flipped = self.offsets.sorted_indices()
        is_positive = flipped.data == POSITIVE - self.blank
        draws = random_stream("flip", seed).random(int(is_positive.sum()))
        flipped.data[np.flatnonzero(is_positive)[draws < share]] = NEGATIVE - self.blank
        flipped.eliminate_zeros()
        return replace(self, offsets=flipped)

    def with_single_positive(self, seed: int = 0) -> LabelTable:
        """Keep one random positive of each image; all other labels, including negatives, become unknown.

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
