"""Logits of many images, each scored exactly once, also over several processes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from positively import distributed
from positively.finetune.loading import FeatureDataset, ImageDataset, SequentialBatchSampler, make_loader

Logits = npt.NDArray[np.float32]


@torch.inference_mode()
def score(
    network: nn.Module,
    dataset: ImageDataset | FeatureDataset,
    *,
    device: torch.device | str = "cpu",
    batch_size: int = 64,
    workers: int = 0,
    columns: int | None = None,
) -> Logits:
    """Score all images of a dataset.

    Over several processes each scores its share, and all of them must call this function.

    Args:
        network: Module from inputs to logits.
        dataset: Images or embeddings.
        device: Device of the network.
        batch_size: Images per forward pass.
        workers: Number of processes that read images.
        columns: Number of outputs per image, if not one per class.

    Returns:
        Logits in table order, shape (N, C).
    """
    rank, world = distributed.rank(), distributed.world_size()
    was_training = network.training
    network.eval()
    rows, logits = [], []
    for batch in make_loader(dataset, SequentialBatchSampler(len(dataset), batch_size, rank, world), workers):
        found = network(batch.inputs.to(device)).float()
        logits.append(found if world > 1 else found.cpu())  # large outputs would fill the memory of the device
        rows.append(batch.rows)
    network.train(was_training)
    classes = len(dataset.table.classes) if columns is None else columns
    all_rows = torch.cat([*rows, torch.empty(0, dtype=torch.int64)])
    all_logits = torch.cat([*logits, torch.empty(0, classes, device=logits[0].device if logits else device)])
    if world > 1:
        all_rows = all_rows.to(device)
        all_rows, all_logits = distributed.gather_rows(all_rows), distributed.gather_rows(all_logits)
    result = np.empty((len(dataset), classes), dtype=np.float32)
    result[all_rows.cpu().numpy()] = all_logits.cpu().numpy()
    return result
