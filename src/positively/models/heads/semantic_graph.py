"""The head that made the published numbers: a feature for every class by attention, then a graph of the classes.

The paper does not name it; its code has it from SSGRL and SARB (semantic decoupling and a gated graph network).
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from positively.labels import LabelTable
from positively.models.heads.label_graph import LabelGraphHead, shares_together
from positively.models.heads.maps import MapHead
from positively.options import Count

STEPS = 3

# Classes whose attention is computed at once: it needs B·H·W·512 numbers each, a hundred times the map's share.
_CLASSES_AT_ONCE = 16


class SemanticDecoupling(nn.Module):
    """One feature a class, by attention of the class's word vector over positions.

    Shapes: features B×P×D of P positions and word vectors classes×d; output B×classes×D.

    The score of a position is ``fc4(fc3(tanh(fc1(feature) · fc2(vector))))``. The two layers after the tanh are linear,
    so one vector does the work of both; and the sum over positions is a matrix product. Nothing of the size
    B×P×classes×D is ever made, and of the tanh only a few classes at a time: it is computed again for the gradient.
    """

    def __init__(self, vector_size: int, width: int, attention_width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, attention_width, bias=False)
        self.fc2 = nn.Linear(vector_size, attention_width, bias=False)
        self.fc3 = nn.Linear(attention_width, attention_width)
        self.fc4 = nn.Linear(attention_width, 1)

    def forward(self, features: Tensor, word_vectors: Tensor) -> Tensor:
        """Return the feature of every class."""
        positions, classes = self.fc1(features), self.fc2(word_vectors)
        direction = self.fc4.weight @ self.fc3.weight
        # The same for every position, so that the softmax does not see it: the reference's biases have no effect.
        shift = F.linear(self.fc3.bias, self.fc4.weight, self.fc4.bias)
        parts = classes.split(_CLASSES_AT_ONCE)
        if torch.is_grad_enabled() and len(parts) > 1:
            again = partial(checkpoint, _scores, use_reentrant=False, preserve_rng_state=False)
            scored = [again(positions, part, direction) for part in parts]
        else:
            scored = [_scores(positions, part, direction) for part in parts]
        scores = torch.cat(scored, -1) + shift
        # Over the positions, in float32 at least, whatever the precision around it.
        attention = scores.softmax(1, torch.promote_types(scores.dtype, torch.float32)).to(features.dtype)
        return torch.einsum("bpc,bpd->bcd", attention, features)


def _scores(positions: Tensor, classes: Tensor, direction: Tensor) -> Tensor:
    """B×P×A positions and C×A classes → B×P×C."""
    return F.linear(torch.tanh(positions[:, :, None] * classes), direction)[..., 0]


class GatedGraph(nn.Module):
    """A gated graph network: classes tell one another what they have, three times.

    Shapes: B×classes×D and an adjacency classes×classes; output B×classes×D.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.update_message, self.reset_message, self.new_message = (nn.Linear(2 * width, width) for _ in range(3))
        self.update_state, self.reset_state, self.new_state = (nn.Linear(width, width) for _ in range(3))

    def forward(self, state: Tensor, adjacency: Tensor) -> Tensor:
        """Return the state of every class after the last step."""
        for _ in range(STEPS):
            message = torch.cat([adjacency @ state, adjacency.T @ state], -1)
            update = torch.sigmoid(self.update_message(message) + self.update_state(state))
            reset = torch.sigmoid(self.reset_message(message) + self.reset_state(state))
            new = torch.tanh(self.new_message(message) + self.new_state(reset * state))
            state = (1 - update) * state + update * new
        return state


class SemanticGraphHead(MapHead, LabelGraphHead):
    """Feature map → logits, by one feature a class and a graph of the classes.

    Shapes: input B×C×H×W, as the backbone or as `pool` gives it; output B×classes.

    Maps of 14 positions a side or more are averaged 2×2, again and again until a side is below 14 (448 px on a ResNet:
    14×14 → 7×7), so that a map that was averaged before and kept on disk is never averaged twice.

    The BatchNorm behind the first convolution follows ``freeze_batchnorm`` of the classifier: frozen, it is a scale
    and a bias, as in the reference. At depth 'probe', where the head learns alone, it always takes statistics.
    """

    def __init__(
        self,
        channels: int,
        classes: int,
        *,
        word_vectors: Tensor | str | None = None,
        word_vector_size: Count | None = None,
        width: Count = 1024,
        attention_width: Count = 512,
    ) -> None:
        """Make the layers.

        Args:
            channels: Channels of the map.
            classes: Number of classes.
            word_vectors: A vector for the name of each class (the reference has GloVe's), in the order of the classes:
                a .npy file of one row a class, or a tensor. They stay as they are and are saved with the model.
                Default: vectors of 300 numbers that learn from a random start.
            word_vector_size: Vectors of this size that come with the weights: so a saved run is built again.
            width: Numbers a class is described by (SSGRL: 2048).
            attention_width: Numbers in which positions and word vectors are compared (SSGRL: 1024).
        """
        super().__init__(classes, word_vectors, word_vector_size)
        self.change_channels = nn.Sequential(nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width))
        self.decoupling = SemanticDecoupling(self.word_vectors.shape[1], width, attention_width)
        self.graph = GatedGraph(width)
        self.output = nn.Linear(2 * width, width)
        # Row c is the classifier of class c, and sees the feature of class c alone.
        self.classifiers = nn.Linear(width, classes)
        self.start("default")

    @property
    def last_layer(self) -> nn.Linear:
        """The classifiers, one a class."""
        return self.classifiers

    @torch.no_grad()
    def setup(self, table: LabelTable) -> None:
        """Make the graph of the known positives: A_ij = #(i and j) / #(i), with 1 on the diagonal.

        The row of a class without a known positive is zero but for the diagonal. (The reference divides 0 by 0 there,
        and the whole network becomes NaN.)
        """
        super().setup(table)
        adjacency = shares_together(table)
        np.fill_diagonal(adjacency, 1.0)
        self.adjacency.copy_(torch.from_numpy(adjacency))

    def embed(self, features: Tensor) -> Tensor:
        """One vector a class, B×classes×width, by attention over a feature map, averaged before or not."""
        feature_map: Tensor = self.change_channels(self.pool(features))
        of_classes: Tensor = self.decoupling(feature_map.flatten(2).transpose(1, 2), self.word_vectors)
        return of_classes

    def classify(self, embedding: Tensor) -> Tensor:
        """Logits of the vectors of the classes, after they told one another what they have."""
        after_graph = self.graph(embedding, self.adjacency)
        outputs = torch.tanh(self.output(torch.cat([after_graph, embedding], -1)))
        return (outputs * self.classifiers.weight).sum(-1) + self.classifiers.bias
