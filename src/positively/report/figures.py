"""The style of all figures, and how they are written without a window system."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from positively.files import write_text, write_with

COLORS = ("#0b7a75", "#d17b0f", "#8d99ae", "#7b4fa3", "#3f88c5", "#b8325a", "#7a8c1e", "#5c4033")
"""Colors of the rows. Markers differ too, for readers who cannot tell the colors apart."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
INK = "#1f2a33"
"""Color of text and axes; in the report it follows the reader's theme."""
PALE = "#7d8590"
THEME = {INK: "currentColor", COLORS[0]: "var(--accent)", COLORS[1]: "var(--warm)", COLORS[4]: "var(--blue)"}
"""Colors that follow the reader's theme if the figure is inside a page."""
_LONGEST_NAME = 26

_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so figures are the same everywhere
    "font.size": 10,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "svg.hashsalt": "positively",  # otherwise the ids inside an SVG are random
    "svg.fonttype": "path",
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}
styled = matplotlib.rc_context(_STYLE)


@styled
def svg_text(figure: Figure, background: str = "white", letters: Literal["path", "none"] = "path") -> str:
    """The figure as SVG; the same figure gives the same text.

    Args:
        figure: What to draw.
        background: Its color.
        letters: 'path' draws the letters, so they look the same everywhere; 'none' keeps text in the reader's
            fonts, which is smaller and works for every script.
    """
    text = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context({"svg.fonttype": letters}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the reader's fonts may have the glyph
        figure.savefig(text, format="svg", facecolor=background, metadata=nothing)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


@styled
def save_figure(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as SVG and as PNG, each in one step; ``path`` is the name without an ending."""
    vector, pixels = path.with_name(f"{path.name}.svg"), path.with_name(f"{path.name}.png")
    write_text(vector, svg_text(figure))
    options: dict[str, Any] = {"format": "png", "dpi": 160, "facecolor": "white", "metadata": {"Software": None}}
    write_with(pixels, lambda temporary: figure.savefig(temporary, **options))
    return [vector, pixels]


def new_figure(title: str, xlabel: str, ylabel: str, height: float = 4.0, width: float = 7.2) -> tuple[Figure, Axes]:
    """An empty figure with one pair of axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    axes.grid(color=PALE, alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def add_legend(figure: Figure, axes: Axes) -> None:
    """Legend above the axes, where it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        widest = 0.5 + 0.075 * max(map(len, labels))  # inches of a key and its label
        columns = max(1, min(3, len(labels), int(figure.get_figwidth() / widest)))
        figure.legend(handles, labels, loc="outside upper left", ncols=columns, frameon=False)


def plain_name(name: str) -> str:
    r"""A name from the user as text of a figure: short, on one line, not parsed as a formula.

    >>> plain_name("a\n$x^2$")
    'a \\$x^2\\$'
    """
    words = " ".join(name.split())
    short = words if len(words) <= _LONGEST_NAME else f"{words[: _LONGEST_NAME - 1].rstrip()}…"
    return short.replace("$", r"\$")
