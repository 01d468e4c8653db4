"""EPR as a method, with an estimate of the mean number of positives per image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from positively.finetune import LossMethod, TrainingContext, label_frequency
from positively.losses import epr
from positively.options import Positive, Range, options_of


@dataclass(frozen=True)
class ExpectedPositivesOptions:
    """Options for the expected number of positives."""

    expected_positives: Positive | None = None
    """k, mean number of positives per image (authors: VOC 1.5, COCO 2.9). Default: known positives per image, divided
    by the label frequency."""
    label_frequency: Annotated[float, Range(above=0, maximum=1)] | None = None
    """Share of the true positives that are known. Default: estimated per class by a probe on stored embeddings; 0.5 if
    images are read from disk."""


def expected_positives(training: TrainingContext, options: ExpectedPositivesOptions) -> float:
    """k: as given, or the sum over classes of frequency of known positives / label frequency."""
    if options.expected_positives is not None:
        return float(options.expected_positives)
    priors = training.table.frequencies() / label_frequency(training, options.label_frequency)
    return max(float(np.minimum(priors, 0.9).sum()), 1e-3)  # no class is estimated as certain


class EPRMethod(LossMethod):
    """Expected-positive regularisation (EPR), with an estimate of the mean number of positives per image."""

    loss_name = "epr"
    Options = options_of(epr, ExpectedPositivesOptions)

    def make_loss(self, **changes: Any) -> Any:
        """Build the loss; until the table is known it has a placeholder."""
        return super().make_loss(**{"expected_positives": self.options.expected_positives or 1.0, **changes})

    def setup(self, training: TrainingContext) -> None:
        """Estimate the expected number of positives, unless given."""
        self.loss = self.make_loss(expected_positives=expected_positives(training, self.options))
