"""uPU and nnPU as methods: they need the prior of each class."""

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
    """Where the prior comes from."""

    label_frequency: Annotated[float, Range(above=0, maximum=1)] | None = None
    """Share of the true positives that are known: the prior is the frequency of the known positives divided by it.
    Default: estimated for each class by the closed form on stored features; one half where images are read."""
    prior: Share | None = None
    """Share of the images that carry a class, the same for all classes, in place of the estimate."""


class RiskMethod(LossMethod):
    """A risk estimator whose prior is the frequency of the known positives over the label frequency."""

    def make_loss(self, **changes: Any) -> Any:
        """The loss; the prior is known only once there is a table."""
        given = {} if self.options.prior is None else {"prior": self.options.prior}
        return super().make_loss(**{"prior": 0.05, **given, **changes})

    def setup(self, training: TrainingContext) -> None:
        """Estimate the prior, unless it was given."""
        if self.options.prior is None:
            known = training.table.frequencies()
            estimate = torch.tensor(
                known / label_frequency(training, self.options.label_frequency), dtype=torch.float32
            )
            self.loss = self.make_loss(prior=estimate.clamp(max=0.9))


def label_frequency(training: TrainingContext, given: float | None) -> npt.NDArray[np.float64] | float:
    """Share of the true positives that are known: as given, or estimated for each class, or one half."""
    if given is not None:
        return given
    inputs = training.inputs
    if inputs is None:
        logger.warning(
            "The share of the true positives that are known is taken to be one half, for there are no stored "
            f"features to estimate it by. If you know it, pass {option('options', {'label_frequency': 0.3})}."
        )
        return 0.5
    # Maps are pooled; of a hundred times the size of vectors, they are read a few at a time.
    parts = [inputs[slice(start, start + 1024)] for start in range(0, len(inputs), 1024)]
    pooled = np.concatenate([part if part.ndim == 2 else part.reshape(*part.shape[:2], -1).mean(-1) for part in parts])
    probe = fit(pooled, label_states(training.table), groups=copies(training.table), seed=training.seed)
    return probe.calibration.label_frequency


class UPUMethod(RiskMethod):
    """The unbiased risk (equation 5 of the paper)."""

    loss_name = "upu"
    Options = options_of(upu, RiskOptions)


class NNPUMethod(RiskMethod):
    """The non-negative risk."""

    loss_name = "nnpu"
    Options = options_of(nnpu, RiskOptions)
