"""Losses for missing labels that treat unknown labels as negative unless the network is confident of a positive.

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
    """Hill loss: unknown labels count as negative, with less weight where the network predicts a positive.

    An unknown label costs (λ − p) p², a positive −(1 − p_m)^γ log p_m with p_m = σ(s − margin). The loss is the mean
    over the images; the authors use the sum.

    Args:
        logits: Raw outputs of the network, shape (N, C).
        states: Label states, shape (N, C). Only +1 is read; 0 and -1 are treated alike.
        margin: Amount by which the logit of a positive is lowered before its loss is computed.
        gamma: How strongly easy positives are down-weighted.
        lam: λ; the gradient of an unknown label turns around at p = 2λ/3 (for λ = 1.5 at p = 1).
        class_reduction: "sum" over the classes, or "mean".
        statistics: "global" over all processes, or "local" to each process.

    Returns:
        The loss, a scalar.

    Raises:
        LabelError: If the shapes differ, or `states` holds a value other than +1, 0 and -1.

    Example:
        >>> import torch
        >>> from positively.losses import hill
        >>> logits = torch.tensor([[2.0, -1.0], [-2.0, 0.5], [0.0, -0.5]])
        >>> states = torch.tensor([[1, 0], [0, 1], [0, -1]])
        >>> round(hill(logits, states).item(), 4)
        0.3062
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
    """Self-paced loss correction (SPLC): unknown labels count as positive above a threshold, as negative below it.

    Known positives cost −(1 − p_m)^γ log p_m with p_m = σ(s − margin). Unknown labels cost −(1 − p)^γ log p above the
    threshold and −p^γ log(1 − p) below it. Known negatives always count as negative. The loss is the mean over the
    images; the authors use the sum.

    Args:
        logits: Raw outputs of the network, shape (N, C).
        states: Label states, shape (N, C): +1 positive, 0 unknown, -1 negative.
        threshold: τ, probability above which an unknown label counts as positive; 1 means never.
        margin: Amount by which the logit of a known positive is lowered before its loss is computed.
        gamma: How strongly easy labels are down-weighted.
        class_reduction: "sum" over the classes, or "mean".
        statistics: "global" over all processes, or "local" to each process.

    Returns:
        The loss, a scalar.

    Raises:
        LabelError: If the shapes differ, or `states` holds a value other than +1, 0 and -1.

    Example:
        >>> import torch
        >>> from positively.losses import splc
        >>> logits = torch.tensor([[2.0, -1.0], [-2.0, 0.5], [0.0, -0.5]])
        >>> states = torch.tensor([[1, 0], [0, 1], [0, -1]])
        >>> round(splc(logits, states).item(), 4)
        0.2218
    """
    logits, states = check_inputs(logits, states)
    positive = states == 1
    assumed_positive = positive | ((states == 0) & (logits.sigmoid() > threshold))
    signed = (logits - margin * positive).where(assumed_positive, -logits)
    losses = power((-signed).sigmoid(), gamma) * softplus(-signed)
    return reduce_classes(batch_mean(losses, statistics), class_reduction)


class Hill(LossModule):
    """Module form of `hill`; the options are the same keyword arguments."""

    function = staticmethod(hill)


class SPLC(LossModule):
    """Module form of `splc`; the options are the same keyword arguments."""

    function = staticmethod(splc)
    uses_negatives = True
