"""Shared parts of SST and SARB: one feature per class, a contrastive loss on them, and a queue of positive features.

Chen et al. and Pu et al., both AAAI 2022. Images that share a class should have similar features of it. With the
feature v_nc of class c in image n, every pair of images of the batch costs, for every class that is known in both,

    1 − cos(v_nc, v_mc)    both positive (n₊₊ pairs)
    1 + cos(v_nc, v_mc)    one positive and one negative, or both negative

Of each of the latter two kinds, if n₊₊ > 0, only 2·n₊₊ random pairs and the n₊₊ most costly ones are used. The loss is
the mean over all pairs in use. (The published formula also pushes pairs of two negatives apart.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from positively.finetune import Method, StepContext, TrainingContext
from positively.options import Count, NonNegative, Share

# Lower bound of norms in cosines, for a finite gradient at zero features.
_SMALLEST_NORM = 1e-6


@dataclass(frozen=True)
class ClassFeatureOptions:
    """Options common to both methods."""

    contrastive: NonNegative = 0.05
    """Weight of the contrastive loss; ramps up from 0 during the first epoch."""
    start: Share = 0.25
    """Share of the epochs after which unknown labels are used (published: from epoch 5 of 20)."""
    stored: Count = 100
    """Number of stored features of known positives per class, the most recent ones."""


class ClassFeatureMethod(Method):
    """Base class: a head with one feature per class, and the schedule of the training."""

    head = "semantic-graph"
    uses_negatives = needs_negatives = True  # with positives only, everything would become positive
    options: Any

    def setup(self, training: TrainingContext) -> None:
        """Read the size of the training and create the queue."""
        self.rows, self.epochs = len(training.table), training.epochs
        self.begin = epochs_of(self.options.start, self.epochs)
        self.width = int(training.trainable.head.last_layer.in_features)
        self.queue = FeatureQueue(len(training.table.classes), self.options.stored, self.width)

    def ramp(self, step: StepContext, batch: int) -> float:
        """Share of the first epoch that is done; 1 afterwards. ``batch`` is the total batch size."""
        return 1.0 if step.epoch else min(step.step / max(self.rows // batch, 1), 1.0)


def epochs_of(share: float, epochs: int) -> int:
    """A share of the epochs as a whole number, rounded up.

    Example:
        >>> epochs_of(0.25, 20), epochs_of(0.25, 6), epochs_of(0.1, 30)
        (5, 2, 3)
    """
    return math.ceil(round(share * epochs, 6))


def full_precision(values: Tensor) -> Tensor:
    """Convert to at least float32."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def unit_features(features: Tensor) -> Tensor:
    """Normalise features to length 1, in at least float32."""
    return normalize(full_precision(features), dim=-1, eps=_SMALLEST_NORM)


def contrastive_loss(unit: Tensor, states: Tensor, generator: np.random.Generator) -> Tensor:
    """Contrastive loss over all pairs of images, as one matrix product (B, D) × (D, B) per class.

    Args:
        unit: Unit features of the whole batch from all processes, shape (B, C, D).
        states: Label states, shape (B, C).
        generator: Draws the pairs; the same on every process.

    Returns:
        The loss, a scalar.
    """
    of_classes = unit.transpose(0, 1)
    with torch.autocast(unit.device.type, enabled=False):  # half precision would round the cosines
        cosine = of_classes @ of_classes.transpose(1, 2)
    once = torch.ones(len(states), len(states), dtype=torch.bool, device=states.device).triu(1)
    positive, negative = (states == 1).T, (states == -1).T
    mixed = positive[:, :, None] & negative[:, None]
    alike = 1 - cosine[positive[:, :, None] & positive[:, None] & once]
    apart = 1 + cosine[(mixed | mixed.transpose(1, 2)) & once]
    neither = 1 + cosine[negative[:, :, None] & negative[:, None] & once]
    taken = torch.cat([alike, _chosen(apart, len(alike), generator), _chosen(neither, len(alike), generator)])
    return taken.sum() / max(len(taken), 1)


def _chosen(losses: Tensor, positives: int, generator: np.random.Generator) -> Tensor:
    """Random pairs, twice as many as positive pairs, and the most costly ones; all pairs if none is positive."""
    if not positives:
        return losses
    drawn = generator.choice(len(losses), min(2 * positives, len(losses)), replace=False, shuffle=False)
    hardest = losses.detach().topk(min(positives, len(losses))).indices
    return torch.cat([losses[torch.from_numpy(drawn).to(losses.device)], losses[hardest]])


class FeatureQueue(nn.Module):
    """Queue of the most recent features of each class's known positives, shape (C, length, D)."""

    features: Tensor
    pushed: Tensor

    def __init__(self, classes: int, length: int, width: int) -> None:
        super().__init__()
        self.length = length
        self.register_buffer("features", torch.zeros(classes, length, width))
        self.register_buffer("pushed", torch.zeros(classes, dtype=torch.int64))

    @property
    def filled(self) -> Tensor:
        """Number of stored features per class."""
        return self.pushed.clamp(max=self.length)

    @torch.no_grad()
    def push(self, features: Tensor, states: Tensor) -> None:
        """Store the known positives among the features (B, C, D) of the whole batch, replacing the oldest."""
        positive = states == 1
        order, count = positive.cumsum(0), positive.sum(0)
        image, label = (positive & (order > count - self.length)).nonzero(as_tuple=True)
        slot = (self.pushed[label] + order[image, label] - 1) % self.length
        self.features[label, slot] = features[image, label].to(self.features.dtype)
        self.pushed += count
