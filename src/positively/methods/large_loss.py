"""Large-loss correction, permanent (LL-Cp): unknown labels that cost most are taken for missing positives for good.

Kim et al., CVPR 2022. Unknown labels are called negative. From the second epoch on, in every batch the ⌈N·C·Δ⌉ of them
with the largest loss become positive, and stay so: a label memory, one entry an image and class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from positively.losses import bce
from positively.losses.base import ClassReduction
from positively.methods.base import Method, StepContext, TrainingContext
from positively.options import Range


@dataclass(frozen=True)
class LargeLossOptions:
    """How many labels are corrected."""

    delta: Annotated[float, Range(minimum=0, maximum=1)] = 0.002
    """Δ, the share of a batch's labels that is taken for positive (the authors: 0.001 to 0.005)."""
    class_reduction: ClassReduction = "sum"
    """Sum over the classes, or their mean."""


class LargeLossPermanent(Method):
    """LL-Cp."""

    Options = LargeLossOptions
    corrected: Tensor

    @property
    def uses_negatives(self) -> bool:
        """A known negative is never taken for positive."""
        return True

    def setup(self, training: TrainingContext) -> None:
        """Make the memory: nothing is corrected yet."""
        table = training.table
        self.register_buffer("corrected", torch.zeros(len(table), len(table.classes), dtype=torch.bool))

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Correct the labels of this batch that cost most, then learn from what is remembered."""
        logits = network(inputs)
        if step.epoch > 0 and self.options.delta > 0:
            self._correct(logits.detach().float(), states, step)
        is_positive = (states == 1) | self.corrected[step.rows]
        targets = is_positive.to(states.dtype) * 2 - 1
        return {"loss": bce(logits, targets, class_reduction=self.options.class_reduction)}

    def _correct(self, logits: Tensor, states: Tensor, step: StepContext) -> None:
        """Over the whole batch, whichever process holds its images: all of them write the same into the memory."""
        can_change = (states == 0) & ~self.corrected[step.rows]
        losses = softplus(logits).masked_fill(~can_change, -torch.inf)  # −log(1 − σ(s)): what "negative" costs
        rows, losses = step.gather(step.rows), step.gather(losses)
        count = min(math.ceil(losses.numel() * self.options.delta), int(losses.isfinite().sum()))
        chosen = losses.flatten().topk(count).indices
        self.corrected[rows[chosen // losses.shape[1]], chosen % losses.shape[1]] = True
