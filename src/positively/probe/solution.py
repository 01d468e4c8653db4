"""The fitted part of one regression of a probe."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from positively.calibration import Calibration, Summary
from positively.probe.linalg import Double
from positively.probe.ridge import Ridge


class Solution:
    """Penalty, solution and calibration of one regression."""

    def __init__(self, ridge: Ridge) -> None:
        self.ridge = ridge
        self.penalty = 0.0
        self.moments: Double = np.empty((0, 0))
        """(R+1)×C of the last step's targets."""
        self.summary: Summary
        """Of the out-of-sample scores."""
        self.calibration: Calibration
        """What the scores of the last step mean."""
        self.held_out: npt.NDArray[np.float32] | None = None
        """Out-of-sample scores N×C, of tables that are not too large to hold them."""

    def weights(self, factor: float) -> tuple[Double, Double]:
        """Weights M×C and intercepts (C,) of scores over the basis's embedding."""
        return self.ridge.basis.fold(self.ridge.solution(self.moments, factor * self.penalty))
