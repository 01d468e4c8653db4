"""PU-MLC as a whole: the variational loss and the mixup consistency term (equation 8 of the paper)."""

from typing import Any

import torch
from torch import Tensor, nn

from positively.losses import PUMLC, adaptive_temperature, mixup_consistency, mixup_targets
from positively.methods.base import Method, StepContext


class VariationalMethod(Method):
    """PU-MLC and vPU: variational loss + ``mixup`` × consistency on blended pairs.

    Pairs are neighbours in the batch. The batch's order is random already, so this is the reference's pairing of two
    shuffled halves; but it keeps pairs on one process and independent of how many there are. The blended images go
    through the network together with the plain ones, in one pass: the blend needs the images only, and the targets come
    out of the same pass.

    Args:
        loss: "pu-mlc" or "vpu".
        mixup: λ of equation 8, the weight of the consistency term; 0 turns it off (and saves a third of the work).
        mixup_beta: Both parameters of the Beta distribution of the blend's share.
        **options: Those of the loss.
    """

    def __init__(self, loss: str, mixup: float = 1.0, mixup_beta: float = 0.3, **options: Any) -> None:
        super().__init__(loss, **options)
        self.mixup, self.mixup_beta = mixup, mixup_beta

    def training_step(self, network: nn.Module, inputs: Tensor, states: Tensor, draw: StepContext) -> dict[str, Tensor]:
        """Variational and consistency part of one step."""
        if not self.mixup:
            return {"variational": self.loss(network(inputs), states)}
        pairs = len(inputs) // 2
        share = float(draw.generator().beta(self.mixup_beta, self.mixup_beta))
        pixels = inputs.float() / 255 if inputs.dtype == torch.uint8 else inputs
        first, second = pixels[0 : 2 * pairs : 2], pixels[1 : 2 * pairs : 2]
        logits = network(torch.cat([pixels, share * first + (1 - share) * second]))
        plain, mixed = logits[: len(inputs)], logits[len(inputs) :]
        targets = mixup_targets(plain, states)
        consistency = mixup_consistency(
            mixed,
            targets[0 : 2 * pairs : 2],
            targets[1 : 2 * pairs : 2],
            share,
            **{name: value for name, value in self.loss.given().items() if name in ("class_reduction", "statistics")},
        )
        return {"variational": self.loss(plain, states), "consistency": self.mixup * consistency}

    def validation_metrics(self, logits: Tensor) -> dict[str, float]:
        """Mean spread of the classes' logits and, where the temperature adapts, its mean over the classes."""
        given = self.loss.given()
        seen = super().validation_metrics(logits)
        if isinstance(self.loss, PUMLC) and given.get("tau") is None:
            options = {name: given[name] for name in ("alpha", "tau_min", "std") if name in given}
            seen["tau"] = adaptive_temperature(logits, statistics="local", **options).mean().item()
        return seen
