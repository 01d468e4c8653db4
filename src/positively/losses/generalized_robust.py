"""Generalised robust loss (GR, Chen et al., IJCAI 2024): an unknown label is both positive and negative, in shares."""

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
    """v(p) [k(p) (1 − p^q2)/q2 + (1 − k(p)) (1 − (1 − p)^q3)/q3] for unknown labels, (1 − p^q1)/q1 for positives.

    k(p) = σ(slope · p + offset) is the share in which an unknown label is taken for positive, v(p) =
    exp(−½ ((p − center)/width)²) how much it counts. (1 − p^q)/q lies between −log p (q → 0) and 1 − p (q = 1). The
    method of this name moves the four numbers during training; these are the ones it ends with.

    Args:
        logits: N×C raw outputs.
        states: N×C label states; only +1 is read.
        slope: w of k(p).
        offset: b of k(p).
        center: μ of v(p).
        width: σ of v(p).
        q1: Robustness of the known positives' part.
        q2: Robustness of the part in which unknown labels are positive.
        q3: Robustness of the part in which they are negative.
        detach: Whether k and v are constants to the gradient, as in the authors' code.
        class_reduction: "sum" over classes or "mean".
        statistics: "global" over all processes, or "local" to each.
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
    """(1 − p^q)/q with p = σ(s), as −expm1(q log p)/q: exact also where p is nearly 0 or 1."""
    return -torch.expm1(q * logsigmoid(logits)) / q


class GR(LossModule):
    """Module over :func:`gr`."""

    function = staticmethod(gr)
