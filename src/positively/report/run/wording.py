"""Numbers and names as the report of a run shows them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PureWindowsPath

import numpy as np
import numpy.typing as npt

from positively.errors import and_more
from positively.labels import POSITIVE
from positively.report.run.contents import RunContents
from positively.report.run.quality import Quality

Values = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

NO_BREAK = "\u00a0"
MOST_CLASSES = 24
"""Classes in a figure; the tables show all."""


def percent(share: float) -> str:
    """A share in percent, as readers expect it.

    >>> [percent(share).replace(NO_BREAK, " ") for share in (0.514, 0.0042, 0.0001, 0.999, 1.0, float("nan"))]
    ['51 %', '0.4 %', '< 0.1 %', '> 99 %', '100 %', '–']
    """
    if not np.isfinite(share):
        return "–"
    if 0 < share < 0.001 or 0.995 <= share < 1:  # no more digits than are known
        return f"{'<' if share < 0.5 else '>'}{NO_BREAK}{'0.1' if share < 0.5 else '99'}{NO_BREAK}%"
    digits = f"{100 * share:.0f}" if share >= 0.0995 or share == 0 else f"{100 * share:.1f}".removesuffix(".0")
    return f"{digits}{NO_BREAK}%"


def rounded(number: float) -> str:
    """A number to three significant digits."""
    return f"{float(f'{number:.3g}'):,.0f}"


def duration(seconds: float) -> str:
    """A duration in hours, minutes and seconds.

    >>> duration(3725)
    '1 h 2 min 5 s'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "min"), (rest, "s")]
    return " ".join(f"{count} {unit}" for count, unit in parts if count) or "less than a second"


def largest_classes(weights: Values, most: int) -> Rows:
    """Numbers of the classes with the largest weights, the largest first."""
    return np.argsort(-weights, kind="stable")[:most].astype(np.int64)


def of_all(shown: Rows, classes: Sequence[str]) -> str:
    """A note that a figure shows only some of the classes."""
    return f" The {len(shown)} most frequent of {len(classes):,} tags." if len(shown) < len(classes) else ""


def known_counts(contents: RunContents) -> Values | None:
    """``(C,)`` photos known to carry each tag; estimated from the sample for a very large table."""
    if contents.states is None:
        return None
    known: Values = (contents.states == POSITIVE).sum(axis=0).astype(np.float64)
    return known * (len(contents.parts) / max(len(contents.images), 1))


def on_record(contents: RunContents, quality: Quality) -> tuple[Values, float]:
    """``(C,)`` photos known to carry each tag, and the number of photos in the table per judged photo."""
    scale, known = len(contents.parts) / max(quality.judged, 1), known_counts(contents)
    return (known if known is not None else scale * quality.known), scale


def evaluated_table(contents: RunContents) -> str:
    """Name of the table the run was evaluated on."""
    # Windows paths accept both slashes, so the run may be read on another system.
    return PureWindowsPath((contents.evaluation or {}).get("table") or "the test table").name


def written_tags(contents: RunContents, row: int) -> str:
    """The known tags of a photo."""
    assert contents.states is not None
    tags = [contents.classes[index] for index in np.flatnonzero(contents.states[row] == POSITIVE)]
    return f"known: {and_more(tags)}" if tags else "no known tags"


def sampled(contents: RunContents) -> str:
    """A note that only a sample of a very large table is shown."""
    if len(contents.images) == len(contents.parts):
        return ""
    return f" This page uses a sample of {len(contents.images):,} of the {len(contents.parts):,} photos."
