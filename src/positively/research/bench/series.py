"""Series for tables and figures: rows against ratio, noise or epoch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from positively.errors import ConfigError, RunError, and_more
from positively.research.bench.results import MEASURES, MORE_MEASURES, Result, Spread, select, spread

Axis = Literal["ratio", "noise"]


@dataclass(frozen=True)
class Lines:
    """Rows over one axis; None where there is no result."""

    places: tuple[float, ...]
    rows: dict[str, list[Spread | None]]
    setting: str = ""
    """Common setting worth mentioning, such as "50 % known"."""


def row_names(results: Iterable[Result], rows: Sequence[str] | None = None) -> list[str]:
    """Names of the requested rows, or of all rows in the order of the results."""
    return list(rows) if rows is not None else list(dict.fromkeys(result.cell.row for result in results))


def of_rows(results: Iterable[Result], rows: Sequence[str] | None) -> list[Result]:
    """Results of the requested rows (default: all)."""
    return [result for result in results if rows is None or result.cell.row in rows]


def per_seed(results: Iterable[Result], measure: str, ratios: Sequence[float]) -> dict[int, float]:
    """Value of a measure per seed, averaged over known ratios. Seeds that lack a ratio are left out.

    Args:
        results: Results of one row, dataset, depth and noise.
        measure: One of ``MEASURES`` or ``MORE_MEASURES``.
        ratios: Known ratios to average over.

    Returns:
        Mean value by seed.

    Raises:
        ConfigError: If the measure is unknown.
        RunError: If there are two results for one cell.
    """
    if measure not in (*MEASURES, *MORE_MEASURES):
        known = ", ".join((*MEASURES, *MORE_MEASURES))
        raise ConfigError(f"There is no measure '{measure}'; choose from {known}.")
    found: dict[int, dict[float, float]] = {}
    seen = set()
    for result in results:
        cell = result.cell
        if (cell.seed, cell.ratio) in seen:
            raise RunError(f"Two results for one cell ({cell.name}); select one dataset, depth and noise.")
        seen.add((cell.seed, cell.ratio))
        if measure in result.test:
            found.setdefault(cell.seed, {})[cell.ratio] = result.test[measure]
    wanted = set(ratios)
    return {
        seed: float(np.mean([found[seed][ratio] for ratio in ratios]))
        for seed in sorted(found)
        if wanted and wanted <= found[seed].keys()
    }


def mean_over(results: Iterable[Result], measure: str, ratios: Sequence[float]) -> Spread | None:
    """Mean and standard deviation over the seeds of a measure averaged over known ratios."""
    return spread(list(per_seed(results, measure, ratios).values()))


def over_axis(
    results: Iterable[Result],
    dataset: str,
    depth: str,
    rows: Sequence[str] | None = None,
    over: Axis = "ratio",
    measure: str = "mAP",
    at: float | None = None,
) -> Lines:
    """Rows against the known ratio, or against the share of flipped positives.

    Args:
        results: Results of a benchmark.
        dataset: Dataset to select.
        depth: Depth to select.
        rows: Names of the rows, in this order; default: all.
        over: Axis: known ratio or noise.
        measure: One of ``MEASURES`` or ``MORE_MEASURES``.
        at: Value of the other axis. Default: noise 0 when ``over`` is the ratio; the ratio that was measured with noise
            when ``over`` is the noise.

    Returns:
        The rows.

    Raises:
        ConfigError: If noise was measured at several ratios and ``at`` is not given.
    """
    here = of_rows(select(results, dataset=dataset, depth=depth), rows)
    other = "noise" if over == "ratio" else "ratio"
    if at is None:
        at = 0.0 if over == "ratio" else _noisy_ratio(here)
    here = select(here, **{other: at})
    places = tuple(sorted({float(getattr(result.cell, over)) for result in here}))
    lines: dict[str, list[Spread | None]] = {}
    for name in row_names(here, rows):
        of_row = select(here, row=name)
        lines[name] = [
            mean_over(select(of_row, **{over: place}), measure, [place if over == "ratio" else at]) for place in places
        ]
    setting = f"{100 * at:g} % known" if over == "noise" else f"{100 * at:g} % of positives flipped" if at else ""
    return Lines(places, lines, setting)


def _noisy_ratio(results: Sequence[Result]) -> float:
    ratios = sorted({result.cell.ratio for result in results if result.cell.noise})
    if len(ratios) > 1:
        listed = and_more([f"{100 * ratio:g} %" for ratio in ratios])
        raise ConfigError(f"Noise was measured at several known ratios ({listed}); pass at= to select one.")
    return ratios[0] if ratios else 1.0


def over_epochs(results: Sequence[Result], key: str, rows: Sequence[str] | None = None) -> Lines:
    """Rows against epochs, from the histories. The results must belong to one dataset, depth, ratio and noise."""
    here = of_rows(results, rows)
    settings = {(r.cell.dataset, r.cell.depth, r.cell.ratio, r.cell.noise) for r in here}
    if len(settings) > 1:
        raise ConfigError(f"The curves belong to {len(settings)} settings; select one of them first.")
    epochs = max((len(result.history) for result in here), default=0)
    lines: dict[str, list[Spread | None]] = {}
    for name in row_names(here, rows):
        histories = [result.history for result in select(here, row=name)]
        lines[name] = [
            spread([history[epoch][key] for history in histories if epoch < len(history) and key in history[epoch]])
            for epoch in range(epochs)
        ]
    return Lines(tuple(float(epoch + 1) for epoch in range(epochs)), lines)
