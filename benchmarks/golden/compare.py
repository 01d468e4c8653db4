"""Comparison of two records: one line per quantity, with its largest difference and its tolerance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatch

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray]

TOLERANCES = (
    ("*/digest", 0.0),
    ("*/groups", 0.0),
    ("*/step", 0.0),
    ("*/questions", 0.0),
    ("*/predicted tags", 0.0),
    ("*/pictures/embeddings", 1e-5),
    ("*/pictures by command/counts", 5e-3),  # written with one decimal
    ("*/probe/*", 1e-6),
    ("*/review/*", 1e-6),
    # Swapping two images of equal score changes the average precision of a class, but hardly the mean.
    ("*/average_precision", 1e-3),
    ("*", 1e-4),
)
"""Pattern of the name of a quantity → largest accepted difference; the first match counts."""
_SHOWN_DIGITS = 1.0001e-4
"""Values rounded to four decimals on the page and in files may differ by one in the last decimal."""
_ROUNDED = ("*/review/grid.values", "*/review/questions stated", "*/review/status", "*/pictures by command/*")


@dataclass(frozen=True)
class Line:
    """Comparison of one quantity."""

    name: str
    difference: float
    """Relative to the largest absolute value if that is above 1; infinite if there is nothing to compare."""
    tolerance: float
    note: str = ""

    @property
    def is_ok(self) -> bool:
        """Whether the difference is accepted."""
        return self.difference <= self.tolerance


def compare(recorded: Arrays, found: Arrays, slack: float = 1.0) -> list[Line]:
    """Compare two records.

    Args:
        recorded: The record.
        found: The record to compare with it.
        slack: Factor on the tolerances, which are for one machine; results vary slightly with hardware.

    Returns:
        One line for each quantity in either record.
    """
    lines = [line for name in sorted({*recorded, *found}) for line in _lines(name, recorded, found)]
    return [replace(line, tolerance=slack * line.tolerance) for line in lines]


def table(lines: list[Line]) -> str:
    """Format the lines as text."""
    width = max(len(line.name) for line in lines)
    head = f"{'quantity':<{width}}  difference  tolerance  ok"
    rows = [
        f"{line.name:<{width}}  {line.difference:10.1e}  {line.tolerance:9.0e}  {'yes' if line.is_ok else 'NO'}"
        f"{'  ' + line.note if line.note else ''}"
        for line in lines
    ]
    return "\n".join([head, *rows])


def tolerance_of(name: str) -> float:
    """Largest accepted difference."""
    found = next(value for pattern, value in TOLERANCES if fnmatch(name, pattern))
    is_rounded = any(fnmatch(name, pattern) for pattern in _ROUNDED)
    return max(found, _SHOWN_DIGITS) if is_rounded and found else found


def _lines(name: str, recorded: Arrays, found: Arrays) -> Iterator[Line]:
    tolerance = tolerance_of(name)
    if name not in recorded or name not in found:
        yield Line(name, np.inf, tolerance, "not recorded" if name not in recorded else "not found")
    elif name.endswith(".pairs"):
        yield from _ranking(name.removesuffix(".pairs"), recorded, found)
    elif name.endswith("/questions"):
        yield _questions(name, recorded, found)
    elif name.endswith("/predicted tags"):
        yield _tags(name, recorded, found)
    elif not name.endswith(".values"):  # part of a ranking
        yield Line(name, _difference(recorded[name], found[name]), tolerance)


def _difference(one: npt.NDArray, other: npt.NDArray) -> float:
    if one.shape != other.shape:
        return np.inf
    if one.dtype.kind in "US" or other.dtype.kind in "US":
        return 0.0 if np.array_equal(one, other) else np.inf
    before, after = one.astype(np.float64), other.astype(np.float64)
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    if same.all():
        return 0.0
    if not (np.isfinite(before) == np.isfinite(after)).all():
        return np.inf
    scale = max(1.0, float(np.abs(before[np.isfinite(before)]).max()))
    return float(np.abs(before[~same] - after[~same]).max()) / scale


def _ranking(name: str, recorded: Arrays, found: Arrays) -> Iterator[Line]:
    """Compare the values of pairs, and the order of the pairs by the recorded values.

    A pair near the end of a truncated list may be in only one of the lists; it counts as the last value there.
    """
    tolerance = tolerance_of(f"{name}.values")
    before, after = (_by_pair(name, arrays) for arrays in (recorded, found))
    if not before or not after:
        yield Line(f"{name} values", 0.0 if len(before) == len(after) else np.inf, tolerance)
        return
    last = max(min(before.values()), min(after.values())) if len(before.keys() ^ after.keys()) else 0.0
    is_cut = name.startswith(("coco/", "voc/"))
    lost = [pair for pair in before.keys() ^ after.keys() if not is_cut]
    scale = max(1.0, max(map(abs, before.values())))
    worst = max(abs(before.get(pair, last) - after.get(pair, last)) for pair in {*before, *after}) / scale
    yield Line(f"{name} values", np.inf if lost else worst, tolerance, f"{len(lost)} pairs differ" if lost else "")
    # Along the new order the recorded values decrease, except for rounding.
    along = np.array([before.get(pair, last) for pair in after])
    rise = float(np.maximum(along - np.minimum.accumulate(along), 0).max()) / scale
    yield Line(f"{name} order", rise, 2 * tolerance)


def _by_pair(name: str, arrays: Arrays) -> dict[tuple[int, int], float]:
    pairs, values = arrays[f"{name}.pairs"], arrays[f"{name}.values"]
    return {(row, column): value for (row, column), value in zip(pairs.tolist(), values.tolist(), strict=True)}


def _questions(name: str, recorded: Arrays, found: Arrays) -> Line:
    """Number of different questions, except for pairs of equal probability, which rounding may swap."""
    if recorded[name].shape != found[name].shape:
        return Line(name, np.inf, 0.0)
    stated = f"{name} stated"
    is_other = (recorded[name] != found[name]).any(axis=1)
    is_near = (recorded[name][:, 2] == found[name][:, 2]) & (
        np.abs(recorded[stated] - found[stated]) <= tolerance_of(stated)
    )
    count = int((is_other & ~is_near).sum())
    return Line(name, float(count), 0.0, f"{int(is_other.sum())} of {len(is_other)} differ" if is_other.any() else "")


def _tags(name: str, recorded: Arrays, found: Arrays) -> Line:
    """Number of different tags, except for scores close to the threshold."""
    base = name.removesuffix("predicted tags")
    if recorded[name].shape != found[name].shape:
        return Line(name, np.inf, 0.0)
    scores, limits = recorded[f"{base}predicted scores"], recorded[f"{base}thresholds"]
    is_near = np.abs(scores - limits) <= 2 * tolerance_of(f"{base}predicted scores")
    return Line(name, float(((recorded[name] != found[name]) & ~is_near).sum()), 0.0)
