"""From the options of a verb to embeddings and a fit: choose what is left open, refuse what cannot work.

Nothing in here imports torch: names of methods and backbones are checked before anything is computed.
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
"""Known tags held out that it takes to tell whether a network has learned."""


@dataclass(frozen=True)
class KernelOptions:
    """Options of the head 'kernel'."""

    pooling: Pooling = "average"
    """How the map is pooled over its positions; "mix" is the mean of average and maximum."""
    landmarks: Count = LANDMARKS
    """How many images of the table every image is compared with."""
    window: Index = 0
    """Side of the parts of an image that are embedded too, in positions of the map; 0: the whole image alone."""


def is_probe(config: TrainConfig) -> bool:
    """Whether these options ask for a probe on a frozen backbone, and not for a network that learns."""
    is_random = config.weights == "none" and config.depth == "auto"
    is_method = config.method in ("auto", METHOD) and config.head in ("auto", "kernel")
    return is_method and not learns_deeper(config) and not is_random


def learns_deeper(config: TrainConfig) -> bool:
    """Whether more than a head is asked to learn."""
    return config.depth in ("tail", "finetune") or config.lgconv or bool(config.learn_stages)


def may_go_deeper(config: TrainConfig, table: LabelTable) -> bool:
    """Whether 'auto' lets the network learn without being told to, where a GPU is: if what it learns can be judged.

    That takes known tags of images held out. Whoever asks for something of the method, the head or the training's end
    gets what these options were made for: the probe.
    """
    is_open = config.method == config.depth == config.head == "auto"
    if not is_open or config.method_options or config.head_options or config.refit or config.embeddings:
        return False
    val = [row for row, split in enumerate(table.splits or ()) if split == "val"]
    judges = table.select(val).total(POSITIVE) if val else config.holdout * table.total(POSITIVE)
    return config.known_ratio * judges >= FEWEST_JUDGES


def check_config(config: TrainConfig) -> None:
    """Refuse values that no training takes and unknown methods and heads.

    Raises:
        ConfigError: The sentence names the option.
    """
    for name, kind in kinds_of(TrainConfig).items():
        check_value(option(name), getattr(config, name), kind)
    if config.method != "auto" and config.method not in METHODS:
        METHODS[config.method]  # says which there are
    if config.head != "auto" and config.head not in HEADS:
        HEADS[config.head]
    if config.cache is not None and Path(config.cache).is_file():
        raise ConfigError(f"{option('cache', config.cache)}: there is a file of that name. Name a folder.")


def check_probe_config(config: TrainConfig) -> None:
    """As :func:`check_config`, and what a probe cannot do or have, before any image is looked at."""
    check_config(config)
    if not is_probe(config):
        return
    probe_options(config)
    kernel_options(config)
    if config.augment not in ("auto", "none"):
        raise ConfigError(
            f"Depth 'probe' embeds images as they are; {option('augment', config.augment)} needs "
            f"{option('depth', 'finetune')}."
        )
    if config.embeddings:
        missing = [name for name in config.embeddings if not Path(name).is_file()]
        if missing:
            raise ConfigError(f"{option('embeddings', missing[0])}: there is no such file.")
    else:
        check_backbone(config.backbone, config.weights)


def probe_options(config: TrainConfig) -> ProbeOptions:
    """Options of the method, checked."""
    return make_options(ProbeOptions, f"Method '{METHOD}'", config.method_options)


def kernel_options(config: TrainConfig) -> KernelOptions:
    """Options of the head, checked."""
    return make_options(KernelOptions, "Head 'kernel'", config.head_options)


def embed_table(
    table: LabelTable, config: TrainConfig, kernel: KernelOptions | None = None, embedder: Embedder | None = None
) -> Embeddings:
    """Embeddings of a table's images as a configuration asks for them: from files, or by its backbone.

    Args:
        table: The images.
        config: Backbone, weights, image size and cache, or embedding files.
        kernel: How maps are pooled; by default as the configuration says.
        embedder: In place of the configuration's backbone.
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
    """The configuration with everything that was chosen filled in, to be stored with the run."""
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
