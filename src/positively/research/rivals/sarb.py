"""SARB: features of unknown labels are blended with known positives of other images and trained with soft labels.

Pu et al., AAAI 2022. v_nc is the feature of class c in image n (head semantic-graph). The loss of a step is

    BCE(known) + 0.05·contrastive(v)                    ... from the first step on; the latter ramps up in the first
    epoch + BCE(instance-blended) + BCE(prototype-blended)    ... after a quarter of the training

where m is the image opposite to n (the batch in reverse order), p a random one of ten prototypes of class c, and

    instance:   v_nc ← α v_nc + (1 − α) v_mc,  label 1 − α    wherever (n, c) is unknown and (m, c) is a known positive
    prototype:  v_nc ← β v_nc + (1 − β) p,     label 1 − β    for one random unknown c of each image

A soft label y costs −y log σ(s) − (1 − y) log(1 − σ(s)). Other labels are unchanged, unknown labels are ignored, and
the mean is over the remaining labels. α and β start at 0.5 and are trained, through features and labels, within [0, 1].

Prototypes are K-means centres of features of known positives, updated every quarter of the training. Our choices: the
features are the most recent ones, stored in the steps (published: a second pass over all images); epochs are shares of
the training; partners come from the whole batch of all processes, with gradient; prototypes are blended only into
classes that have some, and images without such a class are unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from positively.distributed import gather_rows_with_gradient, own_rows
from positively.finetune import StepContext, TrainingContext
from positively.losses import known_mean
from positively.options import Count, Share
from positively.research.rivals.class_features import (
    ClassFeatureMethod,
    ClassFeatureOptions,
    contrastive_loss,
    epochs_of,
    full_precision,
    unit_features,
)
from positively.research.rivals.kmeans import cluster_centres

Blend = tuple[Tensor, Tensor]
"""Features (B, C, D) and their labels (B, C): −1, 0 (unknown), or above 0 and up to 1."""


@dataclass(frozen=True)
class SARBOptions(ClassFeatureOptions):
    """Options of the blending."""

    instance: bool = True
    """Whether to blend unknown labels with known positives of other images."""
    prototype: bool = True
    """Whether to blend unknown labels with prototypes."""
    prototypes: Count = 10
    """Number of prototypes per class."""
    renewal: Share = 0.25
    """Share of the epochs between updates of the prototypes (published: every 5 of 20)."""


class SARBMethod(ClassFeatureMethod):
    """SARB: blends class features of unknown labels with known positives and prototypes, with soft labels."""

    Options = SARBOptions
    prototypes: Tensor
    has_prototypes: Tensor

    def setup(self, training: TrainingContext) -> None:
        """Create blending weights, queue and prototypes."""
        super().setup(training)
        classes = len(training.table.classes)
        self.alpha, self.beta = (nn.Parameter(torch.tensor(0.5)) for _ in range(2))
        self.register_buffer("prototypes", torch.zeros(classes, self.options.prototypes, self.width))
        self.register_buffer("has_prototypes", torch.zeros(classes, dtype=torch.bool))

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Train on known labels and the contrastive loss, later also on blends, in one pass of the head."""
        options = self.options
        features = full_precision(network.forward_features(inputs))
        everyone, known = gather_rows_with_gradient(features), step.gather(states)
        blends = {"known": (features, states.to(features.dtype))}
        if step.epoch >= self.begin:
            with torch.no_grad():
                self.alpha.clamp_(0, 1)
                self.beta.clamp_(0, 1)
            place, _ = own_rows(len(states))
            if options.instance:
                blends["instance"] = self._with_partners(
                    features, states, everyone.flip(0)[place], known.flip(0)[place]
                )
            if options.prototype:
                self._renew(step)
                blends["prototype"] = self._with_prototypes(features, states, place, len(known), step)
        if options.prototype:
            self.queue.push(everyone, known)
        logits = network.forward_head(torch.cat([blended for blended, _ in blends.values()])).split(len(states))
        parts = {
            name: soft_bce(full_precision(scores), labels)
            for (name, (_, labels)), scores in zip(blends.items(), logits, strict=True)
        }
        contrastive = contrastive_loss(unit_features(everyone), known, step.generator("contrastive"))
        return {**parts, "contrastive": self.ramp(step, len(known)) * options.contrastive * contrastive}

    def _renew(self, step: StepContext) -> None:
        """Update the prototypes in the first step of an epoch that is due."""
        interval = max(epochs_of(self.options.renewal, self.epochs), 1)
        if step.step or (step.epoch - self.begin) % interval:
            return
        filled, count = self.queue.filled, self.options.prototypes
        self.prototypes.copy_(cluster_centres(self.queue.features, filled, count, step.generator("k-means")))
        self.has_prototypes.copy_(filled > 0)

    def _with_partners(self, features: Tensor, states: Tensor, partners: Tensor, partner_states: Tensor) -> Blend:
        chosen = ((states == 0) & (partner_states == 1)).nonzero(as_tuple=True)
        return blend(features, states, chosen, partners[chosen], self.alpha)

    def _with_prototypes(self, features: Tensor, states: Tensor, place: slice, total: int, step: StepContext) -> Blend:
        """Blend with prototypes. Random draws are for the whole batch, of which this process uses its part."""
        generator, device = step.generator("prototypes"), states.device
        scores = torch.from_numpy(generator.random((total, states.shape[1]))[place]).to(device, torch.float32)
        drawn = torch.from_numpy(generator.integers(self.options.prototypes, size=total)[place]).to(device)
        can_change = (states == 0) & self.has_prototypes
        image = can_change.any(1).nonzero()[:, 0]
        label = scores.masked_fill(~can_change, -1).argmax(1)[image]
        return blend(features, states, (image, label), self.prototypes[label, drawn[image]], self.beta)


def blend(features: Tensor, states: Tensor, chosen: tuple[Tensor, ...], others: Tensor, share: Tensor) -> Blend:
    """Blend the features of chosen (image, class) pairs with others; ``share`` is the weight of the original."""
    mixed = share * features[chosen] + (1 - share) * others
    labels = states.to(features.dtype).index_put(chosen, (1 - share).to(features.dtype).expand(len(mixed)))
    return features.index_put(chosen, mixed.to(features.dtype)), labels


def soft_bce(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean binary cross-entropy over labels other than 0: −1 is negative, above 0 a soft positive."""
    return known_mean(softplus(logits) - labels.clamp_min(0) * logits, labels != 0, "mean", "global")
