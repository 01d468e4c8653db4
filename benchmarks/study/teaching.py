"""Where the last stage of the network learns: how it is taught, and how what it learned is used.

The closed form is solved on the network as it begins, and its soft targets are learned, as ``auto`` does it (method
'distill'). Each row changes one thing. A tenth of the photos is held out: their known tags choose the epoch, and λ of
what is solved on features that saw labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from positively.data.loading import FeatureDataset
from positively.labels import POSITIVE, UNKNOWN, LabelTable, States
from positively.losses import adaptive_temperature, mixup_consistency, mixup_targets
from positively.losses.statistics import batch_log_mean_exp
from positively.methods import Method, StepContext, TrainingContext
from positively.methods.distill import Distill, DistillOptions
from positively.methods.pu_mlc import PUMLCMethod
from positively.metrics import mean_average_precision
from positively.models.heads import pool_windows
from positively.probe import ONE_STEP, Probe, Step, fit
from positively.probe.choice import PENALTIES, choose_penalty
from positively.randomness import random_stream
from positively.training.auto import resolve
from positively.training.config import TrainConfig
from positively.training.holdout import split_rows
from positively.training.runtime import launch, preserved_random_state
from positively.training.trainer import Trainer

Scores = npt.NDArray[np.float32]
Weights = dict[str, Tensor]

EPOCHS, RATE, HELD_OUT, FOLDS = 3, 1e-4, 0.1, 5
WINDOW = 3
"""Side of the parts a picture is looked at in, of seven."""
GAMMA, BETA = 0.55, 0.3
"""PU-MLC's re-balance exponent, and mixup's Beta distribution, as published."""
AVERAGE = 0.99
"""How much of itself the averaged network keeps in a step."""
OWN, ON_TARGETS, SUM, HALF_WAY = "own head", "solved on the targets", "sum with the beginning", "weights half way"
"""Other ways to use what was learned; the first is to solve on its features for the known tags."""
TARGETS, LEAK = "targets", "leak"
"""The mAP of the last targets over labels that are unknown, and by how much known tags rank higher than unknown ones in
the scores they come from, as log-ranks: of scores that did not see the labels it is 0."""


class RenewedByAverage(Distill):
    """From the second epoch on, unknown labels have the averaged network's probabilities for targets."""

    def on_epoch_end(self, training: TrainingContext) -> None:
        """The network has seen the labels, so that these targets may leak."""
        found = torch.from_numpy(training.score()).sigmoid().to(self.targets)
        self.targets = torch.where(self.targets == 1, self.targets, found)


class Variational(Distill):
    """PU-MLC's loss (equations 8 and 11) with targets for positives: each counts as much as it is probable."""

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
    first_penalty: bool = False
    """Whether λ is the one that leave-one-out chose on the network as it began: the photos held out have few tags."""
    label_folds: bool = False
    """Whether targets are those of networks that did not see the labels: each learns with a fifth of the tags hidden,
    and a label's score is that of the network from which it was hidden."""


