"""Label states of a probe, dense or sparse, read in blocks of classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from positively.errors import LabelError
from positively.labels import NEGATIVE, POSITIVE, States, check_states
from positively.randomness import random_stream

# Images × classes of one block: half a gigabyte in single precision.
_BLOCK_ENTRIES = 2**27


class ProbeLabels:
    """Mutable states N×C, and the flags of reviewed pairs.

    Args:
        states: N×C label states: +1 positive, 0 unknown, −1 negative. Array, tensor or scipy sparse matrix.
        reviewed: N×C flags of pairs that were decided because of their score; none by default. Numbers between 0 and 1
            are weights of rejected pairs: rejecting a pair with a low score adds little information.
    """

    def __init__(self, states: Any, reviewed: Any = None) -> None:
        self._is_sparse = scipy.sparse.issparse(states)
        if self._is_sparse:
            stored = scipy.sparse.csr_array(states)
            check_states(stored.data)
            self._states: Any = scipy.sparse.lil_array(stored.T, dtype=np.int8)
        else:
            self._states = check_states(states).copy()
        shape = np.shape(self._states)
        if len(shape) != 2 or not min(shape):
            raise LabelError(f"States must be images × classes, with at least one image and one class, not {shape}.")
        self.shape: tuple[int, int] = (shape[1], shape[0]) if self._is_sparse else (shape[0], shape[1])
        # By class, because few classes and few of their pairs are reviewed.
        self._reviewed: dict[int, dict[int, float]] = {}
        if reviewed is not None:
            flags = scipy.sparse.coo_array(reviewed)
            if flags.shape != self.shape:
                raise LabelError(
                    f"The reviewed flags must have the shape {self.shape} of the states, not {flags.shape}."
                )
            flags.eliminate_zeros()
            weights = flags.data.astype(np.float64)
            for row, index, weight in zip(flags.row.tolist(), flags.col.tolist(), weights.tolist(), strict=True):
                self._reviewed.setdefault(index, {})[row] = weight

    def blocks(self, arrays: int = 1, classes: npt.NDArray[np.int64] | None = None) -> Iterator[npt.NDArray[np.int64]]:
        """Indices of the classes (or of some), as many at a time as so many arrays N×K of them fit into memory."""
        chosen = np.arange(self.shape[1]) if classes is None else classes
        size = max(_BLOCK_ENTRIES // max(self.shape[0] * arrays, 1), 1)
        for start in range(0, len(chosen), size):
            yield chosen[start : start + size]

    def states(self, classes: npt.NDArray[np.int64]) -> States:
        """N×K states of some classes."""
        if self._is_sparse:
            block: States = self._states[classes].toarray().T
            return block
        chosen: States = self._states[:, classes]
        return chosen

    def reviewed(self, classes: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """N×K weights of the reviewed pairs of some classes; 0 for other pairs."""
        weights = np.zeros((self.shape[0], len(classes)), dtype=np.float32)
        for column, index in enumerate(classes.tolist()):
            marks = self._reviewed.get(index, {})
            weights[list(marks), column] = list(marks.values())
        return weights

    def targets(self, classes: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """N×K targets of the first step."""
        return targets_of(self.states(classes), self.reviewed(classes))

    def change(self, rows: npt.NDArray[np.int64], states: States, reviewed: bool) -> npt.NDArray[np.int64]:
        """Set states K×C of some rows and return the changed classes; if a row is given twice, the last one counts."""
        if len(rows) and not (rows.min() >= 0 and rows.max() < self.shape[0]):
            raise LabelError(
                f"Rows go from 0 to {self.shape[0] - 1}, not {rows[(rows < 0) | (rows >= self.shape[0])][0]}."
            )
        last = {row: place for place, row in enumerate(rows.tolist())}
        rows, states = np.array(list(last), dtype=np.int64), states[list(last.values())]
        before = self._states[:, rows].toarray().T if self._is_sparse else self._states[rows]
        places = np.nonzero(before != states)
        for place, index in zip(*(part.tolist() for part in places), strict=True):
            row = int(rows[place])
            self._states[(index, row) if self._is_sparse else (row, index)] = states[place, index]
            marks = self._reviewed.setdefault(index, {})
            marks.pop(row, None)
            if reviewed and states[place, index]:
                marks[row] = 1.0
        return np.unique(places[1])


def targets_of(states: States, reviewed: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
    """Targets of the first step: 1 for a known positive, ½ for an accepted pair, down to −½ for a rejected pair.

    The target 0 of an unknown label stands for the mean of hidden positives and negatives, and a review moves it up or
    down. Reviewed pairs have high scores, so at full weight they would outweigh the labels that are known at random.

    Args:
        states: States of any shape.
        reviewed: Weights of reviewed pairs; 0 for other pairs (see :class:`ProbeLabels`).
    """
    answered = np.where(states == POSITIVE, 0.5, -0.5 * reviewed * (states == NEGATIVE))
    return np.where(reviewed > 0, answered, states == POSITIVE).astype(np.float32)


def label_folds(
    states: States, classes: npt.NDArray[np.int64], groups: npt.NDArray[np.int64] | None, folds: int, seed: int
) -> npt.NDArray[np.int8]:
    """Fold of each known label, N×K; −1 for unknown labels. Copies are in the same fold.

    Folds are stratified by positives and negatives. The folds of a class do not depend on its block.
    """
    result = np.full(states.shape, -1, dtype=np.int8)
    for column, index in enumerate(classes.tolist()):
        stream = random_stream("label folds", seed, index)
        for sign in (POSITIVE, NEGATIVE):
            rows = np.flatnonzero(states[:, column] == sign)
            _, unit = np.unique(rows if groups is None else groups[rows], return_inverse=True)
            count = int(unit.max(initial=-1)) + 1
            result[rows, column] = stream.permutation(count)[unit] % folds
    return result
