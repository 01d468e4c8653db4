"""Generalised robust loss (GR, Chen et al., IJCAI 2024): an unknown label is partly positive and partly negative."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from positively.losses.base import ClassReduction, LossModule, check_inputs, reduce_classes
from positively.losses.statistics import Statistics, batch_mean
from positively.options import Positive


def gr(
    logits: Tensor,
    states: Tensor,
    *,
    slope: float = 2.0,
    offset: float = -2.0,
    center: float = 0.8,
    width: Positive = 0.5,
    q1: Positive = 0.01,
    q2: Positive = 0.01,
    q3: Positive = 1.0,
    detach: bool = True,
    class_reduction: ClassReduction = "sum",
    statistics: Statistics = "global",
) -> Tensor:
    """Generalised robust loss (GR): an unknown label counts as positive in part, as the network predicts it.

    An unknown label costs v(p) [k(p) (1 − p^q2)/q2 + (1 − k(p)) (1 − (1 − p)^q3)/q3], a positive (1 − p^q1)/q1. Here
    k(p) = σ(slope · p + offset) is the share in which an unknown label counts as positive, and
    v(p) = exp(−½ ((p − center)/width)²) is its weight. (1 − p^q)/q lies between −log p (q → 0) and 1 − p (q = 1). The
    method `gr` changes slope, offset, center and width during training; the defaults here are their final values.

    Args:
        logits: Raw outputs of the network, shape (N, C).
        states: Label states, shape (N, C). Only +1 is read; 0 and -1 are treated alike.
        slope: w of k(p).
        offset: b of k(p).
        center: μ of v(p).
        width: σ of v(p).
        q1: Robustness for known positives.
        q2: Robustness for unknown labels as positives.
        q3: Robustness for unknown labels as negatives.
        detach: Whether to treat k and v as constants in the gradient, as the authors do.
        class_reduction: "sum" over the classes, or "mean".
        statistics: "global" over all processes, or "local" to each process.

    Returns:
        The loss, a scalar.

    Raises:
        LabelError: If the shapes differ, or `states` holds a value other than +1, 0 and -1.

    Example:
        >>> import torch
        >>> from positively.losses import gr
        >>> logits = torch.tensor([[2.0, -1.0], [-2.0, 0.5], [0.0, -0.5]])
        >>> states = torch.tensor([[1, 0], [0, 1], [0, -1]])
        >>> round(gr(logits, states).item(), 4)
        0.6144
    """
    logits, states = check_inputs(logits, states)
    probability = logits.sigmoid()
    share = torch.sigmoid(slope * probability + offset)
    weight = torch.exp(-0.5 * ((probability - center) / width) ** 2)
    if detach:
        share, weight = share.detach(), weight.detach()
    unknown = weight * (share * _robust(logits, q2) + (1 - share) * _robust(-logits, q3))
    losses = _robust(logits, q1).where(states == 1, unknown)
    return reduce_classes(batch_mean(losses, statistics), class_reduction)


def _robust(logits: Tensor, q: float) -> Tensor:
    """(1 − p^q)/q with p = σ(s), computed as −expm1(q log p)/q, which is exact for p near 0 and 1."""
    return -torch.expm1(q * logsigmoid(logits)) / q


class GR(LossModule):
    """Module form of `gr`; the options are the same keyword arguments."""

    function = staticmethod(gr)
