"""Figures of a run's report. All are narrow, to be readable on a phone; classes run from top to bottom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from positively.report.figures import COLORS, INK, PALE, add_legend, new_figure, plain_name, styled
from positively.report.run.quality import Quality, Reliability, wilson

Values = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

WIDTH = 4.8
_PERCENT = FuncFormatter(lambda value, _: f"{100 * value:.3g} %")
_COUNT = FuncFormatter(lambda value, _: f"{value:,.0f}")
_ROW = 0.21


@styled
def expected_precision(precision: Values) -> Figure:
    """Expected share of right tags among the first suggestions."""
    figure, axes = new_figure("", "suggestions, most probable first", "expected to be right", 4.2, WIDTH)
    depths = np.unique(np.geomspace(1, max(len(precision), 1), 400).astype(int))
    axes.plot(depths, precision[depths - 1], color=COLORS[0], linewidth=2)
    axes.fill_between(depths, 0, precision[depths - 1], color=COLORS[0], alpha=0.12, linewidth=0)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(_COUNT)
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set(xlim=(1, max(len(precision), 2)), ylim=(0, 1))
    axes.yaxis.set_major_formatter(_PERCENT)
    return figure


@styled
def precision_recall(
    curve: tuple[Values, Values], quality: Quality, evaluation: Mapping[str, Any] | None = None
) -> Figure:
    """The expected curve over all classes, each class at its threshold, and the measured point."""
    figure, axes = new_figure("", "recall", "precision", 4.2, WIDTH)
    shown = quality.learned & (quality.given > 0)
    size = 12 + 60 * quality.positives / max(float(quality.positives.max(initial=1.0)), 1.0)
    axes.scatter(
        *(quality.recall[shown], quality.precision[shown], size[shown]), color=COLORS[2], alpha=0.55, linewidth=0,
        label="one tag at its threshold",
    )  # fmt: skip
    axes.plot(*curve, color=COLORS[0], linewidth=2, label="all tags, expected")
    own = (quality.overall_recall, quality.overall_precision)
    axes.scatter(
        *own, 70, color=COLORS[0], marker="D", zorder=4, label=f"all tags at their thresholds, {quality.counted}"
    )
    if evaluation:
        f1 = evaluation["f1"]
        axes.scatter(
            *(f1["overall_recall"], f1["overall_precision"], 110), color=COLORS[1], marker="*", zorder=5,
            label="all tags at their thresholds, measured",
        )  # fmt: skip
    axes.set(xlim=(0, 1.02), ylim=(0, 1.02))
    axes.xaxis.set_major_formatter(_PERCENT)
    axes.yaxis.set_major_formatter(_PERCENT)
    add_legend(figure, axes)
    return figure


@styled
def known_shares(found: Reliability) -> Figure:
    """Expected and actual share of known tags, with 95 % intervals."""
    figure, axes = new_figure("", "expected share of known tags", "actual share of known tags", 4.2, WIDTH)
    share, (lower, upper) = found.known / np.maximum(found.pairs, 1.0), wilson(found.known, found.pairs)
    least = 10.0 ** np.floor(np.log10(max(float(found.expected.min(initial=0.1)), 1e-6)))
    axes.plot([least, 1], [least, 1], color=PALE, linewidth=1, linestyle=(0, (4, 3)))
    errors = np.abs(np.stack([share - lower, upper - share]))
    axes.errorbar(
        found.expected, np.maximum(share, least), errors, fmt="o", color=COLORS[0], markersize=6, linewidth=1.4
    )
    axes.set(xscale="log", yscale="log", xlim=(least, 1), ylim=(least, 1))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(_PERCENT)
        axis.set_minor_formatter(NullFormatter())
    return figure


@styled
def known_and_missing(classes: Sequence[str], shown: Rows, known: Values, positives: Values, at_most: Values) -> Figure:
    """Known tags, expected tags, and the upper bound."""
    figure, axes = _class_axes(classes, shown, "photos, logarithmic scale")
    places = np.arange(len(shown))
    known, positives = known[shown], np.maximum(positives, known)[shown]
    at_most = np.maximum(at_most[shown], positives)
    # Points instead of bars: on a logarithmic scale, lengths do not add up.
    axes.hlines(places, positives, at_most, color=PALE, linewidth=1.2)
    axes.hlines(places, known, positives, color=COLORS[1], linewidth=3.5, alpha=0.45)
    axes.plot(known, places, "o", color=COLORS[0], markersize=5.5, label="known")
    axes.plot(positives, places, "D", color=COLORS[1], markersize=4.5, label="expected")
    axes.plot(at_most, places, "|", color=PALE, markersize=8, markeredgewidth=1.5, label="at most")
    axes.set_xscale("log")
    axes.set_xlim(0.8, max(float(at_most.max(initial=1.0)), 2.0) * 1.3)
    axes.xaxis.set_major_formatter(_COUNT)
    axes.xaxis.set_minor_formatter(NullFormatter())
    add_legend(figure, axes)
    return figure


@styled
def label_frequencies(classes: Sequence[str], shown: Rows, quality: Quality, common: float) -> Figure:
    """Known share of each class's positives, with the smallest share that the bound allows."""
    figure, axes = _class_axes(classes, shown, "known share of the true tags")
    places = np.arange(len(shown))
    lowest = (quality.known / np.maximum(quality.at_most, 1e-12))[shown]
    axes.axvline(common, color=PALE, linewidth=1, linestyle=(0, (4, 3)), label="all tags together")
    axes.hlines(
        places, np.minimum(lowest, quality.frequency[shown]), quality.frequency[shown], color=COLORS[0], linewidth=1.4,
        alpha=0.6, label="at least",
    )  # fmt: skip
    axes.plot(quality.frequency[shown], places, "o", color=COLORS[0], markersize=5.5, label="estimated")
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(_PERCENT)
    add_legend(figure, axes)
    return figure


