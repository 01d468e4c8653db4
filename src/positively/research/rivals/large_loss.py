"""Large loss (LL, Kim et al., CVPR 2022): unknown labels with a large loss as negatives are probably missing positives.

Unknown labels are treated as negative. From the second epoch on, in every batch those with the largest loss are

- ignored (LL-R, rejection) or treated as positive in this step (LL-Ct, temporary correction); their share of the
batch's
  labels grows by Δ per epoch;
- treated as positive from then on (LL-Cp, permanent correction), up to the same share of the batch's labels and of all
  labels. (Published: Δ more in every epoch.)

Published for ten epochs: Δ is the share per tenth of the training, for any number of epochs. LL-R divides by the number
of labels that are left, where the authors count ignored labels as zeros: a factor of at most 1.02.
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
    """Options for the number of large-loss labels."""

    delta: Share = 0.002
    """Δ, share of a batch's labels per tenth of the training (authors: 0.001 to 0.005)."""
    class_reduction: ClassReduction = "sum"
    """Sum over the classes, or mean."""


class LargeLoss(Method):
    """Base class of the three large-loss methods."""

    Options = LargeLossOptions
    uses_negatives = True  # known negatives are always kept
    epochs: int = _PUBLISHED_EPOCHS

    def setup(self, training: TrainingContext) -> None:
        """Read the number of epochs."""
        self.epochs = training.epochs

    def targets(self, states: Tensor, losses: Tensor, step: StepContext) -> Tensor:
        """Label states to train on, given the loss of each label as a negative; −∞ for known labels."""
        raise NotImplementedError

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Train on the labels, with changed targets for large losses."""
        logits = network(inputs)
        losses = softplus(logits.detach().float())  # −log(1 − σ(s)), the loss as a negative
        losses = losses.masked_fill(states != 0, -torch.inf)
        targets = self.targets((states == 1).to(states.dtype) * 2 - 1, losses, step)
        return {"loss": bce(logits, targets, class_reduction=self.options.class_reduction)}

    def _count(self, labels: Tensor, step: StepContext) -> int:
        """Number of large-loss labels in this epoch; 0 in the first epoch."""
        share = float(self.options.delta) * step.epoch * _PUBLISHED_EPOCHS / self.epochs
        return math.ceil(labels.numel() * share)

    def _largest(self, losses: Tensor, step: StepContext) -> Tensor:
        """Labels of this process's part that are among the largest losses of the whole batch."""
        everywhere = step.gather(losses)
        chosen = _highest(everywhere, self._count(everywhere, step))
        is_chosen = torch.zeros(everywhere.numel(), dtype=torch.bool, device=losses.device)
        is_chosen[chosen] = True
        place, _ = own_rows(len(losses))
        return is_chosen.view_as(everywhere)[place]


def _highest(losses: Tensor, count: int) -> Tensor:
    """Flat positions of the largest losses, without known labels."""
    return losses.flatten().topk(min(count, int(losses.isfinite().sum()))).indices


class LargeLossRejection(LargeLoss):
    """Large loss rejection (LL-R): unknown labels with a large loss as negatives are ignored."""

    def targets(self, states: Tensor, losses: Tensor, step: StepContext) -> Tensor:
        """Set large-loss labels to unknown."""
        return states.masked_fill(self._largest(losses, step), 0)


class LargeLossTemporary(LargeLoss):
    """Large loss, temporary correction (LL-Ct): unknown labels with a large loss count as positive in this step."""

    def targets(self, states: Tensor, losses: Tensor, step: StepContext) -> Tensor:
        """Set large-loss labels to positive."""
        return states.masked_fill(self._largest(losses, step), 1)


class LargeLossPermanent(LargeLoss):
    """Large loss, permanent correction (LL-Cp): unknown labels with a large loss count as positive from then on."""

    corrected: Tensor

    def setup(self, training: TrainingContext) -> None:
        """Create the memory of corrected labels."""
        super().setup(training)
        table = training.table
        self.register_buffer("corrected", torch.zeros(len(table), len(table.classes), dtype=torch.bool))

    def targets(self, states: Tensor, losses: Tensor, step: StepContext) -> Tensor:
        """Set corrected labels to positive, after adding the largest losses of the whole batch to the memory.

        All processes update the memory in the same way.
        """
        rows = step.gather(step.rows)
        losses = step.gather(losses.masked_fill(self.corrected[step.rows], -torch.inf))
        # Bounded by the share of the batch and of the table, because each batch rounds up.
        shares = (self._count(labels, step) - int(labels.sum()) for labels in (self.corrected[rows], self.corrected))
        chosen = _highest(losses, max(min(shares), 0))
        self.corrected[rows[chosen // losses.shape[1]], chosen % losses.shape[1]] = True
        return states.masked_fill(self.corrected[step.rows], 1)
