"""Criteria for choosing λ: how well held-out scores fit the known positives. Higher is better.

Each takes scores (N, C), made without the label of the image, and label states (N, C), of which only positives are
used. Classes with a single known positive are skipped, because nothing is left to learn from when it is held out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from positively import calibration
from positively.labels import NEGATIVE, POSITIVE, States
from positively.losses import vpu
from positively.metrics import average_precision, pair_average_precision
from positively.probe.choice import PENALTIES, _vertex
from positively.probe.probe import LOGIT_ASINH_SCALE

Scores = npt.NDArray[np.floating]
Criterion = Callable[[Scores, States], float]


def pu_ap(scores: Scores, states: States) -> float:
    """Average precision without the effect of known positives on their own scores; the criterion of ``auto``."""
    return pair_average_precision(scores, states == POSITIVE)


def pu_ap_raw(scores: Scores, states: States) -> float:
    """As `pu_ap` with raw ranks, which gives most weight to the top ranks."""
    return pair_average_precision(scores, states == POSITIVE, top=0)


def log_rank(scores: Scores, states: States) -> float:
    """Mean of −log(rank / N) over the known positives of all classes."""
    positives = (states == POSITIVE) & judged(states)
    return calibration.log_rank(scores, positives)


def ap(scores: Scores, states: States) -> float:
    """Average precision of known positives against all other labels, mean over classes."""
    return float(average_precision(scores, _against_all(states))[judged(states)].mean())


def auc(scores: Scores, states: States) -> float:
    """Area under the ROC curve of known positives against all other labels, mean over classes."""
    found = []
    for column in np.flatnonzero(judged(states)):
        positive = states[:, column] == POSITIVE
        others = np.sort(scores[~positive, column])
        own = scores[positive, column]
        below = (np.searchsorted(others, own, "left") + np.searchsorted(others, own, "right")) / 2
        found.append(below.mean() / max(len(others), 1))
    return float(np.mean(found)) if found else float("nan")


def variational(scores: Scores, states: States) -> float:
    """Negated vPU loss, mean over classes.

    Least-squares scores are not logits; the calibration of ``auto`` on the same scores converts them.
    """
    chosen = judged(states)
    scores, states = scores[:, chosen], np.where(states[:, chosen] == POSITIVE, 1, 0)
    logits = calibration.calibrate(scores, states, leave_one_out=False, asinh_scale=LOGIT_ASINH_SCALE).logits(scores)
    return -float(vpu(torch.from_numpy(logits), torch.from_numpy(states), class_reduction="mean"))


CRITERIA: dict[str, Criterion] = {
    "PU AP": pu_ap,
    "PU AP, ranks as they are": pu_ap_raw,
    "log-rank": log_rank,
    "AP": ap,
    "AUC": auc,
    "vPU": variational,
}


def judged(states: States) -> npt.NDArray[np.bool_]:
    """Classes with at least two known positives, shape (C,)."""
    return np.asarray((states == POSITIVE).sum(axis=0) >= 2)


def best_penalty(quality: list[float], penalties: tuple[float, ...] = PENALTIES) -> float:
    """λ with the highest quality, interpolated between grid points as in ``auto``."""
    # The rule of the product, so that variants differ in the criterion only.
    return _vertex(np.log(penalties), np.array(quality))


def _against_all(states: States) -> States:
    return np.where(states == POSITIVE, POSITIVE, NEGATIVE).astype(np.int8)
