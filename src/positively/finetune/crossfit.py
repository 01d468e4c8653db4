"""Out-of-sample scores of a network that learns: every photo scored by a network that never saw its labels."""

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
_OF_THE_BACKBONE = ("backbone", "weights", "image_size", "seed", "cache")


def missing_by_cross_fitting(
    table: LabelTable,
    config: TrainConfig,
    *,
    min_probability: float = 0.0,
    folds: int = FOLDS,
    store: Path | None = None,
) -> MissingTags:
    """Find what a table lacks where the network learns: one training for each fold.

    Args:
        table: Photos and what is known of them.
        config: The training whose scores are used.
        min_probability: Leave out what is less probable than this.
        folds: How many trainings.
        store: Folder for the scores of finished folds.
    """
    require_labels(table)
    config = replace(config, devices=1)
    fabric = launch(config)
    resolved = resolve(config, table, fabric.device)
    logger.debug(choices(config, resolved))
    logger.debug("Near-duplicates go into one fold; the backbone as it is tells which they are.")
    table = with_hashes(table)
    frozen = replace(TrainConfig(), **{name: getattr(config, name) for name in _OF_THE_BACKBONE})
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
    """Train one network a fold, each from the pretrained weights, on the photos of the other folds.

    Args:
        table: Photos and their labels.
        config: Resolved: nothing in it is left open.
        fabric: The running engine.
        units: (N,) photos of equal value (copies, a series) are in one fold; every photo by itself by default.
        folds: How many.
        store: Folder in which the scores of finished folds wait for the rest; None stores nothing.

    Returns:
        Logits, and what they mean.
    """
    table = replace(table, splits=None)
    units = np.arange(len(table)) if units is None else units
    fold_of = _deal(table, units, folds, config.seed)
    steps = f", {config.epochs} epochs" if config.epochs else ""
    stored = " What is done is stored, and not done again." if store else ""
    logger.info(
        f"A network that learns has to be judged by photos it did not see: {folds} trainings ({config.method}, depth "
        f"{config.depth}{steps}), each on about {len(table) * (folds - 1) // folds:,} photos, so that it takes "
        f"{folds - 1} times as long as one training on all of them.{stored}"
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
            logger.info(f"Fold {fold + 1} of {folds}: {minutes:.1f} minutes; {minutes * (folds - fold - 1):.0f} to go.")
            if place is not None:
                write_with(place, partial(save_file, {"scores": found}))
        else:
            found = load_file(place)["scores"]
            logger.debug(f"Fold {fold + 1} of {folds} is stored.")
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
    """Fold of each photo; those of one unit share one."""
    count = int(units.max(initial=-1)) + 1
    if count < 2 * folds or table.total(POSITIVE) < folds:
        raise ConfigError(
            f"{table.source}: {count} different photos with {table.total(POSITIVE)} known tags are too few for {folds} "
            f"trainings. Take {option('depth', 'probe')}, which needs none."
        )
    order = random_stream("folds", seed).permutation(count)
    return np.asarray(order[units] % folds, dtype=np.int64)
