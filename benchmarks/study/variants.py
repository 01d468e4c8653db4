"""Rows of the study: the probe, the probe with one change, and other methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.study import closed, criteria, logistic, unlabeled
from benchmarks.study.closed import Labels, Learned
from benchmarks.study.problem import Problem
from positively.probe import ONE_STEP, SelfTraining

Learn = Callable[[Problem, Labels], Learned]


@dataclass(frozen=True)
class Variant:
    """One row of a table."""

    name: str
    """Name in file names."""
    title: str
    """Name in tables."""
    learn: Learn
    seconds: float
    """Approximate CPU time of a cell with 5,000 images, 2,000 landmarks and 80 classes, for the first estimate."""
    needs_negatives: bool = False
    against: str = "auto"
    """The row from which it differs in one respect."""
    chooses_step: bool = False
    """Whether it chooses between one step and two."""


AUTO = Variant("auto", "auto, positives alone", closed.auto, 3, chooses_step=True)
ONE = Variant("one-step", "no soft step", partial(closed.auto, step=ONE_STEP), 2)
WITH_NEGATIVES = Variant(
    "auto-negatives",
    "auto, with known negatives",
    partial(closed.auto, negatives=True),
    5,
    needs_negatives=True,
    chooses_step=True,
)
BCE = Variant(
    "bce", "BCE over known labels, same kernel", logistic.over_known, 8, needs_negatives=True, against="auto-negatives"
)
BCE_LINEAR = Variant(
    "bce-linear",
    "BCE over known labels, linear",
    partial(logistic.over_known, space="linear"),
    6,
    needs_negatives=True,
    against="linear",
)
AN = Variant("an", "unknown as negative, same kernel", logistic.unknown_as_negative, 8)

ABLATION = (
    AUTO,
    Variant(
        "raw",
        "embeddings neither rooted nor normalised",
        partial(closed.auto, space="kernel, raw"),
        4,
        chooses_step=True,
    ),
    Variant(
        "norm", "embeddings normalised, not rooted", partial(closed.auto, space="kernel, norm"), 4, chooses_step=True
    ),
    Variant("linear", "linear, no kernel", partial(closed.auto, space="linear"), 3, chooses_step=True),
    Variant("fixed", "λ = 0.001, fixed", partial(closed.auto, rule=closed.fixed(1e-3)), 3, chooses_step=True),
    Variant(
        "by-log-rank",
        "λ by leave-one-out log-rank",
        partial(closed.auto, rule=closed.by_criterion(criteria.log_rank)),
        3,
        chooses_step=True,
    ),
    Variant(
        "by-ap",
        "λ by leave-one-out AP",
        partial(closed.auto, rule=closed.by_criterion(criteria.ap)),
        4,
        chooses_step=True,
    ),
    Variant(
        "by-auc",
        "λ by leave-one-out AUC",
        partial(closed.auto, rule=closed.by_criterion(criteria.auc)),
        4,
        chooses_step=True,
    ),
    ONE,
    Variant("soft", "soft step always, strength ½", partial(closed.auto, step=SelfTraining(0.5)), 4),
    Variant("without", "positives not among the unlabeled", unlabeled.without_positives, 25, against="one-step"),
    WITH_NEGATIVES,
    BCE,
    AN,
    BCE_LINEAR,
)
"""Each row differs in one respect from the row it is compared with."""

SETTINGS = (AUTO, WITH_NEGATIVES, BCE, AN)
"""Rows of part ``settings``."""
