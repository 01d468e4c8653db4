"""Training on a frozen backbone, from the table to the run folder: embed, fit, save."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from positively.calibration import pooled_log_rank
from positively.config import TrainConfig
from positively.embedding import BackboneEmbedder, Embeddings, Preprocessing
from positively.errors import RunError, TableError, option
from positively.files import safe_name
from positively.labels import NEGATIVE, POSITIVE, LabelTable
from positively.logs import logger
from positively.probe import KernelClassifier, Probe, ProbeOptions, fit_table
from positively.probe.configured import embed_table, kernel_options, probe_options, resolve_probe
from positively.probe.tables import calibrated_heads, first_out_of_sample
from positively.runs.folder import RunFolder
from positively.runs.hiding import hide_labels
from positively.runs.network import build_model, write_model
from positively.runs.outcome import describe_outcome
from positively.runs.saving import save_probe, write_card, write_model_config
from positively.runs.sources import read_config
from positively.tables.overlap import with_hashes

Rows = npt.NDArray[np.int64]

# Options of trainings that take steps; a fit has no use for them.
_OF_STEPS = ("epochs", "stop_epoch", "batch_size", "lr", "ema", "clip_norm", "restore_best", "patience", "refit")
# Options that may differ when a run is resumed.
_OF_THE_MACHINE = {"out", "resume", "accelerator", "devices", "nodes", "workers", "features", "checkpoint_minutes"}
_OF_THE_MACHINE |= {"plugin", "runtime", "precision", "command"}


def train_probe(
    table: LabelTable, config: TrainConfig, *, reading: Mapping[str, Any] | None = None, asked_method: str | None = None
) -> Path:
    """Fit a probe to a table and return its run folder.

    Args:
        table: Tags of the training images.
        config: What to do; everything left open is chosen and logged.
        reading: How the table was read, to stand in config.yaml.
        asked_method: The method that was asked for, by which a run is named; by default that of the configuration.
    """
    name = safe_name(f"{Path(table.source).stem}-{asked_method or config.method}")
    options, kernel = probe_options(config), kernel_options(config)
    _log_idle_options(config)
    is_resumed = config.resume == "auto"
    with RunFolder.open(config.out, name, resume=is_resumed) as folder:
        seen = hide_labels(table if config.embeddings else with_hashes(table), config)
        rows, held_out = _parts(seen)
        _log_labels(seen.select(rows), len(held_out), options)
        embeddings = embed_table(seen, config, kernel)
        settings = {**(reading or {}), **asdict(resolve_probe(config, embeddings))}
        _begin(folder, settings, seen, is_resumed)
        train = seen.select(rows)
        probe = fit_table(train, embeddings.X[rows], options, seed=config.seed, landmarks=kernel.landmarks, linear=True)
        _write(folder, seen, (rows, held_out), embeddings, probe, settings)
        logger.info(describe_outcome(calibrated_heads(probe), "kernel", train))
        logger.info(f"The run is in {folder.path}.")
    return folder.path


def _parts(seen: LabelTable) -> tuple[Rows, Rows]:
    """Rows to learn from, and rows that the table's own split column keeps for validation; 'test' is neither."""
    if not seen.total(POSITIVE):
        raise TableError(f"{seen.source}: no positive label is left to learn from.")
    splits = np.array(seen.splits if seen.splits is not None else [""] * len(seen), dtype=np.str_)
    rows, held_out = np.flatnonzero(np.isin(splits, ("train", ""))), np.flatnonzero(splits == "val")
    if not seen.select(rows).total(POSITIVE):
        raise TableError(f"{seen.source}: none of the {len(rows)} training images carries a known tag.")
    return rows, held_out


def _log_labels(train: LabelTable, held_out: int, options: ProbeOptions) -> None:
    negatives = f" and {train.total(NEGATIVE):,} negative" if train.has_negatives and options.negatives else ""
    others = f"; {held_out:,} images are kept for validation" if held_out else ""
    logger.info(f"Learning from {len(train):,} images, {train.total(POSITIVE):,} positive{negatives} labels{others}.")


