"""Binary cross-entropy, the two honest baselines: over known labels, and with every unknown called negative."""

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
    """Binary cross-entropy over the known labels (equation 1 of the paper); unknown ones are left out.

    It is divided by the number of known labels in the batch, not by N×C (:func:`known_mean`).

    Args:
        logits: N×C raw outputs.
        states: N×C label states.
        class_reduction: "mean" over the known labels, or "sum": the same times the number of classes.
        statistics: "global" over all processes, or "local" to each.
    """
    logits, states = check_inputs(logits, states)
    # softplus(−s) = −log σ(s) for a positive, softplus(s) = −log(1 − σ(s)) for a negative.
    return known_mean(softplus(-logits * states), states != 0, class_reduction, statistics)


assume_negative = assuming_negative(
    "assume_negative",
    bce,
    'Binary cross-entropy with every unknown label called negative ("AN"): what most tools do without saying so.',
)


class BCE(LossModule):
    """Module over :func:`bce`."""

    function = staticmethod(bce)
    uses_negatives = needs_negatives = True


class AssumeNegative(LossModule):
    """Module over :func:`assume_negative`."""

    function = staticmethod(assume_negative)
