"""Losses: logits and label states in, one scalar out. Each is a pure function with a thin module over it."""

from positively.losses.base import LossModule
from positively.losses.bce import BCE, AssumeNegative, assume_negative, bce
from positively.losses.consistency import mixup_consistency, mixup_targets
from positively.losses.registry import LOSSES, register_loss
from positively.losses.risk import NNPU, UPU, nnpu, upu
from positively.losses.variational import PUMLC, VPU, adaptive_temperature, pu_mlc, vpu

__all__ = [
    "BCE",
    "LOSSES",
    "NNPU",
    "PUMLC",
    "UPU",
    "VPU",
    "AssumeNegative",
    "LossModule",
    "adaptive_temperature",
    "assume_negative",
    "bce",
    "mixup_consistency",
    "mixup_targets",
    "nnpu",
    "pu_mlc",
    "register_loss",
    "upu",
    "vpu",
]
