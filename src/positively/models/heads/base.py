"""What a head is: any module from feature map to logits, with what it needs stored and how it starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from positively.errors import ConfigError
from positively.labels import LabelTable

if TYPE_CHECKING:
    from positively.models.backbones import Backbone

Pooling = Literal["average", "max", "mix"]
Start = Literal["default", "prior", "solved"]
"""Where a head begins; 'solved' is found by the closed form once the training is set up, from 'default' on."""

# Known positives undercount a class and may be none at all; no class starts above even odds.
LOWEST_FREQUENCY, HIGHEST_FREQUENCY = 1e-4, 0.5


class Head(nn.Module):
    """Feature map B×C×H×W → logits B×classes; what `pool` gives is taken in place of a map.

    A head is made with ``(channels, classes, **options)``: keyword-only arguments of its ``__init__`` are its options.
    All it must have is either ``forward``, or `classify` (and `embed`), which methods that look at features
    need. The rest has defaults: the whole map is stored, and training starts from `reset_parameters`.
    """

    is_solved: ClassVar[bool] = False
    """Whether its weights can only be solved for, by a method that brings it, and not be trained from a start."""
    needs_backbone: ClassVar[bool] = False
    """Whether it is nothing before `connect`, by which it takes weights from the backbone."""
    saved_options: Mapping[str, Any] = {}
    """Options with which the head is built again before its weights are loaded; `create_head` sets them."""

    @property
    def feature_key(self) -> str:
        """Short name of what `pool` does: stored features are told apart by it."""
        return "map"

    @property
    def last_layer(self) -> nn.Linear | None:
        """What turns features into logits, weight classes×features and one bias a class; None if no layer does."""
        return None

    def pool(self, feature_map: Tensor) -> Tensor:
        """What the head needs of a map, before anything in it learns: this is stored where the backbone is frozen."""
        return feature_map

    def embed(self, features: Tensor) -> Tensor:
        """What is classified, of a map or of what `pool` gave: B×D, or B×classes×D, one vector a class."""
        return self.pool(features)

    def classify(self, embedding: Tensor) -> Tensor:
        """Logits B×classes of what `embed` gave."""
        raise ConfigError(f"Head {type(self).__name__} has a forward of its own and no embedding to classify.")

    def forward(self, features: Tensor) -> Tensor:
        """Return logits B×classes of a feature map, or of features pooled before."""
        return self.classify(self.embed(features))

    def reset_parameters(self) -> None:
        """Draw all weights anew, from torch's generator."""
        for module in self.modules():
            reset: Any = getattr(module, "reset_parameters", None)
            if module is not self and reset is not None:
                reset()

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
        if kind not in ("default", "prior"):
            raise ConfigError(f"A head starts 'default' or 'prior', not {kind!r}.")
        self.reset_parameters()
        layer = self.last_layer
        if layer is None:
            if kind == "prior":
                raise ConfigError(f"Head {type(self).__name__} has no last linear layer that could start at a prior.")
            return
        nn.init.zeros_(layer.bias)
        if kind == "prior":
            if frequencies is None or frequencies.shape != layer.bias.shape:
                given = "none" if frequencies is None else f"shape {tuple(frequencies.shape)}"
                count = len(layer.bias)
                raise ConfigError(f"The prior start needs one frequency for each of {count} classes; given: {given}.")
            nn.init.zeros_(layer.weight)
            # In double: a frequency given in half precision would move the start of rare classes.
            layer.bias.copy_(frequencies.double().clamp(LOWEST_FREQUENCY, HIGHEST_FREQUENCY).logit())

    def connect(self, backbone: Backbone) -> None:
        """Look at the backbone once, before training; a saved run is built without."""

    def setup(self, table: LabelTable) -> None:
        """Look at the training table once, before the first step (a label graph is made of it)."""
