"""Expected-positive regularisation (EPR) for images with one known positive (Cole et al., CVPR 2021)."""

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
    """Expected-positive regularisation (EPR): only known positives and the mean number of positives per image count.

    The loss is (1/NC) Σ_positives −log p + ((1/N) Σ_n Σ_c p_nc − k)² / C² with p = σ(s).

    Args:
        logits: Raw outputs of the network, shape (N, C).
        states: Label states, shape (N, C). Only +1 is read; 0 and -1 are treated alike.
        expected_positives: k, mean number of positives per image (authors: VOC 1.5, COCO 2.9, NUS 1.9, CUB 31.4).
        class_reduction: "mean" as in the equation, or "sum": the mean times the number of classes.
        statistics: "global" over all processes, or "local" to each process.

    Returns:
        The loss, a scalar.

    Raises:
        LabelError: If the shapes differ, or `states` holds a value other than +1, 0 and -1.

    Example:
        >>> import torch
        >>> from positively.losses import epr
        >>> logits = torch.tensor([[2.0, -1.0], [-2.0, 0.5], [0.0, -0.5]])
        >>> states = torch.tensor([[1, 0], [0, 1], [0, -1]])
        >>> round(epr(logits, states).item(), 4)
        2.1546
    """
    logits, states = check_inputs(logits, states)
    missed = batch_mean(softplus(-logits) * (states == 1), statistics)
    surplus = batch_mean(logits.sigmoid(), statistics).sum() - expected_positives
    # The second term is the same for every class, so the mean over classes gives the equation above.
    per_class = missed + surplus.square() / max(logits.shape[1], 1) ** 2
    return reduce_classes(per_class, class_reduction)


class EPR(LossModule):
    """Module form of `epr`; the options are the same keyword arguments."""

    function = staticmethod(epr)
