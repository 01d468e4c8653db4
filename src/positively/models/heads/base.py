"""What every head offers: a start, and the part of the feature map it needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn

from positively.errors import ConfigError
from positively.labels import LabelTable

Pooling = Literal["average", "max", "mix"]
Start = Literal["default", "prior"]

# Known positives undercount a class and may be none at all; no class starts above even odds.
LOWEST_FREQUENCY, HIGHEST_FREQUENCY = 1e-4, 0.5


class Head(nn.Module, ABC):
    """Feature map B×C×H×W → logits B×classes; what :meth:`pool` gives is taken in place of a map."""

    @property
    @abstractmethod
    def feature_key(self) -> str:
        """Short name of what :meth:`pool` does: kept features are told apart by it."""

    @property
    @abstractmethod
    def last_layer(self) -> nn.Linear:
        """What turns features into logits: weight classes×features, and one bias a class."""

    @abstractmethod
    def pool(self, feature_map: Tensor) -> Tensor:
        """What the head needs of a map, before anything in it learns: this is kept on disk where the backbone rests."""

    @abstractmethod
    def reset_parameters(self) -> None:
        """Draw all weights anew, from torch's generator."""

    @torch.no_grad()
    def start(self, kind: Start, frequencies: Tensor | None = None) -> None:
        """Set the weights to where training begins.

        Args:
            kind: ``"default"`` draws all weights anew, with bias 0 in the last layer. ``"prior"`` does too, but for the
                last layer: its weights are zero and its bias is the logit of each class's frequency, so that every
                image starts with the probabilities of the table.
            frequencies: Shape (classes,): the share of images in which each class is a known positive. Only for
                ``"prior"``; clamped to [1e-4, 0.5].
        """
        weight, bias = self.last_layer.weight, self.last_layer.bias
        if kind not in ("default", "prior"):
            raise ConfigError(f"A head starts 'default' or 'prior', not {kind!r}.")
        if kind == "prior" and (frequencies is None or frequencies.shape != bias.shape):
            given = "none" if frequencies is None else f"shape {tuple(frequencies.shape)}"
            raise ConfigError(f"The prior start needs one frequency for each of {len(bias)} classes; given: {given}.")
        self.reset_parameters()
        nn.init.zeros_(bias)
        if kind == "prior" and frequencies is not None:
            nn.init.zeros_(weight)
            # In double: a frequency given in half precision would move the start of rare classes.
            bias.copy_(frequencies.double().clamp(LOWEST_FREQUENCY, HIGHEST_FREQUENCY).logit())

    def setup(self, table: LabelTable) -> None:
        """Look at the training table once, before the first step (a label graph is made of it)."""
