"""CADM (Chen et al., ICME 2019): class-aware disentangled maps, and an embedding of the labels that are found together.

loss = BCE over the known labels + weight × correlation. Of the publication only the abstract is known here; what a
label vector x_c of an image is says `positively.models.heads.cadm`. Ours is the correlation of labels: x_c is
projected and brought to length 1, e_c; with the mean m of e over the image's other known positives, known positives are
pulled to it, 1 − e_c · m, and known negatives pushed away, max(0, e_c · m − margin).
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
    """The term of the labels that are found together."""

    weight: NonNegative = 0.1
    """Weight of the term that brings close what is found together; 0 leaves it out."""
    margin: Annotated[float, Range(minimum=-1, maximum=1)] = 0.0
    """Cosine up to which labels that are not found together are left in peace."""


@dataclass(frozen=True)
class CADMOptions(CorrelationOptions):
    """The term of the labels that are found together, and where they are compared."""

    width: Count = 128
    """Dimensions of the space in which label vectors are compared."""


class CADMMethod(LossMethod):
    """CADM."""

    loss_name, head = "bce", "cadm"
    Options = options_of(bce, CADMOptions)

    def setup(self, training: TrainingContext) -> None:
        """Make the projection of label vectors: it serves the loss, so that it is no part of the head."""
        channels, width = training.trainable.head.last_layer.in_features, self.options.width
        drawn = random_stream("projection", training.seed).normal(scale=width**-0.5, size=(width, channels))
        self.projection = nn.Parameter(torch.from_numpy(drawn).float())

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Classification, and the correlation of the label vectors of each image."""
        options = self.options
        if not options.weight:
            return super().training_step(network, inputs, states, step)
        vectors = network.forward_features(inputs)
        cosines, told = label_correlation(unit_length(vectors @ self.projection.T), states)
        correlation = pull_and_push(
            cosines,
            told,
            margin=options.margin,
            class_reduction=options.class_reduction,
            statistics=options.statistics,
        )
        loss = self.loss(network.forward_head(vectors), states)
        return {"loss": loss, "correlation": options.weight * correlation}
