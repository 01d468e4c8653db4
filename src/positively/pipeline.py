"""Read a training configuration: check it, decide between a probe and a network, and compute embeddings.

This module does not import torch. It checks names of methods and backbones before anything is computed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from positively.config import TrainConfig
from positively.embedding import DEFAULT, Embedder, Embeddings, Pooling, check_backbone, embed, read_embeddings
from positively.errors import ConfigError, option
from positively.labels import POSITIVE, LabelTable
from positively.logs import counted_progress
from positively.options import Count, Index, check_value, kinds_of, make_options
from positively.probe.fitting import LANDMARKS
from positively.probe.tables import METHOD, ProbeOptions
from positively.registry import HEADS, METHODS

FEWEST_JUDGES = 20
"""Number of held-out known tags needed to compare a trained network with the probe."""


@dataclass(frozen=True)
class KernelOptions:
    """Options of the head 'kernel'."""

    pooling: Pooling = "average"
    """How the feature map is pooled over its positions; "mix" is the mean of average and maximum."""
    landmarks: Count = LANDMARKS
    """Number of images of the table that the kernel compares each image with."""
    window: Index = 0
    """Side of the image parts that are embedded too, in positions of the feature map; 0 for whole images only."""


def is_probe(config: TrainConfig) -> bool:
    """Whether this configuration trains a probe on a frozen backbone instead of a network."""
    is_random = config.weights == "none" and config.depth == "auto"
    is_method = config.method in ("auto", METHOD) and config.head in ("auto", "kernel")
    return is_method and not learns_deeper(config) and not is_random


def learns_deeper(config: TrainConfig) -> bool:
    """Whether more than the head is trained."""
    return config.depth in ("tail", "finetune") or config.lgconv or bool(config.learn_stages)


def may_go_deeper(config: TrainConfig, table: LabelTable) -> bool:
    """Whether 'auto' may train the network on a GPU: only if enough held-out tags can measure the improvement.

    With options for the method or the head, 'auto' is always the probe, because these are options of the probe.
    """
    is_open = config.method == config.depth == config.head == "auto"
    if not is_open or config.method_options or config.head_options or config.refit or config.embeddings:
        return False
    val = [row for row, split in enumerate(table.splits or ()) if split == "val"]
    judges = table.select(val).total(POSITIVE) if val else config.holdout * table.total(POSITIVE)
    return config.known_ratio * judges >= FEWEST_JUDGES


def check_config(config: TrainConfig) -> None:
    """Check values, method and head of a configuration.

    Raises:
        ConfigError: if an option is invalid; the message names it.
    """
    for name, kind in kinds_of(TrainConfig).items():
        check_value(option(name), getattr(config, name), kind)
    if config.method != "auto" and config.method not in METHODS:
        METHODS[config.method]  # raises, with the list of methods
    if config.head != "auto" and config.head not in HEADS:
        HEADS[config.head]
    if config.cache is not None and Path(config.cache).is_file():
        raise ConfigError(f"{option('cache', config.cache)} is a file. Pass a folder.")


def check_probe_config(config: TrainConfig) -> None:
    """As :func:`check_config`, and check the options of a probe before any image is read."""
    check_config(config)
    if not is_probe(config):
        return
    probe_options(config)
    kernel_options(config)
    if config.augment not in ("auto", "none"):
        raise ConfigError(
            f"A probe uses images without augmentation; {option('augment', config.augment)} needs "
            f"{option('depth', 'finetune')}."
        )
    if config.embeddings:
        missing = [name for name in config.embeddings if not Path(name).is_file()]
        if missing:
            raise ConfigError(f"{option('embeddings', missing[0])}: the file does not exist.")
    else:
        check_backbone(config.backbone, config.weights)


def probe_options(config: TrainConfig) -> ProbeOptions:
    """The checked options of the method."""
    return make_options(ProbeOptions, f"Method '{METHOD}'", config.method_options)


def kernel_options(config: TrainConfig) -> KernelOptions:
    """The checked options of the head."""
    return make_options(KernelOptions, "Head 'kernel'", config.head_options)


def embed_table(
    table: LabelTable, config: TrainConfig, kernel: KernelOptions | None = None, embedder: Embedder | None = None
) -> Embeddings:
    """Embeddings of a table's images, from files or from a backbone, as the configuration says.

    Args:
        table: The images.
        config: Backbone, weights, image size and cache, or embedding files.
        kernel: How feature maps are pooled; by default from the configuration.
        embedder: Used instead of the backbone of the configuration.
    """
    if config.embeddings:
        return read_embeddings(config.embeddings, table)
    kernel = kernel or kernel_options(config)
    with counted_progress("Embedding images") as progress:
        return embed(
            table,
            embedder or config.backbone,
            weights=config.weights,
            image_size=config.image_size,
            pooling=kernel.pooling,
            window=kernel.window,
            seed=config.seed,
            cache=Path(config.cache) if config.cache else None,
            progress=progress,
        )


def resolve_probe(config: TrainConfig, embeddings: Embeddings) -> TrainConfig:
    """The configuration with all automatic choices filled in, to be stored with the run."""
    backbone = DEFAULT if config.backbone == "auto" else config.backbone
    preprocessing = getattr(embeddings.embedder, "preprocessing", None)
    return replace(
        config,
        method=METHOD,
        depth="probe",
        backbone="embeddings" if config.embeddings else backbone,
        image_size=preprocessing.image_size if preprocessing else config.image_size,
        head="kernel",
        head_options=dict(config.head_options),
    )
