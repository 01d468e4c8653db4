"""Choice of the ridge penalty λ by leave-one-out scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from positively.calibration import log_rank
from positively.metrics import pair_average_precision

PENALTIES = tuple(float(value) for value in 10.0 ** np.arange(-5.0, 0.1, 0.5))
Criterion = Literal["pu_average_precision", "log_rank"]
# Default for tables with too few positives to choose by; suits a few hundred images.
_PENALTY_OF_SMALL_TABLES = 1e-2


def choose_penalty(
    held_out: Callable[[float], npt.NDArray[np.floating]],
    positives: npt.NDArray[np.bool_],
    reference: npt.NDArray[np.bool_] | None = None,
    share: float = 1.0,
    between: bool = True,
    criterion: Criterion = "pu_average_precision",
) -> float:
    """Choose the λ whose out-of-sample scores rank the known positives highest.

    Args:
        held_out: Function from λ to N×C leave-one-out scores, with known positives rescaled.
        positives: N×C flags of the known positives to rank, from classes with at least two. The only positive of a
            class is scored by a fit without any positive.
        reference: (N,) flags of the images to rank them among; all by default.
        share: Share of the table in the reference, if it is a sample.
        between: Whether λ may lie between the points of the grid.
        criterion: Average precision from positives, or the mean of −log(rank / N).
    """

    def quality_of(penalty: float) -> float:
        scores = held_out(penalty)
        if criterion == "log_rank":
            return log_rank(scores, positives, reference)
        return pair_average_precision(scores, positives, reference, share)

    quality = np.array([quality_of(penalty) for penalty in PENALTIES])
    if not np.isfinite(quality).all():
        found = _PENALTY_OF_SMALL_TABLES
    else:
        found = _vertex(np.log(PENALTIES), quality) if between else PENALTIES[int(quality.argmax())]
    return float(found)


def _vertex(places: npt.NDArray[np.float64], values: npt.NDArray[np.float64]) -> float:
    """Maximum of the parabola through the best point and its neighbors."""
    best = int(values.argmax())
    if best in (0, len(values) - 1):
        return float(np.exp(places[best]))
    before, here, after = values[best - 1 : best + 2]
    curvature = before - 2 * here + after
    shift = 0.5 * (before - after) / curvature if curvature < 0 else 0.0
    return float(np.exp(places[best] + np.clip(shift, -0.5, 0.5) * (places[1] - places[0])))
