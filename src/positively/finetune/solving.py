"""After the network has learned: is it better than as it began, and is a head in closed form better than its own?

Tags of images held out decide. The closed form on the network as it began is always there to be fallen back on: what
was learned has to rank those tags higher, by more than chance.
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

# Standard errors ahead that chance gives one time in twenty.
_CERTAIN = 1.645
# Side of the parts a picture is looked at in, as a share of the map's; smaller maps have no parts.
_WINDOW, _SMALLEST_MAP = 3 / 7, 4


@dataclass(frozen=True)
class Solved:
    """What came of solving the head; nothing, if the network stays as it is, with its own head."""

    calibrated: dict[str, CalibratedScores] = field(default_factory=dict)
    """What the scores mean, by head."""
    out_of_sample: OutOfSample | None = None
    """Scores of the images solved for, each without its own label in the head."""
    table: LabelTable | None = None
    """The images solved for: the training images, then those held out unless the table itself holds them out."""
    learning_helped: bool = True
    """Whether what the network learned is used."""
    has_exact_scores: bool = False
    """Whether the out-of-sample scores are by a network that did not see the labels."""
    kernel: KernelClassifier | None = None
    """The head that was solved, on what was learned or on the network as it began; None leaves the network's own."""
    linear: LinearClassifier | None = None
    """The plain one beside it."""


@dataclass(frozen=True)
class _Learned:
    """The closed form on features of the network that learned; λ and what scores mean are by the images held out."""

    features: Features
    """Of the training images, then of those held out."""
    penalty: float
    summary: Summary
    log_ranks: npt.NDArray[np.float64]
    """Of the tags held out, half of them by a λ that the other half chose."""


def solve_head(training: Training) -> Solved:
    """Solve the head on what was learned, if that ranks the tags held out higher than what there was before.

    Before there was the closed form on the network as it began or, where that knew nothing, the network's own head. A
    network has seen the labels of the training images, so that leave-one-out on the features it learned would leak: λ,
    the choice and the meaning of scores come from the images held out. On those it began with, leave-one-out is exact,
    and all images are solved for.
    """
    head, trainer = training.classifier.head, training.trainer
    states = training.holdout.states()
    can_judge = (states == POSITIVE).sum() >= FEWEST_JUDGES
    if not is_plain(head) or not (can_judge or training.initial):
        if trainer.verbose:
            logger.debug(
                f"The head is not solved in closed form: that takes a plain linear one, and {FEWEST_JUDGES} known "
                "tags among the images held out."
            )
        return Solved()
    window = _window(trainer.sample_map())
    # What all processes have a part in comes first; the first one then solves, and tells the others.
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
    """What the network gives of the training images, then of those held out."""

    began: Features | None
    """Its features as it began; None if that knew nothing."""
    learned: Features | None
    """Its features now; None if too few tags are held out to judge by."""
    logits: Features | None
    """Its own head's logits of the images held out."""


def _decide(training: Training, evidence: _Evidence) -> Solved:
    """What is used: the network as it began, or as it is now with a solved head or its own."""
    states, began = training.holdout.states(), evidence.began
    if evidence.learned is None or evidence.logits is None:
        assert began is not None
        _report(training, "Too few tags are held out to tell whether learning helped: the network stays as it began.")
        return _as_it_began(training, began)
    positives = states == POSITIVE
    learned = _learned(training, evidence.learned, states)
    after = learned.log_ranks
    if began is None:
        name, before = "with the network's own", _half_ranks([evidence.logits] * 2, positives)
    else:
        # Not with the network's own head: of two kinds, the one with the higher log-rank need not be the better.
        count = len(training.train)
        probe = _solve(training, training.train, began[:count])
        name, before = "solved on the network as it began", _half_ranks([probe.scores(began[count:])] * 2, positives)
    # A network as it began has exact leave-one-out, which learning gives away; of two heads on one network, the better.
    helps = _is_ahead(after, before, positives, _CERTAIN if began is not None else 0.0)
    chance = ", for the difference may be chance" if after.mean() > before.mean() else ""
    verdict = "the former is used" if helps else f"the latter is used{chance}"
    _report(
        training,
        f"Log-rank of {len(after):,} tags held out, with the head solved on what was learned: {after.mean():.2f}, "
        f"{name}: {before.mean():.2f}; {verdict}.",
    )
    if helps:
        return _after_learning(training, learned, evidence.logits, began)
    return Solved() if began is None else _as_it_began(training, began)


