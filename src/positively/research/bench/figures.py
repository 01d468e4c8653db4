"""Figures of a benchmark. Each function returns a matplotlib figure and needs no display."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from positively.labels import NEGATIVE, POSITIVE, LabelTable
from positively.report import COLORS, MARKERS, PALE, add_legend, new_figure, plain_name, styled
from positively.research.bench.published import TABLE_1
from positively.research.bench.results import Result, select
from positively.research.bench.series import Lines, over_axis, over_epochs
from positively.research.bench.tables import HISTORY_NAMES, MEASURE_NAMES


@styled
def map_over_ratio(
    results: Sequence[Result], dataset: str, depth: str, rows: Sequence[str] | None = None, paper: bool = True
) -> Figure:
    """Plot mAP of the rows against the known ratio, with a band of one standard deviation over the seeds.

    Args:
        results: Results of a benchmark.
        dataset: Dataset to plot.
        depth: Depth to plot.
        rows: Names of the rows, in this order; default: all.
        paper: Whether to add PU-MLC of the paper as a dashed line with its own scale, since its network and images
            differ.

    Returns:
        The figure.
    """
    lines = over_axis(results, dataset, depth, rows)
    family = next((result.family for result in select(results, dataset=dataset, depth=depth)), "")
    figure, axes = _over_shares(lines, f"{dataset}, depth {depth}", "known labels, percent")
    if paper and family in TABLE_1:
        row = next(row for row in TABLE_1[family] if row.name == "PU-MLC")
        _draw_paper(figure, axes, [(100 * ratio, 100 * value) for ratio, value in row.by_ratio.items()])
    return figure


@styled
def behind_one(results: Sequence[Result], dataset: str, depth: str, against: str) -> Figure:
    """Plot the difference of every row to one of them, with a mark per known ratio. Clearer than lines for many rows.

    Args:
        results: Results of a suite.
        dataset: Dataset to plot.
        depth: Depth to plot.
        against: The row to compare with.

    Returns:
        The figure.
    """
    lines = over_axis(results, dataset, depth)
    means = {
        name: [100 * value.mean if value else np.nan for value in row] for name, row in lines.rows.items() if any(row)
    }
    gaps = {name: np.subtract(values, means[against]) for name, values in means.items()}
    order = sorted(gaps, key=lambda name: float(np.nanmean(gaps[name])))
    title = f"{dataset}, depth {depth}"
    figure, axes = new_figure(title, f"mAP, points ahead of {against}", "", height=1.2 + 0.22 * len(order))
    for place, ratio in enumerate(lines.places):
        color, marker = COLORS[place % len(COLORS)], MARKERS[place % len(MARKERS)]
        across = [gaps[name][place] for name in order]
        axes.scatter(across, range(len(order)), s=22, color=color, marker=marker, label=f"{100 * ratio:g} % known")
    axes.axvline(0, color=PALE, linewidth=1)
    axes.set_yticks(range(len(order)), [plain_name(name) for name in order])
    # A row far behind would compress all others, so the axis is limited; the table has the value.
    axes.set_xlim(left=max(float(np.nanmin(list(gaps.values()))), -20.0) - 0.5)
    add_legend(figure, axes)
    return figure


@styled
def map_over_noise(
    results: Sequence[Result],
    dataset: str,
    depth: str,
    rows: Sequence[str] | None = None,
    ratio: float | None = None,
    measure: str = "mAP",
) -> Figure:
    """Plot a measure of the rows against the share of positives flipped to negative; options as in ``over_axis``."""
    lines = over_axis(results, dataset, depth, rows, "noise", measure, ratio)
    title = ", ".join(part for part in (dataset, f"depth {depth}", lines.setting) if part)
    return _over_shares(lines, title, "positives flipped to negative, percent", measure)[0]


@styled
def epoch_curves(
    results: Sequence[Result], key: str = "holdout_map", rows: Sequence[str] | None = None, label: str = ""
) -> Figure:
    """Plot mAP on the held-out images (or another share of the history) after each epoch.

    The results must belong to one dataset, depth, ratio and noise.
    """
    figure, axes = new_figure("", "epoch", label or f"{HISTORY_NAMES.get(key, key)}, percent")
    _draw_epochs(axes, over_epochs(results, key, rows))
    add_legend(figure, axes)
    return figure


@styled
def temperature_curves(results: Sequence[Result], rows: Sequence[str] | None = None) -> Figure:
    """Plot spread of the logits and temperature τ after each epoch. The results must belong to one setting."""
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, key in zip(panels, ("spread", "tau"), strict=True):
        axes.set(title=HISTORY_NAMES[key], xlabel="epoch")
        _draw_epochs(axes, over_epochs(results, key, rows), scale=1.0)
        axes.set_ylim(bottom=0)
    add_legend(figure, panels[0])
    return figure


@styled
def imbalance(table: LabelTable, classes: int = 20, seed: int = 0) -> Figure:
    """Plot positives and negatives of random classes (figure 2b) on a logarithmic scale."""
    chosen = np.random.default_rng(seed).permutation(len(table.classes))[:classes]
    positives, negatives = table.counts(POSITIVE), table.counts(NEGATIVE)
    chosen = chosen[np.argsort(positives[chosen], kind="stable")]
    figure, axes = new_figure("", "images, logarithmic scale", "", height=1.2 + 0.24 * len(chosen))
    places = np.arange(len(chosen))
    # The order of the legend matches that of the bars.
    axes.barh(places + 0.2, negatives[chosen], 0.38, color=COLORS[2], label="negative labels")
    axes.barh(places - 0.2, positives[chosen], 0.38, color=COLORS[0], label="positive labels")
    axes.set_yticks(places, [table.classes[index] for index in chosen])
    axes.set_xscale("log")
    axes.set_xlim(left=0.8)
    axes.set_ylim(-0.6, len(chosen) - 0.4)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    add_legend(figure, axes)
    return figure


def _over_shares(lines: Lines, title: str, xlabel: str, measure: str = "mAP") -> tuple[Figure, Axes]:
    figure, axes = new_figure(title, xlabel, f"{MEASURE_NAMES[measure]}, percent")
    places = tuple(100 * place for place in lines.places)
    _draw_lines(axes, Lines(places, lines.rows))
    axes.set_xticks(places, [f"{place:g}" for place in places])
    add_legend(figure, axes)
    return figure, axes


def _draw_lines(axes: Axes, lines: Lines, scale: float = 100.0) -> None:
    """Plot one line per row, with a band of one standard deviation for several seeds."""
    for index, (name, values) in enumerate(lines.rows.items()):
        cells = zip(lines.places, values, strict=True)
        present = [(place, cell.mean, cell.std) for place, cell in cells if cell and np.isfinite(cell.mean)]
        if not present:
            continue
        places, means, deviations = np.array(present).T * [[1.0], [scale], [scale]]
        color, marker = COLORS[index % len(COLORS)], MARKERS[index % len(MARKERS)]
        above = 3 - index / 100  # draw the first rows on top
        axes.plot(places, means, color=color, marker=marker, markersize=5, linewidth=1.8, label=name, zorder=above)
        axes.fill_between(places, means - deviations, means + deviations, color=color, alpha=0.2, linewidth=0)


def _draw_epochs(axes: Axes, lines: Lines, scale: float = 100.0) -> None:
    _draw_lines(axes, lines, scale)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(color=PALE, alpha=0.25, linewidth=0.6)


def _draw_paper(figure: Figure, below: Axes, points: Sequence[tuple[float, float]]) -> None:
    """Plot the values of the paper in a panel of their own, because on one scale they would compress the others."""
    grid = figure.add_gridspec(2, 1, height_ratios=[1, 3.2])
    below.set_subplotspec(grid[1])
    axes = figure.add_subplot(grid[0], sharex=below)
    axes.plot(*zip(*points, strict=True), color=PALE, linewidth=1.0, linestyle=(0, (4, 3)))
    label = "PU-MLC in the paper:\nResNet-101, 448 px,\nall images"
    axes.text(1.02, 0.5, label, transform=axes.transAxes, color=PALE, fontsize=8.5, va="center")
    axes.set_title(below.get_title(loc="left"))
    below.set_title("")
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="x", length=0, labelbottom=False)
    axes.tick_params(axis="y", colors=PALE)
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes.margins(y=0.2)
