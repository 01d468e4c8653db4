"""Images → logits: a backbone and a head."""

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
"""How much of the network learns: the head, the last stages with it, or (some of) the whole network."""


class Trainable(nn.Module, ABC):
    """What a method trains: inputs → feature map → head → logits B×classes, at once or in two halves.

    Parts that are frozen stay in eval mode while it trains.
    """

    freeze_batchnorm: bool
    head: Head

    @abstractmethod
    def feature_map(self, inputs: Tensor) -> Tensor:
        """What the head takes of a batch of inputs: images, or stored features."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits B×classes."""
        logits: Tensor = self.head(self.feature_map(inputs))
        return logits

    def forward_features(self, inputs: Tensor) -> Tensor:
        """What the head classifies, B×D or B×classes×D; ``forward_head`` of it gives the logits of ``forward``."""
        return self.head.embed(self.feature_map(inputs))

    def forward_head(self, embedding: Tensor) -> Tensor:
        """Logits of what `forward_features` gave."""
        return self.head.classify(embedding)

    def train(self, mode: bool = True) -> Self:
        """Switch to training, except for what is frozen."""
        super().train(mode)
        if mode:
            eval_frozen_modules(self)
            if self.freeze_batchnorm:
                eval_batchnorm(self)
        return self


class Classifier(Trainable):
    """A backbone and a head.

    Shapes: input B×3×H×W pixels, as bytes or as numbers in [0, 1]; output B×classes logits. The classifier normalises
    by itself, with ``backbone.mean`` and ``backbone.std``, so that nobody can forget it (``backbone`` alone does not).

    At depths 'probe' and 'tail' it has two parts: ``features(images)`` is what never changes and can be kept on disk,
    ``trainable`` leads from there to the logits.

    Args:
        backbone: Images to feature map. If nothing in it learns it stays in eval mode and keeps no graph.
        head: Feature map to logits.
        freeze_batchnorm: Keep every BatchNorm in eval mode while training, as the paper's code does.
        depth: Which part learns.
        learn_stages: At depth 'tail', how many of the last stages.
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
        # In a tuple, so that torch does not count the modules of the backbone a second time.
        self._parts: tuple[nn.Module, Tail] | None = None
        if depth == "tail":
            first, last = split_backbone(backbone, learn_stages)
            # A function, not a bound method: a copy of the tail (averaged weights) is no copy of the backbone.
            self._parts = first, Tail(last, head, freeze_batchnorm, lambda features: backbone.as_map(features))
        elif depth == "probe":
            # A head that learns alone takes statistics.
            self._parts = backbone, Tail(None, head, freeze_batchnorm=False)
        self._learn_stages = learn_stages
        # Not in the state dict: they are facts of the backbone, and only have to follow it to its device.
        self.register_buffer("mean", torch.tensor(backbone.mean)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(backbone.std)[:, None, None], persistent=False)
        self.train()

    def replace_head(self, head: Head) -> None:
        """Take another head that pools as this one does."""
        self.head = head
        if self._parts is not None:
            self._parts[1].head = head

    @property
    def backbone_learns(self) -> bool:
        """Whether any parameter of the backbone is to be trained."""
        return any(parameter.requires_grad for parameter in self.backbone.parameters())

    def features(self, images: Tensor) -> Tensor:
        """Return what can be kept of images; ``trainable(features)`` gives the logits of ``forward``.

        At depth 'tail' that is the map B×C×H×W before the stages that learn, otherwise what the head needs of the last
        map (B×C for the linear head).
        """
        if self.depth != "tail" or self._parts is None:
            return self.head.pool(self.feature_map(images))
        features: Tensor = self._parts[0](self._normalized(images))
        return features

    @property
    def trainable(self) -> Trainable:
        """The part that leads from `features` to the logits; the whole classifier at depth 'finetune'."""
        return self if self._parts is None else self._parts[1]

    @property
    def feature_source(self) -> tuple[nn.Module, str]:
        """Module and setting that `features` depends on, beside the images and their size."""
        setting = f"stage -{self._learn_stages}" if self.depth == "tail" else self.head.feature_key
        return (self._parts[0] if self._parts else self.backbone), setting

    def _normalized(self, images: Tensor) -> Tensor:
        pixels = images.float() / 255 if images.dtype == torch.uint8 else images
        return ((pixels - self.mean) / self.std).to(self.mean.dtype)

    def feature_map(self, inputs: Tensor) -> Tensor:
        """Feature map B×C×H×W of images."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.backbone_learns):
            found: Tensor = self.backbone(self._normalized(inputs))
        return found


class Tail(Trainable):
    """The last stages of a backbone, if any, and a head: stored features → logits B×classes."""

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
        """Feature map B×C×H×W of the map before these stages; what was pooled and stored passes through."""
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
    """Build a classifier from plain values.

    Args:
        backbone: Name of a timm model, or a module that gives feature maps.
        classes: Number of classes.
        weights: ``"pretrained"``, ``"none"`` or a ``.safetensors`` file; see ``create_backbone``.
        image_size: Side of the images in pixels.
        head: Name of the head.
        lgconv: Whether to add the paper's global branches; at depth 'tail' only to the stages that learn.
        learn_stages: How many of the last stages of the backbone learn; ``None`` is all (one at depth 'tail'), 0 none.
        freeze_batchnorm: Whether BatchNorm statistics stay as they are.
        depth: Which part learns; 'probe' freezes the backbone, 'tail' keeps the features before the last stages.
        head_options: Options of the head, such as ``{"pooling": "max"}``.

    Returns:
        The classifier, in training mode.
    """
    if depth != "finetune":
        learn_stages = 0 if depth == "probe" else (1 if learn_stages is None else learn_stages)
    if lgconv and learn_stages == 0:
        raise ConfigError(
            "LgConv has to learn, and nothing in the backbone does with learn_stages 0. Let at least one stage learn, "
            "or leave LgConv out."
        )
    body = create_backbone(backbone, weights, image_size)
    if lgconv:
        # At depth 'tail' what is kept of the first stages must not depend on anything that learns.
        under = names_of_last_stages(body, learn_stages or 1) if depth == "tail" else ("",)
        add_lgconv(body.network, under=under)
    freeze_stages(body, learn_stages)
    made = create_head(head, body.channels, classes, **(head_options or {}))
    return Classifier(body, made, freeze_batchnorm, depth, 1 if learn_stages is None else learn_stages)
