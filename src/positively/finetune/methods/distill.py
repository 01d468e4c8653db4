"""The closed form teaches the network: what ``auto`` is where more than a head learns from pretrained weights."""

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
    """How the teacher's targets are learned."""

    blend: Literal["mixup", "logic", "none"] = "mixup"
    """Pairs of images are learned from: 'mixup' blends both images and targets by one share, 'logic' (LogicMix) takes
    the mean of two images and the probability that either of them carries a tag, 'none' takes images as they are."""
    mixup_beta: Positive = 0.3
    """Both parameters of the Beta distribution of mixup's share."""
    negatives: bool = True
    """Use known negatives, where there are any."""


class Distill(Method):
    """The closed form is solved on the features the network begins with; the network then learns its soft targets.

    A known tag is 1, a known negative 0, and an unknown label the probability that it is missing, by scores that did
    not see it (`positively.calibration.Calibration.soft_targets`). A linear head starts as the teacher's own.
    """

    Options = DistillOptions
    depths = ("tail", "finetune")
    targets: Tensor

    @property
    def uses_negatives(self) -> bool:
        """They are targets of 0."""
        return bool(self.options.negatives)

    @classmethod
    def learning(cls, depth: Depth) -> Mapping[str, Any]:
        """What the network begins with is good: small steps, few of them, and none that do not help."""
        return {"epochs": 3, "lr": 1e-4, "patience": 1} if depth == "tail" else {"patience": 3}

    def setup(self, training: TrainingContext) -> None:
        """Solve the closed form on the network as it is; a linear head starts as the teacher's own."""
        teacher = find_teacher(training, self.options.negatives)
        if teacher.linear is not None:
            fill_linear(training.trainable.head.linear, teacher.linear)
        # In half precision they would round differently on one process and on two.
        self.register_buffer("targets", torch.from_numpy(teacher.targets).to(training.device))

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Cross-entropy with the targets, of blended pairs: neighbours in the batch, whose order is random."""
        targets = self.targets[step.rows]
        if self.options.blend != "none" and len(inputs) > 1:
            images = inputs.float() / 255 if inputs.dtype == torch.uint8 else inputs
            # Pairs (0, 1), (2, 3) … both ways round: they stay on one process, however many there are.
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
