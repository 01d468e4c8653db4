"""Large loss: unknown labels that cost most as negatives are probably missing positives (LL, Kim et al., CVPR 2022).

Unknown labels are called negative. From the second epoch on, in every batch those of them with the largest loss are

- left out (LL-R: rejected), or taken for positive in this step (LL-Ct: corrected for a time), with a share of the
  batch's labels that grows by Δ an epoch;
- taken for positive for good (LL-Cp: corrected permanently), Δ of the batch's labels at a time: a label memory, one
  entry an image and class.

Published for ten epochs: Δ is the share of a tenth of the training, however many epochs that is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softplus

from positively.distributed import own_rows
from positively.losses import bce
from positively.losses.base import ClassReduction
from positively.methods.base import Method, StepContext, TrainingContext
from positively.options import Share

_PUBLISHED_EPOCHS = 10


@dataclass(frozen=True)
class LargeLossOptions:
    """How many labels are given up."""

    delta: Share = 0.002
    """Δ, the share of a batch's labels, for each tenth of the training (the authors: 0.001 to 0.005)."""
    class_reduction: ClassReduction = "sum"
    """Sum over the classes, or their mean."""


class LargeLoss(Method):
    """What the three have in common."""

    Options = LargeLossOptions
    uses_negatives = True  # a known negative is never given up
    grows: ClassVar[bool] = True
    """Whether the share grows from epoch to epoch: what is remembered adds up by itself."""
    epochs: int = _PUBLISHED_EPOCHS

    def setup(self, training: TrainingContext) -> None:
        """Learn how long the training is."""
        self.epochs = training.epochs

    def targets(self, states: Tensor, losses: Tensor, step: StepContext) -> Tensor:
        """Label states to learn from, given what each label costs as a negative; −∞ for those that are known."""
        raise NotImplementedError

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Learn from the labels, without or against those of the batch that cost most."""
        logits = network(inputs)
        losses = softplus(logits.detach().float())  # −log(1 − σ(s)): what "negative" costs
        losses = losses.masked_fill(states != 0, -torch.inf)
        targets = self.targets((states == 1).to(states.dtype) * 2 - 1, losses, step)
        return {"loss": bce(logits, targets, class_reduction=self.options.class_reduction)}

    def _count(self, losses: Tensor, step: StepContext) -> int:
        """How many of a whole batch's labels are given up; none in the first epoch."""
        steps = (step.epoch if self.grows else min(step.epoch, 1)) * _PUBLISHED_EPOCHS / self.epochs
        wanted: int = math.ceil(losses.numel() * self.options.delta * steps)
        return min(wanted, int(losses.isfinite().sum()))

    def _largest(self, losses: Tensor, step: StepContext) -> Tensor:
        """Which labels of this process's part are among those of the whole batch that cost most; of equals some."""
        everywhere = step.gather(losses)
        chosen = everywhere.flatten().topk(self._count(everywhere, step)).indices
        is_chosen = torch.zeros(everywhere.numel(), dtype=torch.bool, device=losses.device)
        is_chosen[chosen] = True
        place, _ = own_rows(len(losses))
        return is_chosen.view_as(everywhere)[place]


class LargeLossRejection(LargeLoss):
    """LL-R: they are left out."""

    def targets(self, states: Tensor, losses: Tensor, step: StepContext) -> Tensor:
        """Unknown where the loss is large."""
        return states.masked_fill(self._largest(losses, step), 0)


class LargeLossTemporary(LargeLoss):
    """LL-Ct: they are positive in this step."""

    def targets(self, states: Tensor, losses: Tensor, step: StepContext) -> Tensor:
        """Positive where the loss is large."""
        return states.masked_fill(self._largest(losses, step), 1)


class LargeLossPermanent(LargeLoss):
    """LL-Cp: they are positive from now on."""

    grows = False
    corrected: Tensor

    def setup(self, training: TrainingContext) -> None:
        """Make the memory: nothing is corrected yet."""
        super().setup(training)
        table = training.table
        self.register_buffer("corrected", torch.zeros(len(table), len(table.classes), dtype=torch.bool))

    def targets(self, states: Tensor, losses: Tensor, step: StepContext) -> Tensor:
        """Positive where it is remembered, after the largest losses of the whole batch were added to the memory.

        Whichever process holds the images, all of them write the same.
        """
        rows = step.gather(step.rows)
        losses = step.gather(losses.masked_fill(self.corrected[step.rows], -torch.inf))
        chosen = losses.flatten().topk(self._count(losses, step)).indices
        self.corrected[rows[chosen // losses.shape[1]], chosen % losses.shape[1]] = True
        return states.masked_fill(self.corrected[step.rows], 1)
