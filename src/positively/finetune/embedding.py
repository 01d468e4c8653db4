"""Pooled embeddings: the input of a head."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from positively.models import Trainable

Pool = Callable[[Tensor], Tensor]


class Embedding(nn.Module):
    """Module that maps inputs to pooled feature maps."""

    def __init__(self, trainable: Trainable, pool: Pool) -> None:
        super().__init__()
        self.trainable, self.pool = trainable, pool

    def forward(self, inputs: Tensor) -> Tensor:
        """Pooled embeddings, shape (B, …)."""
        return self.pool(self.trainable.feature_map(as_weights(inputs, self.trainable)))


def as_weights(inputs: Tensor, trainable: Trainable) -> Tensor:
    """Convert stored feature maps to the precision of the weights, as Fabric does; uint8 pixels are kept."""
    kind = next(trainable.parameters()).dtype
    return inputs.to(kind) if inputs.is_floating_point() and kind == torch.float64 else inputs
