"""What an experiment hides of a complete table before it learns from it."""

from __future__ import annotations

from positively.config import TrainConfig
from positively.labels import LabelTable


def hide_labels(table: LabelTable, config: TrainConfig) -> LabelTable:
    """The labels an experiment leaves of a complete table: first the noise, then what is hidden."""
    seed = config.seed if config.mask_seed is None else config.mask_seed
    if config.flip_positives:
        table = table.with_flipped_positives(config.flip_positives, seed)
    if config.known_ratio < 1.0:
        table = table.with_known_ratio(config.known_ratio, seed, config.known_ratio_spread)
    if config.single_positive:
        table = table.with_single_positive(seed)
    return table.positives_only() if config.positives_only else table
