"""Images → logits: a backbone and a head."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from positively.errors import ConfigError
from positively.models.backbones import Backbone, create_backbone
from positively.models.freezing import freeze_batchnorm_statistics, freeze_stages, rest_frozen_modules
from positively.models.heads import LinearHead, create_head
from positively.models.heads.linear import Pooling
from positively.models.lgconv import add_lgconv


class Classifier(nn.Module):
    """A backbone and a head.

    Shapes: input B×3×H×W pixels, as bytes or as numbers in [0, 1]; output B×classes logits. The classifier normalises
    by itself, with ``backbone.mean`` and ``backbone.std``, so that nobody can forget it (``backbone`` alone does not).

    Args:
        backbone: Images to feature map. If nothing in it learns it stays in eval mode and keeps no graph.
        head: Feature map to logits.
        frozen_statistics: Keep every BatchNorm in eval mode while training, as the paper's code does.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, backbone: Backbone, head: LinearHead, frozen_statistics: bool = False) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.frozen_statistics = frozen_statistics
        # Not in the state dict: they are facts of the backbone, and only have to follow it to its device.
        self.register_buffer("mean", torch.tensor(backbone.mean)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(backbone.std)[:, None, None], persistent=False)
        self.train()

    @property
    def backbone_learns(self) -> bool:
        """Whether any parameter of the backbone is to be trained."""
        return any(parameter.requires_grad for parameter in self.backbone.parameters())

    def forward(self, images: Tensor) -> Tensor:
        """Return logits B×classes of images B×3×H×W, bytes or numbers in [0, 1]."""
        logits: Tensor = self.head(self._feature_map(images))
        return logits

    def features(self, images: Tensor) -> Tensor:
        """Return pooled features B×C; ``head(features)`` gives the logits of ``forward``."""
        return self.head.pool(self._feature_map(images))

    def _feature_map(self, images: Tensor) -> Tensor:
        pixels = images.float() / 255 if images.dtype == torch.uint8 else images
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.backbone_learns):
            feature_map: Tensor = self.backbone(((pixels - self.mean) / self.std).to(self.mean.dtype))
        return feature_map

    def train(self, mode: bool = True) -> Self:
        """Switch to training, except for what is frozen."""
        super().train(mode)
        if mode:
            rest_frozen_modules(self)
            if self.frozen_statistics:
                freeze_batchnorm_statistics(self)
        return self


def create_classifier(
    backbone: str | nn.Module,
    classes: int,
    weights: str = "pretrained",
    image_size: int = 224,
    head: str = "linear",
    pooling: Pooling = "average",
    lgconv: bool = False,
    learn_stages: int | None = None,
    frozen_statistics: bool = False,
) -> Classifier:
    """Build a classifier from plain values.

    Args:
        backbone: Name of a timm model, or a module that gives feature maps.
        classes: Number of classes.
        weights: ``"pretrained"``, ``"none"`` or a ``.safetensors`` file; see ``create_backbone``.
        image_size: Side of the images in pixels.
        head: Name of the head.
        pooling: How the head pools the map: ``"average"``, ``"max"`` or ``"mix"``.
        lgconv: Whether to add the paper's global branches.
        learn_stages: How many of the last stages of the backbone learn; ``None`` is all, 0 none.
        frozen_statistics: Whether BatchNorm statistics stay as they are.

    Returns:
        The classifier, in training mode.
    """
    if lgconv and learn_stages == 0:
        raise ConfigError(
            "LgConv has to learn, and nothing in the backbone does with learn_stages 0. Let at least one stage learn, "
            "or leave LgConv out."
        )
    body = create_backbone(backbone, weights, image_size)
    if lgconv:
        add_lgconv(body.network)
    freeze_stages(body, learn_stages)
    return Classifier(body, create_head(head, body.channels, classes, pooling=pooling), frozen_statistics)
