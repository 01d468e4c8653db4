"""After the network has learned: its head solved in closed form on its features, if labels held out say it helps."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from positively.calibration import (
    FEWEST_POSITIVES,
    CalibratedScores,
    OutOfSample,
    Summary,
    calibrate_summary,
    pooled_log_rank,
    summarize,
)
from positively.labels import POSITIVE, States
from positively.logs import logger
from positively.methods.closed_form import copies, double_device, fill_kernel, fill_linear, label_states
from positively.models import KernelHead, LinearHead, Trainable
from positively.probe import LANDMARKS, ONE_STEP, fit
from positively.probe.choice import PENALTIES
from positively.probe.probe import LOGIT_BEND
from positively.runs.scoring import score

if TYPE_CHECKING:
    from positively.training.core import Training

_FEWEST_POSITIVES = 20
# Of log-rank: the best of several λ looks better than it is.
_LEAST_GAIN = 0.02


def solve_head(training: Training) -> tuple[dict[str, CalibratedScores], OutOfSample | None]:
    """Replace the head of a trained network by the closed form's, if held-out positives rank higher by it.

    The network has seen the labels of the training images, so that leave-one-out on its features would leak: λ, the
    choice and the meaning of scores all come from the images held out.

    Returns:
        What the scores mean, by head, and scores of the training images and those held out, each without its own label
        in the head (the network did see those of the training images). Nothing if the network stays as it is.
    """
    head, trainer = training.classifier.head, training.trainer
    states = training.holdout.states()
    if not isinstance(head, LinearHead) or head.normalize or (states == POSITIVE).sum() < _FEWEST_POSITIVES:
        if trainer.verbose:
            logger.info(
                f"The head is not solved in closed form: that takes a plain linear one, and {_FEWEST_POSITIVES} known "
                "tags among the images held out."
            )
        return {}, None
    embedding = _Embedding(training.classifier.trainable)
    width = head.linear.in_features
    common: dict[str, Any] = {"device": trainer.device, "batch_size": trainer.sampler.batch_size, "columns": width}
    common |= {"workers": training.config.workers or 0}
    features, held_out = (score(embedding, dataset, **common) for dataset in (trainer.dataset, trainer.holdout))
    table = training.train
    probe = fit(
        features,
        label_states(table),
        groups=copies(table),
        landmarks=min(LANDMARKS, len(table)),
        step=ONE_STEP,
        seed=training.config.seed,
        device=double_device(trainer.device),
    )
    found: dict[float, Summary] = {}
    for penalty in PENALTIES:
        probe.set_penalty(penalty)
        found[penalty] = _summary(probe.scores(held_out), states)
    best = max(PENALTIES, key=lambda penalty: pooled_log_rank(found[penalty]))
    network = _summary(trainer.score(trainer.holdout), states)
    qualities = pooled_log_rank(found[best]), pooled_log_rank(network)
    is_better = qualities[0] > qualities[1] + _LEAST_GAIN
    if trainer.verbose:
        verdict = "it is used" if is_better else "the network's own head stays"
        logger.info(
            f"Head solved in closed form on the network's features: log-rank of tags held out {qualities[0]:.2f}, by "
            f"the network's own {qualities[1]:.2f}; {verdict}."
        )
    if not is_better or math.isnan(qualities[0]):
        return {}, None
    probe.set_penalty(best)
    probe.kernel.summary = found[best]
    # A class with few positives among the images held out was still learned from the others; its cut leans on theirs.
    learned = training.seen.counts(POSITIVE) >= FEWEST_POSITIVES
    probe.kernel.calibration = replace(calibrate_summary(found[best], bend=LOGIT_BEND), learned=learned)
    plain = replace(calibrate_summary(network, frequency_bend=np.inf), learned=learned)  # a network gives logits
    solved = KernelHead(width, len(table.classes), pooling=head.pooling, landmarks=min(LANDMARKS, len(table)))
    solved.saved_options = {"pooling": head.pooling, "landmarks": len(solved.landmarks)}
    solved = solved.to(head.linear.weight.device)
    fill_kernel(solved, probe)
    fill_linear(
        solved.linear, head.linear.weight.detach().cpu().T.double(), head.linear.bias.detach().cpu().double(), plain
    )
    training.classifier.replace_head(solved)
    calibrated = {
        "kernel": CalibratedScores(probe.kernel.calibration, found[best]),
        "linear": CalibratedScores(plain, network),
    }
    scores = np.concatenate([probe.first_scores(np.arange(len(table.classes))), probe.scores(held_out)])
    return calibrated, OutOfSample(scores, calibrated["kernel"])


def _summary(scores: npt.NDArray[np.float32], states: States) -> Summary:
    return summarize(scores, states, leave_one_out=False)


class _Embedding(nn.Module):
    """Inputs → what the head classifies."""

    def __init__(self, trainable: Trainable) -> None:
        super().__init__()
        self.trainable = trainable

    def forward(self, inputs: Tensor) -> Tensor:
        return self.trainable.forward_features(inputs)
