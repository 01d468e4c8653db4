"""What 'auto' means: every choice left open, made from the table, the machine and the depth, and said aloud."""

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
# Of a head that learns alone: fewer leave a table of 300 to 1,000 photos half learned (docs/development/decisions.md).
_FEWEST_PROBE_STEPS = 200
_RATE = {"probe": 1e-3, "tail": 3e-4, "finetune": 1e-4}


def check_wing_config(config: TrainConfig, own_backbone: bool = False) -> None:
    """Refuse values that cannot work, and names nobody knows: before any image is decoded."""
    check_config(config)
    method = pick_method(config, own_backbone)
    create_method(method, **config.method_options)
    head = _pick(config.head, METHODS[method].head or "linear")
    check_options(f"Head '{head}'", config.head_options, kinds_of(head_options(head)))
    check_weights(config.weights)
    if config.depth == "probe" and config.lgconv:
        raise ConfigError(
            "LgConv learns inside the backbone; depth 'probe' keeps it frozen. Pass "
            f"{option('depth', 'tail')} or {option('depth', 'finetune')}."
        )
    if config.depth == "probe" and config.learn_stages:
        raise ConfigError(
            f"Depth 'probe' trains the head alone; {option('learn_stages', config.learn_stages)} needs "
            f"{option('depth', 'tail')} or {option('depth', 'finetune')}."
        )
    if config.depth in ("probe", "tail") and config.augment not in ("auto", "none"):
        raise ConfigError(
            f"Depth '{config.depth}' stores features of images as they are; {option('augment', config.augment)} needs "
            f"{option('depth', 'finetune')}."
        )
    is_timm = not own_backbone and method != METHOD  # a probe takes any embedder
    if is_timm and config.backbone != "auto":
        find_backbone(config.backbone)


def pick_method(config: TrainConfig, own_backbone: bool = False, goes_deeper: bool = False) -> str:
    """The method that 'auto' is.

    The probe on a frozen backbone. Where more than a head learns: 'distill', which the probe teaches, or PU-MLC where
    the backbone has no pretrained weights and a probe would learn nothing.
    """
    if config.method != "auto":
        return config.method
    if config.weights == "none" or own_backbone:
        return "pu-mlc"
    if goes_deeper or learns_deeper(config):
        return "distill"
    return METHOD if is_probe(config) else "pu-mlc"


def resolve(config: TrainConfig, table: LabelTable, device: torch.device, own_backbone: bool = False) -> TrainConfig:
    """Fill in everything that was left open.

    Args:
        config: What was asked for.
        table: What is learned from.
        device: What it is trained on.
        own_backbone: Whether the backbone is a module from Python, of which nobody knows whether it was ever trained.
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
            f"Depth '{depth}' keeps the backbone (or most of it) as it is, and with {option('weights', 'none')} it "
            f"would be random. Pass {option('depth', 'finetune')}, or pretrained weights."
        )
    check_wing_config(replace(config, depth=depth), own_backbone)  # now that the depth is known
    if own_backbone and config.refit and depth != "probe":
        raise ConfigError(
            "A backbone of your own is trained as it is, and a refit would begin with weights that have learned. Leave "
            f"{option('refit')} out, or pass {option('depth', 'probe')}."
        )
    solve_head = _default(config.solve_head, was_open and depth != "probe")
    if solve_head and config.refit:
        raise ConfigError(
            f"A head is solved for by the images held out, and a refit learns from them: pass either "
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
    """What a resolved configuration would be if it named no more than its method, network, depth, machine and steps."""
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
    """What stands for the options of steps in the settings of a probe; stored bench cells are found by it."""
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
    """The choices that follow from the method and the depth alone."""
    head = _pick(config.head, method.head or "linear")
    if method.head is not None and head != method.head:
        raise ConfigError(f"Method '{config.method}' brings its own head, '{method.head}', and takes no '{head}'.")
    if HEADS[head].is_solved and config.method != METHOD:
        raise ConfigError(
            f"Head '{head}' is solved for, and method '{config.method}' takes steps. Pass {option('method', 'auto')}, "
            f"or {option('head', 'linear')}."
        )
    random_weights = config.weights == "none"
    is_plain = head == "linear" and not config.head_options.get("normalize") and not random_weights
    if config.start == "solved" and not is_plain and config.method != METHOD:
        raise ConfigError(
            f"{option('start', 'solved')} sets a plain linear head on a pretrained network. Pass "
            f"{option('head', 'linear')} and pretrained weights, or {option('start', 'default')}."
        )
    learning = method.learning(depth)
    patience = _default(config.patience, learning.get("patience", 0))
    if patience and config.restore_best is False:
        raise ConfigError(
            f"With {option('patience', patience)} the best epoch is used: leave {option('restore_best', False)} out, "
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
    """Images that are learned from while some are held out."""
    if table.splits is None:
        return round(len(table) * (1 - holdout))
    images = sum(split in ("train", "") for split in table.splits)
    return images if "val" in table.splits else round(images * (1 - holdout))


def _steps(depth: Depth, images: int) -> tuple[int, int]:
    """Images in a step, and epochs: where a head learns alone, enough of them for a small table too.

    The batch stays large, for a PU loss takes its statistics over it, and divides the table, so that none is left over.
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
        depth = "finetune"  # what was never trained (and an own module may not have been) would be noise if frozen
    else:
        depth = "probe" if "probe" in method.depths else method.depths[0]
    if depth not in method.depths:
        listed = " or ".join(option("depth", name) for name in method.depths)
        raise ConfigError(f"Method '{config.method}' does not work at depth '{depth}'. Pass {listed}.")
    return depth


def _resolved_depth(config: TrainConfig) -> Depth:
    return "finetune" if config.depth == "auto" else config.depth


def default_start(depth: Depth, head: str) -> Start:
    """How a head starts at this depth: where only it learns, at the class frequencies, if it can."""
    return "prior" if depth == "probe" and "prior" in possible_starts(head) else "default"


def possible_starts(head: str) -> tuple[Start, ...]:
    """Starts a head offers: the prior one needs a last linear layer."""
    return ("default",) if HEADS[head].last_layer is Head.last_layer else ("default", "prior")


_REASONS = {
    "distill": "A probe is fitted first, on the network as it is, and teaches it; what the network learns is kept if "
    "tags of images held out then rank higher (with a head other than a plain linear one, always).",
    "pu-mlc": "The backbone has no pretrained weights for a probe, so the paper's method is used.",
}
_STEPPED = "Head '{head}' is trained in steps, so the paper's method is used."


def choices(before: TrainConfig, after: TrainConfig) -> str:
    """What was chosen, and why this method: ``depth tail, backbone …``."""
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
    """Where the CPU itself computes, threads read; and starting processes costs more than reading a small table."""
    return min(os.cpu_count() or 1, 8) if on_gpu and images >= 1000 else 0
