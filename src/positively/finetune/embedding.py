"""What a head classifies: the pooled feature map of the trainable part of a network."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from positively.models import Trainable

Pool = Callable[[Tensor], Tensor]


class Embedding(nn.Module):
    """Inputs → the feature map, pooled."""

    def __init__(self, trainable: Trainable, pool: Pool) -> None:
        super().__init__()
        self.trainable, self.pool = trainable, pool

    def forward(self, inputs: Tensor) -> Tensor:
        """Pooled features B×…."""
        return self.pool(self.trainable.feature_map(as_weights(inputs, self.trainable)))


def as_weights(inputs: Tensor, trainable: Trainable) -> Tensor:
    """Stored maps in the precision of the weights, as fabric's own module gives them; pixels stay bytes."""
    kind = next(trainable.parameters()).dtype
    return inputs.to(kind) if inputs.is_floating_point() and kind == torch.float64 else inputs
