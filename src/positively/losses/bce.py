"""Binary cross-entropy over the known labels, and with unknown labels treated as negative."""

from torch import Tensor
from torch.nn.functional import softplus

from positively.losses.base import ClassReduction, LossModule, assuming_negative, check_inputs
from positively.losses.statistics import Statistics, known_mean


def bce(
    logits: Tensor,
    states: Tensor,
    *,
    class_reduction: ClassReduction = "sum",
    statistics: Statistics = "global",
) -> Tensor:
    """Binary cross-entropy over the known labels (equation 1 of the paper); unknown labels are ignored.

    The sum is divided by the number of known labels in the batch, not by N×C.

    Args:
        logits: Raw outputs of the network, shape (N, C).
        states: Label states, shape (N, C): +1 positive, 0 unknown, -1 negative.
        class_reduction: "mean" over the known labels, or "sum": the mean times the number of classes.
        statistics: "global" over all processes, or "local" to each process.

    Returns:
        The loss, a scalar.

    Raises:
        LabelError: If the shapes differ, or `states` holds a value other than +1, 0 and -1.

    Example:
        >>> import torch
        >>> from positively.losses import bce
        >>> logits = torch.tensor([[2.0, -1.0], [-2.0, 0.5], [0.0, -0.5]])
        >>> states = torch.tensor([[1, 0], [0, 1], [0, -1]])
        >>> round(bce(logits, states).item(), 4)
        0.7167
    """
    logits, states = check_inputs(logits, states)
    # softplus(−s) = −log σ(s) for a positive, softplus(s) = −log(1 − σ(s)) for a negative.
    return known_mean(softplus(-logits * states), states != 0, class_reduction, statistics)


assume_negative = assuming_negative(
    "assume_negative",
    bce,
    'Binary cross-entropy with every unknown label treated as negative ("AN"), the default of most tools.',
)


class BCE(LossModule):
    """Module form of `bce`; the options are the same keyword arguments."""

    function = staticmethod(bce)
    uses_negatives = needs_negatives = True


class AssumeNegative(LossModule):
    """Module form of `assume_negative`; the options are the same keyword arguments."""

    function = staticmethod(assume_negative)
