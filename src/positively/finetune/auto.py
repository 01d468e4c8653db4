"""Resolves a configuration: fills in every 'auto' value from the table, the device and the depth."""

import math
import os
from dataclasses import fields, replace
from typing import Any, TypeVar

import torch

from positively.config import TrainConfig
from positively.errors import ConfigError, option
from positively.finetune.methods import METHODS, Method, create_method, resolve_options
from positively.finetune.runtime import dtype_for
from positively.labels import LabelTable
from positively.models import HEADS, Depth, Head, Start, check_weights, find_backbone, head_options
from positively.options import check_options, kinds_of
from positively.pipeline import check_config, is_probe, learns_deeper, may_go_deeper
from positively.probe import METHOD

T = TypeVar("T")

_EPOCHS = {"probe": 30, "tail": 6, "finetune": 20}
_BATCH = {"probe": 256, "tail": 64, "finetune": 64}
# For a head that is trained alone. Fewer steps underfit tables of 300 to 1,000 images (docs/development/decisions.md).
_FEWEST_PROBE_STEPS = 200
_RATE = {"probe": 1e-3, "tail": 3e-4, "finetune": 1e-4}


def check_wing_config(config: TrainConfig, own_backbone: bool = False) -> None:
    """Raise ConfigError for values that cannot work and for unknown names, before any image is decoded."""
    check_config(config)
    method = pick_method(config, own_backbone)
    create_method(method, **config.method_options)
    head = _pick(config.head, METHODS[method].head or "linear")
    check_options(f"Head '{head}'", config.head_options, kinds_of(head_options(head)))
    check_weights(config.weights)
    if config.depth == "probe" and config.lgconv:
        raise ConfigError(
            "LgConv is part of the backbone, which depth 'probe' keeps frozen. Pass "
            f"{option('depth', 'tail')} or {option('depth', 'finetune')}."
        )
    if config.depth == "probe" and config.learn_stages:
        raise ConfigError(
            f"Depth 'probe' trains the head only; {option('learn_stages', config.learn_stages)} needs "
            f"{option('depth', 'tail')} or {option('depth', 'finetune')}."
        )
    if config.depth in ("probe", "tail") and config.augment not in ("auto", "none"):
        raise ConfigError(
            f"Depth '{config.depth}' stores embeddings of unchanged images; {option('augment', config.augment)} needs "
            f"{option('depth', 'finetune')}."
        )
    is_timm = not own_backbone and method != METHOD  # a probe takes any embedder
    if is_timm and config.backbone != "auto":
        find_backbone(config.backbone)


def pick_method(config: TrainConfig, own_backbone: bool = False, goes_deeper: bool = False) -> str:
    """Choose the method that 'auto' stands for.

    With a frozen backbone this is the probe. Where more than a head is trained it is 'distill', taught by the probe, or
    PU-MLC if the backbone has no pretrained weights, because a probe on random weights learns nothing.
    """
    if config.method != "auto":
        return config.method
    if config.weights == "none" or own_backbone:
        return "pu-mlc"
    if goes_deeper or learns_deeper(config):
        return "distill"
    return METHOD if is_probe(config) else "pu-mlc"


