"""Losses made for one known positive an image: smoothed negatives, and entropy in place of negatives.

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
    """Binary cross-entropy with every unknown label called negative, but no label believed altogether.

    The target of a positive is 1 − ε, that of every other label ε.

    Args:
        logits: N×C raw outputs.
        states: N×C label states; only +1 is read.
        smoothing: ε.
        class_reduction: "sum" over classes or "mean".
        statistics: "global" over all processes, or "local" to each.
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
    """Entropy maximisation: known positives cost −log p, and of every other label the network is to admit ignorance.

    That is −α H(p), with the entropy H(p) = −p log p − (1 − p) log(1 − p): its gradient is zero at p = ½ and at both
    ends, so that what the positives teach is not undone.

    Args:
        logits: N×C raw outputs.
        states: N×C label states; only +1 is read.
        alpha: α, the weight of the entropy (the authors: COCO 0.1, VOC 0.2).
        class_reduction: "sum" over classes or "mean".
        statistics: "global" over all processes, or "local" to each.
    """
    logits, states = check_inputs(logits, states)
    losses = softplus(-logits).where(states == 1, -alpha * entropy(logits))
    return reduce_classes(batch_mean(losses, statistics), class_reduction)


def entropy(logits: Tensor) -> Tensor:
    """Entropy of σ(s), without a logarithm of 0: softplus(s) − s σ(s)."""
    # Far out both parts are large and equal; the entropy there is zero to any precision.
    near = logits.clamp(-30, 30)
    return softplus(near) - near * near.sigmoid()


class ANLS(LossModule):
    """Module over :func:`an_ls`."""

    function = staticmethod(an_ls)


class EM(LossModule):
    """Module over :func:`em`."""

    function = staticmethod(em)
