"""Binary cross-entropy, the two honest baselines: over known labels, and with every unknown called negative."""

from torch import Tensor
from torch.nn.functional import softplus

from positively.losses.base import ClassReduction, LossModule, check_inputs
from positively.losses.statistics import Statistics, batch_sum


def bce(
    logits: Tensor,
    states: Tensor,
    *,
    class_reduction: ClassReduction = "sum",
    statistics: Statistics = "global",
) -> Tensor:
    """Binary cross-entropy over the known labels (equation 1 of the paper); unknown ones are left out.

    It is divided by the number of known labels in the batch, not by N×C: otherwise the gradient shrinks with the known
    ratio, and most of what looks like a loss of quality at small ratios is that.

    Args:
        logits: N×C raw outputs.
        states: N×C label states.
        class_reduction: "mean" over the known labels, or "sum": the same times the number of classes.
        statistics: "global" over all processes, or "local" to each.
    """
    logits, states = check_inputs(logits, states)
    known = (states != 0).to(logits.dtype)
    # softplus(−s) = −log σ(s) for a positive, softplus(s) = −log(1 − σ(s)) for a negative.
    per_label = softplus(-logits * states) * known
    loss = batch_sum(per_label, statistics).sum() / batch_sum(known, statistics).sum().clamp_min(1)
    return loss * logits.shape[1] if class_reduction == "sum" else loss


def assume_negative(
    logits: Tensor,
    states: Tensor,
    *,
    class_reduction: ClassReduction = "sum",
    statistics: Statistics = "global",
) -> Tensor:
    """Binary cross-entropy with every unknown label called negative ("AN"): what most tools do without saying so.

    Args:
        logits: N×C raw outputs.
        states: N×C label states; only +1 is read.
        class_reduction: "sum" over classes or "mean".
        statistics: "global" over all processes, or "local" to each.
    """
    logits, states = check_inputs(logits, states)
    return bce(logits, (states == 1).to(states.dtype) * 2 - 1, class_reduction=class_reduction, statistics=statistics)


class BCE(LossModule):
    """Module over :func:`bce`."""

    function = staticmethod(bce)
    uses_negatives = needs_negatives = True


class AssumeNegative(LossModule):
    """Module over :func:`assume_negative`."""

    function = staticmethod(assume_negative)
