"""How a run's report puts numbers and names into words."""

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
"""Classes in a figure; the tables have all."""


def percent(share: float) -> str:
    """A share as people read it.

    >>> [percent(share).replace(NO_BREAK, " ") for share in (0.514, 0.0042, 0.0001, 0.999, 1.0, float("nan"))]
    ['51 %', '0.4 %', '< 0.1 %', '> 99 %', '100 %', '–']
    """
    if not np.isfinite(share):
        return "–"
    if 0 < share < 0.001 or 0.995 <= share < 1:  # no more digits than anybody knows
        return f"{'<' if share < 0.5 else '>'}{NO_BREAK}{'0.1' if share < 0.5 else '99'}{NO_BREAK}%"
    digits = f"{100 * share:.0f}" if share >= 0.0995 or share == 0 else f"{100 * share:.1f}".removesuffix(".0")
    return f"{digits}{NO_BREAK}%"


def rounded(number: float) -> str:
    """Three digits of a number that is not known better."""
    return f"{float(f'{number:.3g}'):,.0f}"


def duration(seconds: float) -> str:
    """Time as people read it.

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
    """Say that a figure shows some of the classes only."""
    return f" The {len(shown)} most frequent of {len(classes):,} tags." if len(shown) < len(classes) else ""


def known_counts(contents: RunContents) -> Values | None:
    """``(C,)`` photos that carry each tag on record; of a very large table, by the photos looked at."""
    if contents.states is None:
        return None
    known: Values = (contents.states == POSITIVE).sum(axis=0).astype(np.float64)
    return known * (len(contents.parts) / max(len(contents.images), 1))


def on_record(contents: RunContents, quality: Quality) -> tuple[Values, float]:
    """``(C,)`` photos that carry each tag on record, and how many photos of the table stand for one that was judged."""
    scale, known = len(contents.parts) / max(quality.judged, 1), known_counts(contents)
    return (known if known is not None else scale * quality.known), scale


def evaluated_table(contents: RunContents) -> str:
    """Name of what the run was evaluated on."""
    # Windows paths know both slashes, so that a run may be read on another system than it was evaluated on.
    return PureWindowsPath((contents.evaluation or {}).get("table") or "the test table").name


def written_tags(contents: RunContents, row: int) -> str:
    """Which tags of a photo are on record."""
    assert contents.states is not None
    tags = [contents.classes[index] for index in np.flatnonzero(contents.states[row] == POSITIVE)]
    return f"written down: {and_more(tags)}" if tags else "nothing written down"


def sampled(contents: RunContents) -> str:
    """Say that not all photos of a very large table were looked at."""
    if len(contents.images) == len(contents.parts):
        return ""
    return f" Of {len(contents.parts):,} photos {len(contents.images):,} were looked at for this page."
