"""Networks for trainings, and stored features of what stays frozen in them: made once for any number of trainings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from positively.data.loading import FeatureDataset, FeatureRows, ImageDataset
from positively.data.transforms import ImageTransform
from positively.features import extract
from positively.labels import LabelTable
from positively.models import Classifier, Start, create_classifier
from positively.training.config import TrainConfig
from positively.training.progress import log_progress

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def build_classifier(config: TrainConfig, table: LabelTable, backbone: nn.Module | None = None) -> Classifier:
    """Build the network; its random weights are a function of the seed, drawn from torch's generator.

    Args:
        config: Resolved: nothing in it is left open.
        table: What it will learn from.
        backbone: A module in place of a timm model's name.
    """
    torch.manual_seed(config.seed)
    classifier = create_classifier(
        backbone if backbone is not None else config.backbone,
        classes=len(table.classes),
        weights=config.weights,
        image_size=config.image_size or 224,
        head=config.head,
        head_options=config.head_options,
        lgconv=config.lgconv,
        learn_stages=config.learn_stages,
        freeze_batchnorm=bool(config.freeze_batchnorm),
        depth="finetune" if config.depth == "auto" else config.depth,
    )
    return classifier.to(memory_format=torch.channels_last)  # as the batches are: the fastest layout for convolutions


def start_head(classifier: Classifier, config: TrainConfig, table: LabelTable) -> None:
    """Set the head to where training begins, as a function of the seed."""
    # On the CPU, whose generator gives the same numbers everywhere.
    classifier.head.cpu()
    torch.manual_seed(config.seed)
    start: Start = "prior" if config.start == "prior" else "default"
    classifier.head.start(start, torch.from_numpy(table.frequencies()))
    classifier.head.setup(table)


class Networks:
    """Makes networks and datasets. One that lives through many trainings makes what is frozen once."""

    def __init__(self, fabric: Fabric, backbone: nn.Module | None = None) -> None:
        self.fabric, self.backbone = fabric, backbone
        # By everything a training may change of the network.
        self._frozen: dict[str, Classifier] = {}
        self._features: dict[tuple[str, int], FeatureRows] = {}

    def classifier(self, config: TrainConfig, table: LabelTable) -> Classifier:
        """A network ready to be trained on a table; where only the head learns, the backbone may have served before."""
        key = _network_key(config)
        classifier = self._frozen.get(key) or build_classifier(config, table, self.backbone)
        if config.depth == "probe":
            self._frozen[key] = classifier
        start_head(classifier, config, table)
        return classifier.to(self.fabric.device)

    def dataset(
        self,
        classifier: Classifier,
        config: TrainConfig,
        table: LabelTable,
        *,
        source: LabelTable | None = None,
        places: npt.NDArray[np.int64] | None = None,
        augment: bool = False,
    ) -> ImageDataset | FeatureDataset:
        """What the trainable part sees of a table: images, or stored features of what stays as it is.

        Args:
            classifier: The network.
            config: How it is trained.
            table: Images and labels.
            source: The whole table these images come from: its features are stored together, and serve any part.
            places: Row of ``source`` for each image of ``table``.
            augment: Whether images are changed at random, as the configuration says.
        """
        backbone = classifier.backbone
        kind = config.augment if augment and config.augment != "auto" else "none"
        transform = ImageTransform(backbone.image_size, backbone.interpolation, kind)
        if config.depth == "finetune":
            return ImageDataset(table, transform, config.seed)
        return FeatureDataset(table, self._stored(classifier, config, source or table, transform), places)

    def _stored(
        self, classifier: Classifier, config: TrainConfig, table: LabelTable, transform: ImageTransform
    ) -> FeatureRows:
        key = (_network_key(config), hash(tuple(table.images)))
        if key not in self._features:
            store = Path(config.features) if config.features else None
            progress = log_progress(f"Features of {table.source}")
            workers = config.workers or 0
            self._features[key] = extract(classifier, table, transform, store=store, workers=workers, progress=progress)
        return self._features[key]


def _network_key(config: TrainConfig) -> str:
    """What stored features, and a frozen network, depend on; trainings that differ in the rest share them."""
    shape = (config.backbone, config.weights, config.image_size, config.depth, config.learn_stages, config.lgconv)
    return repr((*shape, config.head, sorted(config.head_options.items())))
