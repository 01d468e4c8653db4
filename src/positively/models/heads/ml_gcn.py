"""ML-GCN (Chen, Wei, Wang, Guo, CVPR 2019): the classifiers themselves come out of a graph of the classes.

Two graph convolutions over the word vectors Z give one weight vector a class, and these classify the max-pooled map f:
W = Â · LeakyReLU(Â Z Θ₁) · Θ₂, logits = f Wᵀ, without bias. A class thus shares its classifier with the classes it is
found with.
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
    """Every class takes the sum over its neighbours, X → Â X Θ. Shapes: classes×inputs → classes×outputs."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform within ±1/√outputs, as the authors' code."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, vectors: Tensor, adjacency: Tensor) -> Tensor:
        """What every class has after its neighbours spoke."""
        return adjacency @ (vectors @ self.weight)


class MLGCNHead(LabelGraphHead):
    """Feature map → logits, by max pooling and classifiers that a graph of the classes makes.

    Shapes: input B×C×H×W, or B×C features that were max-pooled before and stored; output B×classes.
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
        """Make the layers.

        Args:
            channels: Channels of the map.
            classes: Number of classes.
            word_vectors: A vector for the name of each class (the authors have GloVe's), in the order of the classes: a
                .npy file of one row a class, or a tensor. They stay as they are and are saved with the model. Default:
                vectors of 300 numbers that learn from a random start.
            word_vector_size: Vectors of this size that come with the weights: so a saved run is built again.
            width: Numbers a class has between the two convolutions.
            threshold: Share of a class's images in which another is found too, from which on the two are neighbours.
            neighbour_weight: What all neighbours weigh together, a class itself being 1 (the authors' code 0.25, their
                paper 0.2).
        """
        super().__init__(classes, word_vectors, word_vector_size)
        self.threshold, self.neighbour_weight = threshold, neighbour_weight
        self.first = GraphConvolution(self.word_vectors.shape[1], width)
        self.second = GraphConvolution(width, channels)
        self.start("default")

    @property
    def feature_key(self) -> str:
        """Max-pooled features: the same as the linear head stores."""
        return "max"

    @torch.no_grad()
    def setup(self, table: LabelTable) -> None:
        """Make the graph of the known positives.

        A_ij = 1 where #(i and j) / #(i) reaches the threshold, i ≠ j; A' = weight · A / (column sums + 10⁻⁶) + I;
        Â = D^−½ A'ᵀ D^−½, D the row sums of A'. Those are 1 at least: a class without positives stands alone.
        """
        super().setup(table)
        neighbours = (shares_together(table) >= self.threshold).astype(np.float64)
        np.fill_diagonal(neighbours, 0)
        weighted = self.neighbour_weight * neighbours / (neighbours.sum(0, keepdims=True) + 1e-6)
        weighted += np.eye(len(weighted))
        scale = weighted.sum(1) ** -0.5
        self.adjacency.copy_(torch.from_numpy(scale[:, None] * weighted.T * scale))

    def pool(self, feature_map: Tensor) -> Tensor:
        """Maximum over the positions, B×C×H×W to B×C; features that are B×C already pass through."""
        return pool_positions(feature_map, "max")

    def classifiers(self) -> Tensor:
        """One weight vector a class, classes×channels."""
        hidden = leaky_relu(self.first(self.word_vectors, self.adjacency), _SLOPE)
        weights: Tensor = self.second(hidden, self.adjacency)
        return weights

    def classify(self, embedding: Tensor) -> Tensor:
        """Logits of pooled features."""
        return embedding @ self.classifiers().T
