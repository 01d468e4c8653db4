"""Losses that turn away from what is easy: focal and asymmetric, over known labels or with unknown ones as negatives.

With p = σ(s), a positive costs (1 − p)^γ₊ · −log p and a negative p_m^γ₋ · −log(1 − p_m), where p_m = max(p − m, 0):
negatives that are below the margin m cost nothing. Focal (Lin et al., ICCV 2017) is γ₊ = γ₋ and m = 0; asymmetric
(ASL, Ridnik et al., ICCV 2021) is γ₋ > γ₊ and m = 0.05.
"""

from torch import Tensor
from torch.nn.functional import logsigmoid

from positively.losses.base import ClassReduction, LossModule, assuming_negative, check_inputs, power
from positively.losses.statistics import Statistics, known_mean
from positively.options import Decay, NonNegative

# The authors' floor below a probability whose logarithm is taken; with a margin the floor is never reached.
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
    """Asymmetric loss over the known labels; unknown ones are left out.

    It is divided by the number of known labels in the batch. (The authors sum over the batch: their rate is for that.)

    Args:
        logits: N×C raw outputs.
        states: N×C label states.
        gamma_negative: γ₋, how far it turns away from negatives that are easy.
        gamma_positive: γ₊, the same for positives (the paper: 0; the code and its use for partial labels: 1).
        clip: m, the probability below which a negative costs nothing.
        detach: Whether the focusing factors are constants to the gradient, as in the authors' training.
        class_reduction: "mean" over the known labels, or "sum": the same times the number of classes.
        statistics: "global" over all processes, or "local" to each.
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
    """Focal loss over the known labels; unknown ones are left out.

    Args:
        logits: N×C raw outputs.
        states: N×C label states.
        gamma: γ, how far it turns away from labels that are easy.
        class_reduction: "mean" over the known labels, or "sum": the same times the number of classes.
        statistics: "global" over all processes, or "local" to each.
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
    "asl_assume_negative", asl, "Asymmetric loss with every unknown label called negative."
)
focal_assume_negative = assuming_negative(
    "focal_assume_negative", focal, "Focal loss with every unknown label called negative."
)


class ASL(LossModule):
    """Module over :func:`asl`."""

    function = staticmethod(asl)
    uses_negatives = needs_negatives = True


class Focal(LossModule):
    """Module over :func:`focal`."""

    function = staticmethod(focal)
    uses_negatives = needs_negatives = True


class ASLAssumeNegative(LossModule):
    """Module over :func:`asl_assume_negative`."""

    function = staticmethod(asl_assume_negative)


class FocalAssumeNegative(LossModule):
    """Module over :func:`focal_assume_negative`."""

    function = staticmethod(focal_assume_negative)