@styled
def thresholds_by_class(classes: Sequence[str], shown: Rows, quality: Quality) -> Figure:
    """The threshold of each class, its precision, and its counted recall with an interval."""
    figure, axes = _class_axes(classes, shown, "")
    places = np.arange(len(shown))
    recall = (quality.found / np.maximum(quality.known, 1.0))[shown]
    lower, upper = (part[shown] for part in quality.recall_range)
    axes.hlines(places - 0.13, lower, upper, color=COLORS[1], linewidth=1.4, alpha=0.6)
    axes.plot(recall, places - 0.13, "s", color=COLORS[1], markersize=4.5, label="recall, counted")
    axes.plot(
        quality.precision[shown],
        places + 0.13,
        "o",
        color=COLORS[0],
        markersize=5.5,
        label=f"precision, {quality.counted}",
    )
    axes.plot(quality.thresholds[shown], places, "|", color=INK, markersize=9, markeredgewidth=1.6, label="threshold")
    axes.set_xlim(-0.02, 1.02)
    axes.xaxis.set_major_formatter(_PERCENT)
    add_legend(figure, axes)
    return figure


@styled
def plain_thresholds(classes: Sequence[str], shown: Rows, thresholds: Values) -> Figure:
    """Thresholds of scores that are not probabilities."""
    figure, axes = _class_axes(classes, shown, "threshold of the score")
    axes.plot(thresholds[shown], np.arange(len(shown)), "|", color=COLORS[0], markersize=10, markeredgewidth=2.5)
    axes.set_xlim(-0.02, 1.02)
    return figure


@styled
def known_counts(classes: Sequence[str], shown: Rows, known: Values) -> Figure:
    """Photos known to carry each tag."""
    figure, axes = _class_axes(classes, shown, "known photos")
    axes.barh(np.arange(len(shown)), known[shown], 0.62, color=COLORS[0])
    axes.xaxis.set_major_formatter(_COUNT)
    return figure


@styled
def together(classes: Sequence[str], shown: Rows, shares: Values, largest: float) -> Figure:
    """Share of the photos with the tag of a row that carry the tag of a column, up to ``largest``."""
    names = [plain_name(classes[index]) for index in shown]
    figure = Figure(figsize=(WIDTH, 1.6 + 0.27 * len(shown)), layout="constrained")
    axes = figure.subplots()
    # From transparent to the full color, so cells without pairs have the color of the page, light or dark.
    shades = LinearSegmentedColormap.from_list("shades", [(COLORS[0], 0.04), (COLORS[0], 1.0)], N=40)
    cells = np.where(np.eye(len(shown), dtype=bool), np.nan, shares)
    mesh = axes.pcolormesh(cells, cmap=shades, vmin=0, vmax=largest, edgecolors="none")
    axes.invert_yaxis()
    axes.set_xticks(np.arange(len(shown)) + 0.5, names, rotation=90)
    axes.set_yticks(np.arange(len(shown)) + 0.5, names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(mesh, ax=axes, orientation="horizontal", fraction=0.04, aspect=40, format=_PERCENT)
    bar.outline.set_visible(False)
    return figure


@styled
def epochs(history: Sequence[Mapping[str, str]], names: Sequence[str]) -> Figure:
    """The measures after each epoch, one panel per measure."""
    figure = Figure(figsize=(WIDTH, 0.4 + 1.5 * len(names)), layout="constrained")
    for axes, name in zip(np.ravel(figure.subplots(len(names), 1, sharex=True)), names, strict=True):
        points = [(float(row["epoch"]), float(row[name])) for row in history if row.get(name)]
        axes.plot(*zip(*points, strict=True), color=COLORS[0], linewidth=1.8)
        axes.set_title(name)
        axes.grid(color=PALE, alpha=0.25, linewidth=0.6)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.axes[-1].set_xlabel("epoch")
    return figure


def _class_axes(classes: Sequence[str], shown: Rows, xlabel: str) -> tuple[Figure, Axes]:
    """Axes with one row per class, the first on top."""
    figure, axes = new_figure("", xlabel, "", 1.25 + _ROW * len(shown), WIDTH)
    axes.set_yticks(np.arange(len(shown)), [plain_name(classes[index]) for index in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    return figure, axes
