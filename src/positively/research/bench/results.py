"""What one cell of a grid measured, and how it is stored: one JSON file a cell, with the test scores beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from positively.errors import RunError
from positively.files import write_json

MEASURES = ("mAP", "OF1", "CF1", "OF1_half", "CF1_half", "OF1_oracle", "CF1_oracle")
"""Numbers of a result, as fractions: F1 at one threshold a class, found on training images held out; at 0.5; and at
the one threshold for all classes that is best on the test labels themselves (the paper's way; nobody who uses a model
has it)."""
MORE_MEASURES = ("OF1_tuned", "CF1_tuned", "tags_given", "sum_of_scores")
"""F1 at one threshold a class that complete labels of the training images would give, by out-of-sample scores; tags
given, and the sum of the scores, as shares of the true number of tags: 1 is right."""


@dataclass(frozen=True)
class Cell:
    """One training of a grid: what is trained, on which labels."""

    dataset: str
    row: str
    """Name of the line in the tables: "PU-MLC", "BCE, known labels"."""
    depth: str
    ratio: float
    """Share of the labels that is known."""
    noise: float
    """Share of the positives that was flipped to negative before the rest was hidden."""
    seed: int

    @property
    def name(self) -> str:
        """How the cell is called in progress and messages."""
        noise = f", {100 * self.noise:.0f} % flipped" if self.noise else ""
        return f"{self.dataset} {self.depth}: {self.row}, {100 * self.ratio:.0f} % known{noise}, seed {self.seed}"


@dataclass(frozen=True)
class Result:
    """What a cell measured."""

    cell: Cell
    family: str
    """Whose figures of the paper stand beside it: "coco", "voc", or "" for neither."""
    method: str
    options: dict[str, Any]
    backbone: str
    image_size: int
    chosen: dict[str, Any] = field(default_factory=dict)
    """Start and learning rate, and what they were chosen from on a part of train."""
    labels: dict[str, int] = field(default_factory=dict)
    """Positive and negative labels that the training saw, and its images: "positives", "negatives", "images"."""
    test: dict[str, float] = field(default_factory=dict)
    """The measures on the test table."""
    history: list[dict[str, float]] = field(default_factory=list)
    """One entry an epoch: parts of the loss, and what the images held out say."""
    settings: dict[str, Any] = field(default_factory=dict)
    """The whole configuration."""
    scores: str = ""
    """Name of the file with the test logits."""
    seconds: float = 0.0
    failure: str = ""
    """Why nothing was measured: a loss that is no number."""


def write_result(path: Path, result: Result) -> None:
    """Write a result whole."""
    write_json(path, asdict(result))


def read_result(path: Path) -> Result:
    """Read a result again."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return Result(**{**values, "cell": Cell(**values["cell"])})
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{path} is no result of a bench, or damaged. Delete it: it is computed again.") from None


def read_results(folder: Path) -> list[Result]:
    """Every result of a bench, in the order of their names."""
    return [read_result(path) for path in sorted(folder.glob("*.json"))]


def select(results: Iterable[Result], **wanted: Any) -> list[Result]:
    """Results whose cell has these values: ``select(results, dataset="voc2007", ratio=0.1)``."""
    return [r for r in results if all(getattr(r.cell, name) == value for name, value in wanted.items())]


@dataclass(frozen=True)
class Spread:
    """Mean over the seeds, and their standard deviation.

    The distance between the best and the worst would grow with the number of seeds; the deviation does not.
    """

    mean: float
    std: float
    """With n − 1 beneath; 0 for one seed, of which nobody knows it."""
    seeds: int

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f}" + (f" ± {100 * self.std:.1f}" if self.seeds > 1 else "")


def spread(values: Sequence[float]) -> Spread | None:
    """Mean and standard deviation of one number a seed; nothing for no number.

    >>> str(spread([0.5, 0.51, 0.52]))
    '51.0 ± 1.0'
    """
    if not values:
        return None
    # Of equal numbers the deviation is 0, not the rounding of their mean.
    std = float(np.std(values, ddof=1)) if len(set(values)) > 1 else 0.0
    return Spread(float(np.mean(values)), std, len(values))
