"""Training into a run folder, for ``positively train`` and ``po.fit``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from positively.config import TrainConfig
from positively.distributed import agree, barrier, broadcast, on_first_process
from positively.errors import InterruptedRunError, PositivelyError, RunError, option
from positively.finetune.auto import choices, resolve
from positively.finetune.checkpoints import CheckpointFolder
from positively.finetune.networks import Networks
from positively.finetune.runtime import launch, preserved_random_state
from positively.finetune.training import Training
from positively.labels import POSITIVE, LabelTable
from positively.logs import is_first_process, logger
from positively.models.embedder import NetworkEmbedder
from positively.models.exporting import write_run_network
from positively.models.saving import save_model
from positively.pipeline import kernel_options
from positively.probe import METHOD
from positively.registry import load_plugin
from positively.runs.card import write_card
from positively.runs.folder import RunFolder
from positively.runs.locking import default_place
from positively.runs.outcome import describe_outcome, log_heads
from positively.runs.run import Run
from positively.runs.train import train_probe
from positively.tables.overlap import with_hashes

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def train(
    table: LabelTable,
    config: TrainConfig,
    *,
    backbone: nn.Module | None = None,
    fabric: Fabric | None = None,
    reading: dict[str, Any] | None = None,
) -> Path:
    """Train a classifier and write its run folder.

    Args:
        table: Training table.
        config: Configuration; open values are filled in.
        backbone: A module to use instead of a timm model.
        fabric: Running Lightning Fabric instance; default: launch one.
        reading: How the table was read, to be saved in config.yaml.

    Returns:
        Path of the run folder.
    """
    if config.plugin:
        load_plugin(config.plugin)
    fabric = fabric or launch(config)
    asked, config = config, resolve(config, table, fabric.device, own_backbone=backbone is not None)
    if config.method == METHOD:

        def fit_probe() -> Path:
            embedder = None if backbone is None else _module_embedder(backbone, config, fabric.device)
            return train_probe(table, replace(asked, head=config.head), reading=reading, embedder=embedder)

        return on_first_process(fit_probe)
    logger.debug(choices(asked, config))
    # Named after the requested method, because what 'auto' resolves to depends on the machine.
    place = default_place(table, asked.method, resume=asked.resume == "auto")
    with _opened(config, place, fabric) as folder, preserved_random_state():
        # Only the first process computes content hashes, before anything is learned.
        table = broadcast(agree(partial(with_hashes, table)) if fabric.is_global_zero else agree(lambda: None))
        training = Training(table, config, fabric, Networks(fabric, backbone), store=CheckpointFolder(folder))
        # Written last, so that a start that fails (unknown backbone, missing weights) leaves no folder behind.
        if fabric.is_global_zero and not training.resumed:
            folder.write_config({**(reading or {}), **asdict(config)})
        thresholds = training.run()
        if fabric.is_global_zero:
            _write(folder, training, thresholds)
            if training.calibrated:
                logger.info(describe_outcome(training.calibrated, training.config.head, training.learned))
                log_heads(training.calibrated)
            logger.info(f"The run is in {folder.path}.")
        barrier()
    return folder.path


def _module_embedder(backbone: nn.Module, config: TrainConfig, device: torch.device) -> NetworkEmbedder:
    kernel = kernel_options(config)
    return NetworkEmbedder(
        backbone,
        config.weights,
        image_size=config.image_size,
        pooling=kernel.pooling,
        window=kernel.window,
        device=str(device),
    )


def train_run(
    table: LabelTable, config: TrainConfig, *, backbone: nn.Module | None = None, reading: dict[str, Any] | None = None
) -> Path:
    """Train as `train` does, and export the network to ONNX so that ``predict`` needs no torch."""
    path = train(table, config, backbone=backbone, reading=reading)
    _write_network(path, backbone)
    return path


def _write_network(path: Path, backbone: nn.Module | None = None) -> None:
    """Write model.onnx of a finished run. A network that cannot be exported is run by torch, which is logged."""
    run = Run(path, backbone, "cpu")
    if not is_first_process() or run.is_probe:
        return
    try:
        write_run_network(run)
    except PositivelyError as error:
        logger.info(f"predict needs torch for this run. {error.message}")


def _write(folder: RunFolder, training: Training, thresholds: Any) -> None:
    """Write all files of a finished run. save_model comes last, because it marks the run as finished."""
    learned, config = training.learned, training.config
    parts = {"train": training.train, "holdout": training.holdout}
    folder.write_images(
        {
            image: (code, part)
            for part, table in parts.items()
            for image, code in zip(table.images, table.hashes or (), strict=True)
        }
    )
    folder.write_thresholds(learned.classes, thresholds)
    if training.calibrated:
        folder.write_calibration(training.calibrated)
    if training.out_of_sample is not None:
        states = np.concatenate([training.train.states(), training.holdout.states()])
        folder.write_out_of_sample(training.out_of_sample, states[: len(training.out_of_sample.scores)])
    labels = f"{learned.total(POSITIVE):,} positive labels of {len(learned.classes)} classes"
    trained_on = f"{len(learned):,} images with {labels}"
    if not training.learning_helped:
        trained_on += "; fine-tuning did not help, so the head is a probe on the original network"
    elif len(learned) > len(training.train):
        trained_on += ", including the held-out images after epoch and thresholds were chosen"
    write_card(folder, asdict(config), trained_on, _expected(training))
    save_model(
        folder,
        training.classifier,
        learned.classes,
        asdict(config),
        has_exact_scores=training.has_exact_scores,
    )


def _expected(training: Training) -> str:
    """What is expected of the model, for its card: by its calibration, or else by what the held-out images showed."""
    if training.calibrated:
        return describe_outcome(training.calibrated, training.config.head, training.learned)
    measured = training.history[training.epoch - 1] if training.learning_helped else {}
    rows = [f"| {name} | {value:.4g} |" for name, value in measured.items() if name.startswith("holdout")]
    return (
        "\n".join([f"Held-out images, epoch {training.epoch}:\n", "| measure | value |", "|---|--:|", *rows])
        if rows
        else ""
    )


def train_together(
    read: Callable[[], LabelTable], config: TrainConfig, reading: dict[str, Any]
) -> tuple[Path, LabelTable]:
    """Train in several processes started by a launcher. Only the first process reads the table.

    Args:
        read: Function that reads the table.
        config: Configuration.
        reading: How the table is read, to be saved in config.yaml.

    Returns:
        Path of the run folder, and the table.
    """
    fabric = launch(config)
    table, problem = None, None
    if fabric.is_global_zero:
        try:
            table = read()
        except PositivelyError as error:
            problem = error.message
    table, problem = broadcast((table, problem))
    if problem is not None:
        raise PositivelyError(problem)
    assert table is not None
    path = train(table, config, fabric=fabric, reading=reading)
    _write_network(path)
    return path, table


@contextmanager
def _opened(config: TrainConfig, default: Path, fabric: Fabric) -> Iterator[RunFolder]:
    """Open the run folder on the first process. If that fails, all processes raise."""
    folder, problem = None, ""
    if fabric.is_global_zero:
        try:
            folder = RunFolder.open(config.out, default, resume=config.resume == "auto")
        except PositivelyError as error:
            problem = error.message
    place, problem = broadcast((str(folder.path) if folder else "", problem))
    if problem:
        raise RunError(problem)
    try:
        yield folder or RunFolder(place)
    except InterruptedRunError as error:
        way = f"To resume, repeat the command with {option('out', place)} {option('resume', 'auto')}."
        raise InterruptedRunError(f"{error.message} {way}") from None
    finally:
        if folder:
            folder.close()
