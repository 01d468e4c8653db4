"""ROLE: labels of all training images are estimated beside the classifier, and each teaches the other.

Cole et al., CVPR 2021. Every image and class has a logit θ of its own, q = σ(θ), and the classifier has p = σ(s):

    L = ½ [ EPR(p) + BCE(p, sg q) + EPR(q) + BCE(q, sg p) ]

with EPR of `positively.losses.expected_positives`, means over images and classes, and sg for "no gradient". θ
starts uniformly in ±logit(0.6), at logit(0.995) where a positive is known.

Ours: the published θ is a parameter, which Adam moves with ten times the rate of the network. Here it is state, which
takes one plain gradient step whenever its image is in the batch; rows of other images stay as they are. Of its two
terms the gradient is known, for an entry times N·C (the means' divisors, which Adam would take out as well):

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
"""Probabilities an estimate starts at: at most (or at least one minus it), and where a positive is known."""


@dataclass(frozen=True)
class RoleOptions(ExpectedPositivesOptions):
    """How many positives to expect, and how fast the estimates move."""

    rate: Annotated[float, Range(above=0, maximum=6)] = 4.0
    """Step of a label estimate, once an epoch: with 4 an estimate near one half goes half of the way to the
    classifier's logit, far beyond that it overshoots."""
    class_reduction: ClassReduction = "sum"
    """Sum over the classes, or their mean."""


class RoleMethod(Method):
    """Regularised online label estimation."""

    Options = RoleOptions
    estimates: Tensor

    def setup(self, training: TrainingContext) -> None:
        """Draw the first estimates, and find out how many positives to expect."""
        table = training.table
        self.expected = expected_positives(training, self.options)
        draws = random_stream("label estimates", training.seed).random((len(table), len(table.classes)), dtype="f4")
        estimates = (2 * torch.from_numpy(draws) - 1) * torch.tensor(_START).logit()
        known = torch.from_numpy(table.states() == 1)
        self.register_buffer("estimates", estimates.masked_fill(known, torch.tensor(_KNOWN).logit().item()))

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Teach the classifier by the estimates as they are, then move the estimates of this batch."""
        reduction = self.options.class_reduction
        logits, states = check_inputs(network(inputs), states)
        estimated = self.estimates[step.rows].sigmoid()
        # −q log p − (1 − q) log(1 − p), with −log(1 − p) = softplus(s) and −log p = softplus(s) − s.
        agreement = batch_mean(softplus(logits) - estimated * logits, "global")
        own = epr(logits, states, expected_positives=self.expected, class_reduction=reduction)
        self._move(step.gather(step.rows), step.gather(logits.sigmoid()), step.gather(states))
        return {"epr": 0.5 * own, "agreement": 0.5 * reduce_classes(agreement, reduction)}

    def _move(self, rows: Tensor, probabilities: Tensor, states: Tensor) -> None:
        """One gradient step of the estimates of these rows: the whole batch, the same on every process."""
        old = self.estimates[rows]
        estimated = old.sigmoid()
        surplus = estimated.sum(1).mean() - self.expected
        gradient = (2 / old.shape[1] * surplus) * estimated * (1 - estimated) + estimated - probabilities
        gradient -= (1 - estimated) * (states == 1)
        self.estimates[rows] = old - 0.5 * self.options.rate * gradient.to(old.dtype)
