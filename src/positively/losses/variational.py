"""The variational positive-unlabeled loss: vPU, and PU-MLC with re-balance factor and adaptive temperature.

Written per class c over the batch, with logits s, P the images known to carry c and U the unlabeled ones (the whole
batch, as both the paper and its code put the positives into U)::

    L_c = p_c^γ · log mean_{n∈U} σ(s_n / τ_c)  −  mean_{n∈P} log σ(s_n / τ_c)

The value is usually negative and says nothing by itself: it is a difference of two log-probabilities per class, summed
over the classes. Multiplying every σ of a class by one factor leaves vPU's loss as it is (and lowers PU-MLC's), so the
scores rank images well but are no probabilities; thresholds have to be found on held-out data.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from positively.errors import ConfigError
from positively.losses.base import ClassReduction, LossModule, check_inputs, reduce_classes
from positively.losses.statistics import Statistics, batch_log_mean_exp, batch_mean, batch_std, batch_sum
from positively.options import NonNegative, Positive


def adaptive_temperature(
    logits: Tensor,
    alpha: float = 1.0,
    *,
    tau_min: float = 0.05,
    std: Literal["population", "sample"] = "population",
    statistics: Statistics = "global",
) -> Tensor:
    """Temperature of each class (equation 10), τ_c = min(α · Std(s_c), 1): logits N×C → C.

    ``tau_min`` is our floor: where all logits of a class coincide (one row, zero weights) the formula would give zero.
    """
    spread = batch_std(logits, statistics, sample=std == "sample")
    return (alpha * spread).clamp(tau_min, 1.0)


def pu_mlc(
    logits: Tensor,
    states: Tensor,
    *,
    gamma: NonNegative = 0.55,
    alpha: Positive = 1.0,
    tau: Positive | None = None,
    tau_min: Positive = 0.05,
    temper: Literal["logits", "spread"] = "logits",
    std: Literal["population", "sample"] = "population",
    rebalance_on: Literal["tempered", "plain"] = "tempered",
    detach: bool = True,
    positives_in_unlabeled: bool = True,
    without_positives: Literal["keep", "skip"] = "keep",
    class_reduction: ClassReduction = "sum",
    statistics: Statistics = "global",
) -> Tensor:
    """The loss of PU-MLC, equation 11 of the paper.

    The defaults are the form of the reference code, which made the published numbers; where the paper's letter differs,
    an option says so.

    Args:
        logits: N×C raw outputs.
        states: N×C label states; only +1 is read, 0 and −1 are both unlabeled.
        gamma: Exponent of the re-balance factor p_c^γ (equation 9); larger for fewer known labels, 0 turns it off.
        alpha: Factor of the adaptive temperature τ_c = min(α·Std(s_c), 1) (equation 10).
        tau: A fixed temperature in place of the adaptive one; 1 turns the temperature off.
        tau_min: Floor of the adaptive temperature.
        temper: Divide the "logits" by τ (equation 10), which moves their mean too, or only their "spread" about the
            class mean (ours: a head that starts at the class frequencies keeps its level).
        std: "population" divides by N (reference), "sample" by N − 1; the paper only says standard deviation.
        rebalance_on: p_c from the "tempered" probabilities (reference) or the "plain" ones (equation 9 as printed).
        detach: τ_c and p_c^γ without gradient (reference). The paper's equations do not exempt them.
        positives_in_unlabeled: Whether U holds the known positives too (paper and reference).
        without_positives: A class with no positive in the batch keeps its unlabeled term (reference) or is skipped.
        class_reduction: "sum" over classes as in the paper, or "mean".
        statistics: "global" over all processes, or "local" to each (reference).

    Returns:
        Scalar loss, usually negative.

    >>> import torch
    >>> logits = torch.tensor([[2.0, -1.0], [-2.0, 0.5], [0.0, -0.5]])
    >>> states = torch.tensor([[1, 0], [0, 1], [0, 0]])
    >>> round(pu_mlc(logits, states, gamma=0.0, tau=1.0).item(), 4)
    -0.9526
    """
    logits, states = check_inputs(logits, states)
    if gamma < 0:
        raise ConfigError(f"gamma must be at least 0, not {gamma}.")
    if tau is not None and tau <= 0:
        raise ConfigError(f"tau must be above 0, not {tau}.")
    positive = states == 1

    temperature: Tensor | float = tau if tau is not None else 1.0
    if tau is None:
        adaptive = adaptive_temperature(logits, alpha, tau_min=tau_min, std=std, statistics=statistics)
        temperature = adaptive.detach() if detach else adaptive
    tempered = logits / temperature
    if temper == "spread":
        mean = batch_mean(logits, statistics)
        level = mean.detach() if detach else mean
        tempered = level + (logits - level) / temperature
    log_probability = logsigmoid(tempered)

    unlabeled = torch.ones_like(positive) if positives_in_unlabeled else ~positive
    log_mean = batch_log_mean_exp(log_probability, unlabeled, statistics)
    rebalanced = (
        log_mean if rebalance_on == "tempered" else batch_log_mean_exp(logsigmoid(logits), unlabeled, statistics)
    )
    factor = (gamma * rebalanced).exp()
    unlabeled_term = (factor.detach() if detach else factor) * log_mean

    count = batch_sum(positive.to(logits.dtype), statistics)
    if without_positives == "skip":
        unlabeled_term = unlabeled_term * (count > 0)
    positive_term = -batch_sum(log_probability * positive, statistics) / count.clamp_min(1)
    return reduce_classes(unlabeled_term + positive_term, class_reduction)


def vpu(
    logits: Tensor,
    states: Tensor,
    *,
    positives_in_unlabeled: bool = True,
    without_positives: Literal["keep", "skip"] = "keep",
    class_reduction: ClassReduction = "sum",
    statistics: Statistics = "global",
) -> Tensor:
    """Variational loss of vPU (equation 7 of the paper): :func:`pu_mlc` with γ = 0 and without temperature.

    Args:
        logits: N×C raw outputs.
        states: N×C label states; only +1 is read.
        positives_in_unlabeled: Whether U holds the known positives too.
        without_positives: A class with no positive in the batch keeps its unlabeled term or is skipped.
        class_reduction: "sum" over classes or "mean".
        statistics: "global" over all processes, or "local" to each.
    """
    return pu_mlc(
        logits,
        states,
        gamma=0.0,
        tau=1.0,
        positives_in_unlabeled=positives_in_unlabeled,
        without_positives=without_positives,
        class_reduction=class_reduction,
        statistics=statistics,
    )


class PUMLC(LossModule):
    """Module over :func:`pu_mlc`."""

    function = staticmethod(pu_mlc)


class VPU(LossModule):
    """Module over :func:`vpu`."""

    function = staticmethod(vpu)
