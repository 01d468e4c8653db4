"""Losses for missing labels that call unknown labels negative, but listen to a network that contradicts.

Hill and SPLC: Zhang et al., "Simple and robust loss design for multi-label learning with missing labels", 2021.
"""

from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from positively.losses.base import ClassReduction, LossModule, check_inputs, power, reduce_classes
from positively.losses.statistics import Statistics, batch_mean
from positively.options import NonNegative, Share


def hill(
    logits: Tensor,
    states: Tensor,
    *,
    margin: NonNegative = 1.0,
    gamma: NonNegative = 2.0,
    lam: NonNegative = 1.5,
    class_reduction: ClassReduction = "sum",
    statistics: Statistics = "global",
) -> Tensor:
    """Hill loss: what is not positive costs (λ − p) p², whose slope fades where the network is sure of a positive.

    A positive costs −(1 − p_m)^γ log p_m with p_m = σ(s − margin). The mean over the images, where the authors sum.

    Args:
        logits: N×C raw outputs.
        states: N×C label states; only +1 is read.
        margin: By how much a positive's logit must be higher.
        gamma: How far it turns away from positives that are easy.
        lam: λ; the cost of an unknown label is highest at p = 2λ/3 (λ = 1.5: it is level at p = 1).
        class_reduction: "sum" over classes or "mean".
        statistics: "global" over all processes, or "local" to each.
    """
    logits, states = check_inputs(logits, states)
    probability, lowered = logits.sigmoid(), logits - margin
    positive = -power((-lowered).sigmoid(), gamma) * logsigmoid(lowered)
    negative = (lam - probability) * probability.square()
    return reduce_classes(batch_mean(positive.where(states == 1, negative), statistics), class_reduction)


def splc(
    logits: Tensor,
    states: Tensor,
    *,
    threshold: Share = 0.6,
    margin: NonNegative = 1.0,
    gamma: NonNegative = 2.0,
    class_reduction: ClassReduction = "sum",
    statistics: Statistics = "global",
) -> Tensor:
    """Self-paced correction: an unknown label that the network is sure of is taken for positive, the rest for negative.

    Known positives cost −(1 − p_m)^γ log p_m, p_m = σ(s − margin); unknown labels −(1 − p)^γ log p above the threshold
    and −p^γ log(1 − p) below it. The mean over the images, where the authors sum. A known negative stays one.

    Args:
        logits: N×C raw outputs.
        states: N×C label states.
        threshold: τ, the probability above which an unknown label is taken for positive; 1: never.
        margin: By how much a known positive's logit must be higher.
        gamma: How far it turns away from labels that are easy.
        class_reduction: "sum" over classes or "mean".
        statistics: "global" over all processes, or "local" to each.
    """
    logits, states = check_inputs(logits, states)
    known = states == 1
    taken = known | ((states == 0) & (logits.sigmoid() > threshold))
    signed = (logits - margin * known).where(taken, -logits)
    losses = power((-signed).sigmoid(), gamma) * softplus(-signed)
    return reduce_classes(batch_mean(losses, statistics), class_reduction)


class Hill(LossModule):
    """Module over :func:`hill`."""

    function = staticmethod(hill)


class SPLC(LossModule):
    """Module over :func:`splc`."""

    function = staticmethod(splc)
    uses_negatives = True
