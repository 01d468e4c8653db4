"""The linear head: pooling and one linear layer."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, max_pool2d

from positively.errors import ConfigError
from positively.models.heads.base import Head, Pooling
from positively.models.heads.normalization import root_normalize


class LinearHead(Head):
    """Linear head: pooling over positions and one linear layer.

    Takes feature maps (B, C, H, W) or pooled embeddings (B, C), and returns logits (B, classes).

    Example:
        >>> import torch
        >>> from positively.models import LinearHead
        >>> head = LinearHead(channels=8, classes=3, pooling="max")
        >>> head(torch.zeros(2, 8, 7, 7)).shape, head(torch.zeros(2, 8)).shape
        (torch.Size([2, 3]), torch.Size([2, 3]))
    """

    def __init__(self, channels: int, classes: int, *, pooling: Pooling = "average", normalize: bool = False) -> None:
        """Create the layer.

        Args:
            channels: Number of channels of the map.
            classes: Number of classes.
            pooling: Pooling over positions; "mix" is the mean of average and maximum.
            normalize: Whether to normalise the pooled embeddings by a signed square root and to unit mean square.
                Stored embeddings are not affected.
        """
        super().__init__()
        if pooling not in ("average", "max", "mix"):
            raise ConfigError(f"pooling must be 'average', 'max' or 'mix', not {pooling!r}.")
        self.pooling, self.normalize = pooling, normalize
        self.linear = nn.Linear(channels, classes)
        self.start("default")

    @property
    def feature_key(self) -> str:
        """Pooling of the stored embeddings."""
        return self.pooling

    @property
    def last_layer(self) -> nn.Linear:
        """The linear layer."""
        return self.linear

    def pool(self, feature_map: Tensor) -> Tensor:
        """Pool (B, C, H, W) to (B, C); pooled embeddings are returned unchanged."""
        return pool_positions(feature_map, self.pooling)

    def embed(self, features: Tensor) -> Tensor:
        """Pooled embeddings, normalised if ``normalize`` is set."""
        pooled = self.pool(features)
        # Entries of about 1 for any number of channels, which suits common learning rates.
        return root_normalize(pooled) * math.sqrt(pooled.shape[-1]) if self.normalize else pooled

    def classify(self, embedding: Tensor) -> Tensor:
        """Logits of pooled embeddings, shape (B, classes)."""
        logits: Tensor = self.linear(embedding)
        return logits


def pool_positions(feature_map: Tensor, pooling: Pooling) -> Tensor:
    """Pool (B, C, H, W) to (B, C); pooled embeddings are returned unchanged."""
    if pooling not in ("average", "max", "mix"):
        raise ConfigError(f"pooling must be 'average', 'max' or 'mix', not {pooling!r}.")
    if feature_map.ndim != 4:
        return feature_map
    if pooling == "average":
        return feature_map.mean((2, 3))
    if pooling == "max":
        return feature_map.amax((2, 3))
    return (feature_map.mean((2, 3)) + feature_map.amax((2, 3))) / 2


def pool_windows(feature_map: Tensor, pooling: Pooling, window: int) -> Tensor:
    """Pool (B, C, H, W) to (B, 1 + parts, C): the whole map, then all windows, which overlap by a third.

    A map smaller than the window is a single part. Windows are cropped at the border.
    """
    size, stride = [min(window, side) for side in feature_map.shape[-2:]], -(-2 * window // 3)
    parts = (max_pool2d if pooling == "max" else avg_pool2d)(feature_map, size, stride, ceil_mode=True)
    if pooling == "mix":
        parts = (parts + max_pool2d(feature_map, size, stride, ceil_mode=True)) / 2
    return torch.cat([pool_positions(feature_map, pooling)[:, None], parts.flatten(2).mT], dim=1)
