"""After fine-tuning: decide between the fine-tuned and the original network, and between a solved and a trained head.

Held-out tags decide. The fallback is the probe on the original network; the fine-tuned network is used only if it ranks
the held-out tags significantly higher.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from torch import Tensor

from positively.calibration import (
    FEWEST_POSITIVES,
    CalibratedScores,
    OutOfSample,
    Summary,
    calibrate_summary,
    log_ranks,
    summarize,
)
from positively.distributed import on_first_process
from positively.finetune.teacher import is_plain
from positively.labels import POSITIVE, LabelTable, States
from positively.logs import logger
from positively.models import KernelHead, LinearHead
from positively.models.heads import pool_windows
from positively.models.heads.fitted import fill_kernel, fill_linear
from positively.pipeline import FEWEST_JUDGES
from positively.probe import (
    LANDMARKS,
    ONE_STEP,
    KernelClassifier,
    LinearClassifier,
    Probe,
    ProbeOptions,
    fit,
    fit_table,
)
from positively.probe.choice import PENALTIES, choose_penalty
from positively.probe.probe import LOGIT_ASINH_SCALE
from positively.probe.tables import calibrated_heads, copies, first_out_of_sample, label_states

if TYPE_CHECKING:
    from positively.finetune.training import Training

Features = npt.NDArray[np.float32]
Weights = dict[str, Tensor]

# One-sided 5 % significance, in standard errors.
_CERTAIN = 1.645
# Side of the windows an image is pooled over, as a share of the feature map; smaller maps are pooled as a whole.
_WINDOW, _SMALLEST_MAP = 3 / 7, 4


@dataclass(frozen=True)
class Solved:
    """Result of solving the head. The default values mean that the network keeps its own head."""

    calibrated: dict[str, CalibratedScores] = field(default_factory=dict)
    """Calibration of the scores, by head."""
    out_of_sample: OutOfSample | None = None
    """Out-of-sample scores: each label is scored by a head that was fitted without it."""
    table: LabelTable | None = None
    """Images the head was fitted on: the training images, then the held-out images unless the table defines them."""
    learning_helped: bool = True
    """Whether the fine-tuned network is used."""
    has_exact_scores: bool = False
    """Whether the out-of-sample scores come from a network that has not seen the labels."""
    kernel: KernelClassifier | None = None
    """The solved kernel head, or None if the network keeps its own head."""
    linear: LinearClassifier | None = None
    """The solved linear head."""


@dataclass(frozen=True)
class _Learned:
    """A probe on embeddings of the fine-tuned network. The held-out images determine λ and the calibration."""

    features: Features
    """Embeddings of the training images, then of the held-out images."""
    penalty: float
    summary: Summary
    log_ranks: npt.NDArray[np.float64]
    """Log-ranks of the held-out tags. Each half is ranked with the λ chosen on the other half."""


def solve_head(training: Training) -> Solved:
    """Fit a probe on the fine-tuned network, and use it if it ranks the held-out tags higher than the alternative.

    The alternative is the probe on the original network or, if the network had no pretrained weights, its own head. The
    fine-tuned network has seen the labels of the training images, so leave-one-out scores on its embeddings would leak.
    λ, the decision and the calibration therefore come from the held-out images. On the embeddings of the original
    network leave-one-out is exact, and all images are used.
    """
    head, trainer = training.classifier.head, training.trainer
    states = training.holdout.states()
    can_judge = (states == POSITIVE).sum() >= FEWEST_JUDGES
    if not is_plain(head) or not (can_judge or training.initial):
        if trainer.verbose:
            logger.debug(
                "The trained head is kept. A probe needs a plain linear head and at least "
                f"{FEWEST_JUDGES} known tags among the held-out images."
            )
        return Solved()
    window = _window(trainer.sample_map())
    # All processes compute embeddings; then the first process solves and broadcasts the result.
    evidence = _Evidence(
        _features(training, window, training.initial) if training.initial else None,
        _features(training, window) if can_judge else None,
        trainer.score(trainer.holdout) if can_judge else None,
    )
    solved = on_first_process(partial(_decide, training, evidence))
    if solved.kernel is not None:
        assert solved.table is not None
        _apply(training, solved, window)
    return solved


@dataclass(frozen=True)
class _Evidence:
    """Outputs of the network for the training images, then for the held-out images."""

    began: Features | None
    """Embeddings of the original network; None if it was not pretrained."""
    learned: Features | None
    """Embeddings of the fine-tuned network; None if there are too few held-out tags to decide."""
    logits: Features | None
    """Logits of the network's own head for the held-out images."""


