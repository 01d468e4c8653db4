"""Curriculum labelling (CL): the model labels unknown labels and is then trained on known and pseudo-labels.

Durand et al., CVPR 2019. Training starts with binary cross-entropy over the known labels, y ∈ {+1, −1},

    L = Σ softplus(−y s) / #(labels in use).

Then, in a few rounds, unknown labels get the sign of the model's score where the model is confident, by one of three
strategies: ``score`` |s| > θ; ``proportion`` in round r of R, for each class, the share ρ r/R of its unknown labels
with the highest |s|; ``uncertainty`` the standard deviation of the probability over T passes with dropout is below δ,
and the sign is that of its mean − ½. A round replaces the pseudo-labels of the previous one; known labels are never
replaced.

Our choices: one training continues through all rounds (published: a new training per round); θ, ρ, δ, T and the
schedule. Dropout is applied to the embedding, with one mask for the whole batch, so that a pass is one sub-network. Its
statistics are collected in the steps of the epoch before a round, and cost T passes of the head only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from positively.finetune import Method, StepContext, TrainingContext
from positively.losses import ClassReduction, bce
from positively.options import Count, Decay, Positive, Share


@dataclass(frozen=True)
class CurriculumOptions:
    """Options for which labels are completed, and when."""

    strategy: Literal["score", "proportion", "uncertainty"] = "uncertainty"
    """Confidence by score, by rank within a class, or by spread under dropout (the best one according to the
    authors)."""
    warmup: Share = 0.25
    """Share of the epochs with known labels only (at least one epoch)."""
    every: Share = 0.25
    """Share of the epochs between two rounds (at least one epoch)."""
    threshold: Positive = 2.0
    """θ of "score": absolute logit from which an unknown label is completed."""
    proportion: Share = 0.8
    """ρ of "proportion": share of the unknown labels of a class that are completed in the last round."""
    deviation: Positive = 0.1
    """δ of "uncertainty": standard deviation of the probability up to which an unknown label is completed."""
    dropout: Decay = 0.2
    """Dropout rate of the embedding, in training and in the passes; only for "uncertainty"."""
    passes: Count = 10
    """T, number of passes of the head with dropout; only for "uncertainty"."""
    class_reduction: ClassReduction = "sum"
    """Sum over the classes, or mean."""


class CurriculumLabelling(Method):
    """Curriculum labelling (CL): completes unknown labels where the model is confident, in several rounds."""

    Options = CurriculumOptions
    uses_negatives = needs_negatives = True  # with positives only, everything would become positive
    pseudo: Tensor
    coming: Tensor

    def setup(self, training: TrainingContext) -> None:
        """Plan the rounds; there are no pseudo-labels yet."""
        table, options = training.table, self.options
        first, gap = (max(1, round(share * training.epochs)) for share in (options.warmup, options.every))
        self.rounds = range(first, training.epochs, gap)
        """Epochs (from 1) after which labels are completed; not after the last one, as they would not be used."""
        for name in ("pseudo", "coming"):  # labels in use, and labels of the next round
            self.register_buffer(name, torch.zeros(len(table), len(table.classes), dtype=torch.int8))

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Train on known and pseudo-labels."""
        targets = torch.where(states == 0, self.pseudo[step.rows].to(states.dtype), states)
        by_dropout = self.options.strategy == "uncertainty"
        logits = self._with_dropout(network, inputs, states, step) if by_dropout else network(inputs)
        return {"loss": bce(logits, targets, class_reduction=self.options.class_reduction)}

    def _with_dropout(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> Tensor:
        """Logits of one sub-network; before a round, also collect the labels that many sub-networks agree on."""
        options, embedding = self.options, network.forward_features(inputs)
        if step.epoch + 1 in self.rounds:
            masks = dropout_masks(step.generator("passes"), options.passes, embedding, options.dropout)
            mean, deviation = spread(network.forward_head, embedding.detach(), masks)
            labels = _signs(mean - 0.5) * ((deviation < options.deviation) & (states == 0))
            self.coming[step.gather(step.rows)] = step.gather(labels.to(torch.int8))
        mask = dropout_masks(step.generator("mask"), 1, embedding, options.dropout)[0]
        logits: Tensor = network.forward_head(embedding * mask)
        return logits

    def on_epoch_end(self, training: TrainingContext) -> None:
        """After the epochs of a round, set pseudo-labels from the collected labels or from the training scores."""
        done, options = training.epoch + 1, self.options
        if done not in self.rounds:
            return
        if options.strategy == "uncertainty":
            self.pseudo.copy_(self.coming)
            self.coming.zero_()
            return
        scores = torch.from_numpy(training.score())
        unknown = torch.from_numpy(training.table.states() == 0)
        if options.strategy == "score":
            chosen = unknown & (scores.abs() > options.threshold)
        else:
            share = options.proportion * (self.rounds.index(done) + 1) / len(self.rounds)
            chosen = surest(scores, unknown, share)
        self.pseudo.copy_(_signs(scores) * chosen)


def _signs(values: Tensor) -> Tensor:
    return (values >= 0).to(torch.int8) * 2 - 1


def surest(scores: Tensor, unknown: Tensor, share: float) -> Tensor:
    """Select the ⌊share × unknown labels⌋ labels of each class with the highest absolute score, shape (N, C)."""
    order = scores.abs().masked_fill(~unknown, -1.0).argsort(dim=0, descending=True, stable=True)
    counts = (unknown.sum(0) * share).floor()
    is_among = torch.arange(len(scores))[:, None] < counts
    return torch.zeros_like(unknown).scatter_(0, order, is_among)


def dropout_masks(generator: np.random.Generator, count: int, embedding: Tensor, share: float) -> Tensor:
    """Dropout factors 0 or 1 / (1 − share), ``count`` masks for a row of the embedding, shared by all images."""
    stays = generator.random((count, *embedding.shape[1:])) >= share
    return torch.from_numpy(stays / (1 - share)).to(embedding)


@torch.no_grad()
def spread(classify: Callable[[Tensor], Tensor], embedding: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the probabilities of a head over the masks, each of shape (B, C)."""
    logits = torch.stack([classify(embedding * mask) for mask in masks])
    probabilities = logits.to(torch.promote_types(logits.dtype, torch.float32)).sigmoid()
    return probabilities.mean(0), probabilities.std(0, correction=0)
