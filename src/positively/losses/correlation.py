"""Labels that are found together come close in a space, those that are not stay apart: a term of CADM and CoP.

Both publications name it in their abstracts without an equation; this one is ours.
"""

import torch
from torch import Tensor

from positively.losses.base import ClassReduction, check_inputs
from positively.losses.statistics import Statistics, batch_sum


def pull_and_push(
    cosines: Tensor,
    states: Tensor,
    *,
    margin: float = 0.0,
    class_reduction: ClassReduction = "sum",
    statistics: Statistics = "global",
) -> Tensor:
    """Mean of 1 − cos over known positives + mean of max(0, cos − margin) over known negatives.

    Args:
        cosines: N×C cosines of each image and class.
        states: N×C label states; unknown ones are left out.
        margin: Cosine that a known negative may have.
        class_reduction: "mean" over labels, or "sum": the same times the number of classes, as the loss beside it.
        statistics: "global" over all processes, or "local" to each.
    """
    cosines, states = check_inputs(cosines, states)
    positive, negative = (states == 1).to(cosines.dtype), (states == -1).to(cosines.dtype)
    far = batch_sum((1 - cosines) * positive, statistics).sum() / batch_sum(positive, statistics).sum().clamp_min(1)
    near = batch_sum((cosines - margin).clamp_min(0) * negative, statistics).sum()
    loss = far + near / batch_sum(negative, statistics).sum().clamp_min(1)
    return loss * cosines.shape[1] if class_reduction == "sum" else loss


def label_correlation(labels: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
    """Mean cosine of each label with the known positives of its image, for :func:`pull_and_push`.

    Of all pairs of an image's labels, only those with a known positive say something. Their mean over the positives is
    a product with one vector an image: no N×C×C table of pairs is made.

    Args:
        labels: Directions of the labels, unit vectors: C×D, or N×C×D if every image has its own.
        states: N×C label states.

    Returns:
        Cosines N×C, and the states, unknown in images without a known positive.
    """
    positive = (states == 1).to(labels.dtype)
    weights = positive / positive.sum(1, keepdim=True).clamp_min(1)
    if labels.ndim == 2:
        cosines = weights @ labels @ labels.T
    else:
        middle = torch.einsum("nc,ncd->nd", weights, labels)
        cosines = torch.einsum("ncd,nd->nc", labels, middle)
    return cosines, states * (states == 1).any(1, keepdim=True)
