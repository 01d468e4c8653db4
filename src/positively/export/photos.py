"""The run's own photos, where an export needs some: found again, and drawn so that two parts never meet."""

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
"""Photos below which neither ranges nor a loss can be told."""


@dataclass(frozen=True)
class Photos:
    """Some photos of a run's table."""

    paths: list[Path]
    states: States | None
    """What is known of them, N×C; None if neither the run nor its table has it."""

    def __len__(self) -> int:
        return len(self.paths)

    def batches(self, run: Run, sizes: Iterator[int]) -> Iterator[Pixels]:
        """Their pixels B×3×size×size in [0, 1], as the run sees them."""
        preprocessing, start = preprocessing_of_run(run.model_config), 0
        with counted_progress("Running the network on photos", len(self)) as progress:
            while start < len(self):
                part = self.paths[start : start + next(sizes)]
                start += len(part)
                yield np.stack([pixels(load_image(path, at_least=run.image_size), preprocessing) for path in part])
                progress.advance(len(part))


def draw_photos(run: Run, images: str | Path | None, first: int, second: int) -> tuple[Photos, Photos]:
    """Two parts of a run's photos that have none in common, always the same ones.

    Args:
        run: The run.
        images: Folder in which its photos lie; default: where they were when it was trained.
        first: Photos of the first part; not more than a third of all.
        second: Photos of the second part, at most.

    Raises:
        ImageError: If the photos are not found.
        RunError: If there are too few.
    """
    names, states = read_training_labels(run.folder, run.classes)
    root = photo_root(run.path, names, read_config(run.folder), images)
    if root is None:
        raise ImageError(
            f"The photos {run.path} learned from are no longer where they were. Pass their folder with "
            f"{option('images', 'DIR')}."
        )
    order = random_stream("export", 0).permutation(len(names))[: 2 * (first + second)]
    found = [(row, name) for row, name in zip(order, locate([names[row] for row in order], root), strict=True) if name]
    if len(found) < FEWEST:
        raise RunError(
            f"{run.path} has {len(found)} photos under {root}: too few to see what its numbers range over. It takes "
            f"{FEWEST}."
        )
    split = min(first, len(found) // 3)
    parts = found[:split], found[split : split + second]
    made = [
        Photos([root / name for _, name in part], None if states is None else states[[row for row, _ in part]])
        for part in parts
    ]
    return made[0], made[1]
