"""What SST and SARB share: one feature a class, a contrastive loss over them, and a queue of the positives' features.

Chen et al. and Pu et al., both AAAI 2022. Images that have a class should have alike features of it. With v_nc the
feature of class c in image n, every pair of images of the batch and every class of which both know the label cost

    1 − cos(v_nc, v_mc)    both positive (n₊₊ of them)
    1 + cos(v_nc, v_mc)    one positive and one negative, or both negative

and of each of the two latter kinds, where n₊₊ > 0, only 2·n₊₊ drawn at random and the n₊₊ that cost most are taken. The
loss is the mean over all that is taken. (The published formula has both negative among those to be pushed apart.)
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

# Cosines divide by norms: a feature of zeros has a finite slope.
_SMALLEST_NORM = 1e-6


@dataclass(frozen=True)
class ClassFeatureOptions:
    """What both methods can be told."""

    contrastive: NonNegative = 0.05
    """Weight of the contrastive loss; it grows from 0 over the steps of the first epoch."""
    start: Share = 0.25
    """Share of the planned epochs after which unknown labels are worked on (published: from epoch 5 of 20)."""
    stored: Count = 100
    """How many features of known positives are stored for each class, the most recent ones."""


class ClassFeatureMethod(Method):
    """Base of both: the head that gives a feature a class, and the course of the training."""

    head = "semantic-graph"
    uses_negatives = needs_negatives = True  # from positives alone everything would become positive
    options: Any

    def setup(self, training: TrainingContext) -> None:
        """Look at the size of the training, and make the queue."""
        self.rows, self.epochs = len(training.table), training.epochs
        self.begin = epochs_of(self.options.start, self.epochs)
        self.width = int(training.trainable.head.last_layer.in_features)
        self.queue = FeatureQueue(len(training.table.classes), self.options.stored, self.width)

    def ramp(self, step: StepContext, batch: int) -> float:
        """Share of the first epoch's steps that are over; 1 after it. ``batch`` is the size of the whole batch."""
        return 1.0 if step.epoch else min(step.step / max(self.rows // batch, 1), 1.0)


def epochs_of(share: float, epochs: int) -> int:
    """A share of the planned epochs as a whole number, rounded up.

    >>> epochs_of(0.25, 20), epochs_of(0.25, 6), epochs_of(0.1, 30)
    (5, 2, 3)
    """
    return math.ceil(round(share * epochs, 6))


def full_precision(values: Tensor) -> Tensor:
    """In float32, or better if they are."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def unit_features(features: Tensor) -> Tensor:
    """Features of length 1, in float32 at least."""
    return normalize(full_precision(features), dim=-1, eps=_SMALLEST_NORM)


def contrastive_loss(unit: Tensor, states: Tensor, generator: np.random.Generator) -> Tensor:
    """The loss above over all pairs of images, without loops: one product B×D by D×B a class.

    Args:
        unit: B×C×D features of length 1 of the whole batch, whichever process they come from.
        states: B×C label states.
        generator: Draws the pairs; the same on every process.
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
    """Twice as many as there are positive pairs by chance, and as many by their size; all if there is no such pair."""
    if not positives:
        return losses
    drawn = generator.choice(len(losses), min(2 * positives, len(losses)), replace=False, shuffle=False)
    hardest = losses.detach().topk(min(positives, len(losses))).indices
    return torch.cat([losses[torch.from_numpy(drawn).to(losses.device)], losses[hardest]])


class FeatureQueue(nn.Module):
    """The most recent features of each class's known positives: C×length×D, of which the first are filled."""

    features: Tensor
    pushed: Tensor

    def __init__(self, classes: int, length: int, width: int) -> None:
        super().__init__()
        self.length = length
        self.register_buffer("features", torch.zeros(classes, length, width))
        self.register_buffer("pushed", torch.zeros(classes, dtype=torch.int64))

    @property
    def filled(self) -> Tensor:
        """How many features each class has."""
        return self.pushed.clamp(max=self.length)

    @torch.no_grad()
    def push(self, features: Tensor, states: Tensor) -> None:
        """Store the known positives among B×C×D features of the whole batch, in its order, over the oldest."""
        positive = states == 1
        order, count = positive.cumsum(0), positive.sum(0)
        image, label = (positive & (order > count - self.length)).nonzero(as_tuple=True)
        slot = (self.pushed[label] + order[image, label] - 1) % self.length
        self.features[label, slot] = features[image, label].to(self.features.dtype)
        self.pushed += count
