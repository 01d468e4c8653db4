"""What 'auto' means: every choice left open, made from the table, the machine and the depth, and said aloud."""

import os
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypeVar

import torch

from positively.errors import ConfigError
from positively.labels import LabelTable
from positively.methods import default_start, fitting_options
from positively.models import Depth
from positively.training.config import TrainConfig
from positively.training.runtime import precision_for

T = TypeVar("T")

_EPOCHS = {"probe": 30, "tail": 6, "finetune": 20}
_BATCH = {"probe": 256, "tail": 64, "finetune": 64}
_RATE = {"probe": 1e-3, "tail": 3e-4, "finetune": 1e-4}


_RANGES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "epochs": (lambda value: value >= 1, "at least 1"),
    "stop_epoch": (lambda value: value >= 1, "at least 1"),
    "batch_size": (lambda value: value >= 2, "at least 2"),
    "image_size": (lambda value: value >= 8, "at least 8"),
    "learn_stages": (lambda value: value >= 0, "at least 0"),
    "workers": (lambda value: value >= 0, "at least 0"),
    "seed": (lambda value: value >= 0, "at least 0"),
    "nodes": (lambda value: value >= 1, "at least 1"),
    "lr": (lambda value: value > 0, "above 0"),
    "clip_norm": (lambda value: value > 0, "above 0"),
    "weight_decay": (lambda value: value >= 0, "at least 0"),
    "checkpoint_minutes": (lambda value: value >= 0, "at least 0"),
    "flip_positives": (lambda value: 0 <= value < 1, "at least 0 and below 1"),
    "mask_seed": (lambda value: value >= 0, "at least 0"),
    "known_ratio": (lambda value: 0 < value <= 1, "above 0 and at most 1"),
    "holdout": (lambda value: 0 <= value < 1, "at least 0 and below 1"),
    "warmup": (lambda value: 0 <= value < 1, "at least 0 and below 1"),
    "ema": (lambda value: 0 <= value < 1, "at least 0 and below 1"),
}


def check_ranges(config: TrainConfig) -> None:
    """Refuse numbers that cannot work."""
    for name, (is_right, words) in _RANGES.items():
        value = getattr(config, name)
        if value is not None and not is_right(value):
            raise ConfigError(f"--{name.replace('_', '-')} must be {words}, not {value}.")


def resolve(config: TrainConfig, table: LabelTable, device: torch.device) -> TrainConfig:
    """Fill in everything that was left open."""
    check_ranges(config)
    on_gpu = device.type != "cpu"
    depth: Depth = config.depth if config.depth != "auto" else ("finetune" if on_gpu else "probe")
    if depth != "finetune" and config.weights == "none":
        raise ConfigError(
            f"Depth '{depth}' keeps the backbone (or most of it) as it is, and with --weights none it would be random. "
            "Pass --depth finetune, or pretrained weights."
        )
    if depth == "probe" and config.lgconv:
        raise ConfigError(
            "LgConv learns inside the backbone; depth 'probe' keeps it frozen. Pass --depth tail or finetune."
        )
    if depth != "finetune" and config.augment not in ("auto", "none"):
        raise ConfigError(f"Depth '{depth}' keeps features of images as they are; --augment needs --depth finetune.")
    random_start = config.weights == "none"
    return replace(
        config,
        depth=depth,
        options=fitting_options(config.method, depth, config.options),
        backbone=_pick(config.backbone, "resnet50" if on_gpu else "tf_efficientnet_lite0"),
        learn_stages=_default(config.learn_stages, 1) if depth == "tail" else config.learn_stages,
        image_size=config.image_size or (448 if on_gpu else 224),
        freeze_batchnorm=_default(config.freeze_batchnorm, not random_start),
        start=_pick(config.start, default_start(depth)),
        epochs=_default(config.epochs, _EPOCHS[depth]),
        batch_size=_default(config.batch_size, _BATCH[depth]),
        lr=_default(config.lr, 1e-3 if random_start else _RATE[depth]),
        ema=_default(config.ema, 0.9997 if depth == "finetune" else 0.0),
        augment=_pick(config.augment, "crop" if depth == "finetune" else "none"),
        precision=_pick(config.precision, precision_for(device.type)),
        workers=_default(config.workers, _workers(on_gpu, len(table))),
    )


def choices(before: TrainConfig, after: TrainConfig) -> str:
    """One line that says what was chosen: ``depth probe, backbone …``."""
    said = []
    for field in fields(before):
        chosen = getattr(after, field.name)
        if getattr(before, field.name) != chosen:
            said.append(f"{field.name} {chosen:g}" if isinstance(chosen, float) else f"{field.name} {chosen}")
    return ", ".join(said)


def _pick(value: Any, otherwise: Any) -> Any:
    return otherwise if value == "auto" else value


def _default(value: T | None, otherwise: T) -> T:
    return otherwise if value is None else value


def _workers(on_gpu: bool, images: int) -> int:
    """A CPU that trains needs its cores: a worker that takes one of two makes the other wait at every layer."""
    cores = os.cpu_count() or 1
    if images < 1000:  # starting workers costs more than reading a small table
        return 0
    return min(cores, 8) if on_gpu else min(cores // 4, 8)
