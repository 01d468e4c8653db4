"""A table, a run, or plain arrays → the list of missing tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.special import logit
from torch import nn

from positively.calibration import calibrate
from positively.config import TrainConfig
from positively.errors import ConfigError, MetricError, RunError, option
from positively.finetune.auto import choices, pick_method, resolve
from positively.finetune.crossfit import FOLDS, cross_fit
from positively.finetune.frozen import frozen_features
from positively.finetune.runtime import launch
from positively.labels import POSITIVE, UNKNOWN, LabelTable
from positively.logs import logger
from positively.metrics.average_precision import check_inputs
from positively.missing.rank import rank_missing
from positively.missing.result import MissingTags
from positively.probe import ProbeOptions, find_series, fit_table
from positively.probe.series import MOST_IMAGES
from positively.runs import Run
from positively.runs.saving import has_exact_scores

# Probabilities nearer to 0 or 1 than this are rounding.
_SUREST = 1e-7


def missing_in_table(
    table: LabelTable,
    config: TrainConfig,
    *,
    backbone: nn.Module | None = None,
    at_least: float = 0.0,
    folds: int = FOLDS,
    store: Path | None = None,
) -> MissingTags:
    """Find what a table lacks: in closed form where the backbone is frozen, by cross-fitting where the network learns.

    Args:
        table: Photos and what is known of them.
        config: The training whose scores are used.
        backbone: A module in place of a timm model's name; frozen.
        at_least: Leave out what is less probable than this.
        folds: Trainings, where a network learns.
        store: Folder for the scores of finished folds.
    """
    _require_labels(table)
    config = replace(config, devices=1)
    fabric = launch(config)
    if config.depth in ("auto", "probe") and pick_method(config) == "closed-form":
        table, features = frozen_features(table, config, backbone=backbone, fabric=fabric)
        probe = fit_table(table, features, ProbeOptions(**config.options), seed=config.seed)
        groups = probe.kernel.ridge.groups
        if groups is not None:
            alike = "Copies" if len(table) > MOST_IMAGES else "Copies and series"
            logger.info(f"{alike} that do not vouch for one another: {len(table) - groups.max() - 1:,} photos.")
        return rank_missing(
            probe.first_scores, probe.labels.states, probe.first, table.images, table.classes, at_least=at_least
        )
    if backbone is not None:
        raise ConfigError(
            "A module that learns would remember what it learned in the fold before. Name a timm model as the "
            f"{option('backbone')}, or take {option('depth', 'probe')}."
        )
    resolved = resolve(config, table, fabric.device)
    logger.info(choices(config, resolved))
    logger.info("Photos of one series go into one fold; the backbone as it is tells which they are.")
    table, features = frozen_features(table, _frozen(config), fabric=fabric)
    units = find_series(features, table.contents(), config.seed)
    found = cross_fit(table, resolved, fabric, units=units, folds=folds, store=store)
    return rank_missing(
        found.scores,
        table.states(),
        found.calibrated.calibration,
        table.images,
        table.classes,
        at_least=at_least,
    )


def _frozen(config: TrainConfig) -> TrainConfig:
    """The same backbone as it is, by which photos of one series are told."""
    shared = ("backbone", "weights", "image_size", "seed", "devices", "accelerator", "workers", "features", "runtime")
    return TrainConfig(**{name: getattr(config, name) for name in shared})


def missing_in_run(run: Run, *, at_least: float = 0.0) -> MissingTags:
    """What the table of a run lacks, by the out-of-sample scores the run stored."""
    depth, classes = run.model_config["depth"], run.classes
    is_exact = has_exact_scores(run.model_config)
    found = run.folder.read_out_of_sample() if is_exact else None
    if found is None:
        why = (
            f"its network has seen the labels of its photos (depth '{depth}')"
            if not is_exact
            else "it came from the hub, which gets no scores of photos"
            if not run.folder.holds_run
            else f"method '{run.model_config['method']}' gives no scores of labels it did not see, or the table is too "
            "large to store them"
        )
        raise RunError(
            f"{run.path} cannot tell what its table lacks: {why}. Give the table itself: the same options then train "
            "one model a fold, or (depth 'probe') solve it at once."
        )
    images, states, scores = found
    return rank_missing(scores.scores, states, scores.calibrated.calibration, images, classes, at_least=at_least)


def missing_in_scores(
    scores: npt.ArrayLike,
    states: npt.ArrayLike,
    images: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    *,
    at_least: float = 0.0,
) -> MissingTags:
    """What is missing, by the probabilities of anybody's model.

    Args:
        scores: N×C probabilities, each by a model that did not see the image's labels (as of cross-validation). Their
            order within a class counts; their height need not be right.
        states: N×C of +1 positive, 0 unknown, −1 negative.
        images: N names; by default ``image 0`` …
        classes: C names; by default ``class 0`` …
        at_least: Leave out what is less probable than this.
    """
    checked, checked_states = check_inputs(scores, states)
    if checked.size and not (checked.min() >= 0.0 and checked.max() <= 1.0):
        raise MetricError("Scores are probabilities between 0 and 1. Logits become that by a sigmoid.")
    logits = logit(np.clip(checked.astype(np.float64), _SUREST, 1.0 - _SUREST))
    calibration = calibrate(logits, checked_states, leave_one_out=False, frequency_bend=np.inf)
    rows, columns = checked.shape
    return rank_missing(
        logits,
        checked_states,
        calibration,
        [f"image {row}" for row in range(rows)] if images is None else images,
        [f"class {column}" for column in range(columns)] if classes is None else classes,
        at_least=at_least,
    )


def _require_labels(table: LabelTable) -> None:
    if not table.total(UNKNOWN):
        raise ConfigError(
            f"{table.source}: every label is known, so that nothing can be missing. If what is not there is unknown, "
            f"do not pass {option('blank', 'negative')}."
        )
    if not table.total(POSITIVE):
        raise ConfigError(f"{table.source}: no image carries any tag, so that there is nothing to learn from.")
