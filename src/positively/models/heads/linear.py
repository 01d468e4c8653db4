"""The plain head: pool the map, then one linear layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from positively.errors import ConfigError
from positively.models.heads.base import Head, Pooling, Start

# Known positives undercount a class and may be none at all; no class starts above even odds.
LOWEST_FREQUENCY, HIGHEST_FREQUENCY = 1e-4, 0.5


class LinearHead(Head):
    """Feature map → logits, by pooling over positions and a linear layer.

    Shapes: input B×C×H×W, or B×C features that were pooled before and kept on disk; output B×classes.

    >>> head = LinearHead(channels=8, classes=3, pooling="max")
    >>> head(torch.zeros(2, 8, 7, 7)).shape, head(torch.zeros(2, 8)).shape
    (torch.Size([2, 3]), torch.Size([2, 3]))
    """

    def __init__(self, channels: int, classes: int, pooling: Pooling = "average") -> None:
        super().__init__()
        if pooling not in ("average", "max", "mix"):
            raise ConfigError(f"Pooling is 'average', 'max' or 'mix', not {pooling!r}.")
        if classes < 1:
            raise ConfigError(f"A classifier needs at least one class, not {classes}.")
        self.pooling = pooling
        self.linear = nn.Linear(channels, classes)
        self.start("usual")

    @property
    def keeps(self) -> str:
        """Features pooled in this way."""
        return self.pooling

    def pool(self, feature_map: Tensor) -> Tensor:
        """Pool B×C×H×W to B×C; features that are B×C already pass through."""
        if feature_map.ndim == 2:
            return feature_map
        if self.pooling == "average":
            return feature_map.mean((2, 3))
        if self.pooling == "max":
            return feature_map.amax((2, 3))
        return (feature_map.mean((2, 3)) + feature_map.amax((2, 3))) / 2

    def forward(self, features: Tensor) -> Tensor:
        """Return logits B×classes of a feature map, or of features pooled before."""
        logits: Tensor = self.linear(self.pool(features))
        return logits

    @torch.no_grad()
    def start(self, kind: Start, frequencies: Tensor | None = None) -> None:
        """Set the weights to where training begins.

        Args:
            kind: ``"usual"`` is torch's own draw of the weights with bias 0. ``"prior"`` is zero weights and the bias
                at the logit of each class's frequency, so that every image starts with the probabilities of the table.
            frequencies: Shape (classes,): the share of images in which each class is a known positive. Only for
                ``"prior"``; clamped to [1e-4, 0.5].
        """
        if kind == "usual":
            self.linear.reset_parameters()
            nn.init.zeros_(self.linear.bias)
        elif kind == "prior":
            if frequencies is None or frequencies.shape != self.linear.bias.shape:
                given = "none" if frequencies is None else f"shape {tuple(frequencies.shape)}"
                raise ConfigError(
                    f"The prior start needs one frequency for each of {len(self.linear.bias)} classes; given: {given}."
                )
            nn.init.zeros_(self.linear.weight)
            # In double: a frequency given in half precision would move the start of rare classes.
            self.linear.bias.copy_(frequencies.double().clamp(LOWEST_FREQUENCY, HIGHEST_FREQUENCY).logit())
        else:
            raise ConfigError(f"A head starts 'usual' or 'prior', not {kind!r}.")
