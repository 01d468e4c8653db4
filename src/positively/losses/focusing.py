"""Focal and asymmetric losses, over known labels or with unknown labels treated as negative.

With p = σ(s), a positive costs (1 − p)^γ₊ · −log p and a negative p_m^γ₋ · −log(1 − p_m), where p_m = max(p − m, 0):
negatives with a probability below the margin m cost nothing. Focal loss (Lin et al., ICCV 2017) has γ₊ = γ₋ and m = 0.
Asymmetric loss (ASL, Ridnik et al., ICCV 2021) has γ₋ > γ₊ and m = 0.05.
"""

from torch import Tensor
from torch.nn.functional import logsigmoid

from positively.losses.base import ClassReduction, LossModule, assuming_negative, check_inputs, power
from positively.losses.statistics import Statistics, known_mean
from positively.options import Decay, NonNegative

# Floor of the authors for a probability inside a logarithm. With a margin it is never reached.
_FLOOR = 1e-8


def asl(
    logits: Tensor,
    states: Tensor,
    *,
    gamma_negative: NonNegative = 4.0,
    gamma_positive: NonNegative = 1.0,
    clip: Decay = 0.05,
    detach: bool = True,
    class_reduction: ClassReduction = "sum",
    statistics: Statistics = "global",
) -> Tensor:
    """Asymmetric loss (ASL) over the known labels; unknown labels are ignored.

    The sum is divided by the number of known labels in the batch. The authors sum over the batch, so their learning
    rate does not carry over.

    Args:
        logits: Raw outputs of the network, shape (N, C).
        states: Label states, shape (N, C): +1 positive, 0 unknown, -1 negative.
        gamma_negative: γ₋, how strongly easy negatives are down-weighted.
        gamma_positive: γ₊, how strongly easy positives are down-weighted (paper: 0; authors' code: 1).
        clip: m, the probability below which a negative costs nothing.
        detach: Whether to treat the focusing factors as constants in the gradient, as the authors do.
        class_reduction: "mean" over the known labels, or "sum": the mean times the number of classes.
        statistics: "global" over all processes, or "local" to each process.

    Returns:
        The loss, a scalar.

    Raises:
        LabelError: If the shapes differ, or `states` holds a value other than +1, 0 and -1.

    Example:
        >>> import torch
        >>> from positively.losses import asl
        >>> logits = torch.tensor([[2.0, -1.0], [-2.0, 0.5], [0.0, -0.5]])
        >>> states = torch.tensor([[1, 0], [0, 1], [0, -1]])
        >>> round(asl(logits, states).item(), 4)
        0.1325
    """
    logits, states = check_inputs(logits, states)
    is_positive = states == 1
    shifted = (logits.sigmoid() - clip).clamp_min(0)
    log_negative = (1 - shifted).clamp_min(_FLOOR).log() if clip else logsigmoid(-logits)
    focus_positive, focus_negative = (-logits).sigmoid(), shifted
    if detach:
        focus_positive, focus_negative = focus_positive.detach(), focus_negative.detach()
    positive = power(focus_positive, gamma_positive) * logsigmoid(logits)
    negative = power(focus_negative, gamma_negative) * log_negative
    return known_mean(-positive.where(is_positive, negative), states != 0, class_reduction, statistics)


def focal(
    logits: Tensor,
    states: Tensor,
    *,
    gamma: NonNegative = 2.0,
    class_reduction: ClassReduction = "sum",
    statistics: Statistics = "global",
) -> Tensor:
    """Focal loss over the known labels; unknown labels are ignored.

    Args:
        logits: Raw outputs of the network, shape (N, C).
        states: Label states, shape (N, C): +1 positive, 0 unknown, -1 negative.
        gamma: γ, how strongly easy labels are down-weighted.
        class_reduction: "mean" over the known labels, or "sum": the mean times the number of classes.
        statistics: "global" over all processes, or "local" to each process.

    Returns:
        The loss, a scalar.

    Raises:
        LabelError: If the shapes differ, or `states` holds a value other than +1, 0 and -1.

    Example:
        >>> import torch
        >>> from positively.losses import focal
        >>> logits = torch.tensor([[2.0, -1.0], [-2.0, 0.5], [0.0, -0.5]])
        >>> states = torch.tensor([[1, 0], [0, 1], [0, -1]])
        >>> round(focal(logits, states).item(), 4)
        0.0913
    """
    return asl(
        logits,
        states,
        gamma_negative=gamma,
        gamma_positive=gamma,
        clip=0.0,
        detach=False,
        class_reduction=class_reduction,
        statistics=statistics,
    )


asl_assume_negative = assuming_negative(
    "asl_assume_negative", asl, "Asymmetric loss (ASL) with every unknown label treated as negative."
)
focal_assume_negative = assuming_negative(
    "focal_assume_negative", focal, "Focal loss with every unknown label treated as negative."
)


class ASL(LossModule):
    """Module form of `asl`; the options are the same keyword arguments."""

    function = staticmethod(asl)
    uses_negatives = needs_negatives = True


class Focal(LossModule):
    """Module form of `focal`; the options are the same keyword arguments."""

    function = staticmethod(focal)
    uses_negatives = needs_negatives = True


class ASLAssumeNegative(LossModule):
    """Module form of `asl_assume_negative`; the options are the same keyword arguments."""

    function = staticmethod(asl_assume_negative)


class FocalAssumeNegative(LossModule):
    """Module form of `focal_assume_negative`; the options are the same keyword arguments."""

    function = staticmethod(focal_assume_negative)
