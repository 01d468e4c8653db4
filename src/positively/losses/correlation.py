"""Labels that are found together come close in a space, those that are not stay apart: a term of CADM and CoP.

Both publications name it in their abstracts without an equation; this one is ours.
"""

import torch
from torch import Tensor

from positively.losses.base import ClassReduction, check_inputs
from positively.losses.statistics import Statistics, known_mean


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
    far = known_mean(1 - cosines, states == 1, class_reduction, statistics)
    return far + known_mean((cosines - margin).clamp_min(0), states == -1, class_reduction, statistics)


def label_correlation(labels: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
    """Mean cosine of each label with the other known positives of its image, for :func:`pull_and_push`.

    Of all pairs of an image's labels, only those with a known positive say something. Their mean over the positives is
    a product with one vector an image: no N×C×C table of pairs is made.

    Args:
        labels: Directions of the labels, unit vectors: C×D, or N×C×D if every image has its own.
        states: N×C label states.

    Returns:
        Cosines N×C, and the states, unknown where the image has no other known positive.
    """
    positive = (states == 1).to(labels.dtype)
    if labels.ndim == 2:
        summed = positive @ labels @ labels.T
    else:
        summed = torch.einsum("ncd,nd->nc", labels, torch.einsum("nc,ncd->nd", positive, labels))
    others = positive.sum(1, keepdim=True) - positive
    cosines = (summed - positive * labels.square().sum(-1)) / others.clamp_min(1)
    return cosines, states * (others > 0)
