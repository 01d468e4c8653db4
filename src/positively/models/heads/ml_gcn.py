"""ML-GCN (Chen, Wei, Wang, Guo, CVPR 2019): a graph network over the classes produces the classifiers.

Two graph convolutions over the word vectors Z give one weight vector per class, which classifies the max-pooled map f:
W = Â · LeakyReLU(Â Z Θ₁) · Θ₂, logits = f Wᵀ, without bias. Classes that occur together thus share their classifiers.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from positively.labels import LabelTable
from positively.models.heads.label_graph import LabelGraphHead, shares_together
from positively.models.heads.linear import pool_positions
from positively.options import Count, Range, Share

_SLOPE = 0.2  # of the leaky ReLU


class GraphConvolution(nn.Module):
    """Graph convolution X → Â X Θ, shape (classes, inputs) → (classes, outputs)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw from a uniform distribution on ±1/√outputs, as the code of the authors does."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, vectors: Tensor, adjacency: Tensor) -> Tensor:
        """Convolve the vectors of the classes."""
        return adjacency @ (vectors @ self.weight)


class MLGCNHead(LabelGraphHead):
    """ML-GCN head: max pooling and classifiers produced by a graph of the classes.

    Takes feature maps (B, C, H, W) or max-pooled embeddings (B, C), and returns logits (B, classes).
    """

    def __init__(
        self,
        channels: int,
        classes: int,
        *,
        word_vectors: Tensor | str | None = None,
        word_vector_size: Count | None = None,
        width: Count = 1024,
        threshold: Annotated[float, Range(above=0, maximum=1)] = 0.4,
        neighbour_weight: Share = 0.25,
    ) -> None:
        """Create the layers.

        Args:
            channels: Number of channels of the map.
            classes: Number of classes.
            word_vectors: Word vectors of the class names (the authors use GloVe): a .npy file or a tensor with one row
                per class, in the order of the classes. They are not trained, and are saved with the model. Default:
                trainable vectors of size 300.
            word_vector_size: Size of the word vectors of a saved run.
            width: Width of the hidden layer of the graph network.
            threshold: Minimum share of the images of a class that carry another class, for the two to be neighbours.
            neighbour_weight: Total weight of all neighbours; a class itself has weight 1 (authors: code 0.25, paper
                0.2).
        """
        super().__init__(classes, word_vectors, word_vector_size)
        self.threshold, self.neighbour_weight = threshold, neighbour_weight
        self.first = GraphConvolution(self.word_vectors.shape[1], width)
        self.second = GraphConvolution(width, channels)
        self.start("default")

    @property
    def feature_key(self) -> str:
        """Max pooling, as for the linear head."""
        return "max"

    @torch.no_grad()
    def setup(self, table: LabelTable) -> None:
        """Build the graph from the known positives.

        A_ij = 1 where #(i and j) / #(i) reaches the threshold, i ≠ j; A' = weight · A / (column sums + 10⁻⁶) + I;
        Â = D^−½ A'ᵀ D^−½ with the row sums D of A', which are at least 1. A class without positives has no neighbours.
        """
        super().setup(table)
        neighbours = (shares_together(table) >= self.threshold).astype(np.float64)
        np.fill_diagonal(neighbours, 0)
        weighted = self.neighbour_weight * neighbours / (neighbours.sum(0, keepdims=True) + 1e-6)
        weighted += np.eye(len(weighted))
        scale = weighted.sum(1) ** -0.5
        self.adjacency.copy_(torch.from_numpy(scale[:, None] * weighted.T * scale))

    def pool(self, feature_map: Tensor) -> Tensor:
        """Max-pool (B, C, H, W) to (B, C); pooled embeddings are returned unchanged."""
        return pool_positions(feature_map, "max")

    def classifiers(self) -> Tensor:
        """Weight vectors of the classes, shape (classes, channels)."""
        hidden = leaky_relu(self.first(self.word_vectors, self.adjacency), _SLOPE)
        weights: Tensor = self.second(hidden, self.adjacency)
        return weights

    def classify(self, embedding: Tensor) -> Tensor:
        """Logits of pooled embeddings."""
        return embedding @ self.classifiers().T
