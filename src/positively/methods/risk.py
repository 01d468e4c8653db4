"""uPU and nnPU as methods: they need the prior of each class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch

from positively.losses import nnpu, upu
from positively.methods.base import TrainingContext
from positively.methods.loss_method import LossMethod
from positively.options import Range, Share, options_of


@dataclass(frozen=True)
class RiskOptions:
    """Where the prior comes from."""

    label_frequency: Annotated[float, Range(above=0, maximum=1)] = 1.0
    """Share of the true positives that are known: the prior is the frequency of the known positives divided by it."""
    prior: Share | None = None
    """Share of the images that carry a class, the same for all classes, in place of the estimate."""


class RiskMethod(LossMethod):
    """A risk estimator whose prior is the frequency of the known positives over the label frequency."""

    @classmethod
    def benchmark_options(cls, label_frequency: float, published: Mapping[str, Any]) -> dict[str, Any]:
        """The share of the positives that the benchmark left known."""
        return {"label_frequency": label_frequency}

    def make_loss(self, **changes: Any) -> Any:
        """The loss; the prior is known only once there is a table."""
        given = {} if self.options.prior is None else {"prior": self.options.prior}
        return super().make_loss(**{"prior": 0.05, **given, **changes})

    def setup(self, training: TrainingContext) -> None:
        """Estimate the prior, unless it was given."""
        if self.options.prior is None:
            estimate = torch.tensor(training.table.frequencies() / self.options.label_frequency, dtype=torch.float32)
            self.loss = self.make_loss(prior=estimate.clamp(max=0.9))


class UPUMethod(RiskMethod):
    """The unbiased risk (equation 5 of the paper)."""

    loss_name = "upu"
    Options = options_of(upu, RiskOptions)


class NNPUMethod(RiskMethod):
    """The non-negative risk."""

    loss_name = "nnpu"
    Options = options_of(nnpu, RiskOptions)
