"""Large loss: unknown labels that cost most as negatives are probably missing positives (LL, Kim et al., CVPR 2022).

Unknown labels are called negative. From the second epoch on, in every batch those of them with the largest loss are

- left out (LL-R: rejected), or taken for positive in this step (LL-Ct: corrected for a time), with a share of the
  batch's labels that grows by Δ an epoch;
- taken for positive for good (LL-Cp: corrected permanently), until as large a share of the batch's labels, and of all,
  is: a label memory, one entry an image and class. (Published: Δ more in every epoch.)

Published for ten epochs: Δ is the share of a tenth of the training, however many epochs that is. LL-R divides by the
labels that are left, where the authors count those left out as zeros: a factor of 1.02 at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from positively.distributed import own_rows
from positively.finetune import Method, StepContext, TrainingContext
from positively.losses import ClassReduction, bce
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

    def _count(self, labels: Tensor, step: StepContext) -> int:
        """How many of so many labels are given up; none in the first epoch."""
        share = float(self.options.delta) * step.epoch * _PUBLISHED_EPOCHS / self.epochs
        return math.ceil(labels.numel() * share)

    def _largest(self, losses: Tensor, step: StepContext) -> Tensor:
        """Which labels of this process's part are among those of the whole batch that cost most; of equals some."""
        everywhere = step.gather(losses)
        chosen = _highest(everywhere, self._count(everywhere, step))
        is_chosen = torch.zeros(everywhere.numel(), dtype=torch.bool, device=losses.device)
        is_chosen[chosen] = True
        place, _ = own_rows(len(losses))
        return is_chosen.view_as(everywhere)[place]


def _highest(losses: Tensor, count: int) -> Tensor:
    """Places of the largest losses in a flat batch, not of those that are known."""
    return losses.flatten().topk(min(count, int(losses.isfinite().sum()))).indices


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
        # No more than the batch's share, nor than the table's: what every batch rounds up would add up.
        shares = (self._count(labels, step) - int(labels.sum()) for labels in (self.corrected[rows], self.corrected))
        chosen = _highest(losses, max(min(shares), 0))
        self.corrected[rows[chosen // losses.shape[1]], chosen % losses.shape[1]] = True
        return states.masked_fill(self.corrected[step.rows], 1)
