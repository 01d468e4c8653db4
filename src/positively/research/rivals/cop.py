"""CoP, co-projection (Wen et al., IEEE TSMC 2020): what is found together comes close in a space of images and labels.

loss = BCE over the known labels + weight × (images and labels + labels among themselves). Of the publication only the
abstract is known here; how scores are combined says `positively.models.heads.cop`. Ours are the two terms, with
the directions u of an image and v_c of a label in the common space:

* a known positive is pulled to its image, 1 − u · v_c, a known negative pushed away, max(0, u · v_c − margin);
* the same for a label and the mean of its image's other known positives in place of u.
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
    """CoP."""

    loss_name, head = "bce", "cop"
    Options = options_of(bce, CorrelationOptions)

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Classification, and the co-projection of images and labels."""
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
