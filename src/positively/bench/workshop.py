"""Where the cells of one dataset are trained: features are made once, every training starts from them.

The protocol of a cell, the same for every method:

1. Labels of the complete training table are flipped (noise) and hidden (known ratio) with the cell's seed; a method
   that does not use negatives never sees one.
2. A tenth of the training images is held out. Thresholds are found on them with the labels the method may see.
   Their complete labels serve the curves, which decide nothing.
3. Nothing is chosen on the test images: no epoch, no threshold, no option.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from positively.bench.datasets import Dataset
from positively.calibration import choose_thresholds
from positively.data.loading import FeatureDataset, FeatureRows, ImageDataset
from positively.data.transforms import Augment, ImageTransform
from positively.errors import ConfigError
from positively.features import extract
from positively.labels import NEGATIVE, POSITIVE, LabelTable
from positively.methods import create_method
from positively.metrics import evaluate, oracle_f1
from positively.models import Classifier
from positively.runs.folder import RunFolder
from positively.runs.scoring import Logits, sigmoid
from positively.training.auto import resolve
from positively.training.config import TrainConfig
from positively.training.fit import build_classifier, hide_labels, start_head
from positively.training.holdout import holdout_rows
from positively.training.progress import log_progress
from positively.training.trainer import Trainer

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Outcome:
    """What one training gave."""

    config: TrainConfig
    history: list[dict[str, float]]
    labels: dict[str, int]
    thresholds: npt.NDArray[np.float64]
    test_logits: Logits | None


class Workshop:
    """Trainings on one dataset with one network, of which everything that stays frozen is computed once."""

    def __init__(self, dataset: Dataset, base: TrainConfig, fabric: Fabric, speak: Callable[[str], None]) -> None:
        self.dataset, self.base, self.fabric, self.speak = dataset, base, fabric, speak
        # By everything a row may change of the network.
        self._resting: dict[tuple[object, ...], Classifier] = {}
        self._features: dict[tuple[object, ...], tuple[FeatureRows, FeatureRows]] = {}

    def configure(self, **changes: Any) -> TrainConfig:
        """The whole configuration of a training; what is left open is chosen as ``positively train`` would."""
        method = create_method(changes["method"], **changes.get("options", {}))
        config = replace(self.base, **changes, positives_only=not method.uses_negatives, resume="auto")
        return resolve(config, self.dataset.train, self.fabric.device)

    def train(
        self, config: TrainConfig, *, test: bool = True, aside: float | None = None, work: Path | None = None
    ) -> Outcome:
        """Train once.

        Args:
            config: From :meth:`configure`.
            test: Whether to score the test images; choices are made without.
            aside: Share of the training images held out; default: the configuration's.
            work: Folder for checkpoints, for trainings that are too long to be lost.
        """
        complete = self.dataset.train
        seen = hide_labels(complete, config)
        learning, kept = holdout_rows(seen, config.holdout if aside is None else aside, config.seed)
        if not len(kept):
            raise ConfigError(f"{self.dataset.name} has too few training images to hold some out.")
        table = seen.select(learning)
        if not table.total(POSITIVE):
            raise ConfigError(f"{self.dataset.name}: no positive label is left at {config.known_ratio:g} known.")
        classifier = self._classifier(config, table)
        folder = RunFolder(work) if work else None
        loop = Trainer(
            self.fabric,
            config,
            create_method(config.method, **config.options),
            classifier,
            self._samples(classifier, config, table, learning, "none" if config.augment == "auto" else config.augment),
            self._samples(classifier, config, complete.select(kept), kept),
            folder,
            visible=work is not None,
        )
        loop.restore(self.speak)
        loop.run()
        thresholds = choose_thresholds(sigmoid(loop.score(loop.aside)), seen.states(kept))
        labels = {"images": len(table), "positives": table.total(POSITIVE), "negatives": table.total(NEGATIVE)}
        logits = loop.score(self._test_samples(classifier, config)) if test else None
        return Outcome(config, loop.history, labels, thresholds, logits)

    def measure(self, outcome: Outcome) -> dict[str, float]:
        """The measures of a training on the test images."""
        assert outcome.test_logits is not None
        table = self.dataset.test
        return measures(outcome.test_logits, table, outcome.thresholds)

    def _classifier(self, config: TrainConfig, table: LabelTable) -> Classifier:
        key = _network(config)
        classifier = self._resting.get(key) or build_classifier(config, table)
        if config.depth == "probe":
            self._resting[key] = classifier  # nothing but the head learns: the backbone need not be read again
        # Every head starts anew from the seed, on the CPU: it must not matter which cell came before.
        classifier.head.cpu()
        torch.manual_seed(config.seed)
        start_head(classifier, config, table)
        return classifier

    def _samples(
        self, classifier: Classifier, config: TrainConfig, table: LabelTable, rows: Rows, augment: Augment = "none"
    ) -> ImageDataset | FeatureDataset:
        """These rows of the training table, with the labels of ``table``."""
        if config.depth != "finetune":
            return FeatureDataset(table, self._kept(classifier, config)[0], rows)
        return ImageDataset(table, replace(self._transform(classifier), augment=augment), config.seed)

    def _test_samples(self, classifier: Classifier, config: TrainConfig) -> ImageDataset | FeatureDataset:
        if config.depth != "finetune":
            return FeatureDataset(self.dataset.test, self._kept(classifier, config)[1])
        return ImageDataset(self.dataset.test, self._transform(classifier))

    def _transform(self, classifier: Classifier) -> ImageTransform:
        return ImageTransform(classifier.backbone.image_size, classifier.backbone.interpolation)

    def _kept(self, classifier: Classifier, config: TrainConfig) -> tuple[FeatureRows, FeatureRows]:
        """Kept features of the training and the test images."""
        key = _network(config)
        if key not in self._features:
            self._features[key] = self._extract(classifier, "train"), self._extract(classifier, "test")
        return self._features[key]

    def _extract(self, classifier: Classifier, part: str) -> FeatureRows:
        table = self.dataset.train if part == "train" else self.dataset.test
        classifier.to(self.fabric.device)
        store = Path(self.base.features) if self.base.features else None
        workers = resolve(self.base, table, self.fabric.device).workers or 0
        progress = log_progress(f"{self.dataset.name}, features of {part}", self.speak)
        return extract(classifier, table, self._transform(classifier), store=store, workers=workers, progress=progress)


def _network(config: TrainConfig) -> tuple[object, ...]:
    """What kept features, and a network that rests, depend on; rows that differ in the rest share them."""
    shape = config.backbone, config.weights, config.image_size, config.depth, config.learn_stages
    return (*shape, config.head, config.word_vectors, config.pooling)


def measures(logits: Logits, table: LabelTable, thresholds: npt.ArrayLike) -> dict[str, float]:
    """mAP, and OF1 and CF1 at these thresholds, at 0.5 and at the oracle's: fractions."""
    scores, states = sigmoid(logits), table.states()
    judged, oracle = evaluate(scores, states, table.classes, thresholds), oracle_f1(scores, states)
    return {
        "mAP": judged.mean_average_precision,
        "OF1": judged.f1.overall_f1,
        "CF1": judged.f1.class_f1,
        "OF1_half": judged.f1_at_half.overall_f1,
        "CF1_half": judged.f1_at_half.class_f1,
        "OF1_oracle": oracle.overall_f1,
        "CF1_oracle": oracle.class_f1,
    }
