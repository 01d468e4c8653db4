"""Features of a table's images: taken from the store where they are kept, computed once where they are not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from positively.data.loading import FeatureRows, ImageDataset, SequentialBatchSampler, make_loader
from positively.data.overlap import image_hashes
from positively.data.transforms import ImageTransform
from positively.features.store import FeatureStore, default_store, fingerprint
from positively.labels import LabelTable
from positively.models.classifier import Classifier

# Features computed between two writes: what a kill can cost.
_SEGMENT_IMAGES, _SEGMENT_BYTES = 4096, 256 * 2**20


@torch.inference_mode()
def extract(
    classifier: Classifier,
    table: LabelTable,
    transform: ImageTransform,
    *,
    store: Path | None = None,
    workers: int = 0,
    batch_size: int = 32,
    progress: Callable[[int, int], None] | None = None,
) -> FeatureRows:
    """What the classifier never changes of the table's images (its ``features``), one row each, in the table's order.

    Vectors are kept as float32, maps (a hundred times as large) as float16.
    """
    source, setting = classifier.feature_source
    body = classifier.backbone
    # The name too: two networks may have tensors of the same names and shapes and differ in a stride.
    key = fingerprint(source, body.name, body.mean, body.std, transform.size, transform.interpolation, setting)
    kept = FeatureStore((store or default_store()) / key)
    hashes = image_hashes(table)
    missing = kept.missing(hashes)
    first_rows = {name: row for row, name in reversed(list(enumerate(hashes)))}
    todo = np.array(sorted(first_rows[name] for name in missing), dtype=np.int64)
    plain = ImageDataset(table.select(todo), ImageTransform(transform.size, transform.interpolation))
    device = next(classifier.parameters()).device
    classifier.eval()
    parts: list[npt.NDArray[Any]] = []
    written = done = 0
    for batch in make_loader(plain, SequentialBatchSampler(len(todo), batch_size), workers) if len(todo) else ():
        features = classifier.features(batch.inputs.to(device)).cpu()
        parts.append((features.half() if features.ndim == 4 else features.float()).numpy())
        if not done:
            kept.require_room(parts[0].nbytes // len(parts[0]) * len(todo))
        done += len(batch.rows)
        if done == len(todo) or done - written >= _SEGMENT_IMAGES or sum(p.nbytes for p in parts) >= _SEGMENT_BYTES:
            kept.add([hashes[row] for row in todo[written:done]], np.concatenate(parts))
            parts, written = [], done
        if progress:
            progress(done, len(todo))
    return kept.get(hashes)
