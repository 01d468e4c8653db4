"""Cross-fitting: out-of-sample scores of a fine-tuned network, each image scored by a network trained without it."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save_file

from positively.calibration import CalibratedScores, OutOfSample, calibrate_summary, summarize
from positively.config import TrainConfig
from positively.errors import ConfigError, option
from positively.files import write_with
from positively.finetune.auto import choices, resolve
from positively.finetune.identity import training_identity
from positively.finetune.networks import Networks
from positively.finetune.runtime import launch, preserved_random_state
from positively.finetune.training import Training
from positively.labels import POSITIVE, LabelTable
from positively.logs import logger
from positively.missing import MissingTags, rank_missing
from positively.missing.find import require_labels
from positively.pipeline import embed_table
from positively.probe import find_series
from positively.randomness import random_stream
from positively.tables.overlap import with_hashes

if TYPE_CHECKING:
    from lightning_fabric import Fabric

FOLDS = 5
_BACKBONE_OPTIONS = ("backbone", "weights", "image_size", "seed", "cache")


def missing_by_cross_fitting(
    table: LabelTable,
    config: TrainConfig,
    *,
    min_probability: float = 0.0,
    folds: int = FOLDS,
    store: Path | None = None,
) -> MissingTags:
    """Find missing tags with a fine-tuned network, by one training per fold.

    Args:
        table: Images and their known tags.
        config: Configuration of the trainings.
        min_probability: Minimum probability of a listed tag.
        folds: Number of folds.
        store: Folder for the scores of finished folds.

    Returns:
        Missing and suspicious tags.
    """
    require_labels(table)
    config = replace(config, devices=1)
    fabric = launch(config)
    resolved = resolve(config, table, fabric.device)
    logger.debug(choices(config, resolved))
    table = with_hashes(table)
    frozen = replace(TrainConfig(), **{name: getattr(config, name) for name in _BACKBONE_OPTIONS})
    units = find_series(embed_table(table, frozen).X, table.contents(), config.seed)
    found = cross_fit(table, resolved, fabric, units=units, folds=folds, store=store)
    scores, calibration = found.scores, found.calibrated.calibration
    return rank_missing(
        scores, table.states(), calibration, table.images, table.classes, min_probability=min_probability
    )


def cross_fit(
    table: LabelTable,
    config: TrainConfig,
    fabric: Fabric,
    *,
    units: npt.NDArray[np.int64] | None = None,
    folds: int = FOLDS,
    store: Path | None = None,
) -> OutOfSample:
    """Train one network per fold on the images of the other folds, each from the pretrained weights.

    Args:
        table: Images and labels.
        config: Resolved configuration.
        fabric: Running Lightning Fabric instance.
        units: Group of each image, shape (N,). Images of one group (copies, near-duplicates) share a fold. Default:
            every image is its own group.
        folds: Number of folds.
        store: Folder for the scores of finished folds; None stores nothing.

    Returns:
        Out-of-sample logits and their calibration.

    Raises:
        ConfigError: If there are too few images or known tags for the folds.
    """
    table = replace(table, splits=None)
    units = np.arange(len(table)) if units is None else units
    fold_of = _deal(table, units, folds, config.seed)
    steps = f", {config.epochs} epochs" if config.epochs else ""
    logger.info(
        f"Cross-fitting: {folds} trainings ('{config.method}', depth '{config.depth}'{steps}), each on about "
        f"{len(table) * (folds - 1) // folds:,} images. This takes {folds - 1} times as long as one training."
    )
    scores = np.empty((len(table), len(table.classes)), dtype=np.float32)
    known_by = repr((table.digest(), training_identity(config), units.tobytes()))
    code = hashlib.blake2b(known_by.encode(), digest_size=6).hexdigest()
    for fold in range(folds):
        held = np.flatnonzero(fold_of == fold)
        place = None if store is None else store / f"{code}-{fold + 1}-of-{folds}.safetensors"
        if place is None or not place.exists():
            began = time.perf_counter()
            found = _train_fold(table, fold_of != fold, held, config, fabric)
            minutes = (time.perf_counter() - began) / 60
            logger.info(f"Fold {fold + 1} of {folds}: {minutes:.1f} min, {minutes * (folds - fold - 1):.0f} min left.")
            if place is not None:
                write_with(place, partial(save_file, {"scores": found}))
        else:
            found = load_file(place)["scores"]
            logger.debug(f"Fold {fold + 1} of {folds} is already stored.")
        scores[held] = found
    summary = summarize(scores, table.states(), leave_one_out=False)
    return OutOfSample(scores, CalibratedScores(calibrate_summary(summary, frequency_asinh_scale=np.inf), summary))


def _train_fold(
    table: LabelTable,
    learned: npt.NDArray[np.bool_],
    held: npt.NDArray[np.int64],
    config: TrainConfig,
    fabric: Fabric,
) -> npt.NDArray[np.float32]:
    with preserved_random_state():
        training = Training(table.select(learned), config, fabric, Networks(fabric))
        training.run()
        return training.score(table.select(held))


def _deal(table: LabelTable, units: npt.NDArray[np.int64], folds: int, seed: int) -> npt.NDArray[np.int64]:
    """Fold of each image, shape (N,). Images of one group share a fold."""
    count = int(units.max(initial=-1)) + 1
    if count < 2 * folds or table.total(POSITIVE) < folds:
        raise ConfigError(
            f"{table.source}: {count} distinct images with {table.total(POSITIVE)} known tags are too few for {folds} "
            f"trainings. Use {option('depth', 'probe')}, which needs none."
        )
    order = random_stream("folds", seed).permutation(count)
    return np.asarray(order[units] % folds, dtype=np.int64)
