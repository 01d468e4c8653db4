"""Partial BCE (Durand et al., CVPR 2019): each image weighs by how many of its labels are known."""

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
    """Binary cross-entropy over the known labels of each image, times g(share known) = α share^γ + β.

    With the published numbers g is 5 where a tenth of the labels is known and 1 where all are. It is divided by all
    images (published: and classes, which "mean" does), whatever is known of them: the weight makes up for half of that
    at a tenth. :func:`positively.losses.bce`, divided by the known labels of the batch, makes up for all of it.

    Args:
        logits: N×C raw outputs.
        states: N×C label states.
        alpha: α.
        beta: β.
        gamma: γ.
        class_reduction: "sum" over classes or "mean".
        statistics: "global" over all processes, or "local" to each.
    """
    logits, states = check_inputs(logits, states)
    known = (states != 0).to(logits.dtype)
    share = known.mean(dim=1, keepdim=True)
    weight = alpha * share**gamma + beta
    return reduce_classes(batch_mean(weight * known * softplus(-logits * states), statistics), class_reduction)


class PartialBCE(LossModule):
    """Module over :func:`partial_bce`."""

    function = staticmethod(partial_bce)
    uses_negatives = needs_negatives = True
