"""Features of a table by a frozen backbone, for whoever learns from them by other means than a training."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torch import nn

from positively.config import TrainConfig
from positively.embedding.rows import FeatureRows
from positively.errors import ConfigError, option
from positively.finetune.auto import choices, resolve
from positively.finetune.loading import FeatureDataset
from positively.finetune.networks import Networks
from positively.finetune.runtime import launch, preserved_random_state
from positively.labels import LabelTable
from positively.logs import logger
from positively.tables.overlap import with_hashes

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def frozen_features(
    table: LabelTable, config: TrainConfig, *, backbone: nn.Module | None = None, fabric: Fabric | None = None
) -> tuple[LabelTable, FeatureRows]:
    """Pooled features of every image of a table, from the store where they are on disk.

    Args:
        table: The images.
        config: Backbone, weights, image size, store of features; the closed form's training would use the same.
        backbone: A module in place of a timm model's name.
        fabric: A running engine; one is launched if none is given.

    Returns:
        The table with content hashes, and N×D features in its order.
    """
    if config.depth not in ("auto", "probe"):
        raise ConfigError(f"{option('depth', config.depth)}: features of a frozen backbone are depth 'probe'.")
    fabric = fabric or launch(config)
    asked = replace(config, method="closed-form", depth="probe")
    config = resolve(asked, table, fabric.device, own_backbone=backbone is not None)
    logger.info(choices(asked, config))
    with preserved_random_state():
        table = with_hashes(table)
        networks = Networks(fabric, backbone)
        named = table.with_classes(table.classes or ("tag",))  # photos without a single tag have features too
        dataset = networks.dataset(networks.classifier(config, named), config, named)
        assert isinstance(dataset, FeatureDataset)
        return table, dataset.inputs()
