"""Figures of the study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from benchmarks.study import budget
from benchmarks.study.criteria import CRITERIA
from benchmarks.study.parts import ROWS, SWEEPS
from benchmarks.study.reading import Found
from benchmarks.study.settings import AT_SIZES, OTHERS, UNIFORM, Setting
from benchmarks.study.sweep import agreement
from positively.report import COLORS, MARKERS, PALE, add_legend, new_figure, save_figure, styled
from positively.research.bench.results import Spread, spread

Points = list[tuple[float, Spread | None]]


def draw(part: str, found: Found, path: Path) -> list[str]:
    """Draw the figures of a part that have results; returns their names without suffix."""
    names = []
    for ending, make in _FIGURES[part].items():
        figure = make(found)
        if figure is not None:
            save_figure(figure, path.with_name(path.name + ending))
            names.append(path.name + ending)
    return names


@styled
def _by_ratio(found: Found, part: str) -> Figure | None:
    """Plot the difference of each row to the first one, with a mark per known ratio."""
    first, *rows = ROWS[part]
    gaps = {
        setting.title: [_gap(found, setting, row.name, first.name) for row in rows]
        for setting in UNIFORM
        if found.values(setting.name, first.name)
    }
    return _dots(found, gaps, [row.title for row in rows], first.title)


@styled
def _regret(found: Found) -> Figure | None:
    """Plot the mAP lost by each criterion for λ, by known ratio, after one step."""
    row, lines = SWEEPS["one step"], {}
    for criterion in CRITERIA:
        points: Points = []
        for setting in UNIFORM:
            cells = found.cells.get((setting.name, row, found.size), {}).values()
            values = [agreement(cell.history, criterion).regret for cell in cells]
            points.append((100 * setting.ratio, spread(values)))
        lines[f"λ by {criterion}"] = points
    return _lines(found, lines, "known labels, percent", "mAP lost to the best λ, points")


@styled
def _behind(found: Found) -> Figure | None:
    """Plot the difference of each row to ``auto`` in every setting."""
    first, *rows = ROWS["settings"]
    settings = [one for one in (*UNIFORM, *OTHERS) if found.values(one.name, first.name)]
    gaps = {row.title: [_gap(found, setting, row.name, first.name) for setting in settings] for row in rows}
    return _dots(found, gaps, [setting.title for setting in settings], first.title)


def _dots(found: Found, gaps: Mapping[str, Sequence[float | None]], names: Sequence[str], first: str) -> Figure | None:
    """Plot differences as marks: one line per name, and one mark per series of ``gaps``."""
    if not any(gap is not None for series in gaps.values() for gap in series):
        return None
    title, height = f"{found.dataset}, {found.backbone}", 1.6 + 0.24 * len(names)
    figure, axes = new_figure(title, f"mAP, points ahead of {first}", "", height=height, width=8.6)
    for index, (label, series) in enumerate(gaps.items()):
        marks = [(gap, len(names) - 1 - place) for place, gap in enumerate(series) if gap is not None]
        if marks:
            look = {"s": 24, "color": COLORS[index % len(COLORS)], "marker": MARKERS[index % len(MARKERS)]}
            axes.scatter(*zip(*marks, strict=True), label=label, **look)
    axes.axvline(0, color=PALE, linewidth=1)
    axes.set_yticks(range(len(names)), names[::-1])
    add_legend(figure, axes)
    return figure


def _gap(found: Found, setting: Setting, row: str, first: str) -> float | None:
    own, other = found.values(setting.name, row), found.values(setting.name, first)
    seeds = own.keys() & other.keys()
    return 100 * float(np.mean([own[seed] - other[seed] for seed in seeds])) if seeds else None


@styled
def _sizes(found: Found) -> Figure | None:
    sizes = sorted({size for setting, _, size in found.cells if setting == AT_SIZES.name})
    lines = {
        row.title: [(float(size), found.mean(AT_SIZES.name, row.name, size)) for size in sizes]
        for row in ROWS["settings"]
    }
    what = f"training images, {AT_SIZES.title}"
    return _lines(found, lines, what, "mAP, percent", logarithmic=True) if len(sizes) > 1 else None


@styled
def _budget(found: Found) -> Figure | None:
    """Plot mAP against the number of answers, one line per plan and row."""
    lines: dict[str, Points] = {}
    for setting in budget.SETTINGS:
        for row in ROWS["budget"]:
            cells = found.cells.get((setting.name, row.name, found.size), {})
            if cells:
                answers = float(next(iter(cells.values())).settings["answers"])
                name = f"{setting.plan}: {row.title}".removesuffix(", same kernel")
                lines.setdefault(name, []).append((answers, found.mean(setting.name, row.name)))
    return _lines(found, lines, "answers", "mAP, percent", logarithmic=True) if lines else None


def _lines(
    found: Found, lines: dict[str, Points], xlabel: str, ylabel: str, logarithmic: bool = False
) -> Figure | None:
    """Plot one line per row, with bars of one standard deviation."""
    if not any(value for points in lines.values() for _, value in points):
        return None
    figure, axes = new_figure(f"{found.dataset}, {found.backbone}", xlabel, ylabel, height=4.8, width=8.6)
    ticks: set[float] = set()
    for index, (name, points) in enumerate(lines.items()):
        measured = [(place, 100 * value.mean, 100 * value.std) for place, value in points if value]
        if not measured:
            continue
        places, means, deviations = np.array(measured).T
        ticks |= set(places.tolist())
        look = {"color": COLORS[index % len(COLORS)], "marker": MARKERS[index % len(MARKERS)], "label": name}
        axes.errorbar(places, means, deviations, markersize=5, linewidth=1.6, elinewidth=0.8, **look)
    if logarithmic:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xticks(_apart(sorted(ticks)) if logarithmic else sorted(ticks))
    add_legend(figure, axes)
    return figure


def _apart(ticks: Sequence[float]) -> list[float]:
    """Ticks whose labels do not overlap."""
    chosen: list[float] = []
    for tick in ticks:
        if not chosen or tick > 1.15 * chosen[-1]:
            chosen.append(tick)
    return chosen


_FIGURES: dict[str, dict[str, Callable[[Found], Figure | None]]] = {
    "ablation": {"": partial(_by_ratio, part="ablation")},
    "criterion": {"": _regret},
    "settings": {"": _behind, "-sizes": _sizes},
    "budget": {"": _budget},
    "teaching": {"": partial(_by_ratio, part="teaching")},
}
