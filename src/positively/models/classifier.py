"""The classifier: a backbone and a head."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from positively.errors import ConfigError
from positively.models.backbones import Backbone, create_backbone
from positively.models.chain import split_backbone
from positively.models.freezing import (
    eval_batchnorm,
    eval_frozen_modules,
    freeze_stages,
    names_of_last_stages,
)
from positively.models.heads import Head, create_head
from positively.models.lgconv import add_lgconv

Depth = Literal["probe", "tail", "finetune"]
"""What is trained: the head, the last stages with the head, or the whole network."""


class Trainable(nn.Module, ABC):
    """Trainable part of a network: inputs, feature map, head, logits. Can be called at once or in two halves.

    Frozen modules stay in eval mode during training.
    """

    freeze_batchnorm: bool
    head: Head

    @abstractmethod
    def feature_map(self, inputs: Tensor) -> Tensor:
        """Input of the head for a batch of images or stored embeddings."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute logits, shape (B, classes)."""
        logits: Tensor = self.head(self.feature_map(inputs))
        return logits

    def forward_features(self, inputs: Tensor) -> Tensor:
        """Embedding that the head classifies, shape (B, D) or (B, classes, D)."""
        return self.head.embed(self.feature_map(inputs))

    def forward_head(self, embedding: Tensor) -> Tensor:
        """Logits of the output of `forward_features`, shape (B, classes)."""
        return self.head.classify(embedding)

    def train(self, mode: bool = True) -> Self:
        """Set training mode, except for frozen modules."""
        super().train(mode)
        if mode:
            eval_frozen_modules(self)
            if self.freeze_batchnorm:
                eval_batchnorm(self)
        return self


class Classifier(Trainable):
    """A backbone and a head.

    Takes images of shape (B, 3, H, W), as uint8 or as floats in [0, 1], and returns logits of shape (B, classes). The
    classifier normalises the images itself (``backbone`` alone does not).

    At depths 'probe' and 'tail' it has two parts: ``features(images)`` is the output of the frozen part, which can be
    stored, and ``trainable`` maps it to logits.

    Args:
        backbone: Network from images to feature maps. If fully frozen, it stays in eval mode and records no gradients.
        head: Module from feature maps to logits.
        freeze_batchnorm: Whether to keep BatchNorm in eval mode during training, as the code of the paper does.
        depth: What is trained.
        learn_stages: Number of trained stages at depth 'tail'.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        backbone: Backbone,
        head: Head,
        freeze_batchnorm: bool = False,
        depth: Depth = "finetune",
        learn_stages: int = 1,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.freeze_batchnorm = freeze_batchnorm
        self.depth: Depth = depth
        # In a tuple, so that torch does not register the modules twice.
        self._parts: tuple[nn.Module, Tail] | None = None
        if depth == "tail":
            first, last = split_backbone(backbone, learn_stages)
            # A function rather than a bound method, so that a copy of the tail (for EMA) does not copy the backbone.
            self._parts = first, Tail(last, head, freeze_batchnorm, lambda features: backbone.as_map(features))
        elif depth == "probe":
            # BatchNorm of a head that is trained alone is never frozen.
            self._parts = backbone, Tail(None, head, freeze_batchnorm=False)
        self._learn_stages = learn_stages
        # Not in the state dict, because the values follow from the backbone.
        self.register_buffer("mean", torch.tensor(backbone.mean)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(backbone.std)[:, None, None], persistent=False)
        self.train()

    def replace_head(self, head: Head) -> None:
        """Replace the head by one with the same pooling."""
        self.head = head
        if self._parts is not None:
            self._parts[1].head = head

    @property
    def backbone_learns(self) -> bool:
        """Whether any parameter of the backbone is trainable."""
        return any(parameter.requires_grad for parameter in self.backbone.parameters())

    def features(self, images: Tensor) -> Tensor:
        """Output of the frozen part for images, which can be stored; ``trainable`` maps it to logits.

        At depth 'tail' this is the map (B, C, H, W) before the trained stages, otherwise the pooled output of the
        backbone ((B, C) for the linear head).
        """
        if self.depth != "tail" or self._parts is None:
            return self.head.pool(self.feature_map(images))
        features: Tensor = self._parts[0](self._normalized(images))
        return features

    @property
    def trainable(self) -> Trainable:
        """The part from `features` to logits; the whole classifier at depth 'finetune'."""
        return self if self._parts is None else self._parts[1]

    @property
    def feature_source(self) -> tuple[nn.Module, str]:
        """Module and setting that determine `features`, apart from the images and their size."""
        setting = f"stage -{self._learn_stages}" if self.depth == "tail" else self.head.feature_key
        return (self._parts[0] if self._parts else self.backbone), setting

    def _normalized(self, images: Tensor) -> Tensor:
        pixels = images.float() / 255 if images.dtype == torch.uint8 else images
        return ((pixels - self.mean) / self.std).to(self.mean.dtype)

    def feature_map(self, inputs: Tensor) -> Tensor:
        """Feature map (B, C, H, W) of images."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.backbone_learns):
            found: Tensor = self.backbone(self._normalized(inputs))
        return found


