"""One training step of the last stage from stored feature maps, compared with the same step from images.

Run as ``python -m benchmarks.features`` from the root of the project.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch

from benchmarks.timing import measure, ratio_table
from positively.cli.process import keep_freed_memory
from positively.embedding import FeatureStore
from positively.finetune import FeatureDataset
from positively.labels import LabelTable
from positively.losses import assume_negative
from positively.models import create_classifier

IMAGES, BATCH, CLASSES = 64, 16, 80


def main() -> None:
    keep_freed_memory()
    classifier = create_classifier("resnet50", CLASSES, "none", 224, depth="tail", freeze_batchnorm=True)
    classifier = classifier.to(memory_format=torch.channels_last)
    pixels = torch.randint(0, 256, (IMAGES, 224, 224, 3), dtype=torch.uint8).permute(0, 3, 1, 2)
    with torch.inference_mode():
        maps = classifier.features(pixels).half().numpy()
    table = LabelTable.from_positives([str(i) for i in range(IMAGES)], list(map(str, range(CLASSES))), [[0]] * IMAGES)
    rows = np.random.default_rng(0).permutation(IMAGES)[:BATCH].tolist()

    with tempfile.TemporaryDirectory() as name:
        store = FeatureStore(Path(name) / "key")
        codes = [f"{i:032x}" for i in range(IMAGES)]
        store.add(codes, maps)
        stored = FeatureDataset(table, store.get(codes))

        def from_maps() -> None:
            batch = stored.__getitems__([(0, row) for row in rows])
            assume_negative(classifier.trainable(batch.inputs), batch.states).backward()

        def from_images() -> None:
            states = torch.from_numpy(table.states(rows))
            assume_negative(classifier(pixels[rows]), states).backward()

        steps = {"stored maps": from_maps, "images": from_images}
        print(ratio_table(f"resnet50, last stage learns, {BATCH} images of 224 px", measure(steps, repeats=3)) + "\n")


if __name__ == "__main__":
    main()
