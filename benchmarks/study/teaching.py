"""Training of the last stage: how it is taught, and how the result is used.

A probe is fitted on the initial network, and its soft targets are learned for three epochs, as in ``auto`` (method
'distill'). Then a probe is fitted on the trained network in the same way as on the initial network (row 'not trained,
one step'): known tags, one step, λ of the initial network. Each row changes one thing. A tenth of the images is held
out, as in ``auto``; in another column it determines λ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from benchmarks.study.closed import Labels, Learned
from benchmarks.study.masks import known_positives
from benchmarks.study.problem import Problem
from benchmarks.study.variants import Variant
from positively.calibration import calibrate, log_ranks
from positively.config import TrainConfig
from positively.finetune import (
    FeatureDataset,
    Method,
    StepContext,
    Trainer,
    TrainingContext,
    launch,
    preserved_random_state,
    resolve,
    split_rows,
)
from positively.finetune.methods.distill import Distill, DistillOptions
from positively.finetune.methods.pu_mlc import PUMLCMethod
from positively.labels import POSITIVE, UNKNOWN, LabelTable, States
from positively.losses import adaptive_temperature, mixup_consistency, mixup_targets
from positively.losses.statistics import batch_log_mean_exp
from positively.metrics import mean_average_precision
from positively.models.heads import pool_windows
from positively.probe import ONE_STEP, Probe, ProbeOptions, SelfTraining, fit, fit_table
from positively.probe.choice import PENALTIES, choose_penalty
from positively.probe.probe import LOGIT_ASINH_SCALE
from positively.randomness import random_stream

Scores = npt.NDArray[np.float32]

EPOCHS, RATE, HELD_OUT, FOLDS = 3, 1e-4, 0.1, 5
WINDOW = 3
"""Side of the windows an image is pooled over, of seven positions."""
GAMMA, BETA = 0.55, 0.3
"""PU-MLC's re-balance exponent, and the Beta distribution of mixup, as published."""
AVERAGE = 0.99
"""Decay of the averaged network per step."""
OWN, HELD, ON_TARGETS, SUM = "own head", "solved, λ by held-out tags", "solved on the targets", "sum with the beginning"
"""Other uses of the result; the first one is a probe on its embeddings with known tags and the initial λ."""
TARGETS, LEAK = "targets", "leak"
"""MAP of the last targets over the unknown labels, and the excess in log-rank of known over unknown tags in scores of
the same kind: scores that have seen which labels were known rank them higher."""
VERSION = "teaching 2"
"""Version of the rows, part of the file names of results."""


class RenewedByAverage(Distill):
    """From the second epoch on, the targets of unknown labels are the probabilities of the averaged network."""

    def on_epoch_end(self, training: TrainingContext) -> None:
        """Update the targets. They may leak, because the network has seen the labels."""
        found = torch.from_numpy(training.score()).sigmoid().to(self.targets)
        known = torch.from_numpy(training.table.states() == POSITIVE)
        self.targets = torch.where(known, self.targets, found)


class Renewed(Distill):
    """Targets are computed again after every epoch by a probe on the current embeddings."""

    def on_epoch_end(self, training: TrainingContext) -> None:
        """Update the targets. They may leak, because the network has seen the labels."""
        teacher = fit_table(training.table, training.embed(), ProbeOptions(negatives=False), seed=training.seed)
        targets = teacher.calibration.soft_targets(teacher.loo_scores, training.table.states())
        self.targets = torch.from_numpy(targets).to(self.targets)


class Variational(Distill):
    """PU-MLC's loss (equations 8 and 11) with positives weighted by their targets."""

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Variational part, and consistency of blended neighbours."""
        targets, pairs = self.targets[step.rows], len(inputs) // 2
        share = float(step.generator("mix").beta(BETA, BETA))
        first, second = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
        logits = network(torch.cat([inputs, share * inputs[first] + (1 - share) * inputs[second]]))
        plain, mixed = logits[: len(inputs)], logits[len(inputs) :]
        log_probability = logsigmoid(plain / adaptive_temperature(plain).detach())
        log_mean = batch_log_mean_exp(log_probability, torch.ones_like(states, dtype=torch.bool), "local")
        positive = (log_probability * targets).sum(0) / targets.sum(0).clamp_min(1e-6)
        variational = (GAMMA * log_mean).exp().detach() * log_mean - positive
        blended = mixup_targets(plain, states)
        consistency = mixup_consistency(mixed, blended[first], blended[second], share)
        return {"variational": variational.sum(), "consistency": consistency}


@dataclass(frozen=True)
class Teaching:
    """How the network is taught."""

    method: Callable[[], Method] = Distill
    lr: float = RATE
    average: float = 0.0
    label_folds: bool = False
    """Whether targets come from networks that have not seen the labels: each is trained with a fifth of the tags
    hidden, and a label's score is that of the network for which it was hidden."""


