"""Losses whose numbers change in the course of a training: SPLC and GR as methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from positively.finetune.methods.base import StepContext, TrainingContext
from positively.finetune.methods.loss_method import LossMethod
from positively.losses import gr, splc
from positively.options import Index, Positive, options_of


class ScheduledLossMethod(LossMethod):
    """A loss with other numbers in every epoch."""

    def numbers(self, epoch: int) -> dict[str, float]:
        """Options of the loss in this epoch, counted from 0."""
        raise NotImplementedError

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """The loss with this epoch's numbers."""
        for name, value in self.numbers(step.epoch).items():
            setattr(self.loss, name, value)
        return super().training_step(network, inputs, states, step)


@dataclass(frozen=True)
class SPLCOptions:
    """When labels are first corrected."""

    warmup: Index = 1
    """Epochs in which no label is corrected."""


class SPLCMethod(ScheduledLossMethod):
    """SPLC: no correction before the network has learned for an epoch."""

    loss_name = "splc"
    Options = options_of(splc, SPLCOptions)

    def numbers(self, epoch: int) -> dict[str, float]:
        """The threshold, which nothing exceeds before."""
        return {"threshold": self.options.threshold if epoch >= self.options.warmup else 1.0}


@dataclass(frozen=True)
class GROptions:
    """Where the four numbers begin; the loss's own are those they end with."""

    slope_start: float = 0.0
    """Slope of the share in which an unknown label is taken for positive, in the first epoch."""
    offset_start: float = -2.0
    """Offset of that share, in the first epoch."""
    center_start: float = 0.5
    """Probability at which an unknown label counts most, in the first epoch."""
    width_start: Positive = 2.0
    """How far around it others count, in the first epoch."""


_MOVING = ("slope", "offset", "center", "width")
_SHARE_OF_TRAINING = 0.8  # eight of the authors' ten epochs


class GRMethod(ScheduledLossMethod):
    """GR: slope, offset, center and width move on a line during the first four fifths of the training."""

    loss_name = "gr"
    Options = options_of(gr, GROptions)
    epochs: int = 10

    def setup(self, training: TrainingContext) -> None:
        """Learn how long the training is."""
        self.epochs = training.epochs

    def numbers(self, epoch: int) -> dict[str, float]:
        """The four in this epoch."""
        last = max(_SHARE_OF_TRAINING * self.epochs - 1, 1)
        done = min(epoch / last, 1.0)
        ends = {name: (getattr(self.options, f"{name}_start"), getattr(self.options, name)) for name in _MOVING}
        return {name: (1 - done) * first + done * final for name, (first, final) in ends.items()}
