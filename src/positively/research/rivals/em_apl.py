"""Entropy maximisation with asymmetric pseudo-labels (EM + APL, Zhou et al., ECCV 2022).

Known positives cost −log p, unknown labels −α H(p). In the second half of the training, after every epoch, the unknown
labels with the lowest scores of each class (so many that 90 % have one at the end) get a permanent pseudo-label: their
current probability, learned with β × binary cross-entropy. Only low scores are labelled, because few of them are wrong.

Both methods start from random weights. From a start where all images have the same logits, the positives would only
teach to raise them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from positively.finetune import LossMethod, Method, StepContext, TrainingContext
from positively.losses import ClassReduction, batch_mean, check_inputs, em, entropy, reduce_classes
from positively.options import NonNegative, Share, options_of


@dataclass(frozen=True)
class EMOptions:
    """Weights of the terms, and the start of pseudo-labels."""

    alpha: NonNegative = 0.1
    """α, weight of the entropy (authors: COCO 0.1, VOC 0.2)."""
    beta: NonNegative = 0.9
    """β, weight of the pseudo-labels (authors: COCO 0.9, VOC 0.02)."""
    share: Share = 0.9
    """Share of the unknown labels with a pseudo-label at the end."""
    warmup: Share = 0.5
    """Share of the training without pseudo-labels."""
    class_reduction: ClassReduction = "sum"
    """Sum over the classes, or mean."""


class EMMethod(LossMethod):
    """Entropy maximisation (EM): cross-entropy on known positives, maximal entropy on all other labels."""

    loss_name = "em"
    Options = options_of(em)
    start = "default"


class EMAPL(Method):
    """EM with asymmetric pseudo-labels (EM + APL): unknown labels with low scores also get pseudo-labels."""

    Options = EMOptions
    start = "default"
    pseudo: Tensor
    """Probability as pseudo-label, or −1, shape (N, C)."""

    def setup(self, training: TrainingContext) -> None:
        """Start without pseudo-labels."""
        table = training.table
        self.register_buffer("pseudo", torch.full((len(table), len(table.classes)), -1.0))

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Loss of known positives, pseudo-labels and entropy."""
        options = self.options
        logits, states = check_inputs(network(inputs), states)
        given = self.pseudo[step.rows].to(logits.dtype)
        taught = options.beta * binary_cross_entropy_with_logits(logits, given.clamp_min(0), reduction="none")
        losses = taught.where(given >= 0, -options.alpha * entropy(logits))
        losses = softplus(-logits).where(states == 1, losses)
        return {"loss": reduce_classes(batch_mean(losses, "global"), options.class_reduction)}

    def on_epoch_end(self, training: TrainingContext) -> None:
        """Give pseudo-labels to the lowest remaining scores of each class."""
        begin, done = max(1, round(self.options.warmup * training.epochs)), training.epoch + 1
        if done < begin or done >= training.epochs:  # labels of the last epoch would not be used
            return
        progress = (done - begin + 1) / (training.epochs - begin)
        scores = torch.from_numpy(training.score()).to(self.pseudo).sigmoid()
        is_unknown = torch.from_numpy(training.table.states() != 1).to(self.pseudo.device)
        is_given = is_unknown & (self.pseudo >= 0)
        more = (is_unknown.sum(0) * self.options.share * progress).long() - is_given.sum(0)
        left = is_unknown & ~is_given
        ranks = scores.masked_fill(~left, torch.inf).argsort(dim=0, stable=True).argsort(dim=0)
        self.pseudo.copy_(scores.where(left & (ranks < more), self.pseudo))
