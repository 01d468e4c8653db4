"""Variational positive-unlabeled losses: vPU, and PU-MLC with re-balance factor and adaptive temperature.

For class c over the batch, with logits s, the images P known to carry c and the unlabeled images U (the whole batch,
since both the paper and its code include the positives in U)::

    L_c = p_c^γ · log mean_{n∈U} σ(s_n / τ_c)  −  mean_{n∈P} log σ(s_n / τ_c)

The value is usually negative and has no absolute meaning: it is a difference of two log-probabilities per class, summed
over the classes. Multiplying every σ of a class by a constant does not change the loss of vPU (and lowers that of
PU-MLC). The scores therefore rank images well but are not probabilities; choose thresholds on held-out data.
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
    """Adaptive temperature of each class (equation 10 of the paper): τ_c = min(α · Std(s_c), 1).

    Args:
        logits: Raw outputs of the network, shape (N, C).
        alpha: α.
        tau_min: Lower bound of the temperature. Without it the temperature is zero where all logits of a class are
            equal (one row, or zero weights).
        std: "population" divides by N, "sample" by N − 1.
        statistics: "global" over all processes, or "local" to each process.

    Returns:
        Temperatures, shape (C,).

    Example:
        >>> import torch
        >>> from positively.losses import adaptive_temperature
        >>> adaptive_temperature(torch.tensor([[0.5, 3.0], [-0.5, -3.0]]))
        tensor([0.5000, 1.0000])
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
    """PU-MLC loss (equation 11 of the paper): learns from known positives and unlabeled images, without negatives.

    The defaults follow the reference code, which produced the published results. Options select the variants printed in
    the paper where the two differ.

    Args:
        logits: Raw outputs of the network, shape (N, C).
        states: Label states, shape (N, C). Only +1 is read; 0 and -1 are treated alike.
        gamma: Exponent of the re-balance factor p_c^γ (equation 9). Use larger values for fewer known labels; 0
            disables it.
        alpha: Factor of the adaptive temperature τ_c = min(α·Std(s_c), 1) (equation 10).
        tau: Fixed temperature instead of the adaptive one; 1 disables the temperature.
        tau_min: Lower bound of the adaptive temperature.
        temper: What the temperature divides: the "logits" (equation 10), which also moves their mean, or only their
            "spread" around the class mean (our variant, which keeps a head initialised at the class frequencies).
        std: "population" divides by N (reference code), "sample" by N − 1. The paper does not specify it.
        rebalance_on: Compute p_c from the "tempered" probabilities (reference code) or the "plain" ones (equation 9).
        detach: Whether to treat τ_c and p_c^γ as constants in the gradient (reference code; not in the paper).
        positives_in_unlabeled: Whether U includes the known positives (paper and reference code).
        without_positives: "keep" the unlabeled term of a class with no positive in the batch (reference code), or
            "skip" it.
        class_reduction: "sum" over the classes (paper), or "mean".
        statistics: "global" over all processes, or "local" to each process (reference code).

    Returns:
        The loss, a scalar, usually negative.

    Raises:
        LabelError: If the shapes differ, or `states` holds a value other than +1, 0 and -1.
        ConfigError: If `gamma` is negative or `tau` is not positive.

    Example:
        >>> import torch
        >>> from positively.losses import pu_mlc
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
    """Variational PU loss (vPU, equation 7 of the paper): `pu_mlc` with γ = 0 and without temperature.

    Args:
        logits: Raw outputs of the network, shape (N, C).
        states: Label states, shape (N, C). Only +1 is read; 0 and -1 are treated alike.
        positives_in_unlabeled: Whether U includes the known positives.
        without_positives: "keep" the unlabeled term of a class with no positive in the batch, or "skip" it.
        class_reduction: "sum" over the classes, or "mean".
        statistics: "global" over all processes, or "local" to each process.

    Returns:
        The loss, a scalar.

    Raises:
        LabelError: If the shapes differ, or `states` holds a value other than +1, 0 and -1.

    Example:
        >>> import torch
        >>> from positively.losses import vpu
        >>> logits = torch.tensor([[2.0, -1.0], [-2.0, 0.5], [0.0, -0.5]])
        >>> states = torch.tensor([[1, 0], [0, 1], [0, -1]])
        >>> round(vpu(logits, states).item(), 4)
        -0.9526
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
    """Module form of `pu_mlc`; the options are the same keyword arguments.

    Example:
        >>> import torch
        >>> from positively.losses import PUMLC
        >>> PUMLC(gamma=0.4)
        PUMLC(gamma=0.4)
    """

    function = staticmethod(pu_mlc)


class VPU(LossModule):
    """Module form of `vpu`; the options are the same keyword arguments."""

    function = staticmethod(vpu)
