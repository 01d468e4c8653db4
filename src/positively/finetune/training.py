"""One training without file handling: labels, holdout, network, trainer, thresholds.

``fit`` adds a run folder, and the benchmark a grid. The same configuration and seed give the same weights in both.
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
    """A training that is set up; `run` trains it.

    Args:
        table: Training table, before any labels are hidden.
        config: Resolved configuration.
        fabric: Running Lightning Fabric instance.
        networks: Factory of networks and datasets.
        complete: Label states for ``holdout_map``; default: the labels that are not hidden.
        store: Where checkpoints are saved; None saves nothing.
        verbose: Whether to log progress.

    Raises:
        TableError: If no training image has a known tag.
        ConfigError: If the method needs known negatives and the table has none.
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
            raise TableError(f"{seen.source}: no positive label to learn from.")
        if method.needs_negatives and not seen.has_negatives:
            raise ConfigError(
                f"Method '{config.method}' needs known negatives, and {seen.source} has none. If its tags are "
                f"complete, pass {option('blank', 'negative')}; otherwise use {option('method', 'auto')}."
            )
        train_rows, holdout_rows = split_rows(seen, config.holdout, config.seed)
        self.train, self.holdout = seen.select(train_rows), seen.select(holdout_rows)
        if not self.train.total(POSITIVE):
            raise TableError(f"{seen.source}: none of the {len(self.train)} training images has a known tag.")
        if verbose:
            _describe(self.train, self.holdout, config.method, method.uses_negatives)
        self.classifier = networks.classifier(config, self.train)
        used = np.sort(np.concatenate([train_rows, holdout_rows]))
        self.seen = source = seen.select(used)
        places = [np.searchsorted(used, rows) for rows in (train_rows, holdout_rows)]
        self.places = np.concatenate(places)
        """Rows of ``seen``: the training images, then the held-out images."""
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
        # Kept as the fallback if fine-tuning does not help.
        is_pretrained = config.weights != "none" and networks.backbone is None
        self.initial: dict[str, Tensor] | None = None
        if config.solve_head and is_pretrained:
            state = self.classifier.trainable.state_dict()
            self.initial = {name: tensor.clone() for name, tensor in state.items()}
            if verbose and (judges := self.holdout.total(POSITIVE)) < FEWEST_JUDGES:
                logger.info(
                    f"Only {judges} known tags are held out; {FEWEST_JUDGES} are needed to tell whether fine-tuning "
                    f"helps, so the original network will be used. Pass {option('depth', 'probe')} to save time."
                )
        self.resumed = self.trainer.restore()
        self.history: list[dict[str, float]] = []
        """Metrics, one row per epoch."""
        self.epoch = 0
        """Epoch whose weights are used."""
        self.calibrated: dict[str, CalibratedScores] = {}
        """Calibration of the scores, by head; empty if the head was not solved."""
        self.out_of_sample: OutOfSample | None = None
        """Out-of-sample scores of the training images, then of the held-out images."""

        self.has_exact_scores = config.depth == "probe"
        """Whether these scores come from a network that has not seen the labels."""
        self.learning_helped = True
        """Whether the fine-tuned network is used, rather than the original network with a solved head."""
        self._solved_table: LabelTable | None = None

    @property
    def learned(self) -> LabelTable:
        """Images the head was trained on: training images, and held-out images after a refit or a solve."""
        return self.trainer.table if self._solved_table is None else self._solved_table

    def run(self) -> npt.NDArray[np.float64]:
        """Train, and choose thresholds on the held-out images (on all images if none are held out).

        Returns:
            Thresholds, shape (C,).
        """
        self.trainer.run()
        self.history, self.epoch = self.trainer.history, self.trainer.chosen_epoch
        if self.trainer.verbose and self.epoch < len(self.history):
            logger.debug(f"Using the weights of epoch {self.epoch}, the best on the holdout.")
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
        """A training on all images up to the chosen epoch. Thresholds and metrics of the first training are kept."""
        config, seen = replace(self.config, stop_epoch=self.epoch), self.seen
        if verbose:
            logger.debug(f"Training again on all {len(seen):,} images, up to epoch {self.epoch}.")
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
                f"{len(few)} of {states.shape[1]} classes have few known positives among the held-out images; their "
                "thresholds rely mostly on the other classes."
            )
        return choose_thresholds(sigmoid(logits), states)

    def score(self, table: LabelTable) -> Logits:
        """Logits of the images of another table, shape (N, C)."""
        return self.trainer.score(self.networks.dataset(self.classifier, self.config, table))


class RefitStore:
    """Checkpoint store of a refit, nested in the checkpoint of the training it belongs to."""

    def __init__(self, store: CheckpointStore) -> None:
        self.store, self.path = store, store.path

    def load_checkpoint(self) -> dict[str, Any] | None:
        """Load the checkpoint of the refit. Resuming the first training discards it, since the epoch may change."""
        refit: dict[str, Any] | None = (self.store.load_checkpoint() or {}).get("refit")
        return refit

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        """Save the checkpoint of the refit inside that of the first training."""
        self.store.save_checkpoint({**(self.store.load_checkpoint() or {}), "refit": state})

    def write_metrics(self, history: list[dict[str, float]]) -> None:
        """Do nothing: the metrics are those of the first training."""


def _describe(train: LabelTable, holdout: LabelTable, method: str, uses_negatives: bool) -> None:
    if train.has_negatives and not uses_negatives:
        logger.info(f"Method '{method}' does not learn from known negatives; they are used for thresholds only.")
    negatives = f" and {train.total(NEGATIVE):,} negative" if train.has_negatives and uses_negatives else ""
    logger.info(
        f"Training '{method}' on {len(train):,} images with {train.total(POSITIVE):,} positive{negatives} labels; "
        f"{len(holdout):,} images held out."
    )
    if holdout.total(POSITIVE):
        logger.debug("holdout_pu is the PU criterion on the held-out images; lower is better, and it may be negative.")
