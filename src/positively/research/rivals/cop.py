"""CoP, co-projection (Wen et al., IEEE TSMC 2020): images and labels that belong together are close in a common space.

loss = BCE over the known labels + weight × (images and labels + labels among themselves). Only the abstract of the
publication was available; `positively.models.heads.cop` describes how scores are combined. The two terms are our own
design, with unit vectors u of an image and v_c of a label in the common space:

* known positives are pulled towards their image, 1 − u · v_c, known negatives pushed away, max(0, u · v_c − margin);
* the same for a label and the mean of its image's other known positives instead of u.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from positively.finetune import LossMethod, StepContext
from positively.losses import bce, label_correlation, pull_and_push
from positively.options import options_of
from positively.research.rivals.cadm import CorrelationOptions


class CoProjectionMethod(LossMethod):
    """CoP: BCE over known labels, plus a term that brings images and their labels close in a common space."""

    loss_name, head = "bce", "cop"
    Options = options_of(bce, CorrelationOptions)

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Classification loss and co-projection of images and labels."""
        options, head = self.options, network.head
        if not options.weight:
            return super().training_step(network, inputs, states, step)
        embedding, labels = network.forward_features(inputs), head.labels()
        closeness = head.closeness(embedding, labels)
        pull = partial(
            pull_and_push,
            margin=options.margin,
            class_reduction=options.class_reduction,
            statistics=options.statistics,
        )
        projection = pull(closeness, states) + pull(*label_correlation(labels, states))
        loss = self.loss(head.combine(embedding, closeness), states)
        return {"loss": loss, "co-projection": options.weight * projection}
