"""Conversion of logits to probabilities."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def sigmoid(logits: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Map logits to [0, 1], in double precision so that large logits stay distinguishable."""
    scores: npt.NDArray[np.float64] = np.exp(-np.logaddexp(0.0, -logits.astype(np.float64)))
    return scores
