"""Draw images of a run's table for calibration and comparison."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from positively.embedding.onnx import pixels
from positively.errors import ImageError, RunError, option
from positively.export.graph import Pixels
from positively.images.decode import load_image
from positively.images.paths import locate
from positively.labels import States
from positively.logs import counted_progress
from positively.randomness import random_stream
from positively.runs.predictor import preprocessing_of_run
from positively.runs.run import Run
from positively.runs.sources import photo_root, read_config, read_training_labels

FEWEST = 12
"""Minimum number of images to calibrate ranges and to measure a loss."""


@dataclass(frozen=True)
class Photos:
    """Some images of a run's table."""

    paths: list[Path]
    states: States | None
    """Their label states, N×C; None if neither the run nor its table has them."""

    def __len__(self) -> int:
        return len(self.paths)

    def batches(self, run: Run, sizes: Iterator[int]) -> Iterator[Pixels]:
        """Yield their pixels B×3×size×size in [0, 1], resized as in the run."""
        preprocessing, start = preprocessing_of_run(run.model_config), 0
        with counted_progress("Running the network on photos", len(self)) as progress:
            while start < len(self):
                part = self.paths[start : start + next(sizes)]
                start += len(part)
                yield np.stack([pixels(load_image(path, at_least=run.image_size), preprocessing) for path in part])
                progress.advance(len(part))


def draw_photos(run: Run, images: str | Path | None, first: int, second: int) -> tuple[Photos, Photos]:
    """Draw two disjoint sets of a run's images; the same run always gives the same sets.

    Args:
        run: The run.
        images: Folder of its images; by default where they were in training.
        first: Maximum size of the first set; also at most a third of all images.
        second: Maximum size of the second set.

    Raises:
        ImageError: if the images are not found.
        RunError: if there are too few.
    """
    names, states = read_training_labels(run.folder, run.classes)
    root = photo_root(run.path, names, read_config(run.folder), images)
    if root is None:
        raise ImageError(
            f"The training images of {run.path} were not found. Pass their folder with {option('images', 'DIR')}."
        )
    order = random_stream("export", 0).permutation(len(names))[: 2 * (first + second)]
    found = [(row, name) for row, name in zip(order, locate([names[row] for row in order], root), strict=True) if name]
    if len(found) < FEWEST:
        raise RunError(f"{run.path} has {len(found)} images under {root}, but quantization needs at least {FEWEST}.")
    split = min(first, len(found) // 3)
    parts = found[:split], found[split : split + second]
    made = [
        Photos([root / name for _, name in part], None if states is None else states[[row for row, _ in part]])
        for part in parts
    ]
    return made[0], made[1]