class Tail(Trainable):
    """Last stages of a backbone, if any, and a head: stored embeddings to logits (B, classes)."""

    def __init__(
        self,
        stages: nn.Sequential | None,
        head: Head,
        freeze_batchnorm: bool,
        as_map: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.stages = stages
        self.head = head
        self.freeze_batchnorm = freeze_batchnorm
        self._as_map = as_map
        self.train(head.training)

    def feature_map(self, inputs: Tensor) -> Tensor:
        """Feature map (B, C, H, W) of stored intermediate maps; pooled embeddings are returned unchanged."""
        if self.stages is None or self._as_map is None:
            return inputs
        return self._as_map(self.stages(inputs))


def create_classifier(
    backbone: str | nn.Module,
    classes: int,
    weights: str = "pretrained",
    image_size: int = 224,
    head: str = "linear",
    lgconv: bool = False,
    learn_stages: int | None = None,
    freeze_batchnorm: bool = False,
    depth: Depth = "finetune",
    head_options: Mapping[str, Any] | None = None,
) -> Classifier:
    """Create a classifier.

    Args:
        backbone: Name of a timm model, or a module that returns feature maps.
        classes: Number of classes.
        weights: ``"pretrained"``, ``"none"`` or a ``.safetensors`` file; see `create_backbone`.
        image_size: Side of the images in pixels.
        head: Name of the head.
        lgconv: Whether to add LgConv; at depth 'tail' only to the trained stages.
        learn_stages: Number of last stages to train; ``None`` trains all (one at depth 'tail'), 0 none.
        freeze_batchnorm: Whether to freeze BatchNorm statistics.
        depth: What is trained; 'probe' freezes the backbone, 'tail' all but the last stages.
        head_options: Options of the head, such as ``{"pooling": "max"}``.

    Returns:
        The classifier, in training mode.

    Raises:
        ConfigError: If options contradict each other.
        WeightsError: If the weights are not available or do not fit.

    Example:
        >>> import torch
        >>> from positively.models import create_classifier
        >>> model = create_classifier("positively_tiny", classes=3, weights="none", image_size=48)
        >>> model(torch.zeros(2, 3, 48, 48)).shape
        torch.Size([2, 3])
    """
    if depth != "finetune":
        learn_stages = 0 if depth == "probe" else (1 if learn_stages is None else learn_stages)
    if lgconv and learn_stages == 0:
        raise ConfigError(
            "LgConv is part of the backbone, and learn_stages 0 freezes the backbone. Train at least one stage, or "
            "disable LgConv."
        )
    body = create_backbone(backbone, weights, image_size)
    if lgconv:
        # At depth 'tail' the frozen stages must not contain trainable branches.
        under = names_of_last_stages(body, learn_stages or 1) if depth == "tail" else ("",)
        add_lgconv(body.network, under=under)
    freeze_stages(body, learn_stages)
    made = create_head(head, body.channels, classes, **(head_options or {}))
    return Classifier(body, made, freeze_batchnorm, depth, 1 if learn_stages is None else learn_stages)