def resolve(config: TrainConfig, table: LabelTable, device: torch.device, own_backbone: bool = False) -> TrainConfig:
    """Fill in all open values of a configuration.

    Args:
        config: Configuration as given by the user.
        table: Training table.
        device: Device of the training.
        own_backbone: Whether the backbone is a user-defined module, which may or may not be pretrained.

    Returns:
        The resolved configuration.

    Raises:
        ConfigError: If values contradict each other.
    """
    check_wing_config(config, own_backbone)
    on_gpu = device.type != "cpu"
    goes_deeper = device.type == "cuda" and may_go_deeper(config, table)
    method_name = pick_method(config, own_backbone, goes_deeper)
    method = METHODS[method_name]
    was_open = config.method == "auto"
    config = _without_steps(replace(config, method=method_name))
    depth = _depth(config, method, on_gpu, own_backbone)
    if depth != "finetune" and config.weights == "none" and not own_backbone:
        raise ConfigError(
            f"Depth '{depth}' keeps most of the backbone frozen, and with {option('weights', 'none')} it is random. "
            f"Pass {option('depth', 'finetune')}, or pretrained weights."
        )
    check_wing_config(replace(config, depth=depth), own_backbone)  # again, with the resolved depth
    if own_backbone and config.refit and depth != "probe":
        raise ConfigError(
            "A refit starts from the initial weights, and a backbone of your own is trained in place. Omit "
            f"{option('refit')}, or pass {option('depth', 'probe')}."
        )
    solve_head = _default(config.solve_head, was_open and depth != "probe")
    if solve_head and config.refit:
        raise ConfigError(
            f"The held-out images select the solved head, and a refit trains on them. Pass either "
            f"{option('solve_head', True)} or {option('refit', True)}."
        )
    own_val = table.splits is not None and "val" in table.splits
    batch_size, epochs = _steps(depth, _count_training_images(table, config.holdout))
    chosen = replace(
        config,
        depth=depth,
        backbone=_pick(config.backbone, "resnet50" if on_gpu else "tf_efficientnet_lite0"),
        image_size=config.image_size or (448 if on_gpu else 224),
        dtype=_pick(config.dtype, dtype_for(device.type)),
        workers=_default(config.workers, _workers(on_gpu, len(table))),
        batch_size=_default(config.batch_size, batch_size),
        epochs=_default(config.epochs, method.learning(depth).get("epochs", epochs)),
        solve_head=solve_head,
        refit=False if config.refit is None and (own_val or solve_head) else config.refit,
    )
    return _fill(chosen, method, depth)


def resolve_defaults(config: TrainConfig) -> TrainConfig:
    """Resolved defaults for the same method, network, depth, batch size and epochs."""
    plain = TrainConfig(
        method=config.method,
        depth=config.depth,
        backbone=config.backbone,
        weights=config.weights,
        image_size=config.image_size,
        dtype="float32",
        batch_size=config.batch_size,
        epochs=config.epochs,
    )
    return _fill(_without_steps(plain), METHODS[config.method], _resolved_depth(config))


def _without_steps(config: TrainConfig) -> TrainConfig:
    """Fixed values for options that the probe does not use. Stored benchmark results are found by these values."""
    if config.method != METHOD:
        return config
    return replace(
        config,
        epochs=1,
        ema=_default(config.ema, 0.0),
        solve_head=False,
        restore_best=_default(config.restore_best, bool(config.patience)),
        refit=_default(config.refit, False),
    )


def _fill(config: TrainConfig, method: type[Method], depth: Depth) -> TrainConfig:
    """Fill in the values that depend on the method and the depth only."""
    head = _pick(config.head, method.head or "linear")
    if method.head is not None and head != method.head:
        raise ConfigError(f"Method '{config.method}' uses its own head '{method.head}' and cannot use '{head}'.")
    if HEADS[head].is_solved and config.method != METHOD:
        raise ConfigError(
            f"Head '{head}' belongs to the probe, and method '{config.method}' trains by gradient descent. Pass "
            f"{option('method', 'auto')} or {option('head', 'linear')}."
        )
    random_weights = config.weights == "none"
    is_plain = head == "linear" and not config.head_options.get("normalize") and not random_weights
    if config.start == "solved" and not is_plain and config.method != METHOD:
        raise ConfigError(
            f"{option('start', 'solved')} initialises a plain linear head on a pretrained network. Pass "
            f"{option('head', 'linear')} and pretrained weights, or {option('start', 'default')}."
        )
    learning = method.learning(depth)
    patience = _default(config.patience, learning.get("patience", 0))
    if patience and config.restore_best is False:
        raise ConfigError(
            f"{option('patience', patience)} uses the best epoch. Omit {option('restore_best', False)}, "
            f"or pass {option('patience', 0)}."
        )
    return replace(
        config,
        head=head,
        method_options=resolve_options(config.method, depth, config.method_options),
        learn_stages=_default(config.learn_stages, 1) if depth == "tail" else config.learn_stages,
        freeze_batchnorm=_default(config.freeze_batchnorm, not random_weights),
        start=_pick(config.start, method.start or default_start(depth, head)),
        lr=_default(config.lr, 1e-3 if random_weights else learning.get("lr", _RATE[depth])),
        ema=_default(config.ema, 0.9997 if depth == "finetune" else 0.0),
        augment=_pick(config.augment, "crop" if depth == "finetune" else "none"),
        solve_head=_default(config.solve_head, False),
        patience=patience,
        restore_best=_default(config.restore_best, patience > 0 or depth == "probe"),
        refit=_default(config.refit, depth == "probe"),
    )


