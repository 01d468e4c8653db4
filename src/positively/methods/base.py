"""What a method is: a loss, how its head starts, and what it does in a step."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from positively.labels import LabelTable
from positively.losses import LOSSES


@dataclass(frozen=True)
class StepContext:
    """The random numbers of one step: a function of seed, epoch and step, the same on every process."""

    seed: int
    epoch: int
    step: int

    def generator(self) -> np.random.Generator:
        """Numpy generator of this step."""
        return np.random.default_rng([self.seed, self.epoch, self.step, 0x6D6978])


class Method(nn.Module):
    """One of the registered losses as a whole method; the base of methods that do more."""

    def __init__(self, loss: str, **options: Any) -> None:
        super().__init__()
        self.loss = LOSSES[loss](**options)

    @property
    def uses_negatives(self) -> bool:
        """Whether known negatives teach this method anything."""
        return self.loss.uses_negatives

    def setup(self, table: LabelTable) -> None:
        """Look at the training table once, before the first step."""

    def training_step(self, network: nn.Module, inputs: Tensor, states: Tensor, draw: StepContext) -> dict[str, Tensor]:
        """Parts of the loss of one step, by name; their sum is minimised."""
        return {"loss": self.loss(network(inputs), states)}

    def validation_metrics(self, logits: Tensor) -> dict[str, float]:
        """What is worth writing down after an epoch, read off the logits of the images held out."""
        return {"spread": logits.std(dim=0, correction=0).mean().item()}


class RiskMethod(Method):
    """uPU and nnPU: they need the prior of each class.

    The prior is the frequency of the known positives divided by ``label_frequency``, the share of positives that are
    labelled (1 where nothing is known of it).
    """

    def __init__(self, loss: str, label_frequency: float = 1.0, **options: Any) -> None:
        super().__init__(loss, **options)
        self.label_frequency = label_frequency
        self.given_prior = "prior" in options

    def setup(self, table: LabelTable) -> None:
        """Estimate the prior, unless it was given."""
        if not self.given_prior:
            prior = torch.tensor(table.frequencies() / self.label_frequency, dtype=torch.float32).clamp(max=0.9)
            self.loss = type(self.loss)(**{**self.loss.given(), "prior": prior})