class Student:
    """A network before, while and after it learns.

    Args:
        problem: Photos and seed.
        states: N×C what is known of them.
        teaching: How it learns.
        shown: N×C what it is shown of that; all of it by default. Which photos are held out does not depend on it.
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
            restore_best=True,
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
        self.began = self.weights()

    def weights(self) -> Weights:
        """As they are now."""
        return {name: tensor.clone() for name, tensor in self.network.trainable.state_dict().items()}

    def features(self, weights: Weights) -> list[Scores]:
        """Of the photos learned from, held out and judged, each with its parts; by these weights."""
        present = self.weights()
        self.network.trainable.load_state_dict(weights)
        pool = partial(pool_windows, pooling="average", window=WINDOW)
        datasets = (self.trainer.dataset, self.trainer.holdout, self.test)
        found = [self.trainer.embed(dataset, pool) for dataset in datasets]
        self.network.trainable.load_state_dict(present)
        return found

    def solve_unseen(self, features: Sequence[Scores]) -> Probe:
        """The closed form on features that saw no label: everything is chosen by leave-one-out."""
        return self._fit(features[0])

    def unseen_scores(self, features: Sequence[Scores]) -> Scores:
        """Leave-one-out scores of the photos learned from, as whole photos: what targets come from."""
        probe = self.solve_unseen([features[0][:, 0]])
        return probe.first_scores(np.arange(self.states.shape[1]))

    def solve_seen(self, features: Sequence[Scores], penalty: float | None = None) -> Probe:
        """The closed form on features that saw labels; λ, unless it is given, by the photos held out."""
        return self._shrunk(self._fit(features[0], step=ONE_STEP), features[1], penalty)

    def solve_targets(
        self, probe: Probe, features: Sequence[Scores], targets: Tensor, penalty: float | None = None
    ) -> Probe:
        """The same for targets in place of the known tags."""
        probe.kernel.moments = probe.kernel.ridge.moments(targets)
        return self._shrunk(probe, features[1], penalty)

    def _shrunk(self, probe: Probe, held: Scores, penalty: float | None) -> Probe:
        if penalty is None:
            found = dict(zip(PENALTIES, probe.scores_at(held, PENALTIES), strict=True))
            penalty = choose_penalty(found.__getitem__, self.states[self.held] == POSITIVE, between=False)
        probe.set_penalty(penalty)
        return probe

    def _fit(self, features: Scores, step: Step | None = None) -> Probe:
        return fit(features, self.states[self.rows], step=step, landmarks=self.landmarks, seed=self.seed)


class Beginning:
    """What is solved on the network before it learns: the same for all rows of a problem and its labels."""

    def __init__(self, problem: Problem, states: States) -> None:
        student = Student(problem, states, Teaching())
        method, features = student.trainer.method, student.features(student.began)
        assert isinstance(method, Distill)
        probe = student.solve_unseen(features)
        self.penalty, self.scores = probe.kernel.penalty, probe.scores(features[2])
        self.unseen = student.unseen_scores(features)
        self.measures = _judge_targets(problem, student, method.targets, self.unseen)


_beginnings: dict[tuple[int, bytes], Beginning] = {}


def beginning(problem: Problem, states: States) -> Beginning:
    """Of the problem and labels that were asked for last, it is at hand."""
    key = id(problem), states.tobytes()
    if key not in _beginnings:
        _beginnings.clear()
        _beginnings[key] = Beginning(problem, states)
    return _beginnings[key]


def as_it_began(problem: Problem, labels: Labels) -> Learned:
    """The closed form on a network that did not learn."""
    with preserved_random_state():
        began = beginning(problem, known_positives(labels.states))
        return Learned(began.scores, {"penalty": began.penalty}, measures=began.measures)


def learn(problem: Problem, labels: Labels, *, teaching: Teaching) -> Learned:
    """Teach a network, and score the photos that are judged in every way."""
    with preserved_random_state():
        states = known_positives(labels.states)
        began = beginning(problem, states)
        unseen = _unseen_scores(problem, states, teaching) if teaching.label_folds else None
        student = Student(problem, states, teaching)
        trainer, method = student.trainer, student.trainer.method
        if unseen is not None:
            assert isinstance(method, Distill)
            told = states[student.rows]
            meaning = calibrate(unseen, told, leave_one_out=False)
            method.targets = torch.from_numpy(meaning.soft_targets(unseen, told).astype(np.float32))
        trainer.run()
        features = student.features(student.weights())
        penalty = began.penalty if teaching.first_penalty else None
        probe = student.solve_seen(features, penalty)
        solved, chosen = probe.scores(features[2]), {"penalty": probe.kernel.penalty, "epoch": trainer.chosen_epoch}
        others = {OWN: trainer.score(student.test), SUM: _standard(solved) + _standard(began.scores)}
        measures: dict[str, float] = {}
        if isinstance(method, Distill):
            others[ON_TARGETS] = student.solve_targets(probe, features, method.targets, penalty).scores(features[2])
            if unseen is None:
                unseen = _source(student, features, began)
            measures = _judge_targets(problem, student, method.targets, unseen)
        half = student.features(_half_way(student.began, student.weights()))
        others[HALF_WAY] = student.solve_seen(half, penalty).scores(half[2])
        return Learned(solved, chosen, others, measures)


def _half_way(one: Weights, other: Weights) -> Weights:
    """Counters, which are no floating-point numbers, stay."""
    return {
        name: torch.lerp(tensor, other[name], 0.5) if tensor.is_floating_point() else tensor
        for name, tensor in one.items()
    }


def _source(student: Student, features: Sequence[Scores], began: Beginning) -> Scores:
    """The scores that the last targets come from."""
    method = student.trainer.method
    if isinstance(method, RenewedByAverage):
        return student.trainer.score()
    return student.unseen_scores(features) if method.options.renew else began.unseen


def _unseen_scores(problem: Problem, states: States, teaching: Teaching) -> Scores:
    """Scores of the photos learned from, each label's by a network from which it was hidden.

    A label that is unknown has its fold too: known and unknown ones are then scored alike.
    """
    fold_of = random_stream("teaching folds", problem.seed).integers(FOLDS, size=states.shape)
    scores: list[Scores] = []
    for fold in range(FOLDS):
        student = Student(problem, states, teaching, np.where(fold_of == fold, np.int8(UNKNOWN), states))
        student.trainer.run()
        features = [part[:, 0] for part in student.features(student.weights())]
        scores.append(_standard(student.solve_seen(features).loo_scores))
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
    """Each class's scores with mean 0 and deviation 1, so that a sum is no matter of scale."""
    return np.asarray((scores - scores.mean(0)) / np.maximum(scores.std(0), 1e-9))


def _taught(name: str, title: str, against: str = "teach-mixup", seconds: float = 180, **changes: Any) -> Variant:
    return Variant(name, title, partial(learn, teaching=Teaching(**changes)), seconds, against=against)


BEGAN = Variant("teach-began", "as it began: does not learn", as_it_began, 60)
VARIANTS = (
    BEGAN,
    _taught("teach-mixup", "taught, mixup (auto)", BEGAN.name),
    _taught("teach-lambda", "taught, mixup, λ of the beginning", first_penalty=True),
    _taught("teach-logic", "taught, LogicMix", method=partial(Distill, DistillOptions(blend="logic"))),
    _taught("teach-plain", "taught, photos as they are", method=partial(Distill, DistillOptions(blend="none"))),
    _taught("teach-fast", "taught, three times the rate", lr=3 * RATE),
    _taught("teach-renewed", "renewed by what it learned", method=partial(Distill, DistillOptions(renew=True))),
    _taught("teach-average", "renewed by its average", method=RenewedByAverage, average=AVERAGE),
    _taught("teach-folds", "renewed by label folds", label_folds=True, seconds=800),
    _taught("teach-variational", "PU-MLC's loss on the targets", method=Variational, seconds=220),
    _taught("teach-pu-mlc", "PU-MLC as published, head solved first", BEGAN.name, method=PUMLCMethod, seconds=220),
)
"""Each differs in one thing from the row it is compared with."""
WAYS = {OWN: "its own head", "mAP": "solved", ON_TARGETS: ON_TARGETS, SUM: SUM, HALF_WAY: HALF_WAY}
"""Measures of a row, and what the columns are called."""
