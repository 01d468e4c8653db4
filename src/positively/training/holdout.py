"""The part of the training table that is held out, and what is read off it."""

import numpy as np
import numpy.typing as npt
import torch

from positively.errors import MetricError
from positively.labels import LabelTable
from positively.losses import vpu
from positively.metrics import mean_average_precision
from positively.runs.scoring import Logits, sigmoid

_FEWEST_IMAGES = 20


def split_holdout(table: LabelTable, share: float, seed: int) -> tuple[LabelTable, LabelTable]:
    """Images to learn from, and images held out.

    A split column is obeyed: 'train' (or no word) learns, 'val' is held out, 'test' is neither. Otherwise a seeded
    share of the table is held out. A table too small to share holds nothing out: thresholds then come from the
    images it learned from.
    """
    if table.splits is not None:
        splits = np.array(table.splits)
        learning, aside = table.select(np.isin(splits, ("train", ""))), table.select(splits == "val")
        if len(aside):
            return learning, aside
        table = learning
    learning_rows, aside_rows = holdout_rows(len(table), share, seed)
    return (table.select(learning_rows) if len(aside_rows) else table), table.select(aside_rows)


def holdout_rows(images: int, share: float, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows to learn from and rows to hold out, each in order; none held out of a table too small to share."""
    order = np.random.default_rng([seed, 0x686F6C64]).permutation(images)
    count = 0 if images < _FEWEST_IMAGES else round(share * images)
    return np.sort(order[count:]), np.sort(order[:count])


def criteria(logits: Logits, states: npt.NDArray[np.int8]) -> dict[str, float]:
    """How good the scores are on the images held out.

    ``holdout_pu`` needs positives only: vPU's loss, mean over the classes that have a positive there, lower is better
    (its authors choose models by it). A class without one would only say how low its scores are. ``holdout_map`` is
    there where negatives are known.
    """
    there = (states == 1).any(axis=0)
    loss = vpu(torch.from_numpy(logits[:, there]), torch.from_numpy(states[:, there]), statistics="local")
    result = {"holdout_pu": loss.item() / max(int(there.sum()), 1)}
    if (states == -1).any():
        try:
            result["holdout_map"] = mean_average_precision(sigmoid(logits), states)
        except MetricError:
            result["holdout_map"] = float("nan")
    return result
