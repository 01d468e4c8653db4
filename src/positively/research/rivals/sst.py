"""SST: labels are transferred within an image, by co-occurrence, and across images, by similarity.

Chen et al., AAAI 2022. v_nc is the feature of class c in image n (head semantic-graph). The loss of a step is

    BCE(known) + 10·ASL(o, both known positive) + 0.05·contrastive(v)        ... from the first step on
    + BCE(known and within) + BCE(known and across)                          ... after a quarter of the training

ASL (γ₋ = 2, γ₊ = 1, clip 0.05, mean over pairs) trains the logits o_ij of two classes occurring together. Both it and
the contrastive loss ramp up during the first epoch. An unknown label (n, c) becomes positive, for one step,

    within:  if the mean of σ(o_cj) over the known positives j of image n is at least the margin
    across:  if the mean cosine of v_nc with the stored features of known positives of class c is at least the margin

Margins start at 0.95 and fall to 0.75 (published: by 0.025 per epoch, for 8 of 20 epochs).

Our choices: the mean is over the stored features (published: over 100, counting empty slots as 0); epochs are shares of
the training; pairs and queue use the whole batch of all processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from positively.distributed import gather_rows_with_gradient
from positively.finetune import StepContext, TrainingContext
from positively.losses import asl, bce
from positively.options import NonNegative, Range, Share
from positively.randomness import random_stream
from positively.research.rivals.class_features import (
    ClassFeatureMethod,
    ClassFeatureOptions,
    contrastive_loss,
    unit_features,
)
from positively.research.rivals.cooccurrence import CoOccurrence

_ASYMMETRY: dict[str, Any] = {"gamma_negative": 2.0, "gamma_positive": 1.0, "detach": False, "class_reduction": "mean"}
Margin = Annotated[float, Range(above=0, maximum=1)]


@dataclass(frozen=True)
class SSTOptions(ClassFeatureOptions):
    """Weights and margins."""

    cooccurrence: NonNegative = 10.0
    """Weight of the loss on pairs of classes; ramps up during the first epoch."""
    margin: Margin = 0.95
    """Initial probability or cosine from which labels are transferred."""
    lowest_margin: Margin = 0.75
    """Final margin."""
    fall: Share = 0.4
    """Share of the epochs in which the margin falls (published: 8 of 20, by 0.025 each)."""


class SSTMethod(ClassFeatureMethod):
    """SST: transfers labels within an image by co-occurrence and across images by similarity."""

    Options = SSTOptions

    def setup(self, training: TrainingContext) -> None:
        """Create the queue and the pair network."""
        super().setup(training)
        stream = random_stream("co-occurrence", training.seed)
        self.pairs = CoOccurrence(len(training.table.classes), self.width, stream)

    def margin(self, epoch: int) -> float:
        """Margin in an epoch, counted from 0."""
        options = self.options
        fallen = (epoch - self.begin) / max(options.fall * self.epochs, 1)
        return float(options.margin + (options.lowest_margin - options.margin) * min(max(fallen, 0.0), 1.0))

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Train on known labels, pairs and the contrastive loss, later also on transferred labels."""
        features = network.forward_features(inputs)
        logits, pairs = network.forward_head(features), self.pairs(features)
        unit = unit_features(features)
        everyone, known = gather_rows_with_gradient(unit), step.gather(states)
        ramp = self.ramp(step, len(known))
        parts = {
            "known": bce(logits, states, class_reduction="mean"),
            "pairs": ramp * self.options.cooccurrence * asl(pairs, self.pairs.states(states), **_ASYMMETRY),
            "contrastive": ramp
            * self.options.contrastive
            * contrastive_loss(everyone, known, step.generator("contrastive")),
        }
        self.queue.push(everyone, known)
        if step.epoch >= self.begin:
            margin = self.margin(step.epoch)
            within, across = self.pairs.transfer(pairs, states), self._closeness(unit)
            for name, belief in (("within", within), ("across", across)):
                believed = states.masked_fill((states == 0) & (belief >= margin), 1)
                parts[name] = bce(logits, believed, class_reduction="mean")
        return parts

    @torch.no_grad()
    def _closeness(self, unit: Tensor) -> Tensor:
        """Mean cosine with the stored features, shape (B, C), as the product with the mean of unit vectors."""
        mean = self.queue.features.sum(1) / self.queue.filled.clamp_min(1)[:, None]
        return (unit.to(mean.dtype) * mean).sum(-1)