def _decide(training: Training, evidence: _Evidence) -> Solved:
    """Choose between the original network, and the fine-tuned network with a solved head or its own head."""
    states, began = training.holdout.states(), evidence.began
    if evidence.learned is None or evidence.logits is None:
        assert began is not None
        _report(training, "Too few held-out tags to tell whether fine-tuning helped: the original network is used.")
        return _as_it_began(training, began)
    positives = states == POSITIVE
    learned = _learned(training, evidence.learned, states)
    after = learned.log_ranks
    if began is None:
        name, before = "trained head", _half_ranks([evidence.logits] * 2, positives)
    else:
        # Not the network's own head: log-ranks of two kinds of heads are not comparable.
        count = len(training.train)
        probe = _solve(training, training.train, began[:count])
        name, before = "original network", _half_ranks([probe.scores(began[count:])] * 2, positives)
    # The original network has exact leave-one-out scores, so a gain over it must be significant. Of two heads on the
    # same network the better one is used.
    helps = _is_ahead(after, before, positives, _CERTAIN if began is not None else 0.0)
    learned_name = "solved head" if began is None else "fine-tuned network"
    chance = " (the difference may be due to chance)" if not helps and after.mean() > before.mean() else ""
    _report(training, f"Held-out tags decide: the {learned_name if helps else name} is used{chance}.")
    logger.debug(
        f"Mean log-rank of {len(after):,} held-out tags: {learned_name} {after.mean():.2f}, {name} {before.mean():.2f}."
    )
    if helps:
        return _after_learning(training, learned, evidence.logits, began)
    return Solved() if began is None else _as_it_began(training, began)


def _apply(training: Training, solved: Solved, window: int) -> None:
    """Install the solved head, and restore the original weights if fine-tuning did not help."""
    assert solved.kernel is not None and solved.linear is not None
    if not solved.learning_helped:
        assert training.initial is not None
        training.trainer.trainable.load_state_dict(training.initial)
    old, landmarks = _plain_head(training), len(solved.kernel.landmarks)
    channels, classes = old.linear.in_features, old.linear.out_features
    head = KernelHead(channels, classes, pooling=old.pooling, landmarks=landmarks, window=window)
    head.saved_options = {"pooling": old.pooling, "landmarks": landmarks, "window": window}
    fill_kernel(head, solved.kernel)
    fill_linear(head.linear, solved.linear)
    training.classifier.replace_head(head.to(old.linear.weight.device))


def _halves(images: int) -> list[npt.NDArray[np.bool_]]:
    """Split the held-out images into two halves. Each half is scored with the λ chosen on the other half."""
    return [np.arange(images) % 2 == half for half in range(2)]


