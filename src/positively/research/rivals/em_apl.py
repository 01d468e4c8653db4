"""Entropy maximisation with asymmetric pseudo-labels (EM + APL, Zhou et al., ECCV 2022).

Known positives cost −log p, unknown labels −α H(p). Past the middle of the training, after every epoch, the unknown
labels with the lowest scores of each class (so many that nine tenths of them have their turn by the end) get a
pseudo-label for good: the probability they have now, learned by β × binary cross-entropy. Only what looks negative is
labelled so, for among low scores there is hardly a mistake to make.

Both begin with random weights: where every image has the same logits, all that the positives teach is to raise them.
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
    """Weights of the parts, and when pseudo-labels begin."""

    alpha: NonNegative = 0.1
    """α, the weight of the entropy (the authors: COCO 0.1, VOC 0.2)."""
    beta: NonNegative = 0.9
    """β, the weight of the pseudo-labels (the authors: COCO 0.9, VOC 0.02)."""
    share: Share = 0.9
    """Share of the unknown labels that has a pseudo-label at the end."""
    warmup: Share = 0.5
    """Share of the training without pseudo-labels."""
    class_reduction: ClassReduction = "sum"
    """Sum over the classes, or their mean."""


class EMMethod(LossMethod):
    """EM alone."""

    loss_name = "em"
    Options = options_of(em)
    start = "default"


class EMAPL(Method):
    """EM + APL; a known negative is an unknown label here."""

    Options = EMOptions
    start = "default"
    pseudo: Tensor
    """N×C: the probability that a label was given, or −1."""

    def setup(self, training: TrainingContext) -> None:
        """No label has a pseudo-label yet."""
        table = training.table
        self.register_buffer("pseudo", torch.full((len(table), len(table.classes)), -1.0))

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Known positives, pseudo-labels and entropy."""
        options = self.options
        logits, states = check_inputs(network(inputs), states)
        given = self.pseudo[step.rows].to(logits.dtype)
        taught = options.beta * binary_cross_entropy_with_logits(logits, given.clamp_min(0), reduction="none")
        losses = taught.where(given >= 0, -options.alpha * entropy(logits))
        losses = softplus(-logits).where(states == 1, losses)
        return {"loss": reduce_classes(batch_mean(losses, "global"), options.class_reduction)}

    def on_epoch_end(self, training: TrainingContext) -> None:
        """Give the lowest of what is still unknown a pseudo-label, class by class."""
        begin, done = max(1, round(self.options.warmup * training.epochs)), training.epoch + 1
        if done < begin or done >= training.epochs:  # after the last epoch nobody would learn them
            return
        progress = (done - begin + 1) / (training.epochs - begin)
        scores = torch.from_numpy(training.score()).to(self.pseudo).sigmoid()
        is_unknown = torch.from_numpy(training.table.states() != 1).to(self.pseudo.device)
        is_given = is_unknown & (self.pseudo >= 0)
        more = (is_unknown.sum(0) * self.options.share * progress).long() - is_given.sum(0)
        left = is_unknown & ~is_given
        ranks = scores.masked_fill(~left, torch.inf).argsort(dim=0, stable=True).argsort(dim=0)
        self.pseudo.copy_(scores.where(left & (ranks < more), self.pseudo))
