"""CADM (Chen et al., ICME 2019): classifier weights disentangle the feature map into one map per class.

Only the abstract of the publication was available: the weights w_c of the multi-label classifier re-weight the feature
map F into class-aware disentangled maps, w_c ⊙ F, which become label vectors. The rest is our own design:

* position p responds to class c with r_cp = w_c · F_p, the channel sum of its map at p;
* the label vector is a mean of the map, weighted by these responses: x_c = Σ_p a_cp (w_c ⊙ F_p) with
  a_c = softmax_p(r_c);
* the logit is the sum of the label vector plus a bias: s_c = Σ_k x_ck + b_c = Σ_p a_cp r_cp + b_c.

The same weights classify, attend and disentangle.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from positively.models.heads.maps import MapHead


class DisentangledHead(MapHead):
    """CADM head: logits are the sums of one label vector per class.

    Takes feature maps (B, C, H, W) or the output of `pool`, and returns logits (B, classes). The disentangled maps of
    size B×positions×classes×C are never built, because w_c can be applied after the sum over positions.

    Args:
        channels: Number of channels of the map.
        classes: Number of classes.
    """

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, classes)
        self.start("default")

    @property
    def last_layer(self) -> nn.Linear:
        """The classifier. With zero weights the attention is uniform."""
        return self.linear

    def attend(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Positions (B, P, C) of a map, their responses (B, P, classes), and the softmax of these over positions."""
        positions = self.pool(features).flatten(2).transpose(1, 2)
        answers = nn.functional.linear(positions, self.linear.weight)
        # At least float32, also under mixed precision.
        attention = answers.softmax(1, torch.promote_types(answers.dtype, torch.float32)).to(answers.dtype)
        return positions, answers, attention

    def embed(self, features: Tensor) -> Tensor:
        """Label vectors, shape (B, classes, C)."""
        positions, _, attention = self.attend(features)
        return (attention.transpose(1, 2) @ positions) * self.linear.weight

    def classify(self, embedding: Tensor) -> Tensor:
        """Logits: the sums of the label vectors plus bias."""
        return embedding.sum(-1) + self.linear.bias

    def forward(self, features: Tensor) -> Tensor:
        """Logits without building label vectors: Σ_p a_cp r_cp is their sum."""
        _, answers, attention = self.attend(features)
        return (attention * answers).sum(1) + self.linear.bias
