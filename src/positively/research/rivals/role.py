"""ROLE: labels of all training images are estimated together with the classifier, and each teaches the other.

Cole et al., CVPR 2021. Every image and class has its own logit θ with q = σ(θ), and the classifier has p = σ(s):

    L = ½ [ EPR(p) + BCE(p, sg q) + EPR(q) + BCE(q, sg p) ]

with EPR of `positively.losses.expected_positives`, means over images and classes, and sg for "stop gradient". θ starts
uniformly in ±logit(0.6), and at logit(0.995) for known positives.

Our variant: the published θ is a parameter that Adam updates with ten times the rate of the network. Here it is a
buffer that takes one plain gradient step whenever its image is in the batch. The gradient of its two terms for an
entry, times N·C (the divisor of the means, which Adam would cancel as well), is

    g = −(1 − q) [known positive] + 2/C · ((1/N) Σ_n Σ_c q − k) · q (1 − q) + (q − p),      θ ← θ − ½ · rate · g
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from positively.finetune import Method, StepContext, TrainingContext
from positively.losses import ClassReduction, batch_mean, check_inputs, epr, reduce_classes
from positively.options import Range
from positively.randomness import random_stream
from positively.research.rivals.expected_positives import ExpectedPositivesOptions, expected_positives

_START, _KNOWN = 0.6, 0.995
"""Start of the estimates: within this probability and one minus it, and for known positives."""


@dataclass(frozen=True)
class RoleOptions(ExpectedPositivesOptions):
    """Expected number of positives, and step size of the estimates."""

    rate: Annotated[float, Range(above=0, maximum=6)] = 4.0
    """Step size of a label estimate, once per epoch. With 4, an estimate near 0.5 moves half of the way to the logit of
    the classifier; much larger values overshoot."""
    class_reduction: ClassReduction = "sum"
    """Sum over the classes, or mean."""


class RoleMethod(Method):
    """Regularised online label estimation (ROLE): label estimates and classifier are trained together."""

    Options = RoleOptions
    estimates: Tensor

    def setup(self, training: TrainingContext) -> None:
        """Draw the initial estimates and find the expected number of positives."""
        table = training.table
        self.expected = expected_positives(training, self.options)
        draws = random_stream("label estimates", training.seed).random((len(table), len(table.classes)), dtype="f4")
        estimates = (2 * torch.from_numpy(draws) - 1) * torch.tensor(_START).logit()
        known = torch.from_numpy(table.states() == 1)
        self.register_buffer("estimates", estimates.masked_fill(known, torch.tensor(_KNOWN).logit().item()))

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Train the classifier on the current estimates, then update the estimates of this batch."""
        reduction = self.options.class_reduction
        logits, states = check_inputs(network(inputs), states)
        estimated = self.estimates[step.rows].sigmoid()
        # −q log p − (1 − q) log(1 − p), with −log(1 − p) = softplus(s) and −log p = softplus(s) − s.
        agreement = batch_mean(softplus(logits) - estimated * logits, "global")
        own = epr(logits, states, expected_positives=self.expected, class_reduction=reduction)
        self._move(step.gather(step.rows), step.gather(logits.sigmoid()), step.gather(states))
        return {"epr": 0.5 * own, "agreement": 0.5 * reduce_classes(agreement, reduction)}

    def _move(self, rows: Tensor, probabilities: Tensor, states: Tensor) -> None:
        """One gradient step of the estimates of the whole batch, the same on every process."""
        old = self.estimates[rows]
        estimated = old.sigmoid()
        surplus = estimated.sum(1).mean() - self.expected
        gradient = (2 / old.shape[1] * surplus) * estimated * (1 - estimated) + estimated - probabilities
        gradient -= (1 - estimated) * (states == 1)
        self.estimates[rows] = old - 0.5 * self.options.rate * gradient.to(old.dtype)
