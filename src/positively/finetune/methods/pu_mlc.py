"""PU-MLC: the variational loss plus the mixup consistency term (equation 8 of the paper)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from positively.finetune.methods.base import StepContext
from positively.finetune.methods.loss_method import LossMethod
from positively.losses import adaptive_temperature, mixup_consistency, mixup_targets, pu_mlc, vpu
from positively.models import Depth
from positively.options import NonNegative, Positive, options_of

_TEMPERATURE = ("alpha", "temper", "tau_min", "std")
"""Options of the adaptive temperature. Setting one of them enables it."""


@dataclass(frozen=True)
class MixupOptions:
    """Options of the consistency term."""

    mixup: NonNegative = 1.0
    """λ of equation 8, the weight of the consistency term; 0 disables it and saves a third of the computation."""
    mixup_beta: Positive = 0.3
    """Both parameters of the Beta distribution of the blending weight."""


class VariationalMethod(LossMethod):
    """Variational loss plus ``mixup`` times consistency on blended pairs.

    Pairs are neighbours in the batch. Since batches are shuffled, this is equivalent to pairing two shuffled halves as
    in the reference code, and it keeps pairs on one process, independent of the number of processes. Original and
    blended images share one forward pass, which also gives the targets.
    """

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Variational and consistency part of the loss of one step."""
        options = self.options
        if not options.mixup:
            return {"variational": self.loss(network(inputs), states)}
        pairs = len(inputs) // 2
        share = float(step.generator("mix").beta(options.mixup_beta, options.mixup_beta))
        pixels = inputs.float() / 255 if inputs.dtype == torch.uint8 else inputs
        first, second = pixels[0 : 2 * pairs : 2], pixels[1 : 2 * pairs : 2]
        logits = network(torch.cat([pixels, share * first + (1 - share) * second]))
        plain, mixed = logits[: len(inputs)], logits[len(inputs) :]
        targets = mixup_targets(plain, states)
        consistency = mixup_consistency(
            mixed,
            targets[0 : 2 * pairs : 2],
            targets[1 : 2 * pairs : 2],
            share,
            class_reduction=options.class_reduction,
            statistics=options.statistics,
        )
        return {"variational": self.loss(plain, states), "consistency": options.mixup * consistency}


class PUMLCMethod(VariationalMethod):
    """The method of the paper: variational PU loss with re-balance factor, adaptive temperature and consistency."""

    loss_name = "pu-mlc"
    Options = options_of(pu_mlc, MixupOptions)

    @classmethod
    def defaults(cls, depth: Depth, given: Mapping[str, Any]) -> dict[str, Any]:
        """At depth 'probe' a small γ and no temperature (docs/research/measurements.md); else the published values.

        The division in equation 10 also changes the level of the logits, which undoes an initialisation at the class
        frequencies.
        """
        if depth != "probe":
            return {}
        return {"gamma": 0.2} if given.keys() & set(_TEMPERATURE) else {"gamma": 0.2, "tau": 1.0}

    @classmethod
    def benchmark_options(cls, label_frequency: float, published: Mapping[str, Any]) -> dict[str, Any]:
        """γ and α of the paper's recipe at this known ratio."""
        return {name: published[name] for name in ("gamma", "alpha") if name in published}

    def validation_metrics(self, logits: Tensor) -> dict[str, float]:
        """Mean spread of the logits over classes and, if the temperature is adaptive, its mean over classes."""
        seen, options = super().validation_metrics(logits), self.options
        if options.tau is None:
            tau = adaptive_temperature(
                logits, options.alpha, tau_min=options.tau_min, std=options.std, statistics="local"
            )
            seen["tau"] = tau.mean().item()
        return seen


class VPUMethod(VariationalMethod):
    """PU-MLC without re-balance factor and temperature (vPU, Chen et al., NeurIPS 2020)."""

    loss_name = "vpu"
    Options = options_of(vpu, MixupOptions)
