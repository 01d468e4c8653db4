"""Rank missing and suspicious tags by out-of-sample scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from positively.calibration import Calibration
from positively.errors import LabelError
from positively.labels import POSITIVE, UNKNOWN, States
from positively.missing.result import ClassCounts, MissingTags, Pairs

Classes = npt.NDArray[np.int64]
Scores = npt.NDArray[np.floating]
Part = tuple[Classes, Classes, npt.NDArray[np.float32]]

# Images × classes of a block: a few arrays of this size in double precision take less than a gigabyte.
_BLOCK_ENTRIES = 2**23


def rank_missing(
    scores: Scores | Callable[[Classes], Scores],
    states: States | Callable[[Classes], States],
    calibration: Calibration,
    images: Sequence[str],
    classes: Sequence[str],
    *,
    min_probability: float = 0.0,
) -> MissingTags:
    """List the tags that are probably missing from a table, and the ones that look wrong.

    Args:
        scores: N×C out-of-sample scores, each made without the label of the image itself; or a function that returns
            those of some classes. Known positives are corrected for having been scored with one positive fewer.
        states: N×C label states; or a function that returns those of some classes.
        calibration: Calibration of these scores.
        images: N names.
        classes: C names.
        min_probability: Leave out what is less probable than this. The counts include it.
    """
    names, count = tuple(classes), len(images)
    if len(names) != len(calibration.slope):
        raise LabelError(f"There are {len(calibration.slope)} classes and {len(names)} names of classes.")
    missing: list[Part] = []
    doubtful: list[Part] = []
    known = np.zeros(len(names), dtype=np.int64)
    size = max(_BLOCK_ENTRIES // max(count, 1), 1)
    for start in range(0, len(names), size):
        block = np.arange(start, min(start + size, len(names)))
        part_scores = scores(block) if callable(scores) else scores[:, block]
        part_states = states(block) if callable(states) else states[:, block]
        if len(part_states) != count:
            raise LabelError(f"There are {len(part_states)} images and {count} names of images.")
        meaning = calibration.select(block)
        known[block] = (part_states == POSITIVE).sum(axis=0)
        targets = meaning.soft_targets(part_scores, part_states).astype(np.float32)
        listed = (part_states == UNKNOWN) & meaning.learned & (targets >= min_probability)
        missing.append(_part(targets, listed, start))
        doubt = _doubt(meaning, part_scores, count)
        doubtful.append(_part(doubt, (part_states == POSITIVE) & meaning.learned & (doubt > 0.0), start))
    rows, columns, probabilities = _sorted(missing)
    counts = ClassCounts(
        known=known,
        missing=np.maximum(calibration.positives - known, 0.0),
        at_most=np.maximum(calibration.at_most - known, 0.0),
        learned=calibration.learned,
    )
    return MissingTags(images, names, rows, columns, probabilities, counts, Pairs(images, names, *_sorted(doubtful)))


def _doubt(calibration: Calibration, scores: Scores, images: int) -> npt.NDArray[np.float32]:
    """Log ratio of the densities of the score among images without and with the tag: (1 − p)/p · π/(1 − π).

    This order does not depend on how many tags are wrong.
    """
    share = np.clip(calibration.positives / max(images, 1), 1e-9, 1.0 - 1e-9)
    return np.asarray(np.log(share / (1.0 - share)) - calibration.logits(scores), dtype=np.float32)


def _part(values: npt.NDArray[np.float32], listed: npt.NDArray[np.bool_], start: int) -> Part:
    rows, columns = np.nonzero(listed)
    return rows.astype(np.int64), columns.astype(np.int64) + start, values[listed]


def _sorted(parts: Sequence[Part]) -> Part:
    """All parts together, the largest value first. Ties are ordered by image and class, independent of the blocks."""
    rows, columns, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.lexsort((columns, rows, -values))
    return rows[order], columns[order], values[order]
