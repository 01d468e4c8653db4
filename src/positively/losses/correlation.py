"""Label correlation: labels that occur together move together in embedding space, others apart.

CADM and CoP use such a term. Their publications give no equation; the one here is our own.
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
    """Mean of 1 − cos over known positives plus mean of max(0, cos − margin) over known negatives.

    Args:
        cosines: Cosine similarity of each image and class, shape (N, C).
        states: Label states, shape (N, C). Unknown labels are ignored.
        margin: Cosine above which a known negative adds to the loss.
        class_reduction: "mean" over the labels, or "sum": the mean times the number of classes.
        statistics: "global" over all processes, or "local" to each process.

    Returns:
        The loss, a scalar.

    Raises:
        LabelError: If the shapes differ, or `states` holds a value other than +1, 0 and -1.

    Example:
        >>> import torch
        >>> from positively.losses import pull_and_push
        >>> round(pull_and_push(torch.tensor([[0.9, 0.2]]), torch.tensor([[1, -1]])).item(), 4)
        0.6
    """
    cosines, states = check_inputs(cosines, states)
    pull = known_mean(1 - cosines, states == 1, class_reduction, statistics)
    return pull + known_mean((cosines - margin).clamp_min(0), states == -1, class_reduction, statistics)


def label_correlation(labels: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
    """Mean cosine of each label with the other known positives of its image, as input of `pull_and_push`.

    The mean over the positives is one matrix product, so no N×C×C array of label pairs is built.

    Args:
        labels: Unit vectors of the labels, shape (C, D), or (N, C, D) if every image has its own.
        states: Label states, shape (N, C).

    Returns:
        Cosines and states, both of shape (N, C). A state is 0 where the image has no other known positive.

    Example:
        >>> import torch
        >>> from positively.losses import label_correlation
        >>> cosines, states = label_correlation(torch.eye(2), torch.tensor([[1, -1]]))
        >>> states
        tensor([[ 0, -1]])
    """
    positive = (states == 1).to(labels.dtype)
    if labels.ndim == 2:
        summed = positive @ labels @ labels.T
    else:
        summed = torch.einsum("ncd,nd->nc", labels, torch.einsum("nc,ncd->nd", positive, labels))
    others = positive.sum(1, keepdim=True) - positive
    cosines = (summed - positive * labels.square().sum(-1)) / others.clamp_min(1)
    return cosines, states * (others > 0)
