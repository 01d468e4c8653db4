"""Interactive multi-label CNN learning (IMCL): labels of an image as a combination of its neighbours' labels.

Huynh and Elhamifar, CVPR 2020. The logits s become label scores between −1/c and 1,

    y = (e^z − e^−z / c) / (e^z + e^−z),   z = s + ½ log(1/c).

Up to 10,000 training images form a dictionary of features f_i and label scores y_i. Orthogonal matching pursuit
approximates features and label scores of every image of the batch together by k = 3 images of the dictionary:

    f ≈ Σ_i a_i f_i   and   y ≈ Σ_i a_i G y_i,      L = CE(known labels) + w ‖y − Σ_i a_i G y_i‖².

G is a label graph whose rows sum to 1; w = 0.5 × the ratio of the two losses at the first such step. The residual of
the features selects atoms and coefficients and is not back-propagated.

Our choices: the ratio is that of the cross-entropy and ‖y‖², the residual without any neighbours; with the residual
itself it is unbounded while predictions are alike, and the second term dominates. G starts at the co-occurrence of
known positives (published: of Wikipedia) and the logarithms of its nonzero entries are trained. CE is
`positively.losses.bce`. The dictionary holds the most recent values of each image and is used from the second epoch
on. In the pursuit, features and labels are scaled to the same mean square and weighted 0.25 to 0.5, the published
weights of the two residuals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from positively.errors import ConfigError
from positively.finetune import Method, StepContext, TrainingContext
from positively.losses import ClassReduction, batch_mean, bce
from positively.options import Count, NonNegative, Positive
from positively.randomness import random_stream
from positively.research.rivals.pursuit import matching_pursuit

_FEATURES, _LABELS = 0.25, 0.5
"""Weights of the two residuals in the pursuit, as published for the loss."""


@dataclass(frozen=True)
class InteractiveOptions:
    """Options of the dictionary and its weight."""

    dictionary: Count = 10_000
    """Number of random training images in the dictionary (at most all)."""
    neighbours: Count = 3
    """k, number of neighbours per image."""
    collaboration: NonNegative = 0.5
    """Weight of the label residual, relative to the initial ratio of the losses."""
    asymmetry: Positive = 1.0
    """c of the asymmetric sigmoid: an absent label scores −1/c (COCO: 1)."""
    class_reduction: ClassReduction = "sum"
    """Sum over the classes, or mean."""


def asymmetric_sigmoid(logits: Tensor, asymmetry: float) -> Tensor:
    """Label scores between −1/c and 1; tanh for c = 1.

    Example:
        >>> asymmetric_sigmoid(torch.tensor([0.0, 30.0, -30.0]), 2.0).tolist()
        [0.0, 1.0, -0.5]
    """
    # e^z / (e^z + e^−z) = σ(2z), and the other term is its complement.
    return (2 * logits - math.log(asymmetry)).sigmoid() * (1 + 1 / asymmetry) - 1 / asymmetry


class InteractiveMethod(Method):
    """Interactive multi-label CNN learning (IMCL): labels should be a combination of those of similar images."""

    Options = InteractiveOptions
    uses_negatives = needs_negatives = True  # with positives only, everything would become positive
    atoms: Tensor
    atom_labels: Tensor
    is_filled: Tensor
    ratio: Tensor
    slots: Tensor
    contents: Tensor
    atom_contents: Tensor
    is_connected: Tensor

    def setup(self, training: TrainingContext) -> None:
        """Choose the images of the dictionary and build the label graph."""
        table, layer = training.table, training.trainable.head.last_layer
        if layer is None:
            raise ConfigError("Method 'imcl' needs a head that ends in a linear layer.")
        count, classes = min(self.options.dictionary, len(table)), len(table.classes)
        rows = np.sort(random_stream("dictionary", training.seed).choice(len(table), count, replace=False))
        self.register_buffer("atoms", torch.zeros(count, int(layer.in_features)))
        self.register_buffer("atom_labels", torch.zeros(count, classes))
        self.register_buffer("is_filled", torch.zeros(count, dtype=torch.bool))
        self.register_buffer("ratio", torch.zeros(()))
        slots, contents = torch.full((len(table),), -1), torch.from_numpy(table.contents())
        slots[torch.from_numpy(rows)] = torch.arange(count)
        together = torch.from_numpy(table.cooccurrence().toarray()).float()
        together.diagonal().clamp_(min=1)  # a class without known positives is connected to itself
        self.graph = nn.Parameter(together.clamp_min(1).log())
        # Functions of the table and the seed, so not in the checkpoint.
        fixed = {"slots": slots, "contents": contents, "atom_contents": contents[rows], "is_connected": together > 0}
        for name, values in fixed.items():
            self.register_buffer(name, values, persistent=False)

    def label_graph(self) -> Tensor:
        """Label graph G, shape (C, C); initially the normalised rows of the co-occurrence."""
        return self.graph.masked_fill(~self.is_connected, -torch.inf).softmax(1)

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Train on the known labels and the dictionary, then update the dictionary."""
        embedding = network.forward_features(inputs)
        logits = network.forward_head(embedding)
        observed = bce(logits, states, class_reduction=self.options.class_reduction)
        # One vector per image, for heads with one per class.
        features = (embedding if embedding.ndim == 2 else embedding.mean(1)).detach().to(self.atoms.dtype)
        labels = asymmetric_sigmoid(logits.to(self.atoms.dtype), self.options.asymmetry)
        residual = observed.new_zeros(())
        if step.epoch > 0 and self.options.collaboration:
            with torch.autocast(inputs.device.type, enabled=False):
                residual = batch_mean(self._residuals(features, labels, step.rows).square(), "global").sum()
            # Stays 0 without known labels in the batch, and is then measured in the next step.
            found = observed.detach() / batch_mean(labels.detach().square(), "global").sum().clamp_min(1e-6)
            self.ratio.copy_(torch.where(self.ratio > 0, self.ratio, found))
            residual = self.options.collaboration * self.ratio * residual
        self._remember(step.gather(step.rows), step.gather(features), step.gather(labels))
        return {"observed": observed, "collaboration": residual}

    def _residuals(self, features: Tensor, labels: Tensor, rows: Tensor) -> Tensor:
        """Label scores that the dictionary does not explain, shape (B, C). An image never explains itself."""
        graph = self.label_graph()
        smoothed = self.atom_labels @ graph.detach().T
        count = self.is_filled.sum().clamp_min(1)
        scales = [count / torch.linalg.vector_norm(part).square().clamp_min(1e-12) for part in (self.atoms, smoothed)]
        weights = [_FEATURES * scales[0], _LABELS * scales[1]]
        allowed = self.is_filled & (self.contents[rows][:, None] != self.atom_contents)
        queries = (features, labels.detach())
        chosen, shares = matching_pursuit(queries, (self.atoms, smoothed), weights, allowed, self.options.neighbours)
        return labels - (shares[:, None] @ self.atom_labels[chosen])[:, 0] @ graph.T

    def _remember(self, rows: Tensor, features: Tensor, labels: Tensor) -> None:
        """Store features and label scores of the images of the dictionary."""
        slots = self.slots[rows]
        is_member = slots >= 0
        slots = slots[is_member]
        self.atoms[slots], self.atom_labels[slots] = features[is_member], labels[is_member]
        self.is_filled[slots] = True
