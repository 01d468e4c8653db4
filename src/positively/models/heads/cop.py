"""CoP (Wen et al., IEEE TSMC 2020): images and labels are projected to a common space and compared there.

Only the abstract of the publication was available: features and labels are projected to a common latent space, and the
scores there are combined with the outputs of the ConvNet. The equation is our own: with pooled features f, projection U
and one latent vector v_c per label, s_c = w_c · f + b_c + g · cos(U f, v_c) with a learned gain g.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from positively.models.heads.base import Head, Pooling, Start
from positively.models.heads.linear import pool_positions
from positively.models.heads.normalization import unit_length
from positively.options import Count


class CoProjectionHead(Head):
    """CoP head: a linear layer plus the cosine similarity to the labels in a common space.

    Takes feature maps (B, C, H, W) or pooled embeddings (B, C), and returns logits (B, classes).
    """

    def __init__(self, channels: int, classes: int, *, pooling: Pooling = "average", width: Count = 512) -> None:
        """Create the layers.

        Args:
            channels: Number of channels of the map.
            classes: Number of classes.
            pooling: Pooling over positions; "mix" is the mean of average and maximum.
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
        """Pooling of the stored embeddings, as for the linear head."""
        return self.pooling

    @property
    def last_layer(self) -> nn.Linear:
        """The linear classifier."""
        return self.linear

    def reset_parameters(self) -> None:
        """Draw all weights; label vectors have random directions."""
        nn.init.normal_(self.label_vectors, std=self.label_vectors.shape[1] ** -0.5)
        nn.init.ones_(self.gain)
        super().reset_parameters()

    @torch.no_grad()
    def start(self, kind: Start, frequencies: Tensor | None = None) -> None:
        """Initialise as every head does. With 'prior' the gain of the common space starts at zero."""
        super().start(kind, frequencies)
        if kind == "prior":
            nn.init.zeros_(self.gain)

    def pool(self, feature_map: Tensor) -> Tensor:
        """Pool (B, C, H, W) to (B, C); pooled embeddings are returned unchanged."""
        return pool_positions(feature_map, self.pooling)

    def labels(self) -> Tensor:
        """Unit vectors of the labels in the common space, shape (classes, width)."""
        return unit_length(self.label_vectors)

    def closeness(self, embedding: Tensor, labels: Tensor) -> Tensor:
        """Cosines of images and labels in the common space, shape (B, classes)."""
        return unit_length(self.projection(embedding)) @ labels.T

    def combine(self, embedding: Tensor, closeness: Tensor) -> Tensor:
        """Logits: linear layer plus weighted cosines."""
        logits: Tensor = self.linear(embedding) + self.gain * closeness
        return logits

    def classify(self, embedding: Tensor) -> Tensor:
        """Logits of pooled embeddings."""
        return self.combine(embedding, self.closeness(embedding, self.labels()))
