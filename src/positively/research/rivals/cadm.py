"""CADM (Chen et al., ICME 2019): class-aware disentangled maps, and an embedding of labels that occur together.

loss = BCE over the known labels + weight × correlation. Only the abstract of the publication was available;
`positively.models.heads.cadm` describes the label vectors x_c. The correlation of labels is our own design: x_c is
projected and normalised to e_c; with the mean m of e over the other known positives of the image, known positives are
pulled towards it, 1 − e_c · m, and known negatives pushed away, max(0, e_c · m − margin).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from positively.finetune import LossMethod, StepContext, TrainingContext
from positively.losses import bce, label_correlation, pull_and_push
from positively.models import unit_length
from positively.options import Count, NonNegative, Range, options_of
from positively.randomness import random_stream


@dataclass(frozen=True)
class CorrelationOptions:
    """Options of the label correlation term."""

    weight: NonNegative = 0.1
    """Weight of the label correlation term; 0 disables it."""
    margin: Annotated[float, Range(minimum=-1, maximum=1)] = 0.0
    """Cosine above which known negatives are pushed away."""


@dataclass(frozen=True)
class CADMOptions(CorrelationOptions):
    """Options of the label correlation term and of its space."""

    width: Count = 128
    """Dimensions of the space in which label vectors are compared."""


class CADMMethod(LossMethod):
    """CADM: BCE over known labels on class-aware disentangled maps, plus a label correlation term."""

    loss_name, head = "bce", "cadm"
    Options = options_of(bce, CADMOptions)

    def setup(self, training: TrainingContext) -> None:
        """Create the projection of label vectors. It belongs to the loss, so it is not part of the head."""
        channels, width = training.trainable.head.last_layer.in_features, self.options.width
        drawn = random_stream("projection", training.seed).normal(scale=width**-0.5, size=(width, channels))
        self.projection = nn.Parameter(torch.from_numpy(drawn).float())

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Classification loss and correlation of the label vectors of each image."""
        options = self.options
        if not options.weight:
            return super().training_step(network, inputs, states, step)
        vectors = network.forward_features(inputs)
        cosines, pair_states = label_correlation(unit_length(vectors @ self.projection.T), states)
        correlation = pull_and_push(
            cosines,
            pair_states,
            margin=options.margin,
            class_reduction=options.class_reduction,
            statistics=options.statistics,
        )
        loss = self.loss(network.forward_head(vectors), states)
        return {"loss": loss, "correlation": options.weight * correlation}
