"""Logits of many images, each exactly once, also over several processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from positively.data.loading import FeatureDataset, ImageDataset, SequentialBatchSampler, make_loader

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Logits = npt.NDArray[np.float32]


def sigmoid(logits: Logits) -> npt.NDArray[np.float64]:
    """Scores in [0, 1], in double precision so that large logits stay apart."""
    from scipy.special import expit

    scores: npt.NDArray[np.float64] = expit(logits.astype(np.float64))
    return scores


@torch.inference_mode()
def score(
    network: nn.Module,
    samples: ImageDataset | FeatureDataset,
    *,
    fabric: Fabric | None = None,
    device: torch.device | str = "cpu",
    batch_size: int = 64,
    workers: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Logits:
    """Logits N×C of all samples, in the table's order.

    Over several processes each scores its own rows; the short ones are padded for the exchange, and the padding is
    dropped by its row number, so that no image counts twice.
    """
    rank, world = (fabric.global_rank, fabric.world_size) if fabric else (0, 1)
    device = fabric.device if fabric else device
    was_training = network.training
    network.eval()
    rows, logits = [], []
    for batch in make_loader(samples, SequentialBatchSampler(len(samples), batch_size, rank, world), workers):
        logits.append(network(batch.inputs.to(device)).float())
        rows.append(batch.rows)
        if progress:
            progress(len(batch.rows))
    network.train(was_training)
    classes = len(samples.table.classes)
    all_rows = torch.cat([*rows, torch.empty(0, dtype=torch.int64)]).to(device)
    all_logits = torch.cat([*logits, torch.empty(0, classes, device=device)])
    if fabric is not None and world > 1:
        padding = -(-len(samples) // world) - len(all_rows)
        all_rows = nn.functional.pad(all_rows, (0, padding), value=-1)
        all_logits = nn.functional.pad(all_logits, (0, 0, 0, padding))
        gathered: Any = fabric.all_gather([all_rows, all_logits])
        all_rows, all_logits = gathered[0].flatten(), gathered[1].flatten(0, 1)
    result = np.empty((len(samples), classes), dtype=np.float32)
    kept = all_rows >= 0
    result[all_rows[kept].cpu().numpy()] = all_logits[kept].cpu().numpy()
    return result
