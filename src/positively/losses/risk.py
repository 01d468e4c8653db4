"""Positive-unlabeled risk estimators for a known class prior π: uPU, and nnPU with a non-negative risk."""

from typing import Literal

from torch import Tensor
from torch.nn.functional import softplus

from positively.losses.base import ClassReduction, LossModule, check_inputs, reduce_classes
from positively.losses.statistics import Statistics, batch_mean, batch_sum
from positively.options import NonNegative, Share

Surrogate = Literal["sigmoid", "logistic"]
Prior = Share | Tensor
"""Share of images that carry the class: one number for all classes, or one per class."""


def _risks(
    logits: Tensor, states: Tensor, prior: float | Tensor, surrogate: Surrogate, statistics: Statistics
) -> tuple[Tensor, Tensor]:
    """Risk on positives, and risk on negatives as U minus positives (equation 4 of the paper), each of shape (C,)."""

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
    """Unbiased PU risk (uPU, equation 5 of the paper): π E_P[l(s)] − π E_P[l(−s)] + E_U[l(−s)].

    U is every image of the batch including known positives, so its class prior is π by definition.

    Args:
        logits: Raw outputs of the network, shape (N, C).
        states: Label states, shape (N, C). Only +1 is read; 0 and -1 are treated alike.
        prior: π, share of images that carry the class: one number, or one per class, shape (C,).
        surrogate: l(s) = σ(−s) ("sigmoid", bounded) or log(1 + e^−s) ("logistic", unbounded below and prone to
            overfitting).
        class_reduction: "sum" over the classes, or "mean".
        statistics: "global" over all processes, or "local" to each process.

    Returns:
        The loss, a scalar.

    Raises:
        LabelError: If the shapes differ, or `states` holds a value other than +1, 0 and -1.

    Example:
        >>> import torch
        >>> from positively.losses import upu
        >>> logits = torch.tensor([[2.0, -1.0], [-2.0, 0.5], [0.0, -0.5]])
        >>> states = torch.tensor([[1, 0], [0, 1], [0, -1]])
        >>> round(upu(logits, states).item(), 4)
        0.8727
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
    """Non-negative PU risk (nnPU): uPU with a correction where the risk on negatives falls below zero.

    Where the risk on negatives of a class falls below −β, the value is π E_P[l(s)] − β and the gradient is that of
    −``correction`` × the risk on negatives, which undoes overfitting. Value and gradient differ on purpose.

    Args:
        logits: Raw outputs of the network, shape (N, C).
        states: Label states, shape (N, C). Only +1 is read; 0 and -1 are treated alike.
        prior: π, share of images that carry the class: one number, or one per class, shape (C,).
        surrogate: l(s) = σ(−s) ("sigmoid", bounded) or log(1 + e^−s) ("logistic").
        beta: How far below zero the risk on negatives may fall before it is corrected.
        correction: Weight of the correcting gradient.
        class_reduction: "sum" over the classes, or "mean".
        statistics: "global" over all processes, or "local" to each process.

    Returns:
        The loss, a scalar.

    Raises:
        LabelError: If the shapes differ, or `states` holds a value other than +1, 0 and -1.

    Example:
        >>> import torch
        >>> from positively.losses import nnpu
        >>> logits = torch.tensor([[2.0, -1.0], [-2.0, 0.5], [0.0, -0.5]])
        >>> states = torch.tensor([[1, 0], [0, 1], [0, -1]])
        >>> round(nnpu(logits, states).item(), 4)
        0.8727
    """
    logits, states = check_inputs(logits, states)
    positive_risk, negative_risk = _risks(logits, states, prior, surrogate, statistics)
    correction_term = -correction * negative_risk
    corrected = (positive_risk - beta).detach() + correction_term - correction_term.detach()
    per_class = (positive_risk + negative_risk).where(negative_risk >= -beta, corrected)
    return reduce_classes(per_class, class_reduction)


class UPU(LossModule):
    """Module form of `upu`; the options are the same keyword arguments."""

    function = staticmethod(upu)


class NNPU(LossModule):
    """Module form of `nnpu`; the options are the same keyword arguments."""

    function = staticmethod(nnpu)
