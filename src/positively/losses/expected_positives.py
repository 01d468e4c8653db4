"""Expected-positive regularisation (EPR): known positives, and how many positives an image has on average.

Cole et al., CVPR 2021, for images of which one positive is known.
"""

from torch import Tensor
from torch.nn.functional import softplus

from positively.losses.base import ClassReduction, LossModule, check_inputs, reduce_classes
from positively.losses.statistics import Statistics, batch_mean
from positively.options import Positive


def epr(
    logits: Tensor,
    states: Tensor,
    *,
    expected_positives: Positive = 2.9,
    class_reduction: ClassReduction = "sum",
    statistics: Statistics = "global",
) -> Tensor:
    """(1/NC) Σ_positives −log p + ((1/N) Σ_n Σ_c p_nc − k)² / C², with p = σ(s): an unknown label costs nothing alone.

    Args:
        logits: N×C raw outputs.
        states: N×C label states; only +1 is read.
        expected_positives: k, the positives an image has on average (authors: VOC 1.5, COCO 2.9, NUS 1.9, CUB 31.4).
        class_reduction: "mean" as above, or "sum": the same times the number of classes.
        statistics: "global" over all processes, or "local" to each.
    """
    logits, states = check_inputs(logits, states)
    missed = batch_mean(softplus(-logits) * (states == 1), statistics)
    surplus = batch_mean(logits.sigmoid(), statistics).sum() - expected_positives
    # One term of the whole batch, in every class alike: their mean is the formula above.
    per_class = missed + surplus.square() / max(logits.shape[1], 1) ** 2
    return reduce_classes(per_class, class_reduction)


class EPR(LossModule):
    """Module over :func:`epr`."""

    function = staticmethod(epr)
