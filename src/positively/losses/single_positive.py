"""Losses for images with one known positive: smoothed negatives (AN-LS) and entropy maximisation (EM).

AN-LS: Cole et al., CVPR 2021. EM: Zhou et al., ECCV 2022.
"""

from torch import Tensor
from torch.nn.functional import softplus

from positively.losses.base import ClassReduction, LossModule, check_inputs, reduce_classes
from positively.losses.statistics import Statistics, batch_mean
from positively.options import NonNegative, Share


def an_ls(
    logits: Tensor,
    states: Tensor,
    *,
    smoothing: Share = 0.1,
    class_reduction: ClassReduction = "sum",
    statistics: Statistics = "global",
) -> Tensor:
    """Binary cross-entropy with unknown labels treated as negative and label smoothing (AN-LS).

    The target of a positive is 1 − ε, that of every other label ε.

    Args:
        logits: Raw outputs of the network, shape (N, C).
        states: Label states, shape (N, C). Only +1 is read; 0 and -1 are treated alike.
        smoothing: ε.
        class_reduction: "sum" over the classes, or "mean".
        statistics: "global" over all processes, or "local" to each process.

    Returns:
        The loss, a scalar.

    Raises:
        LabelError: If the shapes differ, or `states` holds a value other than +1, 0 and -1.

    Example:
        >>> import torch
        >>> from positively.losses import an_ls
        >>> logits = torch.tensor([[2.0, -1.0], [-2.0, 0.5], [0.0, -0.5]])
        >>> states = torch.tensor([[1, 0], [0, 1], [0, -1]])
        >>> round(an_ls(logits, states).item(), 4)
        0.9361
    """
    logits, states = check_inputs(logits, states)
    signed = logits.where(states == 1, -logits)
    losses = (1 - smoothing) * softplus(-signed) + smoothing * softplus(signed)
    return reduce_classes(batch_mean(losses, statistics), class_reduction)


def em(
    logits: Tensor,
    states: Tensor,
    *,
    alpha: NonNegative = 0.1,
    class_reduction: ClassReduction = "sum",
    statistics: Statistics = "global",
) -> Tensor:
    """Entropy maximisation (EM): cross-entropy on known positives, maximal entropy on all other labels.

    A known positive costs −log p. Any other label costs −α H(p) with H(p) = −p log p − (1 − p) log(1 − p). The gradient
    of H is zero at p = ½ and at both ends, so it does not undo what the positives teach.

    Args:
        logits: Raw outputs of the network, shape (N, C).
        states: Label states, shape (N, C). Only +1 is read; 0 and -1 are treated alike.
        alpha: α, weight of the entropy (authors: COCO 0.1, VOC 0.2).
        class_reduction: "sum" over the classes, or "mean".
        statistics: "global" over all processes, or "local" to each process.

    Returns:
        The loss, a scalar.

    Raises:
        LabelError: If the shapes differ, or `states` holds a value other than +1, 0 and -1.

    Example:
        >>> import torch
        >>> from positively.losses import em
        >>> logits = torch.tensor([[2.0, -1.0], [-2.0, 0.5], [0.0, -0.5]])
        >>> states = torch.tensor([[1, 0], [0, 1], [0, -1]])
        >>> round(em(logits, states).item(), 4)
        0.1236
    """
    logits, states = check_inputs(logits, states)
    losses = softplus(-logits).where(states == 1, -alpha * entropy(logits))
    return reduce_classes(batch_mean(losses, statistics), class_reduction)


def entropy(logits: Tensor) -> Tensor:
    """Entropy of σ(s), computed as softplus(s) − s σ(s) to avoid log 0.

    Args:
        logits: Raw outputs of any shape.

    Returns:
        Entropy in nats, same shape.

    Example:
        >>> import torch
        >>> from positively.losses import entropy
        >>> entropy(torch.zeros(1))
        tensor([0.6931])
    """
    # For large |s| both parts are large and equal; the entropy there is zero to machine precision.
    near = logits.clamp(-30, 30)
    return softplus(near) - near * near.sigmoid()


class ANLS(LossModule):
    """Module form of `an_ls`; the options are the same keyword arguments."""

    function = staticmethod(an_ls)


class EM(LossModule):
    """Module form of `em`; the options are the same keyword arguments."""

    function = staticmethod(em)
