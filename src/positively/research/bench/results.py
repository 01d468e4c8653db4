"""Results of the cells of a grid: one JSON file per cell, with the test scores in a separate file."""

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
"""Measures of a result, as fractions. F1 is given at per-class thresholds chosen on held-out training images, at 0.5,
and at the single threshold that is best on the test labels (the protocol of the paper, not available in practice)."""
MORE_MEASURES = ("OF1_tuned", "CF1_tuned", "tags_given", "sum_of_scores")
"""F1 at per-class thresholds chosen with complete labels and out-of-sample scores of the training images; number of
assigned tags and sum of the scores, relative to the true number of tags (1 is ideal)."""


@dataclass(frozen=True)
class Cell:
    """One training of a grid."""

    dataset: str
    row: str
    """Name of the row in the tables: "PU-MLC", "BCE, known labels"."""
    depth: str
    ratio: float
    """Share of labels that are known."""
    noise: float
    """Share of positives flipped to negative before labels are hidden."""
    seed: int

    @property
    def name(self) -> str:
        """Name of the cell in messages."""
        noise = f", {100 * self.noise:.0f} % flipped" if self.noise else ""
        return f"{self.dataset} {self.depth}: {self.row}, {100 * self.ratio:.0f} % known{noise}, seed {self.seed}"


@dataclass(frozen=True)
class Result:
    """Result of a cell."""

    cell: Cell
    family: str
    """Dataset of the paper to compare with: "coco", "voc", or "" for neither."""
    method: str
    options: dict[str, Any]
    backbone: str
    image_size: int
    chosen: dict[str, Any] = field(default_factory=dict)
    """Chosen start and learning rate, and all candidates."""
    labels: dict[str, int] = field(default_factory=dict)
    """Number of positive and negative labels and of images that the training used."""
    test: dict[str, float] = field(default_factory=dict)
    """Measures on the test table."""
    history: list[dict[str, float]] = field(default_factory=list)
    """Metrics per epoch: parts of the loss, and metrics on the held-out images."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Full configuration."""
    scores: str = ""
    """File name of the test logits."""
    seconds: float = 0.0
    failure: str = ""
    """Reason why there is no result, such as a diverged loss."""


def write_result(path: Path, result: Result) -> None:
    """Write a result atomically."""
    write_json(path, asdict(result))


def read_result(path: Path) -> Result:
    """Read a result. Raises RunError if the file is damaged."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return Result(**{**values, "cell": Cell(**values["cell"])})
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{path} is not a benchmark result, or is damaged. Delete it to compute it again.") from None


def read_results(folder: Path) -> list[Result]:
    """Read all results of a benchmark, sorted by file name."""
    return [read_result(path) for path in sorted(folder.glob("*.json"))]


def select(results: Iterable[Result], **wanted: Any) -> list[Result]:
    """Select results whose cell has these values: ``select(results, dataset="voc2007", ratio=0.1)``."""
    return [r for r in results if all(getattr(r.cell, name) == value for name, value in wanted.items())]


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over the seeds."""

    mean: float
    std: float
    """Sample standard deviation (n − 1); 0 for one seed."""
    seeds: int

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f}" + (f" ± {100 * self.std:.1f}" if self.seeds > 1 else "")


def spread(values: Sequence[float]) -> Spread | None:
    """Mean and standard deviation of one value per seed; None without values.

    Example:
        >>> str(spread([0.5, 0.51, 0.52]))
        '51.0 ± 1.0'
    """
    if not values:
        return None
    # Avoids rounding errors for equal values.
    std = float(np.std(values, ddof=1)) if len(set(values)) > 1 else 0.0
    return Spread(float(np.mean(values)), std, len(values))
