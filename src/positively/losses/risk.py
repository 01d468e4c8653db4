"""Positive-unlabeled risk estimators that need the class prior π: uPU, and nnPU which keeps it from going negative."""

from typing import Literal

from torch import Tensor
from torch.nn.functional import softplus

from positively.losses.base import ClassReduction, LossModule, check_inputs, reduce_classes
from positively.losses.statistics import Statistics, batch_mean, batch_sum
from positively.options import NonNegative, Share

Surrogate = Literal["sigmoid", "logistic"]
Prior = Share | Tensor
"""One share of images for all classes, or one a class."""


def _risks(
    logits: Tensor, states: Tensor, prior: float | Tensor, surrogate: Surrogate, statistics: Statistics
) -> tuple[Tensor, Tensor]:
    """Risk of each class on positives, and on negatives as U minus positives (equation 4 of the paper): C and C."""

    def surrogate_loss(margin: Tensor) -> Tensor:
        return (-margin).sigmoid() if surrogate == "sigmoid" else softplus(-margin)

    positive = (states == 1).to(logits.dtype)
    count = batch_sum(positive, statistics).clamp_min(1)
    called_positive = batch_sum(positive * surrogate_loss(logits), statistics) / count
    called_negative = batch_sum(positive * surrogate_loss(-logits), statistics) / count
    unlabeled = batch_mean(surrogate_loss(-logits), statistics)
    return prior * called_positive, unlabeled - prior * called_negative


def upu(
    logits: Tensor,
    states: Tensor,
    *,
    prior: Prior = 0.05,
    surrogate: Surrogate = "sigmoid",
    class_reduction: ClassReduction = "sum",
    statistics: Statistics = "global",
) -> Tensor:
    """The unbiased PU risk (equation 5 of the paper): π E_P[l(s)] − π E_P[l(−s)] + E_U[l(−s)].

    U is every image of the batch, known positives included: then it has the prior π, as it is defined.

    Args:
        logits: N×C raw outputs.
        states: N×C label states; only +1 is read.
        prior: Share of images that truly carry the class: one number, or one a class (C).
        surrogate: l(s) = σ(−s) ("sigmoid", bounded) or log(1 + e^−s) ("logistic": unbounded below, it overfits).
        class_reduction: "sum" over classes or "mean".
        statistics: "global" over all processes, or "local" to each.
    """
    logits, states = check_inputs(logits, states)
    positive_risk, negative_risk = _risks(logits, states, prior, surrogate, statistics)
    return reduce_classes(positive_risk + negative_risk, class_reduction)


def nnpu(
    logits: Tensor,
    states: Tensor,
    *,
    prior: Prior = 0.05,
    surrogate: Surrogate = "sigmoid",
    beta: NonNegative = 0.0,
    correction: NonNegative = 1.0,
    class_reduction: ClassReduction = "sum",
    statistics: Statistics = "global",
) -> Tensor:
    """The non-negative PU risk. Its value and its gradient differ on purpose.

    Where a class's negative risk falls below −β the value is π E_P[l(s)] − β, while the gradient is that of
    −``correction`` × the negative risk: it walks back from the overfit.

    Args:
        logits: N×C raw outputs.
        states: N×C label states; only +1 is read.
        prior: Share of images that truly carry the class: one number, or one a class (C).
        surrogate: l(s) = σ(−s) ("sigmoid", bounded) or log(1 + e^−s) ("logistic").
        beta: How far below zero a negative risk may fall before it is corrected.
        correction: Weight of the gradient that walks back.
        class_reduction: "sum" over classes or "mean".
        statistics: "global" over all processes, or "local" to each.
    """
    logits, states = check_inputs(logits, states)
    positive_risk, negative_risk = _risks(logits, states, prior, surrogate, statistics)
    walk_back = -correction * negative_risk
    corrected = (positive_risk - beta).detach() + walk_back - walk_back.detach()
    per_class = (positive_risk + negative_risk).where(negative_risk >= -beta, corrected)
    return reduce_classes(per_class, class_reduction)


class UPU(LossModule):
    """Module over :func:`upu`."""

    function = staticmethod(upu)


class NNPU(LossModule):
    """Module over :func:`nnpu`."""

    function = staticmethod(nnpu)
