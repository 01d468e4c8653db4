"""The one training, without folders: labels → holdout → network → trainer → thresholds.

``fit`` puts a run folder around it and the bench a grid; the same configuration and seed give the same weights in both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from positively.calibration import CalibratedScores, OutOfSample, choose_thresholds, few_positives
from positively.config import TrainConfig
from positively.errors import ConfigError, TableError, option
from positively.finetune.holdout import split_rows
from positively.finetune.loop import CheckpointStore, Trainer
from positively.finetune.methods import create_method
from positively.finetune.networks import Networks
from positively.finetune.scoring import Logits
from positively.finetune.solving import solve_head
from positively.labels import NEGATIVE, POSITIVE, LabelTable
from positively.logs import logger
from positively.metrics.logits import sigmoid
from positively.pipeline import FEWEST_JUDGES
from positively.runs.hiding import hide_labels

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Training:
    """A training that is set up: `run` trains it.

    Args:
        table: Tags of the training images, before anything is hidden.
        config: Resolved: nothing in it is left open.
        fabric: The running engine.
        networks: Where networks and datasets come from.
        complete: Labels by which the held-out images are judged after each epoch; default: those that are not hidden.
        store: Where checkpoints go; None saves nothing.
        verbose: Whether to log what happens.
    """

    def __init__(
        self,
        table: LabelTable,
        config: TrainConfig,
        fabric: Fabric,
        networks: Networks,
        *,
        complete: LabelTable | None = None,
        store: CheckpointStore | None = None,
        verbose: bool = True,
    ) -> None:
        self.config, self.networks = config, networks
        method = create_method(config.method, **config.method_options)
        seen = hide_labels(table, config)
        if not seen.total(POSITIVE):
            raise TableError(f"{seen.source}: no positive label is left to learn from.")
        if method.needs_negatives and not seen.has_negatives:
            raise ConfigError(
                f"Method '{config.method}' learns from known negatives, and {seen.source} has none. If its tags are "
                f"complete, pass {option('blank', 'negative')}; otherwise take {option('method', 'auto')}."
            )
        train_rows, holdout_rows = split_rows(seen, config.holdout, config.seed)
        self.train, self.holdout = seen.select(train_rows), seen.select(holdout_rows)
        if not self.train.total(POSITIVE):
            raise TableError(f"{seen.source}: none of the {len(self.train)} training images carries a known tag.")
        if verbose:
            _describe(self.train, self.holdout, config.method, method.uses_negatives)
        self.classifier = networks.classifier(config, self.train)
        used = np.sort(np.concatenate([train_rows, holdout_rows]))
        self.seen = source = seen.select(used)
        places = [np.searchsorted(used, rows) for rows in (train_rows, holdout_rows)]
        self.places = np.concatenate(places)
        """Rows of ``seen``: the training images, then those held out."""
        self.trainer = Trainer(
            fabric,
            config,
            method,
            self.classifier.trainable,
            networks.dataset(self.classifier, config, self.train, source=source, places=places[0], augment=True),
            networks.dataset(self.classifier, config, self.holdout, source=source, places=places[1]),
            store,
            verbose,
            None if complete is None else complete.select(holdout_rows).states(),
        )
        # What a pretrained network sees before it learns: to be fallen back on if learning does not help.
        is_pretrained = config.weights != "none" and networks.backbone is None
        self.initial: dict[str, Tensor] | None = None
        if config.solve_head and is_pretrained:
            state = self.classifier.trainable.state_dict()
            self.initial = {name: tensor.clone() for name, tensor in state.items()}
            if verbose and (judges := self.holdout.total(POSITIVE)) < FEWEST_JUDGES:
                logger.info(
                    f"Only {judges} known tags are held out, and it takes {FEWEST_JUDGES} to tell whether learning "
                    f"helps: in the end the network will be as it begins. {option('depth', 'probe')} is that at once."
                )
        self.resumed = self.trainer.restore()
        self.history: list[dict[str, float]] = []
        """One row an epoch, with what was measured on the images held out."""
        self.epoch = 0
        """The epoch whose weights are used."""
        self.calibrated: dict[str, CalibratedScores] = {}
        """What scores mean, by head; empty where the head was not solved."""
        self.out_of_sample: OutOfSample | None = None
        """Scores of the training images, then of those held out, each by labels other than its own."""

        self.has_exact_scores = config.depth == "probe"
        """Whether those scores are by a network that did not see the labels either."""
        self.learning_helped = True
        """Whether what the network learned is used; otherwise it is as it began, with a head solved in closed form."""
        self._solved_table: LabelTable | None = None

    @property
    def learned(self) -> LabelTable:
        """What the head learned from: the training images, and those held out after a refit or when solved for."""
        return self.trainer.table if self._solved_table is None else self._solved_table

    def run(self) -> npt.NDArray[np.float64]:
        """Train, and find the threshold of each class on the held-out images (all, where none are held out)."""
        self.trainer.run()
        self.history, self.epoch = self.trainer.history, self.trainer.chosen_epoch
        if self.trainer.verbose and self.epoch < len(self.history):
            logger.debug(f"The weights of epoch {self.epoch} are used, the best on the images held out.")
        if self.config.solve_head:
            solved = solve_head(self)
            self.calibrated, self.out_of_sample = solved.calibrated, solved.out_of_sample
            self.learning_helped, self._solved_table = solved.learning_helped, solved.table
            self.has_exact_scores = solved.has_exact_scores
            if self.calibrated:
                self.config = replace(self.config, head="kernel", head_options=dict(self.classifier.head.saved_options))
        thresholds = self.calibrated[self.config.head].thresholds() if self.calibrated else self._thresholds()
        if self.config.refit and len(self.holdout):
            self.trainer = self._refit(self.trainer.fabric, self.trainer.store, self.trainer.verbose)
            self.trainer.restore()
            self.trainer.run()
        return thresholds

    def _refit(self, fabric: Fabric, store: CheckpointStore | None, verbose: bool) -> Trainer:
        """A training on all images, to the epoch that was chosen; what was found on the images held out stays."""
        config, seen = replace(self.config, stop_epoch=self.epoch), self.seen
        if verbose:
            logger.debug(f"Learning again from all {len(seen):,} images, to epoch {self.epoch}.")
        self.classifier = self.networks.classifier(config, seen)
        nothing = np.zeros(0, dtype=np.int64)
        return Trainer(
            fabric,
            config,
            create_method(config.method, **config.method_options),
            self.classifier.trainable,
            self.networks.dataset(self.classifier, config, seen, augment=True),
            self.networks.dataset(self.classifier, config, seen.select(nothing), source=seen, places=nothing),
            RefitStore(store) if store else None,
            verbose and config.depth != "probe",  # a head is trained in seconds
        )

    def _thresholds(self) -> npt.NDArray[np.float64]:
        held_out = len(self.holdout) > 0
        logits = self.trainer.score(self.trainer.holdout if held_out else self.trainer.dataset)
        states = (self.holdout if held_out else self.train).states()
        few = few_positives(states)
        if len(few) and self.trainer.verbose:
            logger.debug(
                f"{len(few)} of {states.shape[1]} classes have few known positives among the images held out; their "
                "thresholds are mostly those of the other classes."
            )
        return choose_thresholds(sigmoid(logits), states)

    def score(self, table: LabelTable) -> Logits:
        """Logits of another table's images, by the trained weights."""
        return self.trainer.score(self.networks.dataset(self.classifier, self.config, table))


