"""Features of a table's images: taken from the store where they are kept, computed once where they are not."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from positively.data.loading import Images, InOrder, load
from positively.data.overlap import image_hashes
from positively.data.transforms import ImageTransform
from positively.features.store import FeatureStore, Matrix, default_store, fingerprint
from positively.labels import LabelTable
from positively.models.classifier import Classifier

# Features computed between two writes: what a kill can cost.
_SEGMENT_IMAGES = 4096


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
) -> Matrix:
    """Pooled features N×channels of the table's images under the classifier's backbone, in the table's order."""
    key = fingerprint(classifier.backbone, transform.size, transform.interpolation, classifier.head.pooling)
    kept = FeatureStore((store or default_store()) / key)
    hashes = image_hashes(table)
    missing = kept.missing(hashes)
    first_rows = {name: row for row, name in reversed(list(enumerate(hashes)))}
    todo = np.array(sorted(first_rows[name] for name in missing), dtype=np.int64)
    plain = ImageTransform(transform.size, transform.interpolation)
    device = next(classifier.parameters()).device
    classifier.eval()
    done = 0
    for start in range(0, len(todo), _SEGMENT_IMAGES):
        rows = todo[start : start + _SEGMENT_IMAGES]
        parts = []
        for batch in load(Images(table.select(rows), plain), InOrder(len(rows), batch_size), workers):
            parts.append(classifier.features(batch.inputs.to(device)).float().cpu().numpy())
            done += len(batch.rows)
            if progress:
                progress(done, len(todo))
        kept.add([hashes[row] for row in rows], np.concatenate(parts))
    return kept.get(hashes)
