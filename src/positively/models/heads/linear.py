"""The plain head: pool the map, then one linear layer."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, max_pool2d

from positively.errors import ConfigError
from positively.models.heads.base import Head, Pooling
from positively.models.heads.normalization import root_normalize


class LinearHead(Head):
    """Feature map → logits, by pooling over positions and a linear layer.

    Shapes: input B×C×H×W, or B×C features that were pooled before and kept on disk; output B×classes.

    >>> import torch
    >>> head = LinearHead(channels=8, classes=3, pooling="max")
    >>> head(torch.zeros(2, 8, 7, 7)).shape, head(torch.zeros(2, 8)).shape
    (torch.Size([2, 3]), torch.Size([2, 3]))
    """

    def __init__(self, channels: int, classes: int, *, pooling: Pooling = "average", normalize: bool = False) -> None:
        """Make the layer.

        Args:
            channels: Channels of the map.
            classes: Number of classes.
            pooling: How the map is pooled over its positions; "mix" is the mean of average and maximum.
            normalize: Whether the pooled features are brought to one scale: signed square root, and a mean square of
                1 in every image. What is stored is not changed by it.
        """
        super().__init__()
        if pooling not in ("average", "max", "mix"):
            raise ConfigError(f"Pooling is 'average', 'max' or 'mix', not {pooling!r}.")
        self.pooling, self.normalize = pooling, normalize
        self.linear = nn.Linear(channels, classes)
        self.start("default")

    @property
    def feature_key(self) -> str:
        """Features pooled in this way."""
        return self.pooling

    @property
    def last_layer(self) -> nn.Linear:
        """The only one."""
        return self.linear

    def pool(self, feature_map: Tensor) -> Tensor:
        """Pool B×C×H×W to B×C; features that are B×C already pass through."""
        return pool_positions(feature_map, self.pooling)

    def embed(self, features: Tensor) -> Tensor:
        """Pooled features, on one scale if that is asked for."""
        pooled = self.pool(features)
        # Entries of about 1, whatever their number: the scale that usual learning rates are made for.
        return root_normalize(pooled) * math.sqrt(pooled.shape[-1]) if self.normalize else pooled

    def classify(self, embedding: Tensor) -> Tensor:
        """Logits of pooled features."""
        logits: Tensor = self.linear(embedding)
        return logits


def pool_positions(feature_map: Tensor, pooling: Pooling) -> Tensor:
    """Pool B×C×H×W to B×C; features that are pooled already pass through."""
    if pooling not in ("average", "max", "mix"):
        raise ConfigError(f"Pooling is 'average', 'max' or 'mix', not {pooling!r}.")
    if feature_map.ndim != 4:
        return feature_map
    if pooling == "average":
        return feature_map.mean((2, 3))
    if pooling == "max":
        return feature_map.amax((2, 3))
    return (feature_map.mean((2, 3)) + feature_map.amax((2, 3))) / 2


def pool_windows(feature_map: Tensor, pooling: Pooling, window: int) -> Tensor:
    """Pool B×C×H×W to B×(1+parts)×C: the whole map, then every window in the same way; windows overlap by a third.

    A map smaller than the window is a part of its own. Windows that reach over the border end there.
    """
    size, stride = [min(window, side) for side in feature_map.shape[-2:]], -(-2 * window // 3)
    parts = (max_pool2d if pooling == "max" else avg_pool2d)(feature_map, size, stride, ceil_mode=True)
    if pooling == "mix":
        parts = (parts + max_pool2d(feature_map, size, stride, ceil_mode=True)) / 2
    return torch.cat([pool_positions(feature_map, pooling)[:, None], parts.flatten(2).mT], dim=1)
