"""SPLC and GR as methods: losses whose parameters change during training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from positively.finetune.methods.base import StepContext, TrainingContext
from positively.finetune.methods.loss_method import LossMethod
from positively.losses import gr, splc
from positively.options import Index, Positive, options_of


class ScheduledLossMethod(LossMethod):
    """A loss whose parameters change from epoch to epoch."""

    def numbers(self, epoch: int) -> dict[str, float]:
        """Parameters of the loss in an epoch, counted from 0."""
        raise NotImplementedError

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Loss of one step with the parameters of this epoch."""
        for name, value in self.numbers(step.epoch).items():
            setattr(self.loss, name, value)
        return super().training_step(network, inputs, states, step)


@dataclass(frozen=True)
class SPLCOptions:
    """Options of SPLC."""

    warmup: Index = 1
    """Epochs before labels are corrected."""


class SPLCMethod(ScheduledLossMethod):
    """Self-paced loss correction (SPLC): unknown labels above a threshold count as positive after a warm-up."""

    loss_name = "splc"
    Options = options_of(splc, SPLCOptions)

    def numbers(self, epoch: int) -> dict[str, float]:
        """A threshold of 1 during the warm-up, which no probability exceeds."""
        return {"threshold": self.options.threshold if epoch >= self.options.warmup else 1.0}


@dataclass(frozen=True)
class GROptions:
    """Start values of the four parameters; the options of the loss are the final values."""

    slope_start: float = 0.0
    """Slope of the share in which an unknown label counts as positive, in the first epoch."""
    offset_start: float = -2.0
    """Offset of that share in the first epoch."""
    center_start: float = 0.5
    """Probability at which an unknown label has the largest weight, in the first epoch."""
    width_start: Positive = 2.0
    """Width of that weight in the first epoch."""


_MOVING = ("slope", "offset", "center", "width")
_SHARE_OF_TRAINING = 0.8  # eight of ten epochs, as in the authors' code


class GRMethod(ScheduledLossMethod):
    """Generalised robust loss (GR) whose four parameters change linearly during the first 80 % of the training."""

    loss_name = "gr"
    Options = options_of(gr, GROptions)
    epochs: int = 10

    def setup(self, training: TrainingContext) -> None:
        """Read the number of epochs."""
        self.epochs = training.epochs

    def numbers(self, epoch: int) -> dict[str, float]:
        """Values of the four parameters in an epoch."""
        last = max(_SHARE_OF_TRAINING * self.epochs - 1, 1)
        done = min(epoch / last, 1.0)
        ends = {name: (getattr(self.options, f"{name}_start"), getattr(self.options, name)) for name in _MOVING}
        return {name: (1 - done) * first + done * final for name, (first, final) in ends.items()}