class Student:
    """A network before, during and after training.

    Args:
        problem: Images and seed.
        states: Known label states, shape (N, C).
        teaching: How it is trained.
        shown: Label states used for training; default: ``states``. They do not affect which images are held out.
    """

    def __init__(self, problem: Problem, states: States, teaching: Teaching, shown: States | None = None) -> None:
        photos, seed = problem.photos, problem.seed
        assert photos.make_network is not None
        self.rows, self.held = split_rows(_table(states), HELD_OUT, seed)
        self.states = states.copy()
        self.states[self.rows] = (states if shown is None else shown)[self.rows]
        self.landmarks, self.seed = problem.landmarks, seed
        method = teaching.method()
        config = TrainConfig(
            method="distill" if isinstance(method, Distill) else "pu-mlc",
            backbone=photos.backbone,
            depth="tail",
            epochs=EPOCHS,
            lr=teaching.lr,
            ema=teaching.average,
            patience=0,
            restore_best=False,
            refit=False,
            start="auto" if isinstance(method, Distill) else "solved",
            seed=seed,
            accelerator="cpu",
        )
        torch.manual_seed(seed)
        fabric = launch(config)
        self.network = photos.make_network().to(memory_format=torch.channels_last)
        table = _table(self.states)
        learned, held = (FeatureDataset(table.select(part), problem.features, part) for part in (self.rows, self.held))
        self.test = FeatureDataset(_table(photos.test_truth), photos.test)
        config = resolve(config, table, fabric.device)
        self.trainer = Trainer(fabric, config, method, self.network.trainable, learned, held, verbose=False)

    def features(self) -> list[Scores]:
        """Embeddings with windows of the training, held-out and test images."""
        pool = partial(pool_windows, pooling="average", window=WINDOW)
        return [
            self.trainer.embed(dataset, pool) for dataset in (self.trainer.dataset, self.trainer.holdout, self.test)
        ]

    def solve_unseen(self, features: Scores) -> Probe:
        """Fit a probe on embeddings that have not seen labels, with all choices by leave-one-out."""
        return self._fit(features)

    def unseen_scores(self, features: Scores) -> Scores:
        """Leave-one-out scores of the training images without windows, rescaled for known tags."""
        probe = self.solve_unseen(features[:, 0])
        return probe.first_scores(np.arange(self.states.shape[1]))

    def solve_seen(self, features: Scores, penalty: float) -> Probe:
        """Fit a probe on embeddings that have seen labels, with one step."""
        probe = self._fit(features, step=ONE_STEP)
        probe.set_penalty(penalty)
        return probe

    def held_out_penalty(self, probe: Probe, held: Scores) -> float:
        """λ chosen with the known tags of the held-out images."""
        found = dict(zip(PENALTIES, probe.scores_at(held, PENALTIES), strict=True))
        return choose_penalty(found.__getitem__, self.states[self.held] == POSITIVE, between=False)

    def _fit(self, features: Scores, step: SelfTraining | None = None) -> Probe:
        return fit(features, self.states[self.rows], step=step, landmarks=self.landmarks, seed=self.seed)


class Beginning:
    """Probes on the initial network, shared by all rows of a problem and its labels."""

    def __init__(self, problem: Problem, states: States) -> None:
        self.problem, self.states = problem, states
        student = Student(problem, states, Teaching())
        method, features = student.trainer.method, student.features()
        assert isinstance(method, Distill)
        probe = student.solve_unseen(features[0])
        self.penalty, self.step, self.scores = probe.kernel.penalty, probe.step.strength, probe.scores(features[2])
        control = student.solve_seen(features[0], self.penalty)
        self.one_step = control.scores(features[2])
        control.set_penalty(student.held_out_penalty(control, features[1]))
        self.held_out = control.scores(features[2])
        self.unseen = student.unseen_scores(features[0])
        self.measures = _judge_targets(problem, student, method.targets, self.unseen)


_last: list[Beginning] = []


def beginning(problem: Problem, states: States) -> Beginning:
    """Probes on the initial network; the last result is cached."""
    if not _last or _last[0].problem is not problem or not np.array_equal(_last[0].states, states):
        _last[:] = [Beginning(problem, states)]
    return _last[0]


def as_it_began(problem: Problem, labels: Labels, *, one_step: bool = False) -> Learned:
    """A probe on the initial network: as in ``auto``, or with one step as on trained networks."""
    with preserved_random_state():
        began = beginning(problem, known_positives(labels.states))
        chosen = {"penalty": began.penalty, "soft_step": began.step}
        if one_step:
            return Learned(began.one_step, chosen, {HELD: began.held_out})
        return Learned(began.scores, chosen, measures=began.measures)


