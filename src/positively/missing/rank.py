"""Out-of-sample scores and label states → the list of missing tags."""

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

# Images × classes of one block: a few arrays of that size in double precision stay below a gigabyte.
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
    """List what is probably missing from a table, and which of its tags look wrong.

    Args:
        scores: N×C out-of-sample scores, each made without the image's own label, known positives levelled where they
            were scored by fewer than the others; or what gives those of some classes.
        states: N×C label states; or what gives those of some classes.
        calibration: What these scores mean.
        images: N names.
        classes: C names.
        min_probability: Leave out what is less probable than this; counts include it.
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
    """Log of how many times more an image looks like any image of the table than like one with the tag.

    The score's density among the images without the tag, over that among those with it: (1 − p)/p · π/(1 − π). How many
    tags are wrong need not be known to order them so.
    """
    share = np.clip(calibration.positives / max(images, 1), 1e-9, 1.0 - 1e-9)
    return np.asarray(np.log(share / (1.0 - share)) - calibration.logits(scores), dtype=np.float32)


def _part(values: npt.NDArray[np.float32], listed: npt.NDArray[np.bool_], start: int) -> Part:
    rows, columns = np.nonzero(listed)
    return rows.astype(np.int64), columns.astype(np.int64) + start, values[listed]


def _sorted(parts: Sequence[Part]) -> Part:
    """All parts in one, the largest value first; ties by image and class, however many blocks there were."""
    rows, columns, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.lexsort((columns, rows, -values))
    return rows[order], columns[order], values[order]