def _half_ranks(scores: Sequence[Features], positives: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Log-ranks of the tags of each half among the images of that half, by the scores of that half."""
    halves = zip(scores, _halves(len(positives)), strict=True)
    return np.concatenate([log_ranks(found, positives & half[:, None], half) for found, half in halves])


def _is_ahead(
    ranks: npt.NDArray[np.float64],
    others: npt.NDArray[np.float64],
    positives: npt.NDArray[np.bool_],
    errors: float = _CERTAIN,
) -> bool:
    """Whether the ranks are higher by more than ``errors`` standard errors. Tags of one image are one observation."""
    difference = ranks - others
    owners = np.concatenate([np.nonzero((positives & half[:, None]).T)[1] for half in _halves(len(positives))])
    centred = np.bincount(owners, difference - difference.mean())
    return float(difference.sum()) > errors * math.sqrt(float(centred @ centred))


def _window(feature_map: Tensor) -> int:
    side = min(feature_map.shape[-2:]) if feature_map.ndim == 4 else 0
    return round(_WINDOW * side) if side >= _SMALLEST_MAP else 0


def _features(training: Training, window: int, weights: Weights | None = None) -> Features:
    """Pooled embeddings (with windows, if any) of training and held-out images, by ``weights`` or the current ones."""
    trainer, head = training.trainer, _plain_head(training)
    present = {name: tensor.clone() for name, tensor in trainer.trainable.state_dict().items()}
    pool = partial(pool_windows, pooling=head.pooling, window=window) if window else None
    trainer.trainable.load_state_dict(weights or present)
    try:
        return np.concatenate([trainer.embed(dataset, pool) for dataset in (trainer.dataset, trainer.holdout)])
    finally:
        trainer.trainable.load_state_dict(present)


def _solve(training: Training, table: LabelTable, features: Features) -> Probe:
    """Fit a probe on embeddings that have not seen any label."""
    options = ProbeOptions(negatives=training.trainer.method.uses_negatives)
    return fit_table(table, features, options, seed=training.config.seed, linear=True)


def _solved_table(training: Training) -> LabelTable:
    """Images to fit on: training images, then held-out images, but not those that the table assigns to 'val'."""
    own_val = training.seen.splits is not None and "val" in training.seen.splits
    return training.train if own_val else training.seen.select(training.places)


def _as_it_began(training: Training, features: Features) -> Solved:
    """Fit the probe on all images with the original network; equals depth 'probe' with windows."""
    table = _solved_table(training)
    probe = _solve(training, table, features[: len(table)])
    return Solved(
        calibrated_heads(probe),
        first_out_of_sample(probe),
        table,
        learning_helped=False,
        has_exact_scores=True,
        kernel=KernelClassifier.of(probe),
        linear=LinearClassifier.of(probe),
    )


def _fit_learned(training: Training, table: LabelTable, features: Features) -> Probe:
    table = table if training.trainer.method.uses_negatives else table.positives_only()
    return fit(
        features,
        label_states(table),
        groups=copies(table),
        landmarks=min(LANDMARKS, len(table)),
        step=ONE_STEP,
        seed=training.config.seed,
    )


def _learned(training: Training, features: Features, states: States) -> _Learned:
    count = len(training.train)
    probe = _fit_learned(training, training.train, features[:count])
    found = dict(zip(PENALTIES, probe.scores_at(features[count:], PENALTIES), strict=True))
    crossed = [found[_best_penalty(found, states, ~half)] for half in _halves(len(states))]
    best = _best_penalty(found, states, np.ones(len(states), np.bool_))
    summary = summarize(found[best], states, leave_one_out=False)
    return _Learned(features, best, summary, _half_ranks(crossed, states == POSITIVE))


def _best_penalty(found: dict[float, Features], states: States, judges: npt.NDArray[np.bool_]) -> float:
    """λ chosen on the images selected by ``judges``."""
    positives = states[judges] == POSITIVE
    return choose_penalty(lambda penalty: found[penalty][judges], positives, between=False)


def _after_learning(training: Training, learned: _Learned, logits: Features, began: Features | None) -> Solved:
    """Fit the probe on all images with the fine-tuned network, calibrated on the held-out images.

    Missing tags are found with the original network if it was pretrained, because it has not seen the labels.
    """
    head, table = _plain_head(training), _solved_table(training)
    network = summarize(logits, training.holdout.states(), leave_one_out=False)
    probe = _fit_learned(training, table, learned.features[: len(table)])
    probe.set_penalty(learned.penalty)
    probe.kernel.summary = learned.summary
    # A class with few positives among the held-out images can still be learned; its threshold is shrunk to the others.
    is_learned = training.seen.counts(POSITIVE) >= FEWEST_POSITIVES
    probe.kernel.calibration = replace(
        calibrate_summary(learned.summary, asinh_scale=LOGIT_ASINH_SCALE), learned=is_learned
    )
    # The scores of a network are logits.
    plain = replace(calibrate_summary(network, frequency_asinh_scale=np.inf), learned=is_learned)
    weight, bias = (part.detach().cpu().double().numpy() for part in (head.linear.weight.T, head.linear.bias))
    calibrated = {
        "kernel": CalibratedScores(probe.kernel.calibration, learned.summary),
        "linear": CalibratedScores(plain, network),
    }
    if began is not None:
        exact = first_out_of_sample(_solve(training, table, began[: len(table)]))
    else:
        scores = probe.first_scores(np.arange(len(table.classes)))
        exact = OutOfSample(scores, calibrated["kernel"])
    return Solved(
        calibrated,
        exact,
        table,
        has_exact_scores=began is not None,
        kernel=KernelClassifier.of(probe),
        linear=LinearClassifier.meaning(weight, bias, plain),
    )


def _plain_head(training: Training) -> LinearHead:
    head = training.classifier.head
    assert isinstance(head, LinearHead)
    return head


def _report(training: Training, sentence: str) -> None:
    if training.trainer.verbose:
        logger.info(sentence)
