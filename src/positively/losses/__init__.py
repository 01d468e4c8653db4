"""Losses: functions of logits and label states that return a scalar, and a module for each of them."""

from positively.losses.base import ClassReduction, LossModule, check_inputs, reduce_classes
from positively.losses.bce import BCE, AssumeNegative, assume_negative, bce
from positively.losses.consistency import mixup_consistency, mixup_targets
from positively.losses.correlation import label_correlation, pull_and_push
from positively.losses.expected_positives import EPR, epr
from positively.losses.focusing import (
    ASL,
    ASLAssumeNegative,
    Focal,
    FocalAssumeNegative,
    asl,
    asl_assume_negative,
    focal,
    focal_assume_negative,
)
from positively.losses.generalized_robust import GR, gr
from positively.losses.partial_bce import PartialBCE, partial_bce
from positively.losses.registry import register_loss
from positively.losses.risk import NNPU, UPU, nnpu, upu
from positively.losses.robust import SPLC, Hill, hill, splc
from positively.losses.single_positive import ANLS, EM, an_ls, em, entropy
from positively.losses.statistics import batch_mean, known_mean
from positively.losses.two_way import TwoWay, two_way
from positively.losses.variational import PUMLC, VPU, adaptive_temperature, pu_mlc, vpu
from positively.registry import LOSSES

__all__ = [
    "ANLS",
    "ASL",
    "BCE",
    "EM",
    "EPR",
    "GR",
    "LOSSES",
    "NNPU",
    "PUMLC",
    "SPLC",
    "UPU",
    "VPU",
    "ASLAssumeNegative",
    "AssumeNegative",
    "ClassReduction",
    "Focal",
    "FocalAssumeNegative",
    "Hill",
    "LossModule",
    "PartialBCE",
    "TwoWay",
    "adaptive_temperature",
    "an_ls",
    "asl",
    "asl_assume_negative",
    "assume_negative",
    "batch_mean",
    "bce",
    "check_inputs",
    "em",
    "entropy",
    "epr",
    "focal",
    "focal_assume_negative",
    "gr",
    "hill",
    "known_mean",
    "label_correlation",
    "mixup_consistency",
    "mixup_targets",
    "nnpu",
    "partial_bce",
    "pu_mlc",
    "pull_and_push",
    "reduce_classes",
    "register_loss",
    "splc",
    "two_way",
    "upu",
    "vpu",
]
