"""Embeddings of the images of a table: read from the store if present, computed otherwise."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from positively import distributed
from positively.distributed import agree
from positively.embedding.cache import GRAPH, FeatureStore, default_store
from positively.embedding.rows import FeatureRows
from positively.finetune.loading import ImageDataset, SequentialBatchSampler, make_loader
from positively.finetune.sharing import processes_at
from positively.images.transforms import ImageTransform
from positively.labels import LabelTable
from positively.models.classifier import Classifier
from positively.models.fingerprint import fingerprint
from positively.models.onnx import run_frozen
from positively.options import Runtime
from positively.tables.overlap import image_hashes

PIXELS_VERSION = 1
"""Version of decoding and resizing. Raise it when either changes, so that stored embeddings are recomputed."""

# Feature maps are about 100 times larger than vectors, and half precision is enough for them.
_VECTOR_TYPE, _MAP_TYPE = torch.float32, torch.float16

# Images (or bytes) computed between two writes: the loss if the process is killed, and the wait of other processes.
_SEGMENT_IMAGES, _SEGMENT_BYTES = 512, 64 * 2**20


def feature_key(classifier: Classifier, transform: ImageTransform) -> str:
    """Name under which embeddings are stored: a fingerprint of everything they depend on except the images."""
    source, setting = classifier.feature_source
    body = classifier.backbone
    pixels = body.mean, body.std, transform.size, transform.interpolation, PIXELS_VERSION
    return fingerprint(source, body.name, pixels, setting, _VECTOR_TYPE, _MAP_TYPE)


def extract(
    classifier: Classifier,
    table: LabelTable,
    transform: ImageTransform,
    *,
    store: Path | None = None,
    workers: int = 0,
    batch_size: int = 32,
    runtime: Runtime = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> FeatureRows:
    """Compute or load the embeddings of a table: the output of the frozen part of the network.

    Results are written every few hundred images, and on any error or Ctrl-C; the next call resumes there. Over several
    processes each computes a share, and all of them must call this function; if one fails, all raise.

    Args:
        classifier: The network.
        table: The images.
        transform: How images are resized; never augmented.
        store: Folder of the stored embeddings; default: the user's cache.
        workers: Number of processes that read images.
        batch_size: Images per forward pass.
        runtime: What runs the network; 'auto' uses ONNX Runtime where it is faster.
        progress: Called with the number of images done and the total, for this process.

    Returns:
        Embeddings, one row per image, in table order.
    """
    features = FeatureStore((store or default_store()) / agree(partial(feature_key, classifier, transform)))
    hashes = agree(partial(image_hashes, table))
    first_rows = {code: row for row, code in reversed(list(enumerate(hashes)))}
    for is_shared in (True, False):  # the second pass is for entries that a slow shared disk did not show in the first
        missing = agree(partial(features.missing, hashes))
        if not any(distributed.any_process(bool(missing))):
            break
        is_shared &= distributed.is_distributed()
        sharers = processes_at(features.folder) if is_shared else [distributed.rank()]
        # Each process takes every n-th image of the whole table and drops those already stored. Shares must not move
        # while other processes add embeddings.
        share = sorted(first_rows.values())[sharers.index(distributed.rank()) :: len(sharers)]
        rows = np.array([row for row in share if hashes[row] in missing], dtype=np.int64)
        samples = ImageDataset(table.select(rows), ImageTransform(transform.size, transform.interpolation))
        order = SequentialBatchSampler(len(rows), batch_size)
        codes = [hashes[row] for row in rows]
        rounds = -(-len(order) // _batches_a_round(batch_size))
        # The choice of runtime depends on the whole table, not on what is left to do.
        network = partial(_run_features, classifier, len(table), runtime, features.folder)
        with closing(_compute(network, samples, order, workers, codes, features, len(missing), progress)) as compute:
            for _ in range(distributed.largest(rounds)):
                agree(partial(next, compute, None))
    return agree(partial(features.get, hashes))


def _batches_a_round(batch_size: int) -> int:
    return max(_SEGMENT_IMAGES // batch_size, 1)


class _Features(nn.Module):
    """Module that maps images to what is stored of them."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier.features(images)


def _run_features(classifier: Classifier, images: int, runtime: Runtime, folder: Path) -> Callable[[Tensor], Tensor]:
    size = classifier.backbone.image_size
    path = folder / GRAPH
    return run_frozen(_Features(classifier.eval()).eval(), size, images, runtime=runtime, path=path)


@torch.inference_mode()
def _compute(
    network: Callable[[], Callable[[Tensor], Tensor]],
    samples: ImageDataset,
    order: SequentialBatchSampler,
    workers: int,
    hashes: Sequence[str],
    store: FeatureStore,
    missing: int,
    progress: Callable[[int, int], None] | None,
) -> Generator[None]:
    """Compute and store embeddings, one round per iteration. Everything computed is stored, also on an error."""
    parts: list[npt.NDArray[Any]] = []
    written = done = 0
    if not len(samples):
        return
    features_of = network()
    try:
        for number, batch in enumerate(make_loader(samples, order, workers), start=1):
            features = features_of(batch.inputs)
            part = features.to(_MAP_TYPE if features.ndim == 4 else _VECTOR_TYPE).numpy()
            if not done:
                store.require_room(part.nbytes // len(part) * missing)
            parts.append(part)
            done += len(part)
            is_round = number % _batches_a_round(order.batch_size) == 0
            if is_round or sum(p.nbytes for p in parts) >= _SEGMENT_BYTES:
                store.add(hashes[written:done], np.concatenate(parts))
                parts, written = [], done
            if progress:
                progress(done, len(samples))
            if is_round:
                yield
    finally:
        if parts:
            store.add(hashes[written : written + sum(map(len, parts))], np.concatenate(parts))
