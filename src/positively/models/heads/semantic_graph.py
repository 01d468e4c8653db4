"""Semantic graph head: one feature per class by attention, then a gated graph network over the classes.

The published numbers were made with this head. The paper does not mention it; its code takes it from SSGRL and SARB.
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

# Classes whose attention is computed at once, to limit memory: each needs B·H·W·512 numbers.
_CLASSES_AT_ONCE = 16


class SemanticDecoupling(nn.Module):
    """Semantic decoupling: one feature per class, by attention of its word vector over positions.

    Takes features (B, P, D) of P positions and word vectors (classes, d), and returns (B, classes, D).

    The score of a position is ``fc4(fc3(tanh(fc1(feature) · fc2(vector))))``. The two layers after the tanh are linear
    and are merged, and the sum over positions is a matrix product. Arrays of size B×P×classes×D are never built, and
    the tanh only for a few classes at a time; it is recomputed in the backward pass.
    """

    def __init__(self, vector_size: int, width: int, attention_width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, attention_width, bias=False)
        self.fc2 = nn.Linear(vector_size, attention_width, bias=False)
        self.fc3 = nn.Linear(attention_width, attention_width)
        self.fc4 = nn.Linear(attention_width, 1)

    def forward(self, features: Tensor, word_vectors: Tensor) -> Tensor:
        """Compute the feature of every class, shape (B, classes, D)."""
        positions, classes = self.fc1(features), self.fc2(word_vectors)
        direction = self.fc4.weight @ self.fc3.weight
        # The same for all positions, so the softmax cancels it: the biases of the reference code have no effect.
        shift = F.linear(self.fc3.bias, self.fc4.weight, self.fc4.bias)
        parts = classes.split(_CLASSES_AT_ONCE)
        if torch.is_grad_enabled() and len(parts) > 1:
            again = partial(checkpoint, _scores, use_reentrant=False, preserve_rng_state=False)
            scored = [again(positions, part, direction) for part in parts]
        else:
            scored = [_scores(positions, part, direction) for part in parts]
        scores = torch.cat(scored, -1) + shift
        # Softmax over positions in at least float32, also under mixed precision.
        attention = scores.softmax(1, torch.promote_types(scores.dtype, torch.float32)).to(features.dtype)
        return torch.einsum("bpc,bpd->bcd", attention, features)


def _scores(positions: Tensor, classes: Tensor, direction: Tensor) -> Tensor:
    """Scores of positions (B, P, A) for classes (C, A), shape (B, P, C)."""
    return F.linear(torch.tanh(positions[:, :, None] * classes), direction)[..., 0]


class GatedGraph(nn.Module):
    """Gated graph network: three steps of message passing between classes.

    Takes states (B, classes, D) and an adjacency matrix (classes, classes), and returns states (B, classes, D).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.update_message, self.reset_message, self.new_message = (nn.Linear(2 * width, width) for _ in range(3))
        self.update_state, self.reset_state, self.new_state = (nn.Linear(width, width) for _ in range(3))

    def forward(self, state: Tensor, adjacency: Tensor) -> Tensor:
        """Compute the states after the last step."""
        for _ in range(STEPS):
            message = torch.cat([adjacency @ state, adjacency.T @ state], -1)
            update = torch.sigmoid(self.update_message(message) + self.update_state(state))
            reset = torch.sigmoid(self.reset_message(message) + self.reset_state(state))
            new = torch.tanh(self.new_message(message) + self.new_state(reset * state))
            state = (1 - update) * state + update * new
        return state


class SemanticGraphHead(MapHead, LabelGraphHead):
    """Semantic graph head: one feature per class by attention, and a graph of the classes.

    Takes feature maps (B, C, H, W) or the output of `pool`, and returns logits (B, classes).

    Maps with 14 or more positions per side are averaged 2×2 until a side is below 14 (448 px on a ResNet: 14×14 → 7×7);
    a stored map is therefore never averaged twice.

    The BatchNorm after the first convolution follows ``freeze_batchnorm`` of the classifier: frozen, it is a scale and
    a bias, as in the reference code. At depth 'probe' it always updates its statistics.
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
        """Create the layers.

        Args:
            channels: Number of channels of the map.
            classes: Number of classes.
            word_vectors: Word vectors of the class names (the reference uses GloVe): a .npy file or a tensor with one
                row per class, in the order of the classes. They are not trained, and are saved with the model.
                Default: trainable vectors of size 300.
            word_vector_size: Size of the word vectors of a saved run.
            width: Size of the feature of a class (SSGRL: 2048).
            attention_width: Size of the space in which positions and word vectors are compared (SSGRL: 1024).
        """
        super().__init__(classes, word_vectors, word_vector_size)
        self.change_channels = nn.Sequential(nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width))
        self.decoupling = SemanticDecoupling(self.word_vectors.shape[1], width, attention_width)
        self.graph = GatedGraph(width)
        self.output = nn.Linear(2 * width, width)
        # Row c is the classifier of class c and is applied to the feature of class c only.
        self.classifiers = nn.Linear(width, classes)
        self.start("default")

    @property
    def last_layer(self) -> nn.Linear:
        """The classifiers, one row per class."""
        return self.classifiers

    @torch.no_grad()
    def setup(self, table: LabelTable) -> None:
        """Build the graph from the known positives: A_ij = #(i and j) / #(i), with 1 on the diagonal.

        The row of a class without known positives is zero except for the diagonal. (The reference code divides 0 by 0
        there, and the network becomes NaN.)
        """
        super().setup(table)
        adjacency = shares_together(table)
        np.fill_diagonal(adjacency, 1.0)
        self.adjacency.copy_(torch.from_numpy(adjacency))

    def embed(self, features: Tensor) -> Tensor:
        """Features of the classes, shape (B, classes, width), by attention over a feature map."""
        feature_map: Tensor = self.change_channels(self.pool(features))
        of_classes: Tensor = self.decoupling(feature_map.flatten(2).transpose(1, 2), self.word_vectors)
        return of_classes

    def classify(self, embedding: Tensor) -> Tensor:
        """Logits of the features of the classes after message passing."""
        after_graph = self.graph(embedding, self.adjacency)
        outputs = torch.tanh(self.output(torch.cat([after_graph, embedding], -1)))
        return (outputs * self.classifiers.weight).sum(-1) + self.classifiers.bias
