"""Networks for trainings, and stored features of what stays frozen in them: made once for any number of trainings."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from positively.config import TrainConfig
from positively.embedding.rows import FeatureRows
from positively.finetune.extract import extract
from positively.finetune.loading import FeatureDataset, ImageDataset
from positively.images.transforms import ImageTransform
from positively.labels import LabelTable
from positively.logs import counted_progress
from positively.models import Backbone, Classifier, Start, create_backbone, create_classifier
from positively.randomness import random_stream
from positively.tables.overlap import image_hashes

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def build_classifier(config: TrainConfig, table: LabelTable, backbone: nn.Module | None = None) -> Classifier:
    """Build the network; its random weights are a function of the seed, drawn from torch's generator.

    Args:
        config: Resolved: nothing in it is left open.
        table: What it will learn from.
        backbone: A module in place of a timm model's name, or a `Backbone` that is ready.
    """
    torch.manual_seed(config.seed)
    body = backbone
    if not isinstance(body, Backbone):
        body = create_backbone(body or config.backbone, config.weights, config.image_size or 224)
    _seed_for("head", config)  # what is drawn from here on does not depend on where the backbone came from
    classifier = create_classifier(
        body,
        classes=len(table.classes),
        weights="none",  # it has them
        head=config.head,
        head_options=config.head_options,
        lgconv=config.lgconv,
        learn_stages=config.learn_stages,
        freeze_batchnorm=bool(config.freeze_batchnorm),
        depth="finetune" if config.depth == "auto" else config.depth,
    )
    return classifier.to(memory_format=torch.channels_last)  # as the batches are: the fastest layout for convolutions


def _seed_for(purpose: str, config: TrainConfig) -> None:
    """Seed torch for one purpose: a head drawn from the numbers of the first convolution would resemble it."""
    torch.manual_seed(int(random_stream(purpose, config.seed).integers(2**31)))


def start_head(classifier: Classifier, config: TrainConfig, table: LabelTable) -> None:
    """Set the head to where training begins, as a function of the seed."""
    classifier.head.connect(classifier.backbone)
    _seed_for("head", config)
    start: Start = "prior" if config.start == "prior" else "default"
    classifier.head.start(start, torch.from_numpy(table.frequencies()))
    classifier.head.setup(table)


class Networks:
    """Makes networks and datasets. One that lives through many trainings makes what is frozen once."""

    def __init__(self, fabric: Fabric, backbone: nn.Module | None = None) -> None:
        self.fabric, self.backbone = fabric, backbone
        # By everything a training may change of the network.
        self._frozen: dict[str, Backbone] = {}
        self._features: dict[tuple[str, str], FeatureRows] = {}

    def classifier(self, config: TrainConfig, table: LabelTable) -> Classifier:
        """A network ready to be trained on a table; where only the head learns, the backbone may have served before."""
        key = _network_key(config)
        classifier = build_classifier(config, table, self._frozen.get(key, self.backbone))
        if config.depth == "probe":
            self._frozen[key] = classifier.backbone
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

    def embeddings(self, config: TrainConfig, table: LabelTable) -> FeatureRows:
        """What a head sees of a table's images where the backbone is frozen, in the table's order."""
        dataset = self.dataset(self.classifier(config, table), config, table)
        assert isinstance(dataset, FeatureDataset)
        return dataset.inputs()

    def _stored(
        self, classifier: Classifier, config: TrainConfig, table: LabelTable, transform: ImageTransform
    ) -> FeatureRows:
        contents = "".join(image_hashes(table))
        key = (_network_key(config), hashlib.blake2b(contents.encode()).hexdigest())
        if key not in self._features:
            store = Path(config.cache) if config.cache else None
            with counted_progress("Computing features") as progress:
                self._features[key] = extract(
                    classifier,
                    table,
                    transform,
                    store=store,
                    workers=config.workers or 0,
                    runtime=config.runtime,
                    progress=progress,
                )
        return self._features[key]


def _network_key(config: TrainConfig) -> str:
    """What stored features, and a frozen network, depend on; trainings that differ in the rest share them."""
    shape = (config.backbone, config.weights, config.image_size, config.depth, config.learn_stages, config.lgconv)
    return repr((*shape, config.head, sorted(config.head_options.items())))
