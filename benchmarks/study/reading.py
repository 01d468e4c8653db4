"""Results of the study, grouped for tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from positively.research.bench.claims import Verdict, verdict
from positively.research.bench.results import Result, Spread, read_results, spread

Cells = dict[tuple[str, str, int], dict[int, Result]]
"""(setting, row, size) → seed → result."""


@dataclass(frozen=True)
class Found:
    """Results of one dataset and backbone."""

    dataset: str
    backbone: str
    size: int
    """Number of images of the largest table."""
    cells: Cells

    def values(self, setting: str, row: str, size: int | None = None) -> dict[int, float]:
        """Value of mAP by seed."""
        cells = self.cells.get((setting, row, size or self.size), {})
        return {seed: result.test["mAP"] for seed, result in sorted(cells.items())}

    def mean(self, setting: str, row: str, size: int | None = None) -> Spread | None:
        """Mean and standard deviation over the seeds."""
        return spread(list(self.values(setting, row, size).values()))

    def averages(self, settings: Sequence[str], row: str) -> dict[int, float]:
        """Mean mAP over settings, by seed. Seeds that lack a setting are left out."""
        values = [self.values(setting, row) for setting in settings]
        seeds = set.intersection(*(set(one) for one in values)) if values else set()
        return {seed: sum(one[seed] for one in values) / len(values) for seed in sorted(seeds)}


def compared(ahead: dict[int, float], other: dict[int, float]) -> Verdict:
    """Compare two rows on their common seeds."""
    seeds = sorted(ahead.keys() & other.keys())
    return verdict([ahead[seed] for seed in seeds], [other[seed] for seed in seeds])


def read_found(out: Path) -> list[Found]:
    """Results of a folder, by dataset, backbone and number of landmarks."""
    groups: dict[tuple[str, str, int], list[Result]] = {}
    for result in read_results(out / "cells"):
        key = result.cell.dataset, result.backbone, result.settings["landmarks"]
        groups.setdefault(key, []).append(result)
    found = []
    for (dataset, backbone, _), results in sorted(groups.items()):
        cells: Cells = {}
        for result in results:
            place = result.settings["setting"], result.method, result.labels["images"]
            cells.setdefault(place, {})[result.cell.seed] = result
        found.append(Found(dataset, backbone, max(size for _, _, size in cells), cells))
    return found
