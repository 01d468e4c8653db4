"""CoP (Wen et al., IEEE TSMC 2020): images and labels are projected to one space, and labels near an image are its own.

Of the publication only the abstract is known here: features and labels are projected to a common latent space, and the
scores there are combined with the ConvNet's outputs. Ours is how: with the pooled features f, the projection U of
features and one latent vector v_c a label (the projection of its one-hot code),
s_c = w_c · f + b_c + g · cos(U f, v_c), the gain g a number that learns.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from positively.models.heads.base import Head, Pooling, Start
from positively.models.heads.linear import pool_positions
from positively.models.heads.normalization import unit_length
from positively.options import Count


class CoProjectionHead(Head):
    """Feature map → logits, by a linear layer and by closeness to the labels in a common space.

    Shapes: input B×C×H×W, or B×C features that were pooled before and stored; output B×classes.
    """

    def __init__(self, channels: int, classes: int, *, pooling: Pooling = "average", width: Count = 512) -> None:
        """Make the layers.

        Args:
            channels: Channels of the map.
            classes: Number of classes.
            pooling: How the map is pooled over its positions; "mix" is the mean of average and maximum.
            width: Dimensions of the common space.
        """
        super().__init__()
        self.pooling = pooling
        self.linear = nn.Linear(channels, classes)
        self.projection = nn.Linear(channels, width, bias=False)
        self.label_vectors = nn.Parameter(torch.empty(classes, width))
        self.gain = nn.Parameter(torch.empty(()))
        self.start("default")

    @property
    def feature_key(self) -> str:
        """Features pooled in this way: the same as the linear head stores."""
        return self.pooling

    @property
    def last_layer(self) -> nn.Linear:
        """The ConvNet's own classifier."""
        return self.linear

    def reset_parameters(self) -> None:
        """Torch's own draw of the layers; labels point anywhere."""
        nn.init.normal_(self.label_vectors, std=self.label_vectors.shape[1] ** -0.5)
        nn.init.ones_(self.gain)
        super().reset_parameters()

    @torch.no_grad()
    def start(self, kind: Start, frequencies: Tensor | None = None) -> None:
        """As every head; at the prior the common space has no say yet, and earns it."""
        super().start(kind, frequencies)
        if kind == "prior":
            nn.init.zeros_(self.gain)

    def pool(self, feature_map: Tensor) -> Tensor:
        """Pool B×C×H×W to B×C; features that are B×C already pass through."""
        return pool_positions(feature_map, self.pooling)

    def labels(self) -> Tensor:
        """Directions of the labels in the common space, classes×width."""
        return unit_length(self.label_vectors)

    def closeness(self, embedding: Tensor, labels: Tensor) -> Tensor:
        """Cosine of images and labels in the common space, B×classes."""
        return unit_length(self.projection(embedding)) @ labels.T

    def combine(self, embedding: Tensor, closeness: Tensor) -> Tensor:
        """Logits: what the linear layer says, and what the common space does."""
        logits: Tensor = self.linear(embedding) + self.gain * closeness
        return logits

    def classify(self, embedding: Tensor) -> Tensor:
        """Logits of pooled features."""
        return self.combine(embedding, self.closeness(embedding, self.labels()))