class RefitStore:
    """Where a refit leaves its checkpoints: inside that of the finished training it belongs to."""

    def __init__(self, store: CheckpointStore) -> None:
        self.store, self.path = store, store.path

    def load_checkpoint(self) -> dict[str, Any] | None:
        """The refit's last checkpoint. A training that goes on writes over it: it may choose another epoch."""
        refit: dict[str, Any] | None = (self.store.load_checkpoint() or {}).get("refit")
        return refit

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        """Put it beside the first training's state."""
        self.store.save_checkpoint({**(self.store.load_checkpoint() or {}), "refit": state})

    def write_metrics(self, history: list[dict[str, float]]) -> None:
        """Nothing is held out: what was measured is the first training's."""


def _describe(train: LabelTable, holdout: LabelTable, method: str, uses_negatives: bool) -> None:
    if train.has_negatives and not uses_negatives:
        logger.info(f"Method '{method}' learns from positive labels alone; the known negatives serve thresholds only.")
    negatives = f" and {train.total(NEGATIVE):,} negative" if train.has_negatives and uses_negatives else ""
    logger.debug(
        f"Learning from {len(train):,} images, {train.total(POSITIVE):,} positive{negatives} labels; {len(holdout):,} "
        "images held out."
    )
    if holdout.total(POSITIVE):
        logger.debug("Watch holdout_pu, on the images held out: lower is better. A PU loss itself is often negative.")
