"""EPR as a method: it needs to know how many positives an image has on average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from positively.finetune import LossMethod, TrainingContext, label_frequency
from positively.losses import epr
from positively.options import Positive, Range, options_of


@dataclass(frozen=True)
class ExpectedPositivesOptions:
    """Where the number of positives comes from."""

    expected_positives: Positive | None = None
    """k, the positives an image has on average (the authors: VOC 1.5, COCO 2.9). Default: the known positives of an
    image, over the share of the true ones that are known."""
    label_frequency: Annotated[float, Range(above=0, maximum=1)] | None = None
    """Share of the true positives that are known. Default: estimated for each class by the closed form on stored
    features; one half where images are read."""


def expected_positives(training: TrainingContext, options: ExpectedPositivesOptions) -> float:
    """k: given, or the sum over classes of (frequency of the known positives) / (label frequency)."""
    if options.expected_positives is not None:
        return float(options.expected_positives)
    priors = training.table.frequencies() / label_frequency(training, options.label_frequency)
    return max(float(np.minimum(priors, 0.9).sum()), 1e-3)  # no estimate calls a class certain


class EPRMethod(LossMethod):
    """Minimises the loss of that name."""

    loss_name = "epr"
    Options = options_of(epr, ExpectedPositivesOptions)

    def make_loss(self, **changes: Any) -> Any:
        """The loss; how many positives to expect is known only once there is a table."""
        return super().make_loss(**{"expected_positives": self.options.expected_positives or 1.0, **changes})

    def setup(self, training: TrainingContext) -> None:
        """Estimate the expected positives, unless they were given."""
        self.loss = self.make_loss(expected_positives=expected_positives(training, self.options))
