"""CADM (Chen et al., ICME 2019): the classifier's weights take the feature map apart, one map for each class.

Of the publication only the abstract is known here: the weights w_c of the multi-label classifier re-weight the feature
map F into class-aware disentangled maps, w_c ⊙ F, and these become label vectors. How they do is ours:

* a position p answers to class c with r_cp = w_c · F_p, the sum of its map's channels there;
* the label vector is the mean of the map over the positions, those that answer most first:
  x_c = Σ_p a_cp (w_c ⊙ F_p) with a_c = softmax_p(r_c);
* the sum of the label vector is the logit, but for the bias: s_c = Σ_k x_ck + b_c = Σ_p a_cp r_cp + b_c.

So one set of weights classifies, attends and disentangles.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from positively.models.heads.maps import MapHead


class DisentangledHead(MapHead):
    """Feature map → logits, by the sum of one vector a class.

    Shapes: input B×C×H×W, as the backbone or as `pool` gives it; output B×classes. The disentangled maps, of size
    B×positions×classes×C, are never made: w_c is the same at all positions and waits until they are summed.
    """

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, classes)
        self.start("default")

    @property
    def last_layer(self) -> nn.Linear:
        """The classifier that takes the map apart; with weights of zero it looks everywhere alike."""
        return self.linear

    def attend(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Positions B×P×C of a map, how they answer to every class, B×P×classes, and the softmax of that over them."""
        positions = self.pool(features).flatten(2).transpose(1, 2)
        answers = nn.functional.linear(positions, self.linear.weight)
        # In float32 at least, whatever the precision around it.
        attention = answers.softmax(1, torch.promote_types(answers.dtype, torch.float32)).to(answers.dtype)
        return positions, answers, attention

    def embed(self, features: Tensor) -> Tensor:
        """One label vector a class, B×classes×C."""
        positions, _, attention = self.attend(features)
        return (attention.transpose(1, 2) @ positions) * self.linear.weight

    def classify(self, embedding: Tensor) -> Tensor:
        """Logits of label vectors: their sums."""
        return embedding.sum(-1) + self.linear.bias

    def forward(self, features: Tensor) -> Tensor:
        """The logits alone need no label vectors: Σ_p a_cp r_cp is their sum."""
        _, answers, attention = self.attend(features)
        return (attention * answers).sum(1) + self.linear.bias
