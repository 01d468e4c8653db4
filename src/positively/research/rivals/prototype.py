"""Unknown labels near a class's prototype are left out, the others are called negative.

Ours, a plain relative of the prototypes of SST and SARB: what looks as much like a class as its known positives do is
probably a missing positive, and calling it negative would do harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from positively.errors import ConfigError
from positively.finetune import Method, StepContext, TrainingContext
from positively.losses import ClassReduction, bce
from positively.options import Decay, Index, Range


@dataclass(frozen=True)
class PrototypeOptions:
    """How prototypes are kept, and from when on they are used."""

    momentum: Decay = 0.9
    """Share of a prototype that stays when a batch brings known positives of its class."""
    margin: Annotated[float, Range(minimum=-1, maximum=1)] = 0.0
    """How much closer to the prototype than the known positives are on average an unknown label has to be."""
    warmup: Index = 1
    """Epochs in which every unknown label is called negative."""
    class_reduction: ClassReduction = "sum"
    """Sum over the classes, or their mean."""


class PrototypeMethod(Method):
    """Moving means of the known positives' features, and of how close those are to them (cosine)."""

    Options = PrototypeOptions
    uses_negatives = True  # a known negative is never left out
    prototypes: Tensor
    closeness: Tensor
    seen: Tensor

    def setup(self, training: TrainingContext) -> None:
        """Make the prototypes; nothing was seen of any class yet."""
        classes = len(training.table.classes)
        width = self._width(training)
        self.register_buffer("prototypes", torch.zeros(classes, width))
        self.register_buffer("closeness", torch.ones(classes))
        self.register_buffer("seen", torch.zeros(classes, dtype=torch.bool))

    def _width(self, training: TrainingContext) -> int:
        layer = training.trainable.head.last_layer
        if layer is None:
            raise ConfigError("Method 'prototype' needs a head that ends in a linear layer.")
        return int(layer.in_features)

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Learn from known positives and from unknown labels that no prototype speaks for; then move the prototypes."""
        embedding = network.forward_features(inputs)
        logits = network.forward_head(embedding)
        unit = normalize(embedding.detach().to(self.prototypes.dtype), dim=-1)
        targets = (states == 1).to(states.dtype) * 2 - 1
        if step.epoch >= self.options.warmup:
            near = self._cosine(unit) >= self.closeness + self.options.margin
            targets = targets.masked_fill((states == 0) & near & self.seen, 0)
        self._move(step.gather(unit), step.gather(states))
        return {"loss": bce(logits, targets, class_reduction=self.options.class_reduction)}

    def _cosine(self, unit: Tensor) -> Tensor:
        """B×C similarities of features, one an image or one an image and class, with the prototypes."""
        prototypes = normalize(self.prototypes, dim=-1)
        return unit @ prototypes.T if unit.ndim == 2 else (unit * prototypes).sum(-1)

    def _move(self, unit: Tensor, states: Tensor) -> None:
        positive = (states == 1).to(unit.dtype)
        count = positive.sum(0)
        weights = positive / count.clamp_min(1)
        mean = weights.T @ unit if unit.ndim == 2 else torch.einsum("bc,bcd->cd", weights, unit)
        here = count > 0
        stays = torch.where(self.seen, self.options.momentum, 0.0).to(unit.dtype)
        moved = stays[:, None] * self.prototypes + (1 - stays[:, None]) * mean
        self.prototypes.copy_(torch.where(here[:, None], moved, self.prototypes))
        close = (weights * self._cosine(unit)).sum(0)
        self.closeness.copy_(torch.where(here, stays * self.closeness + (1 - stays) * close, self.closeness))
        self.seen |= here
