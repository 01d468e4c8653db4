"""The part of the training table that is held out, and what is read off it."""

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
"""What the best epoch is chosen by, lower is better: of `criteria`, the one that needs no negatives."""
_FEWEST_IMAGES = 20
# How strongly a choice leans towards images whose other classes still lack held-out images. With 15 of 40 classes an
# image, 0 leaves half of the classes more than one image off their share, 1 a quarter, 2 and 4 a sixth; with 6 of 80,
# 28, 3, 1 and 0.4 %; with 3 of 80, 1 and more leave none.
_LEANING = 2.0


def split_rows(table: LabelTable, share: float, seed: int) -> tuple[Rows, Rows]:
    """Rows to train on, and rows to hold out, each in order.

    A split column is obeyed: 'train' (or no word) is trained on, 'val' is held out, 'test' is neither. Otherwise
    `holdout_rows` takes a seeded share of every class. A table too small to share holds nothing out: thresholds
    then come from the images it was trained on.
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
    """Rows to train on and rows to hold out, each in order: a share of the images, and of the positives of every class.

    Images of equal content (``table.hashes``) stay on one side, or what is held out would have been trained on. A class
    with a known positive keeps one to train on. Nothing is held out of fewer than 20 different images.

    >>> table = LabelTable.from_positives([f"{i}.jpg" for i in range(40)], ["cat", "dog"], [[i % 2] for i in range(40)])
    >>> train, holdout = holdout_rows(table, share=0.2, seed=0)
    >>> table.select(holdout).positives().sum(axis=0).tolist()
    [4, 4]
    """
    units = table.contents()
    count = int(units.max(initial=-1)) + 1
    if count < _FEWEST_IMAGES or share <= 0:
        return np.arange(len(table)), np.zeros(0, dtype=np.int64)
    # One row a unit, one column a class with its known positives, and a last class that every unit carries: the table.
    members = sparse.csr_array((np.ones(len(units), np.int32), (units, np.arange(len(units)))), (count, len(units)))
    everything = sparse.csr_array(np.ones((count, 1), dtype=np.int32))
    labels = sparse.csr_array(sparse.hstack([members @ table.positives(), everything], format="csr"))
    labels.data[:] = 1  # a class that several copies carry is still one of the unit
    is_held = _stratified(labels, share, random_stream("hold", seed))[units]
    return np.flatnonzero(~is_held), np.flatnonzero(is_held)


def _stratified(labels: sparse.csr_array, share: float, generator: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Units to hold out, class by class from the rarest on (Sechidis et al., ECML 2011, but a class at a time).

    Each class decides about those of its units that no rarer class has decided about, so that what rarer classes took
    too much or too little of it is made good. What rounding leaves over is handed to the next class, beginning with a
    random start: of a thousand classes with four images each, a tenth of all images is held out, not none.
    """
    units, classes = labels.shape
    columns = labels.tocsc()
    carriers = np.diff(columns.indptr)
    wanted, undecided = share * carriers, carriers.astype(np.int64)  # of each class: still to hold out, and out of what
    remainder, luck = generator.random(), generator.exponential(size=units)
    is_held, is_decided = np.zeros(units, dtype=np.bool_), np.zeros(units, dtype=np.bool_)
    for index in np.argsort(carriers, kind="stable"):
        own = columns.indices[columns.indptr[index] : columns.indptr[index + 1]]
        own_open = own[~is_decided[own]]
        if not len(own_open):
            continue
        exact = wanted[index] + remainder
        remainder = exact - np.floor(exact)
        most = min(len(own_open), carriers[index] - 1 - is_held[own].sum())  # one stays to train on
        take = int(np.clip(np.floor(exact), 0, max(most, 0)))
        open_labels = labels[own_open]
        # Drawn without replacement by weight (the smallest of exponential draws, each divided by its weight): a unit
        # weighs more where its classes still lack held-out units, less where they have enough.
        lack = np.log(np.clip(wanted / np.maximum(undecided, 1) / share, 0.05, 20.0))
        chosen = np.argsort(np.log(luck[own_open]) - _LEANING * (open_labels @ lack))[:take]
        is_held[own_open[chosen]] = is_decided[own_open] = True
        wanted -= np.bincount(open_labels[chosen].indices, minlength=classes)
        undecided -= np.bincount(open_labels.indices, minlength=classes)
    # Where every image has many classes, the table itself ends a few units off its share. Those change sides that add
    # least to the squares of what the classes lack, some at a time, as every move changes what they lack.
    while surplus := int(is_held.sum()) - round(share * units):
        movable, sign = np.flatnonzero(is_held == (surplus > 0)), np.sign(surplus)
        order = np.lexsort((luck[movable], labels[movable] @ (1 + 2 * sign * wanted)))
        moving = movable[order[: 1 + abs(surplus) // 8]]
        is_held[moving] = surplus < 0
        wanted += sign * np.bincount(labels[moving].indices, minlength=classes)
    for index in np.flatnonzero(np.bincount(labels[~is_held].indices, minlength=classes) == 0):
        # Every unit of this class was taken for the sake of a rarer one; or it has none.
        own = columns.indices[columns.indptr[index] : columns.indptr[index + 1]]
        if is_held[own].all():
            is_held[own[:1]] = False
    return is_held


def criteria(
    logits: Logits, states: npt.NDArray[np.int8], complete: npt.NDArray[np.int8] | None = None
) -> dict[str, float]:
    """How good the scores are on the images held out.

    ``holdout_pu`` needs positives only: vPU's loss, mean over the classes that have a positive there, lower is better
    (its authors choose models by it). A class without one would only say how low its scores are; without any, it is not
    there. ``holdout_map`` is there where negatives are known.

    Args:
        logits: Scores of the images held out.
        states: Their labels, as far as a user would know them.
        complete: Labels for ``holdout_map`` in place of these: an experiment may know more.
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
    """Whether the images held out were judged no better in the last ``patience`` epochs than before; 0 is never.

    >>> epochs = [{CRITERION: -0.2}, {CRITERION: -0.4}, {CRITERION: -0.3}]
    >>> has_stalled(epochs, patience=1), has_stalled(epochs, patience=2), has_stalled(epochs[:2], patience=1)
    (True, False, False)
    """
    found = (epoch.get(CRITERION, math.inf) for epoch in history)
    judged = [math.inf if math.isnan(value) else value for value in found]
    return 0 < patience < len(judged) and math.inf > min(judged[:-patience]) <= min(judged[-patience:])