def _apply(training: Training, solved: Solved, window: int) -> None:
    """Give the network the head that was solved, and the weights it began with if learning did not help."""
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
    """Two halves of the images held out: each judges by a λ that the other chose."""
    return [np.arange(images) % 2 == half for half in range(2)]


def _half_ranks(scores: Sequence[Features], positives: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Log-ranks of the tags of each half among the images of that half, by its own scores."""
    halves = zip(scores, _halves(len(positives)), strict=True)
    return np.concatenate([log_ranks(found, positives & half[:, None], half) for found, half in halves])


def _is_ahead(
    ranks: npt.NDArray[np.float64],
    others: npt.NDArray[np.float64],
    positives: npt.NDArray[np.bool_],
    errors: float = _CERTAIN,
) -> bool:
    """Whether the same tags rank higher by more than so many standard errors; tags of one image are one observation."""
    difference = ranks - others
    owners = np.concatenate([np.nonzero((positives & half[:, None]).T)[1] for half in _halves(len(positives))])
    centred = np.bincount(owners, difference - difference.mean())
    return float(difference.sum()) > errors * math.sqrt(float(centred @ centred))


def _window(feature_map: Tensor) -> int:
    side = min(feature_map.shape[-2:]) if feature_map.ndim == 4 else 0
    return round(_WINDOW * side) if side >= _SMALLEST_MAP else 0


def _features(training: Training, window: int, weights: Weights | None = None) -> Features:
    """Pooled features (of parts as well) of the training images and those held out, by these weights or the present."""
    trainer, head = training.trainer, _plain_head(training)
    present = {name: tensor.clone() for name, tensor in trainer.trainable.state_dict().items()}
    pool = partial(pool_windows, pooling=head.pooling, window=window) if window else None
    trainer.trainable.load_state_dict(weights or present)
    try:
        return np.concatenate([trainer.embed(dataset, pool) for dataset in (trainer.dataset, trainer.holdout)])
    finally:
        trainer.trainable.load_state_dict(present)


def _solve(training: Training, table: LabelTable, features: Features) -> Probe:
    """The closed form on features that saw no label."""
    options = ProbeOptions(negatives=training.trainer.method.uses_negatives)
    return fit_table(table, features, options, seed=training.config.seed, linear=True)


def _solved_table(training: Training) -> LabelTable:
    """The training images, then those held out; but images that the table itself calls 'val' are left alone."""
    own_val = training.seen.splits is not None and "val" in training.seen.splits
    return training.train if own_val else training.seen.select(training.places)


def _as_it_began(training: Training, features: Features) -> Solved:
    """Every image is solved for on the network as it began: what depth 'probe' gives, with parts."""
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
    """λ by some of the images held out."""
    positives = states[judges] == POSITIVE
    return choose_penalty(lambda penalty: found[penalty][judges], positives, between=False)


def _after_learning(training: Training, learned: _Learned, logits: Features, began: Features | None) -> Solved:
    """Every image is solved for, those held out included; what scores mean is by those held out, when they were.

    What the table lacks is told by the network as it began, if that knew anything: it has not seen the labels.
    """
    head, table = _plain_head(training), _solved_table(training)
    network = summarize(logits, training.holdout.states(), leave_one_out=False)
    probe = _fit_learned(training, table, learned.features[: len(table)])
    probe.set_penalty(learned.penalty)
    probe.kernel.summary = learned.summary
    # A class with few positives among the images held out was learned from the others; its threshold leans on theirs.
    is_learned = training.seen.counts(POSITIVE) >= FEWEST_POSITIVES
    probe.kernel.calibration = replace(
        calibrate_summary(learned.summary, asinh_scale=LOGIT_ASINH_SCALE), learned=is_learned
    )
    # A network gives logits.
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
        logger.debug(sentence)