def _log_idle_options(config: TrainConfig) -> None:
    idle = [option(name) for name in _OF_STEPS if getattr(config, name) is not None]
    if idle:
        logger.info(f"A probe is fitted at once and takes no steps: {', '.join(idle)} change nothing.")


def _begin(folder: RunFolder, settings: Mapping[str, Any], seen: LabelTable, is_resumed: bool) -> None:
    """Write the configuration, unless a resumed run was begun with another one."""
    learned = f"{len(seen)} images, {seen.digest()}"
    if is_resumed and folder.holds_run:
        before = {**read_config(folder, verify=False), "table": folder.read_environment().get("table")}
        now = {**settings, "table": learned}
        names = [name for name in now if name in before and name not in _OF_THE_MACHINE]
        changed = [f"{name} {before[name]} (now {now[name]})" for name in names if before[name] != now[name]]
        if changed:
            raise RunError(
                f"{folder.path} was trained with other settings: {', '.join(changed)}. Pass the same ones, or another "
                f"{option('out')}."
            )
    folder.write_config(settings, {"table": learned})


def _write(
    folder: RunFolder,
    seen: LabelTable,
    parts: tuple[Rows, Rows],
    embeddings: Embeddings,
    probe: Probe,
    settings: Mapping[str, Any],
) -> None:
    """Everything of a finished run; config.json and the manifest last, which say that the run is finished."""
    train = seen.select(parts[0])
    folder.write_images(
        {
            seen.images[row]: (seen.hashes[row] if seen.hashes else "", part)
            for part, rows in zip(("train", "holdout"), parts, strict=True)
            for row in rows.tolist()
        }
    )
    calibrated = calibrated_heads(probe)
    thresholds = calibrated["kernel"].cuts()
    folder.write_thresholds(train.classes, thresholds)
    folder.write_calibration(calibrated)
    found = first_out_of_sample(probe)
    if found is not None:
        folder.write_out_of_sample(found, train.states())
    folder.write_metrics([_measures(probe)])
    save_probe(folder, probe)
    if isinstance(embeddings.embedder, BackboneEmbedder):
        model = build_model(embeddings.embedder, KernelClassifier.of(probe), thresholds, train.classes, "kernel")
        write_model(folder.network, model)
    labels = f"{train.total(POSITIVE):,} positive labels of {len(train.classes)} classes"
    write_card(folder, settings, f"{len(train):,} images with {labels}", {})
    write_model_config(folder, _describe(embeddings, settings, probe), train.classes)


def _measures(probe: Probe) -> dict[str, float]:
    """Numbers worth writing down: how high known tags rank, and what was chosen."""
    parts = {"log_rank": probe.kernel} | ({} if probe.linear is None else {"log_rank_linear": probe.linear})
    found = {name: pooled_log_rank(part.summary) for name, part in parts.items()}
    return {
        **{name: value for name, value in found.items() if math.isfinite(value)},
        "soft": probe.step.strength,
        "filled": float(probe.step.fills),
        "label_frequency": probe.calibration.common_label_frequency,
        "classes_learned": float(probe.calibration.learned.sum()),
    }


def _describe(embeddings: Embeddings, settings: Mapping[str, Any], probe: Probe) -> dict[str, Any]:
    """What config.json says of the model."""
    preprocessing: Preprocessing = getattr(embeddings.embedder, "preprocessing", Preprocessing())
    return {
        "kind": "probe",
        "method": settings["method"],
        "backbone": settings["backbone"],
        "backbone_digest": getattr(embeddings.embedder, "digest", None),
        "embedding_key": embeddings.key,
        "width": embeddings.width,
        "image_size": preprocessing.image_size,
        "interpolation": preprocessing.interpolation,
        "resize": preprocessing.resize,
        "mean": list(preprocessing.mean),
        "std": list(preprocessing.std),
        "head": "kernel",
        "head_options": {**settings["head_options"], "landmarks": len(KernelClassifier.of(probe).landmarks)},
        "depth": "probe",
        "has_exact_scores": True,
    }
