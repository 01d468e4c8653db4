"""Partial BCE (Durand et al., CVPR 2019): binary cross-entropy weighted by the share of known labels per image."""

from torch import Tensor
from torch.nn.functional import softplus

from positively.losses.base import ClassReduction, LossModule, check_inputs, reduce_classes
from positively.losses.statistics import Statistics, batch_mean
from positively.options import NonNegative


def partial_bce(
    logits: Tensor,
    states: Tensor,
    *,
    alpha: float = -4.45,
    beta: float = 5.45,
    gamma: NonNegative = 1.0,
    class_reduction: ClassReduction = "sum",
    statistics: Statistics = "global",
) -> Tensor:
    """Binary cross-entropy over the known labels of each image, weighted by g(share known) = α share^γ + β.

    With the published values g is 5 where 10 % of the labels are known and 1 where all are known. The sum is divided by
    the number of images, however many of their labels are known (the authors also divide by the number of classes, as
    "mean" does). At 10 % known labels the weight makes up for half of the missing labels; `bce`, which divides by the
    number of known labels, makes up for all of them.

    Args:
        logits: Raw outputs of the network, shape (N, C).
        states: Label states, shape (N, C): +1 positive, 0 unknown, -1 negative.
        alpha: α of g.
        beta: β of g.
        gamma: γ of g.
        class_reduction: "sum" over the classes, or "mean".
        statistics: "global" over all processes, or "local" to each process.

    Returns:
        The loss, a scalar.

    Raises:
        LabelError: If the shapes differ, or `states` holds a value other than +1, 0 and -1.

    Example:
        >>> import torch
        >>> from positively.losses import partial_bce
        >>> logits = torch.tensor([[2.0, -1.0], [-2.0, 0.5], [0.0, -0.5]])
        >>> states = torch.tensor([[1, 0], [0, 1], [0, -1]])
        >>> round(partial_bce(logits, states).item(), 4)
        1.1557
    """
    logits, states = check_inputs(logits, states)
    known = (states != 0).to(logits.dtype)
    share = known.mean(dim=1, keepdim=True)
    weight = alpha * share**gamma + beta
    return reduce_classes(batch_mean(weight * known * softplus(-logits * states), statistics), class_reduction)


class PartialBCE(LossModule):
    """Module form of `partial_bce`; the options are the same keyword arguments."""

    function = staticmethod(partial_bce)
    uses_negatives = needs_negatives = True
