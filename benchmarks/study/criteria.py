"""How well held-out scores fit the known positives: what λ may be chosen by. Higher is better.

Each takes scores N×C, made without the photo's own label, and states N×C, of which positives alone are read; everything
else is unlabeled. Classes with a single known positive are left out: without it there is none to learn from.
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
    """Average precision without what known positives say of themselves: what ``auto`` takes."""
    return pair_average_precision(scores, states == POSITIVE)


def pu_ap_raw(scores: Scores, states: States) -> float:
    """The same with ranks as they are: the places at the very top decide."""
    return pair_average_precision(scores, states == POSITIVE, top=0)


def log_rank(scores: Scores, states: States) -> float:
    """Mean of −log(rank / N) over the known positives of all classes."""
    positives = (states == POSITIVE) & judged(states)
    return calibration.log_rank(scores, positives)


def ap(scores: Scores, states: States) -> float:
    """Average precision of known positives against everything else, mean of the classes."""
    return float(average_precision(scores, _against_all(states))[judged(states)].mean())


def auc(scores: Scores, states: States) -> float:
    """Area under the ROC curve of known positives against everything else, mean of the classes."""
    found = []
    for column in np.flatnonzero(judged(states)):
        positive = states[:, column] == POSITIVE
        others = np.sort(scores[~positive, column])
        own = scores[positive, column]
        below = (np.searchsorted(others, own, "left") + np.searchsorted(others, own, "right")) / 2
        found.append(below.mean() / max(len(others), 1))
    return float(np.mean(found)) if found else float("nan")


def variational(scores: Scores, states: States) -> float:
    """The paper's variational loss without its additions (vPU), negated, mean of the classes.

    Least-squares scores are no logits: the calibration of ``auto`` turns them into logits, found from the same scores.
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
    """(C,) classes with two known positives or more."""
    return np.asarray((states == POSITIVE).sum(axis=0) >= 2)


def best_penalty(quality: list[float], penalties: tuple[float, ...] = PENALTIES) -> float:
    """λ with the highest quality, between the points of the grid, as ``auto`` finds it."""
    # The product's own rule, so that a variant differs in the criterion and nothing else.
    return _vertex(np.log(penalties), np.array(quality))


def _against_all(states: States) -> States:
    return np.where(states == POSITIVE, POSITIVE, NEGATIVE).astype(np.int8)
