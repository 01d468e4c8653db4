"""Base class of heads."""

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
"""Initialisation of a head. 'solved' sets it to the solution of a probe once the training is set up."""

# Known positives undercount a class and may be missing. No class starts above even odds.
LOWEST_FREQUENCY, HIGHEST_FREQUENCY = 1e-4, 0.5


class Head(nn.Module):
    """Base class of heads: feature map (B, C, H, W) to logits (B, classes). Takes the output of `pool` as well.

    A head is created with ``(channels, classes, **options)``; the keyword-only arguments of its ``__init__`` are its
    options. A subclass implements `forward`, or `classify` (and `embed`), which some methods need. By default the whole
    map is stored where the backbone is frozen, and training starts from `reset_parameters`.
    """

    is_solved: ClassVar[bool] = False
    """Whether its weights are solved for by the probe and cannot be trained."""
    needs_backbone: ClassVar[bool] = False
    """Whether it takes weights from the backbone, in `connect`."""
    saved_options: Mapping[str, Any] = {}
    """Options with which a saved head is created again; set by `create_head`."""

    @property
    def feature_key(self) -> str:
        """Short name of what `pool` computes, part of the key of stored embeddings."""
        return "map"

    @property
    def last_layer(self) -> nn.Linear | None:
        """Last linear layer, with one row and one bias per class; None if there is none."""
        return None

    def pool(self, feature_map: Tensor) -> Tensor:
        """Parameter-free first part of the head; its output is stored where the backbone is frozen."""
        return feature_map

    def embed(self, features: Tensor) -> Tensor:
        """Embedding of a map or of the output of `pool`, shape (B, D) or (B, classes, D)."""
        return self.pool(features)

    def classify(self, embedding: Tensor) -> Tensor:
        """Logits of the output of `embed`, shape (B, classes)."""
        raise ConfigError(f"Head {type(self).__name__} implements forward only and has no embedding to classify.")

    def forward(self, features: Tensor) -> Tensor:
        """Logits of a feature map or of pooled embeddings, shape (B, classes)."""
        return self.classify(self.embed(features))

    def reset_parameters(self) -> None:
        """Draw all weights from the generator of torch."""
        for module in self.modules():
            reset: Any = getattr(module, "reset_parameters", None)
            if module is not self and reset is not None:
                reset()

    @torch.no_grad()
    def start(self, kind: Start, frequencies: Tensor | None = None) -> None:
        """Initialise the weights.

        Args:
            kind: ``"default"`` draws all weights, with bias 0 in the last layer. ``"prior"`` also sets the weights of
                the last layer to zero and its bias to the logit of the class frequency, so that every image starts
                with the class frequencies of the table as probabilities.
            frequencies: Share of images in which each class is a known positive, shape (classes,), clamped to
                [1e-4, 0.5]. For ``"prior"`` only.

        Raises:
            ConfigError: If the head does not support this initialisation, or frequencies are missing.
        """
        if kind not in ("default", "prior"):
            raise ConfigError(f"A head starts with 'default' or 'prior', not {kind!r}.")
        self.reset_parameters()
        layer = self.last_layer
        if layer is None:
            if kind == "prior":
                raise ConfigError(f"Head {type(self).__name__} has no last linear layer to start at a prior.")
            return
        nn.init.zeros_(layer.bias)
        if kind == "prior":
            if frequencies is None or frequencies.shape != layer.bias.shape:
                given = "none" if frequencies is None else f"shape {tuple(frequencies.shape)}"
                count = len(layer.bias)
                raise ConfigError(f"start 'prior' needs one frequency for each of {count} classes; given: {given}.")
            nn.init.zeros_(layer.weight)
            # In double precision, because rounding to half precision would shift rare classes.
            layer.bias.copy_(frequencies.double().clamp(LOWEST_FREQUENCY, HIGHEST_FREQUENCY).logit())

    def connect(self, backbone: Backbone) -> None:
        """Take weights from the backbone, once before training. Not called when a saved run is loaded."""

    def setup(self, table: LabelTable) -> None:
        """Prepare for a training table, once before the first step (for example, build a label graph)."""
