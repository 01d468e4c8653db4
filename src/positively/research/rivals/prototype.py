"""Unknown labels near the prototype of a class are ignored, all others are treated as negative.

Our own baseline, a simple relative of the prototypes of SST and SARB: an unknown label that is as similar to a class as
its known positives is probably a missing positive.
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
    """Options of the prototypes."""

    momentum: Decay = 0.9
    """Momentum of a prototype when a batch contains known positives of its class."""
    margin: Annotated[float, Range(minimum=-1, maximum=1)] = 0.0
    """Required excess of an unknown label's similarity over the mean of the known positives."""
    warmup: Index = 1
    """Epochs in which every unknown label is treated as negative."""
    class_reduction: ClassReduction = "sum"
    """Sum over the classes, or mean."""


class PrototypeMethod(Method):
    """Ignores unknown labels near the prototype of a class and treats all others as negative."""

    Options = PrototypeOptions
    uses_negatives = True  # known negatives are always used
    prototypes: Tensor
    closeness: Tensor
    seen: Tensor

    def setup(self, training: TrainingContext) -> None:
        """Create the prototypes."""
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
        """Train on known positives and on unknown labels far from the prototype; then update the prototypes."""
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
        """Cosine of features, one per image or per image and class, with the prototypes, shape (B, C)."""
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
