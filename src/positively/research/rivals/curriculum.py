"""Curriculum labelling (CL): the model labels what is unknown, and learns on from known and pseudo-labels.

Durand et al., CVPR 2019. Training begins with binary cross-entropy over the known labels, y ∈ {+1, −1},

    L = Σ softplus(−y s) / #(labels in use).

Then, in a few rounds, unknown labels get the sign of the model's score where it is sure, by one of three strategies:
``score`` |s| > θ; ``proportion`` in round r of R, for each class, the share ρ r/R of its unknown labels with the
highest |s|; ``uncertainty`` the probability's standard deviation over T passes with dropout is below δ, and the sign is
that of its mean − ½. A round replaces the pseudo-labels of the one before; a known label is never replaced.

Ours: one training goes on through all rounds (published: trained anew); θ, ρ, δ, T and the schedule. Dropout is on what
the head classifies, with one mask for the whole batch, so that a pass is one sub-network; its statistics are taken in
the steps of the epoch before a round, by the weights of the step, and cost T passes of the head alone.
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
    """Which labels are completed, and when."""

    strategy: Literal["score", "proportion", "uncertainty"] = "uncertainty"
    """How sure the model must be: by its score, by rank within a class, or by its spread under dropout (the authors'
    best)."""
    warmup: Share = 0.25
    """Share of the planned epochs that learns from known labels alone (at least one epoch)."""
    every: Share = 0.25
    """Share of the planned epochs between two rounds of labelling (at least one epoch)."""
    threshold: Positive = 2.0
    """θ of "score": the absolute logit from which on an unknown label is completed."""
    proportion: Share = 0.8
    """ρ of "proportion": the share of a class's unknown labels that is completed in the last round."""
    deviation: Positive = 0.1
    """δ of "uncertainty": the standard deviation of the probability up to which an unknown label is completed."""
    dropout: Decay = 0.2
    """Share of the embedding that is dropped, in training and in the passes; only for "uncertainty"."""
    passes: Count = 10
    """T, passes of the head with dropout; only for "uncertainty"."""
    class_reduction: ClassReduction = "sum"
    """Sum over the classes, or their mean."""


class CurriculumLabelling(Method):
    """CL."""

    Options = CurriculumOptions
    uses_negatives = needs_negatives = True  # from positives alone it would call everything positive
    pseudo: Tensor
    coming: Tensor

    def setup(self, training: TrainingContext) -> None:
        """Plan the rounds; nothing is labelled yet."""
        table, options = training.table, self.options
        first, gap = (max(1, round(share * training.epochs)) for share in (options.warmup, options.every))
        self.rounds = range(first, training.epochs, gap)
        """Epochs after which labels are completed, counted from 1; after the last epoch nobody would learn them."""
        for name in ("pseudo", "coming"):  # the labels in use, and those of the next round as the steps find them
            self.register_buffer(name, torch.zeros(len(table), len(table.classes), dtype=torch.int8))

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Learn from known and pseudo-labels."""
        targets = torch.where(states == 0, self.pseudo[step.rows].to(states.dtype), states)
        by_dropout = self.options.strategy == "uncertainty"
        logits = self._with_dropout(network, inputs, states, step) if by_dropout else network(inputs)
        return {"loss": bce(logits, targets, class_reduction=self.options.class_reduction)}

    def _with_dropout(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> Tensor:
        """Logits of one sub-network; before a round, also what many of them agree on, as the labels to come."""
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
        """After the epochs of a round, label: by what its steps found, or by the scores of the training set."""
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
    """Which ⌊share × unknown labels of a class⌋ have the highest absolute score: N×C; of equals the first."""
    order = scores.abs().masked_fill(~unknown, -1.0).argsort(dim=0, descending=True, stable=True)
    counts = (unknown.sum(0) * share).floor()
    is_among = torch.arange(len(scores))[:, None] < counts
    return torch.zeros_like(unknown).scatter_(0, order, is_among)


def dropout_masks(generator: np.random.Generator, count: int, embedding: Tensor, share: float) -> Tensor:
    """Factors 0 or 1 / (1 − share), ``count`` of them for one row of the embedding: every image has the same."""
    stays = generator.random((count, *embedding.shape[1:])) >= share
    return torch.from_numpy(stays / (1 - share)).to(embedding)


@torch.no_grad()
def spread(classify: Callable[[Tensor], Tensor], embedding: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation, over the masks, of the probabilities of a head: B×C and B×C."""
    logits = torch.stack([classify(embedding * mask) for mask in masks])
    probabilities = logits.to(torch.promote_types(logits.dtype, torch.float32)).sigmoid()
    return probabilities.mean(0), probabilities.std(0, correction=0)
