"""A whole training: table → network → loop → run folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from positively.calibration import choose_thresholds
from positively.data.loading import FeatureDataset, ImageDataset
from positively.data.overlap import image_hashes
from positively.data.transforms import ImageTransform
from positively.errors import ConfigError, RunError, TableError
from positively.features import extract
from positively.labels import POSITIVE, LabelTable
from positively.methods import Method, create_method
from positively.models import Classifier, Start, create_classifier, read_word_vectors
from positively.runs.folder import RunFolder
from positively.runs.saving import save_model, write_card
from positively.runs.scoring import sigmoid
from positively.training.auto import choices, resolve
from positively.training.config import TrainConfig
from positively.training.holdout import split_holdout
from positively.training.progress import log_progress
from positively.training.runtime import launch
from positively.training.trainer import Trainer

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_print = partial(print, flush=True)  # in step with the progress, which goes to the other stream


def train(
    table: LabelTable,
    config: TrainConfig,
    *,
    backbone: nn.Module | None = None,
    fabric: Fabric | None = None,
    reading: dict[str, Any] | None = None,
    say: Callable[[str], None] = _print,
) -> Path:
    """Train a classifier and return its run folder.

    Args:
        table: Tags of the training images.
        config: What to do; everything left open is chosen and said.
        backbone: A module in place of a timm model's name.
        fabric: A running engine; one is launched if none is given.
        reading: How the table was read, to stand in config.yaml.
        say: Where to print what was chosen.
    """
    fabric = fabric or launch(config)
    speak = say if fabric.is_global_zero else lambda line: None
    asked, config = config, resolve(config, table, fabric.device)
    method = create_method(config.method, **config.options)
    speak(f"Chosen: {choices(asked, config)}.")

    name = f"{Path(table.source).stem}-{config.method}"
    with _folder(config, name, fabric) as folder:
        learning, aside = _tables(table, config, method, speak)

        classifier = build_classifier(config, learning, backbone)
        samples, samples_aside = _samples(config, classifier, learning, aside, fabric, speak)
        loop = Trainer(fabric, config, method, classifier, samples, samples_aside, folder)
        loop.restore(speak)
        # Only now: a start that fails (no such backbone, no weights) leaves the folder free for the next.
        if fabric.is_global_zero and not (config.resume == "auto" and folder.checkpoint.exists()):
            folder.write_config({**(reading or {}), **asdict(config)})
        loop.run()
        if fabric.is_global_zero:
            hashes = image_hashes(learning), image_hashes(aside)
            folder.write_images(
                {image: (h, "train") for image, h in zip(learning.images, hashes[0], strict=True)}
                | {image: (h, "holdout") for image, h in zip(aside.images, hashes[1], strict=True)}
            )

        judged = samples_aside if len(aside) else samples
        logits = loop.score(judged)
        if fabric.is_global_zero:
            folder.write_thresholds(table.classes, choose_thresholds(sigmoid(logits), judged.table.states()))
            labels = f"{learning.total(POSITIVE):,} positive labels of {len(table.classes)} classes"
            write_card(folder, asdict(config), f"{len(learning):,} images with {labels}", loop.history)
            save_model(folder, classifier, table.classes, asdict(config))
            speak(f"The run is in {folder.path}.")
        fabric.barrier()
        return folder.path


def _folder(config: TrainConfig, name: str, fabric: Fabric) -> RunFolder:
    """Open the run folder on the first process; if that fails, all of them say so and stop."""
    folder, problem = RunFolder(""), ""
    if fabric.is_global_zero:
        try:
            folder = RunFolder.open(config.out, name, resume=config.resume == "auto")
        except RunError as error:
            problem = error.message
    place, problem = fabric.broadcast((str(folder.path), problem))
    if problem:
        raise RunError(problem)
    return folder if fabric.is_global_zero else RunFolder(place)


def _tables(
    table: LabelTable, config: TrainConfig, method: Method, speak: Callable[[str], None]
) -> tuple[LabelTable, LabelTable]:
    """Hide what the experiment hides, and hold a part out."""
    table = hide_labels(table, config)
    if method.uses_negatives and not table.has_negatives:
        raise ConfigError(
            f"Method '{config.method}' learns from known negatives, and {table.source} has none. If its tags are "
            "complete, pass --blank negative; otherwise take --method pu-mlc."
        )
    if table.has_negatives and not method.uses_negatives:
        speak(f"Method '{config.method}' learns from positive labels alone; the known negatives serve thresholds only.")
    learning, aside = split_holdout(table, config.holdout, config.seed)
    if not learning.total(POSITIVE):
        raise TableError(f"{table.source}: none of the {len(learning)} training images carries a tag.")
    speak(
        f"Learning from {len(learning):,} images, {learning.total(POSITIVE):,} positive labels; "
        f"{len(aside):,} images held out."
    )
    if len(aside):
        speak("Watch holdout_pu, on the images held out: lower is better. A PU loss itself is often negative.")
    return learning, aside


def hide_labels(table: LabelTable, config: TrainConfig) -> LabelTable:
    """The labels an experiment leaves of a complete table: first the noise, then what is hidden."""
    seed = config.seed if config.mask_seed is None else config.mask_seed
    if config.flip_positives:
        table = table.with_flipped_positives(config.flip_positives, seed)
    if config.known_ratio < 1.0:
        table = table.with_known_ratio(config.known_ratio, seed)
    if config.single_positive:
        table = table.with_single_positive(seed)
    return table.positives_only() if config.positives_only else table


def build_classifier(config: TrainConfig, table: LabelTable, backbone: nn.Module | None = None) -> Classifier:
    """Build the network; its random weights are a function of the seed.

    Args:
        config: Resolved: nothing in it is left open.
        table: What it will learn from.
        backbone: A module in place of a timm model's name.
    """
    torch.manual_seed(config.seed)
    classifier = create_classifier(
        backbone if backbone is not None else config.backbone,
        classes=len(table.classes),
        weights=config.weights,
        image_size=config.image_size or 224,
        head=config.head,
        head_options=_head_options(config),
        pooling=config.pooling,
        lgconv=config.lgconv,
        learn_stages=config.learn_stages,
        freeze_batchnorm=bool(config.freeze_batchnorm),
        depth="finetune" if config.depth == "auto" else config.depth,
    )
    start_head(classifier, config, table)
    return classifier.to(memory_format=torch.channels_last)  # as the batches are: the fastest layout for convolutions


def _head_options(config: TrainConfig) -> dict[str, Any]:
    """What the head has to be told beside its pooling."""
    if config.word_vectors is None:
        return {}
    if config.head != "semantic-graph":
        raise ConfigError(f"Head '{config.head}' has no use for --word-vectors. Pass --head semantic-graph.")
    return {"word_vectors": read_word_vectors(config.word_vectors)}


def start_head(classifier: Classifier, config: TrainConfig, table: LabelTable) -> None:
    """Set the head to where training begins; random weights come from torch's generator as it stands."""
    start: Start = "prior" if config.start == "prior" else "default"
    classifier.head.start(start, torch.from_numpy(table.frequencies()))
    classifier.head.setup(table)


def _samples(
    config: TrainConfig,
    classifier: Classifier,
    learning: LabelTable,
    aside: LabelTable,
    fabric: Fabric,
    speak: Callable[[str], None],
) -> tuple[ImageDataset | FeatureDataset, ImageDataset | FeatureDataset]:
    """What the learner sees: images, or the kept features of what stays as it is."""
    backbone = classifier.backbone
    augment = "none" if config.augment == "auto" else config.augment
    if config.depth == "finetune":
        learn = ImageTransform(backbone.image_size, backbone.interpolation, augment)
        plain = ImageTransform(backbone.image_size, backbone.interpolation)
        return ImageDataset(learning, learn, config.seed), ImageDataset(aside, plain)

    transform = ImageTransform(backbone.image_size, backbone.interpolation)
    store = Path(config.features) if config.features else None
    progress = log_progress("Features", speak)
    classifier.to(fabric.device)

    def features(part: LabelTable) -> FeatureDataset:
        workers = config.workers or 0
        return FeatureDataset(
            part, extract(classifier, part, transform, store=store, workers=workers, progress=progress)
        )

    return features(learning), features(aside)  # every process computes its share
