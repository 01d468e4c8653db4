"""SST: labels are transferred within an image, by what occurs together, and across images, by what looks alike.

Chen et al., AAAI 2022. v_nc is the feature of class c in image n (head semantic-graph). The loss of a step is

    BCE(known) + 10·ASL(o, both known positive) + 0.05·contrastive(v)        ... from the first step on
    + BCE(known and within) + BCE(known and across)                          ... from a quarter of the training on

ASL (γ₋ = 2, γ₊ = 1, clip 0.05, the mean over pairs) teaches the logits o_ij of a pair of classes to be in the image
together; it and the contrastive loss grow from 0 over the first epoch. An unknown label (n, c) becomes positive

    within:  if the mean over the known positives j of image n of σ(o_cj) is at least the margin
    across:  if the mean cosine of v_nc with the stored features of class c's known positives is at least the margin

for the step alone. Margins start at 0.95 and fall to 0.75 (published: by 0.025 an epoch, for 8 of 20 epochs).

Ours: the mean is over the features that are stored (published: 100, those not there yet counted as 0); epochs are
shares of the planned training; pairs and the queue are those of the whole batch, however many processes share it.
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
    """Weight of the loss of the pairs of classes; it grows from 0 over the steps of the first epoch."""
    margin: Margin = 0.95
    """What a probability or a cosine must reach when labels begin to be transferred."""
    lowest_margin: Margin = 0.75
    """Where the margin ends."""
    fall: Share = 0.4
    """Share of the planned epochs in which the margin falls (published: 8 of 20, by 0.025 each)."""


class SSTMethod(ClassFeatureMethod):
    """The whole system."""

    Options = SSTOptions

    def setup(self, training: TrainingContext) -> None:
        """Make the queue and the network of the pairs."""
        super().setup(training)
        stream = random_stream("co-occurrence", training.seed)
        self.pairs = CoOccurrence(len(training.table.classes), self.width, stream)

    def margin(self, epoch: int) -> float:
        """Margin of an epoch, counted from 0."""
        options = self.options
        fallen = (epoch - self.begin) / max(options.fall * self.epochs, 1)
        return float(options.margin + (options.lowest_margin - options.margin) * min(max(fallen, 0.0), 1.0))

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Learn what is known, what occurs together and what looks alike; later also what follows from both."""
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
        """B×C mean cosines with what is stored: the product with the mean of vectors of length 1."""
        mean = self.queue.features.sum(1) / self.queue.filled.clamp_min(1)[:, None]
        return (unit.to(mean.dtype) * mean).sum(-1)