def _count_training_images(table: LabelTable, holdout: float) -> int:
    """Number of training images, without those held out."""
    if table.splits is None:
        return round(len(table) * (1 - holdout))
    images = sum(split in ("train", "") for split in table.splits)
    return images if "val" in table.splits else round(images * (1 - holdout))


def _steps(depth: Depth, images: int) -> tuple[int, int]:
    """Batch size and number of epochs.

    At depth 'probe' a small table gets more epochs. The batch stays large, because a PU loss uses statistics of the
    batch, and divides the table evenly, so that no image is left over.
    """
    if depth != "probe":
        return _BATCH[depth], _EPOCHS[depth]
    steps = max(round(images / _BATCH[depth]), 1)
    return max(images // steps, 2), max(math.ceil(_FEWEST_PROBE_STEPS / steps), _EPOCHS[depth])


def _depth(config: TrainConfig, method: type[Method], on_gpu: bool, own_backbone: bool) -> Depth:
    depth: Depth
    if config.depth != "auto":
        depth = config.depth
    elif own_backbone or config.weights == "none" or (on_gpu and "finetune" in method.depths):
        depth = "finetune"  # random weights must not be frozen, and a user-defined module may have random weights
    else:
        depth = "probe" if "probe" in method.depths else method.depths[0]
    if depth not in method.depths:
        listed = " or ".join(option("depth", name) for name in method.depths)
        raise ConfigError(f"Method '{config.method}' does not work at depth '{depth}'. Pass {listed}.")
    return depth


def _resolved_depth(config: TrainConfig) -> Depth:
    return "finetune" if config.depth == "auto" else config.depth


def default_start(depth: Depth, head: str) -> Start:
    """Default initialisation of the head: at the class frequencies where only the head is trained, if possible."""
    return "prior" if depth == "probe" and "prior" in possible_starts(head) else "default"


def possible_starts(head: str) -> tuple[Start, ...]:
    """Initialisations that a head supports. 'prior' needs a last linear layer."""
    return ("default",) if HEADS[head].last_layer is Head.last_layer else ("default", "prior")


_REASONS = {
    "distill": "A probe teaches the network, and the fine-tuned network is used only if it ranks held-out tags higher.",
    "pu-mlc": "The backbone has no pretrained weights for a probe, so PU-MLC is used.",
}
_STEPPED = "Head '{head}' is trained by gradient descent, so PU-MLC is used."


def choices(before: TrainConfig, after: TrainConfig) -> str:
    """Describe the values that were chosen, and the reason for the method: ``Chosen: depth tail, backbone …``."""
    listed = []
    for entry in fields(before):
        chosen = getattr(after, entry.name)
        if getattr(before, entry.name) != chosen and chosen is not False:
            listed.append(f"{entry.name} {chosen:g}" if isinstance(chosen, float) else f"{entry.name} {chosen}")
    reason = ""
    if before.method == "auto":
        is_stepped = after.method == "pu-mlc" and after.depth == "probe"
        reason = f" {_STEPPED.format(head=after.head) if is_stepped else _REASONS[after.method]}"
    return f"Chosen: {', '.join(listed)}.{reason}"


def _pick(value: Any, otherwise: Any) -> Any:
    return otherwise if value == "auto" else value


def _default(value: T | None, otherwise: T) -> T:
    return otherwise if value is None else value


def _workers(on_gpu: bool, images: int) -> int:
    """Number of reading processes. On a CPU, and for small tables, threads of this process are faster."""
    return min(os.cpu_count() or 1, 8) if on_gpu and images >= 1000 else 0
