"""Logits → scores."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def sigmoid(logits: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Scores in [0, 1], in double precision so that large logits stay apart."""
    from scipy.special import expit

    scores: npt.NDArray[np.float64] = expit(logits.astype(np.float64))
    return scores
