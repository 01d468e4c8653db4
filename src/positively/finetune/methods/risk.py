"""uPU and nnPU as methods. Both need the class priors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch

from positively.errors import option
from positively.finetune.methods.base import TrainingContext
from positively.finetune.methods.loss_method import LossMethod
from positively.logs import logger
from positively.losses import nnpu, upu
from positively.options import Range, Share, options_of
from positively.probe import fit
from positively.probe.tables import copies, label_states


@dataclass(frozen=True)
class RiskOptions:
    """Options for the class prior."""

    label_frequency: Annotated[float, Range(above=0, maximum=1)] | None = None
    """Share of the true positives that are known. The prior is the frequency of known positives divided by it.
    Default: estimated per class by a probe on stored embeddings; 0.5 if images are read from disk."""
    prior: Share | None = None
    """Share of images that carry a class, the same for all classes, instead of the estimate."""


class RiskMethod(LossMethod):
    """PU risk estimator; the class prior is the frequency of known positives divided by the label frequency."""

    def make_loss(self, **changes: Any) -> Any:
        """Build the loss; until the table is known it has a placeholder prior."""
        given = {} if self.options.prior is None else {"prior": self.options.prior}
        return super().make_loss(**{"prior": 0.05, **given, **changes})

    def setup(self, training: TrainingContext) -> None:
        """Estimate the class priors, unless a prior was given."""
        if self.options.prior is None:
            known = training.table.frequencies()
            estimate = torch.tensor(
                known / label_frequency(training, self.options.label_frequency), dtype=torch.float32
            )
            self.loss = self.make_loss(prior=estimate.clamp(max=0.9))


def label_frequency(training: TrainingContext, given: float | None) -> npt.NDArray[np.float64] | float:
    """Share of the true positives that are known: as given, estimated per class, or 0.5."""
    if given is not None:
        return given
    inputs = training.inputs
    if inputs is None:
        logger.warning(
            "Assuming that half of the true positives are known, because there are no stored embeddings to estimate it "
            f"from. If you know the share, pass {option('method_options', {'label_frequency': 0.3})}."
        )
        return 0.5
    # Feature maps are large, so they are pooled a few at a time.
    parts = [inputs[slice(start, start + 1024)] for start in range(0, len(inputs), 1024)]
    pooled = np.concatenate([part if part.ndim == 2 else part.reshape(*part.shape[:2], -1).mean(-1) for part in parts])
    probe = fit(pooled, label_states(training.table), groups=copies(training.table), seed=training.seed)
    return probe.calibration.label_frequency


class UPUMethod(RiskMethod):
    """Unbiased PU risk (uPU, equation 5 of the paper), with estimated class priors."""

    loss_name = "upu"
    Options = options_of(upu, RiskOptions)


class NNPUMethod(RiskMethod):
    """Non-negative PU risk (nnPU), with estimated class priors."""

    loss_name = "nnpu"
    Options = options_of(nnpu, RiskOptions)