def learn(problem: Problem, labels: Labels, *, teaching: Teaching) -> Learned:
    """Train a network, and score the test images with every use of it."""
    with preserved_random_state():
        states = known_positives(labels.states)
        began = beginning(problem, states)
        unseen = _unseen_scores(problem, states, teaching, began.penalty) if teaching.label_folds else None
        student = Student(problem, states, teaching)
        trainer, method = student.trainer, student.trainer.method
        if unseen is not None:
            assert isinstance(method, Distill)
            told = states[student.rows]
            meaning = calibrate(unseen, told, leave_one_out=False, asinh_scale=LOGIT_ASINH_SCALE)
            method.targets = torch.from_numpy(meaning.soft_targets(unseen, told).astype(np.float32))
        trainer.run()
        features = student.features()
        probe = student.solve_seen(features[0], began.penalty)
        solved = probe.scores(features[2])
        held_out = student.held_out_penalty(probe, features[1])
        probe.set_penalty(held_out)
        others = {OWN: trainer.score(student.test), HELD: probe.scores(features[2])}
        others[SUM] = _standard(solved) + _standard(began.scores)
        measures: dict[str, float] = {}
        if isinstance(method, Distill):
            probe.kernel.moments = probe.kernel.ridge.moments(method.targets.numpy())
            probe.set_penalty(began.penalty)
            others[ON_TARGETS] = probe.scores(features[2])
            if unseen is None:
                unseen = _source(student, features[0], began)
            measures = _judge_targets(problem, student, method.targets, unseen)
        return Learned(solved, {"penalty": began.penalty, "held_out_penalty": held_out}, others, measures)


def _source(student: Student, features: Scores, began: Beginning) -> Scores:
    """Scores of the kind that the last targets come from."""
    method = student.trainer.method
    if isinstance(method, RenewedByAverage):
        return student.trainer.score()
    return student.unseen_scores(features) if isinstance(method, Renewed) else began.unseen


def _unseen_scores(problem: Problem, states: States, teaching: Teaching, penalty: float) -> Scores:
    """Scores of the training images, each label by a network for which it was hidden.

    Unknown labels have folds too, so that known and unknown labels are scored alike.
    """
    fold_of = random_stream("teaching folds", problem.seed).integers(FOLDS, size=states.shape)
    scores: list[Scores] = []
    for fold in range(FOLDS):
        student = Student(problem, states, teaching, np.where(fold_of == fold, np.int8(UNKNOWN), states))
        student.trainer.run()
        whole = student.trainer.embed()
        scores.append(_standard(student.solve_seen(whole, penalty).loo_scores))
    return np.choose(fold_of[student.rows], scores)


def _judge_targets(problem: Problem, student: Student, targets: Tensor, scores: Scores) -> dict[str, float]:
    truth, known = problem.truth[student.rows], student.states[student.rows] == POSITIVE
    hidden = (truth == POSITIVE) & ~known
    if not hidden.any():
        return {}
    unknown = np.where(known, np.int8(UNKNOWN), truth)
    leak = log_ranks(scores, known).mean() - log_ranks(scores, hidden).mean()
    return {TARGETS: mean_average_precision(targets.numpy(), unknown), LEAK: float(leak)}


def _table(states: States) -> LabelTable:
    names = [str(row) for row in range(len(states))]
    return replace(LabelTable.from_states(names, [str(one) for one in range(states.shape[1])], states), hashes=names)


def _standard(scores: Scores) -> Scores:
    """Standardise the scores of each class, so that sums do not depend on scale."""
    return np.asarray((scores - scores.mean(0)) / np.maximum(scores.std(0), 1e-9))


def _taught(name: str, title: str, against: str = "teach-mixup", seconds: float = 140, **changes: Any) -> Variant:
    learned = partial(learn, teaching=Teaching(**changes))
    return Variant(name, title, learned, seconds, against=against, chooses_step=True)


BEGAN = Variant("teach-began", "not trained, probe as in auto", as_it_began, 60, chooses_step=True)
_one_step = partial(as_it_began, one_step=True)
CONTROL = Variant("teach-control", "not trained, one step", _one_step, 20, chooses_step=True)
VARIANTS = (
    CONTROL,
    BEGAN,
    _taught("teach-mixup", "taught, mixup (auto)", CONTROL.name),
    _taught("teach-logic", "taught, LogicMix", method=partial(Distill, DistillOptions(blend="logic"))),
    _taught("teach-plain", "taught, no blending", method=partial(Distill, DistillOptions(blend="none"))),
    _taught("teach-fast", "taught, three times the rate", lr=3 * RATE),
    _taught(
        "teach-both",
        "taught, LogicMix, three times the rate",
        method=partial(Distill, DistillOptions(blend="logic")),
        lr=3 * RATE,
    ),
    _taught("teach-averaged", "taught, weights averaged", average=AVERAGE),
    _taught(
        "teach-average",
        "targets renewed by the averaged network",
        "teach-averaged",
        method=RenewedByAverage,
        average=AVERAGE,
    ),
    _taught("teach-renewed", "targets renewed by leave-one-out", method=Renewed),
    _taught("teach-folds", "targets renewed by label folds", label_folds=True, seconds=700),
    _taught("teach-variational", "PU-MLC's loss on the targets", method=Variational, seconds=180),
    _taught("teach-pu-mlc", "PU-MLC, head solved first", CONTROL.name, method=PUMLCMethod, seconds=180),
)
"""Each row differs in one respect from the row it is compared with."""
WAYS = {
    OWN: "own head",
    "mAP": "solved",
    HELD: "λ by held-out tags",
    ON_TARGETS: "solved on the targets",
    SUM: "sum with the initial scores",
}
"""Measures of a row, and their column headers."""
