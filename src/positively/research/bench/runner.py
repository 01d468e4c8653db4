"""Trainings on one dataset. Embeddings are computed once and shared.

Protocol of a cell, the same for every method:

1. Labels of the complete training table are flipped (noise) and hidden (known ratio) with the seed of the cell. A
   method that does not use negatives gets none.
2. A tenth of the training images is held out. Thresholds, and the epoch unless the grid chooses it, are chosen on them
   with the labels the method may use. Their complete labels are used for plots only. At depth probe (or on request) the
   method is then trained again on all training images up to that epoch.
3. Nothing is chosen on the test images: no epoch, no threshold, no option.

A cell gives the same result as ``positively train`` with the same configuration and seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from positively.calibration import OutOfSample, f1_thresholds
from positively.config import TrainConfig
from positively.errors import ConfigError
from positively.finetune import (
    METHODS,
    CheckpointFolder,
    Logits,
    Networks,
    Training,
    create_method,
    preserved_random_state,
    resolve,
)
from positively.labels import NEGATIVE, POSITIVE, LabelTable, class_ratios
from positively.metrics import evaluate, oracle_f1, sigmoid
from positively.probe import (
    LANDMARKS,
    METHOD,
    KernelClassifier,
    ProbeOptions,
    calibrated_heads,
    first_out_of_sample,
    fit_measures,
    fit_table,
)
from positively.research.bench.datasets import Dataset
from positively.runs import RunFolder, hide_labels, training_rows

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class Outcome:
    """Result of one training."""

    config: TrainConfig
    history: list[dict[str, float]]
    epoch: int
    """Chosen epoch of the history."""
    labels: dict[str, int]
    thresholds: npt.NDArray[np.float64]
    test_logits: Logits | None
    tuned_thresholds: npt.NDArray[np.float64] | None = None
    """Thresholds chosen with complete labels and out-of-sample scores of the training images, for comparison."""


class DatasetRunner:
    """Runs trainings on one dataset."""

    def __init__(self, dataset: Dataset, base: TrainConfig, fabric: Fabric) -> None:
        self.dataset, self.base, self.fabric = dataset, base, fabric
        self.networks = Networks(fabric)

    def configure(self, method: str, options: Mapping[str, Any], **changes: Any) -> TrainConfig:
        """Resolve the configuration of a training as ``positively train`` does."""
        uses_negatives = create_method(method, **options).uses_negatives
        changes |= {"method": method, "method_options": dict(options), "positives_only": not uses_negatives}
        return resolve(replace(self.base, **changes, resume="auto"), self.dataset.train, self.fabric.device)

    def benchmark_options(self, method: str, config: TrainConfig, published: Mapping[str, Any]) -> dict[str, Any]:
        """Options that the benchmark sets because it knows which labels it hid."""
        return METHODS[method].benchmark_options(self._label_frequency(config), published)

    def _label_frequency(self, config: TrainConfig) -> float:
        """Share of the true positives that are known."""
        shares = class_ratios(
            len(self.dataset.train.classes),
            config.known_ratio,
            config.known_ratio_spread,
            config.seed if config.mask_seed is None else config.mask_seed,
        )
        positives = self.dataset.train.counts(POSITIVE)
        known = float(np.average(shares, weights=positives)) if config.known_ratio_spread else config.known_ratio
        known *= 1 - config.flip_positives
        if config.single_positive:  # depends on the mask, so it is counted
            train = self.dataset.train
            known = hide_labels(train, config).total(POSITIVE) / max(train.total(POSITIVE), 1)
        return float(known)

    def train(self, config: TrainConfig, *, test: bool = True, work: Path | None = None) -> Outcome:
        """Train once.

        Args:
            config: Output of `configure`.
            test: Whether to score the test images; False for choices.
            work: Folder for checkpoints of long trainings.

        Returns:
            The result.

        Raises:
            ConfigError: If there are too few training images to hold some out.
        """
        table = self.dataset.train
        if config.method == METHOD:
            return self._fit_probe(config, test)
        with preserved_random_state():
            store = CheckpointFolder(RunFolder(work)) if work else None
            training = Training(
                table, config, self.fabric, self.networks, complete=table, store=store, verbose=work is not None
            )
            if not len(training.holdout):
                raise ConfigError(f"{self.dataset.name} has too few training images for a holdout.")
            thresholds = training.run()
            logits = training.score(self.dataset.test) if test else None
            tuned = _tuned_thresholds(training.out_of_sample, table)
        labels = _counts(training.learned)
        return Outcome(config, training.history, training.epoch, labels, thresholds, logits, tuned)

    def _fit_probe(self, config: TrainConfig, test: bool) -> Outcome:
        """Fit a probe on embeddings."""
        seen = hide_labels(self.dataset.train, config)
        rows, _ = training_rows(seen)
        learned = seen.select(rows)
        with preserved_random_state():
            X = self.networks.embeddings(config, seen)[rows]
            options, landmarks = ProbeOptions(**config.method_options), config.head_options.get("landmarks", LANDMARKS)
            probe = fit_table(learned, X, options, seed=config.seed, landmarks=landmarks, linear=True)
            logits = None
            if test:
                embeddings = self.networks.embeddings(config, self.dataset.test)
                logits = KernelClassifier.of(probe).logits(embeddings)
        thresholds = calibrated_heads(probe)["kernel"].thresholds()
        tuned = _tuned_thresholds(first_out_of_sample(probe), self.dataset.train)
        history = [{"epoch": 1, **fit_measures(probe)}]
        return Outcome(config, history, 1, _counts(learned), thresholds, logits, tuned)

    def measure(self, outcome: Outcome) -> dict[str, float]:
        """Compute the measures on the test images."""
        assert outcome.test_logits is not None
        found = measures(outcome.test_logits, self.dataset.test, outcome.thresholds)
        if outcome.tuned_thresholds is not None:
            tuned = measures(outcome.test_logits, self.dataset.test, outcome.tuned_thresholds)
            found |= {"OF1_tuned": tuned["OF1"], "CF1_tuned": tuned["CF1"]}
        return found


def _counts(learned: LabelTable) -> dict[str, int]:
    return {"images": len(learned), "positives": learned.total(POSITIVE), "negatives": learned.total(NEGATIVE)}


def _tuned_thresholds(found: OutOfSample | None, complete: LabelTable) -> npt.NDArray[np.float64] | None:
    if found is None or len(found.scores) != len(complete):
        return None
    return f1_thresholds(found.calibrated.calibration.probabilities(found.scores), complete.states())


def measures(logits: Logits, table: LabelTable, thresholds: npt.ArrayLike) -> dict[str, float]:
    """Compute the measures of test scores: mAP, OF1 and CF1 at several thresholds, and relative numbers of tags.

    ``tags_given`` and ``sum_of_scores`` are relative to the true number of tags; 1 is ideal.
    """
    scores, states = sigmoid(logits), table.states()
    judged, oracle = evaluate(scores, states, table.classes, thresholds), oracle_f1(scores, states)
    known, true = states != 0, max(int((states == POSITIVE).sum()), 1)
    return {
        "mAP": judged.mean_average_precision,
        "OF1": judged.f1.overall_f1,
        "CF1": judged.f1.class_f1,
        "OF1_half": judged.f1_at_half.overall_f1,
        "CF1_half": judged.f1_at_half.class_f1,
        "OF1_oracle": oracle.overall_f1,
        "CF1_oracle": oracle.class_f1,
        "tags_given": float(((scores >= np.asarray(thresholds)) & known).sum() / true),
        "sum_of_scores": float(scores[known].sum() / true),
    }
