"""Training on a frozen backbone, from the table to the run folder: embed, fit, save."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from positively.config import TrainConfig
from positively.embedding import BackboneEmbedder, Embedder, Embeddings, Preprocessing
from positively.errors import RunError, option
from positively.labels import NEGATIVE, POSITIVE, LabelTable
from positively.logs import counted_progress, logger
from positively.pipeline import embed_table, kernel_options, probe_options, resolve_probe
from positively.probe import KernelClassifier, Probe, ProbeOptions, fit_table
from positively.probe.tables import calibrated_heads, first_out_of_sample, fit_measures
from positively.runs.card import write_card
from positively.runs.folder import RunFolder
from positively.runs.hiding import Rows, hide_labels, training_rows
from positively.runs.locking import default_place
from positively.runs.network import build_model, write_model
from positively.runs.outcome import describe_outcome, log_heads
from positively.runs.saving import save_probe, write_model_config
from positively.runs.sources import read_config
from positively.tables.overlap import can_hash, with_hashes

# Options of trainings with steps, which a probe ignores.
_OF_STEPS = ("epochs", "stop_epoch", "batch_size", "lr", "ema", "clip_norm", "restore_best", "patience", "refit")
# Options that may change when a run is resumed.
_OF_THE_MACHINE = {"out", "resume", "accelerator", "devices", "nodes", "workers", "cache", "checkpoint_minutes"}
_OF_THE_MACHINE |= {"plugin", "runtime", "dtype", "command"}


def train_probe(
    table: LabelTable,
    config: TrainConfig,
    *,
    reading: Mapping[str, Any] | None = None,
    embedder: Embedder | None = None,
) -> Path:
    """Fit a probe to a table and return its run folder.

    Args:
        table: Tags of the training images.
        config: Options; those left open are chosen and logged.
        reading: How the table was read, for config.yaml.
        embedder: Replaces the backbone of the configuration, for a torch module of your own.
    """
    options, kernel = probe_options(config), kernel_options(config)
    _log_idle_options(config)
    is_resumed = config.resume == "auto"
    with RunFolder.open(config.out, default_place(table, config.method, is_resumed), is_resumed) as folder:
        seen = hide_labels(with_hashes(table) if not config.embeddings or can_hash(table) else table, config)
        rows, held_out = training_rows(seen)
        _log_labels(seen.select(rows), len(held_out), options)
        embeddings = embed_table(seen, config, kernel, embedder)
        settings = {**(reading or {}), **asdict(resolve_probe(config, embeddings))}
        _begin(folder, settings, seen, is_resumed)
        train = seen.select(rows)
        with counted_progress("Fitting the probe"):
            X, landmarks = embeddings.X[rows], kernel.landmarks
            probe = fit_table(train, X, options, seed=config.seed, landmarks=landmarks, linear=True)
        _write(folder, seen, (rows, held_out), embeddings, probe, settings)
        calibrated = calibrated_heads(probe)
        logger.info(describe_outcome(calibrated, "kernel", train))
        log_heads(calibrated)
        logger.info(f"The run is in {folder.path}.")
    return folder.path


def _log_labels(train: LabelTable, held_out: int, options: ProbeOptions) -> None:
    negatives = f" and {train.total(NEGATIVE):,} negative" if train.has_negatives and options.negatives else ""
    others = f"; {held_out:,} images are kept for validation" if held_out else ""
    logger.debug(f"Learning from {len(train):,} images, {train.total(POSITIVE):,} positive{negatives} labels{others}.")


def _log_idle_options(config: TrainConfig) -> None:
    idle = [option(name) for name in _OF_STEPS if getattr(config, name) is not None]
    if idle:
        logger.info(f"A probe is fitted without steps, so {', '.join(idle)} has no effect.")


def _begin(folder: RunFolder, settings: Mapping[str, Any], seen: LabelTable, is_resumed: bool) -> None:
    """Write the configuration, unless a resumed run has a different one."""
    learned = f"{len(seen)} images, {seen.digest()}"
    if is_resumed and folder.holds_run:
        before = {**read_config(folder, verify=False), "table": folder.read_environment().get("table")}
        now = {**settings, "table": learned}
        names = [name for name in now if name in before and name not in _OF_THE_MACHINE]
        changed = [f"{name} {before[name]} (now {now[name]})" for name in names if before[name] != now[name]]
        if changed:
            raise RunError(
                f"{folder.path} was trained with other settings: {', '.join(changed)}. Pass the same settings, or "
                f"another {option('out')}."
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
    """Write all files of a finished run; config.json and the manifest come last and mark it as finished."""
    train = seen.select(parts[0])
    folder.write_images(
        {
            seen.images[row]: (seen.hashes[row] if seen.hashes else "", part)
            for part, rows in zip(("train", "holdout"), parts, strict=True)
            for row in rows.tolist()
        }
    )
    calibrated = calibrated_heads(probe)
    thresholds = calibrated["kernel"].thresholds()
    folder.write_thresholds(train.classes, thresholds)
    folder.write_calibration(calibrated)
    found = first_out_of_sample(probe)
    if found is not None:
        folder.write_out_of_sample(found, train.states())
    folder.write_metrics([fit_measures(probe)])
    save_probe(folder, probe)
    with _onnx_backbone(embeddings.embedder) as backbone:
        if backbone is not None:
            model = build_model(backbone, KernelClassifier.of(probe), thresholds, train.classes, "kernel")
            write_model(folder.network, model)
    labels = f"{train.total(POSITIVE):,} positive labels of {len(train.classes)} classes"
    expected = describe_outcome(calibrated, "kernel", train)
    write_card(folder, settings, f"{len(train):,} images with {labels}", expected)
    write_model_config(folder, _describe(embeddings, settings, probe), train.classes)


@contextmanager
def _onnx_backbone(embedder: Embedder | None) -> Iterator[BackboneEmbedder | None]:
    """The backbone as an ONNX file inside the context; None if there is none or it cannot be exported."""
    if embedder is None or isinstance(embedder, BackboneEmbedder):
        yield embedder
        return
    with TemporaryDirectory() as folder:
        exported = None
        if hasattr(embedder, "export"):
            try:
                exported = embedder.export(Path(folder) / "backbone.onnx")
            except RunError as error:
                logger.info(f"predict needs torch for this run. {error.message}")
        yield exported


def _describe(embeddings: Embeddings, settings: Mapping[str, Any], probe: Probe) -> dict[str, Any]:
    """The description of the model in config.json."""
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
