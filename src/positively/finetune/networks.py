"""Builds networks and datasets. Embeddings of frozen layers are stored once and shared by trainings."""

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
    """Build the network. Its random weights are a function of the seed, drawn from the generator of torch.

    Args:
        config: Resolved configuration.
        table: Training table.
        backbone: A module to use instead of a timm model, or a `Backbone`.

    Returns:
        The network.
    """
    torch.manual_seed(config.seed)
    body = backbone
    if not isinstance(body, Backbone):
        body = create_backbone(body or config.backbone, config.weights, config.image_size or 224)
    _seed_for("head", config)  # the head does not depend on how many numbers the backbone drew
    classifier = create_classifier(
        body,
        classes=len(table.classes),
        weights="none",  # loaded above
        head=config.head,
        head_options=config.head_options,
        lgconv=config.lgconv,
        learn_stages=config.learn_stages,
        freeze_batchnorm=bool(config.freeze_batchnorm),
        depth="finetune" if config.depth == "auto" else config.depth,
    )
    return classifier.to(memory_format=torch.channels_last)  # the layout of the batches, fastest for convolutions


def _seed_for(purpose: str, config: TrainConfig) -> None:
    """Seed torch for one purpose. With a shared seed, the head would resemble the first convolution."""
    torch.manual_seed(int(random_stream(purpose, config.seed).integers(2**31)))


def start_head(classifier: Classifier, config: TrainConfig, table: LabelTable) -> None:
    """Initialise the head as a function of the seed."""
    classifier.head.connect(classifier.backbone)
    _seed_for("head", config)
    start: Start = "prior" if config.start == "prior" else "default"
    classifier.head.start(start, torch.from_numpy(table.frequencies()))
    classifier.head.setup(table)


class Networks:
    """Factory of networks and datasets. If it is used for several trainings, frozen parts are computed once."""

    def __init__(self, fabric: Fabric, backbone: nn.Module | None = None) -> None:
        self.fabric, self.backbone = fabric, backbone
        # Keyed by all options that change the network.
        self._frozen: dict[str, Backbone] = {}
        self._features: dict[tuple[str, str], FeatureRows] = {}

    def classifier(self, config: TrainConfig, table: LabelTable) -> Classifier:
        """A network ready for training. At depth 'probe' the backbone is shared between trainings."""
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
        """Inputs of the trainable part for a table: images, or stored embeddings of the frozen part.

        Args:
            classifier: The network.
            config: Resolved configuration.
            table: Images and labels.
            source: Table that contains these images. Its embeddings are stored together and serve any subset.
            places: Row of ``source`` for each image of ``table``, shape (N,).
            augment: Whether to apply the augmentation of the configuration.

        Returns:
            The dataset.
        """
        backbone = classifier.backbone
        kind = config.augment if augment and config.augment != "auto" else "none"
        transform = ImageTransform(backbone.image_size, backbone.interpolation, kind)
        if config.depth == "finetune":
            return ImageDataset(table, transform, config.seed)
        return FeatureDataset(table, self._stored(classifier, config, source or table, transform), places)

    def embeddings(self, config: TrainConfig, table: LabelTable) -> FeatureRows:
        """Embeddings of the images of a table from the frozen backbone, in table order."""
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
            with counted_progress("Computing embeddings") as progress:
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
    """Everything that stored embeddings and a frozen network depend on; trainings with the same key share them."""
    shape = (config.backbone, config.weights, config.image_size, config.depth, config.learn_stages, config.lgconv)
    return repr((*shape, config.head, sorted(config.head_options.items())))
