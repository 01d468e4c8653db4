"""What a training sees of a table: labels that an experiment hides, and the rows to learn from."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from positively.config import TrainConfig
from positively.errors import TableError
from positively.labels import POSITIVE, LabelTable

Rows = npt.NDArray[np.int64]


def hide_labels(table: LabelTable, config: TrainConfig) -> LabelTable:
    """Hide labels of a complete table for an experiment: first label noise, then hidden labels."""
    seed = config.seed if config.mask_seed is None else config.mask_seed
    if config.flip_positives:
        table = table.with_flipped_positives(config.flip_positives, seed)
    if config.known_ratio < 1.0:
        table = table.with_known_ratio(config.known_ratio, seed, config.known_ratio_spread)
    if config.single_positive:
        table = table.with_single_positive(seed)
    return table.positives_only() if config.positives_only else table


def training_rows(seen: LabelTable) -> tuple[Rows, Rows]:
    """Rows to learn from, and rows that the split column keeps for validation; 'test' rows are in neither.

    Raises:
        TableError: There is no positive label to learn from.
    """
    if not seen.total(POSITIVE):
        raise TableError(f"{seen.source}: no positive label is left to learn from.")
    splits = np.array(seen.splits if seen.splits is not None else [""] * len(seen), dtype=np.str_)
    rows, held_out = np.flatnonzero(np.isin(splits, ("train", ""))), np.flatnonzero(splits == "val")
    if not seen.select(rows).total(POSITIVE):
        raise TableError(f"{seen.source}: none of the {len(rows)} training images carries a known tag.")
    return rows, held_out
