"""The holdout: which training images are held out, and the metrics computed on them."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse

from positively.errors import MetricError
from positively.finetune.scoring import Logits
from positively.labels import LabelTable
from positively.losses import vpu
from positively.metrics import mean_average_precision
from positively.metrics.logits import sigmoid
from positively.randomness import random_stream

Rows = npt.NDArray[np.int64]

CRITERION = "holdout_pu"
"""Metric that selects the best epoch (lower is better). It needs no negatives."""
_FEWEST_IMAGES = 20
# How strongly images are preferred whose other classes lack held-out images. Share of classes that miss their target by
# more than one image, for leanings 0, 1, 2 and 4: 50 %, 25 %, 17 % and 17 % (15 of 40 classes per image); 28 %, 3 %,
# 1 % and 0.4 % (6 of 80); and 0 from 1 on (3 of 80).
_LEANING = 2.0


def split_rows(table: LabelTable, share: float, seed: int) -> tuple[Rows, Rows]:
    """Split the rows of a table into training and holdout.

    A split column is respected: 'train' and empty are training, 'val' is holdout, 'test' is neither. Without 'val' rows
    a stratified share is held out by `holdout_rows`. Small tables hold nothing out; thresholds are then chosen on the
    training images.

    Args:
        table: Training table.
        share: Share of images to hold out.
        seed: Random seed.

    Returns:
        Sorted training rows and sorted holdout rows.
    """
    if table.splits is None:
        return holdout_rows(table, share, seed)
    splits = np.array(table.splits)
    train, holdout = np.flatnonzero(np.isin(splits, ("train", ""))), np.flatnonzero(splits == "val")
    if len(holdout):
        return train, holdout
    train_rows, held_rows = holdout_rows(table.select(train), share, seed)
    return train[train_rows], train[held_rows]


def holdout_rows(table: LabelTable, share: float, seed: int) -> tuple[Rows, Rows]:
    """Hold out a stratified share of the images, and of the positives of every class.

    Images with equal content (``table.hashes``) stay on the same side. Every class with a known positive keeps at least
    one for training. Nothing is held out of fewer than 20 distinct images.

    Args:
        table: Training table.
        share: Share of images to hold out.
        seed: Random seed.

    Returns:
        Sorted training rows and sorted holdout rows.

    Example:
        >>> names = [f"{i}.jpg" for i in range(40)]
        >>> table = LabelTable.from_positives(names, ["cat", "dog"], [[i % 2] for i in range(40)])
        >>> train, holdout = holdout_rows(table, share=0.2, seed=0)
        >>> table.select(holdout).positives().sum(axis=0).tolist()
        [4, 4]
    """
    units = table.contents()
    count = int(units.max(initial=-1)) + 1
    if count < _FEWEST_IMAGES or share <= 0:
        return np.arange(len(table)), np.zeros(0, dtype=np.int64)
    # One row per unit and one column per class, plus a column that every unit carries, so that the table itself counts
    # as a class.
    members = sparse.csr_array((np.ones(len(units), np.int32), (units, np.arange(len(units)))), (count, len(units)))
    everything = sparse.csr_array(np.ones((count, 1), dtype=np.int32))
    labels = sparse.csr_array(sparse.hstack([members @ table.positives(), everything], format="csr"))
    labels.data[:] = 1  # copies of one image count once
    is_held = _stratified(labels, share, random_stream("hold", seed))[units]
    return np.flatnonzero(~is_held), np.flatnonzero(is_held)


def _stratified(labels: sparse.csr_array, share: float, generator: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Choose the units to hold out, from the rarest class to the most frequent (Sechidis et al., ECML 2011).

    Unlike there, a whole class is decided at a time. Each class decides on those of its units that no rarer class has
    decided on, and so corrects what the rarer classes took. Fractions left by rounding are carried over to the next
    class, starting from a random fraction; otherwise nothing would be held out of many classes with few images each.
    """
    units, classes = labels.shape
    columns = labels.tocsc()
    carriers = np.diff(columns.indptr)
    wanted, undecided = share * carriers, carriers.astype(np.int64)  # per class: units still to hold out, units open
    remainder, luck = generator.random(), generator.exponential(size=units)
    is_held, is_decided = np.zeros(units, dtype=np.bool_), np.zeros(units, dtype=np.bool_)
    for index in np.argsort(carriers, kind="stable"):
        own = columns.indices[columns.indptr[index] : columns.indptr[index + 1]]
        own_open = own[~is_decided[own]]
        if not len(own_open):
            continue
        exact = wanted[index] + remainder
        remainder = exact - np.floor(exact)
        most = min(len(own_open), carriers[index] - 1 - is_held[own].sum())  # keep one for training
        take = int(np.clip(np.floor(exact), 0, max(most, 0)))
        open_labels = labels[own_open]
        # Weighted sampling without replacement (smallest exponential draws divided by weight). A unit has more weight
        # if its classes still lack held-out units.
        lack = np.log(np.clip(wanted / np.maximum(undecided, 1) / share, 0.05, 20.0))
        chosen = np.argsort(np.log(luck[own_open]) - _LEANING * (open_labels @ lack))[:take]
        is_held[own_open[chosen]] = is_decided[own_open] = True
        wanted -= np.bincount(open_labels[chosen].indices, minlength=classes)
        undecided -= np.bincount(open_labels.indices, minlength=classes)
    # If images carry many classes, the table as a whole ends a few units off its share. Move the units that least
    # increase the squared deficits of the classes, a few at a time because every move changes the deficits.
    while surplus := int(is_held.sum()) - round(share * units):
        movable, sign = np.flatnonzero(is_held == (surplus > 0)), np.sign(surplus)
        order = np.lexsort((luck[movable], labels[movable] @ (1 + 2 * sign * wanted)))
        moving = movable[order[: 1 + abs(surplus) // 8]]
        is_held[moving] = surplus < 0
        wanted += sign * np.bincount(labels[moving].indices, minlength=classes)
    for index in np.flatnonzero(np.bincount(labels[~is_held].indices, minlength=classes) == 0):
        # All units of this class were held out for rarer classes, or it has none.
        own = columns.indices[columns.indptr[index] : columns.indptr[index + 1]]
        if is_held[own].all():
            is_held[own[:1]] = False
    return is_held


def criteria(
    logits: Logits, states: npt.NDArray[np.int8], complete: npt.NDArray[np.int8] | None = None
) -> dict[str, float]:
    """Metrics on the held-out images.

    ``holdout_pu`` needs positives only: the vPU loss, averaged over classes with a held-out positive (lower is better);
    the authors of vPU select models by it. It is missing if there is no such class. ``holdout_map`` is computed if
    negatives are known.

    Args:
        logits: Logits of the held-out images, shape (N, C).
        states: Their label states as known to the training, shape (N, C).
        complete: Label states for ``holdout_map`` instead, shape (N, C), if a benchmark knows more.

    Returns:
        Metrics by name.
    """
    there = (states == 1).any(axis=0)
    result: dict[str, float] = {}
    if there.any():
        loss = vpu(torch.from_numpy(logits[:, there]), torch.from_numpy(states[:, there]), statistics="local")
        result[CRITERION] = loss.item() / int(there.sum())
    judged = states if complete is None else complete
    if (judged == -1).any():
        try:
            result["holdout_map"] = mean_average_precision(sigmoid(logits), judged)
        except MetricError:
            result["holdout_map"] = float("nan")
    return result


def has_stalled(history: Sequence[Mapping[str, float]], patience: int) -> bool:
    """Whether the criterion did not improve in the last ``patience`` epochs; never with a patience of 0.

    Example:
        >>> epochs = [{CRITERION: -0.2}, {CRITERION: -0.4}, {CRITERION: -0.3}]
        >>> has_stalled(epochs, patience=1), has_stalled(epochs, patience=2), has_stalled(epochs[:2], patience=1)
        (True, False, False)
    """
    found = (epoch.get(CRITERION, math.inf) for epoch in history)
    judged = [math.inf if math.isnan(value) else value for value in found]
    return 0 < patience < len(judged) and math.inf > min(judged[:-patience]) <= min(judged[-patience:])
