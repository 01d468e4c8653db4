"""Distillation: a probe teaches the network. Used by ``auto`` where more than a head is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from positively.finetune.methods.base import Method, StepContext, TrainingContext
from positively.finetune.teacher import find_teacher
from positively.losses.statistics import batch_mean
from positively.models import Depth
from positively.models.heads.fitted import fill_linear
from positively.options import Positive


@dataclass(frozen=True)
class DistillOptions:
    """Options of distillation."""

    blend: Literal["mixup", "logic", "none"] = "mixup"
    """How pairs of images are blended: 'mixup' mixes images and targets with one weight, 'logic' (LogicMix) averages
    two images and uses the probability that either has the tag, 'none' uses single images."""
    mixup_beta: Positive = 0.3
    """Both parameters of the Beta distribution of the mixup weight."""
    negatives: bool = True
    """Whether to use known negatives."""


class Distill(Method):
    """Fits a probe on the pretrained network, then trains the network on the probe's probabilities as soft targets.

    The target is 1 for a known positive, 0 for a known negative, and the out-of-sample probability of a missing tag
    otherwise (`positively.calibration.Calibration.soft_targets`). A linear head starts from the solution of the probe.
    """

    Options = DistillOptions
    depths = ("tail", "finetune")
    targets: Tensor

    @property
    def uses_negatives(self) -> bool:
        """Known negatives have the target 0."""
        return bool(self.options.negatives)

    @classmethod
    def learning(cls, depth: Depth) -> Mapping[str, Any]:
        """Small learning rate, few epochs and early stopping, because the start is already good."""
        return {"epochs": 3, "lr": 1e-4, "patience": 1} if depth == "tail" else {"patience": 3}

    def setup(self, training: TrainingContext) -> None:
        """Fit the probe on the original network and initialise a linear head with it."""
        teacher = find_teacher(training, self.options.negatives)
        if teacher.linear is not None:
            fill_linear(training.trainable.head.linear, teacher.linear)
        # In full precision, because half precision would round differently on one process and on two.
        self.register_buffer("targets", torch.from_numpy(teacher.targets).to(training.device))

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Cross-entropy with soft targets on blended pairs, which are neighbours in the shuffled batch."""
        targets = self.targets[step.rows]
        if self.options.blend != "none" and len(inputs) > 1:
            images = inputs.float() / 255 if inputs.dtype == torch.uint8 else inputs
            # Pairs (0, 1), (2, 3), … in both directions, so that pairs stay on one process.
            other = (torch.arange(len(images), device=images.device) ^ 1).clamp_max(len(images) - 1)
            if self.options.blend == "mixup":
                share = float(step.generator("mix").beta(self.options.mixup_beta, self.options.mixup_beta))
                inputs = share * images + (1 - share) * images[other]
                targets = share * targets + (1 - share) * targets[other]
            else:
                inputs = (images + images[other]) / 2
                targets = 1 - (1 - targets) * (1 - targets[other])
        loss = binary_cross_entropy_with_logits(network(inputs).float(), targets, reduction="none")
        return {"distillation": batch_mean(loss, "global").sum()}
