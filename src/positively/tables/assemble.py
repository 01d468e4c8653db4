"""Records → one sparse row an image."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy

from positively.errors import ImageError, TableError, option
from positively.images.paths import hint, locate
from positively.labels import NEGATIVE, POSITIVE, LabelState
from positively.tables.diagnostics import Report
from positively.tables.names import Naming
from positively.tables.options import ReadOptions
from positively.tables.records import Records

_BLOCK = 4_000_000
# Examples beside the first that a message names.
_EXAMPLES = 5

Place = Callable[[int], str]


@dataclass(frozen=True)
class Gathered:
    """The images that are there, once each, and the row of each record among them (−1: left out)."""

    images: list[str]
    lines: npt.NDArray[np.int64]
    splits: list[str] | None
    row_of: npt.NDArray[np.int64]
    notes: list[str]


def gather_images(records: Records, root: Path, options: ReadOptions, place: Place, report: Report) -> Gathered:
    """Unite the lines of each image, and look whether it lies below ``root``."""
    found = locate(records.images, root)
    if not options.find_images:
        found = [name or image for name, image in zip(found, records.images, strict=True)]
    missing = [i for i, name in enumerate(found) if name is None]
    if missing:
        error = _not_found(records, missing, root, place, options.skip_missing_images)
        if len(missing) == len(found):
            raise error
        report("missing images", error, skipped=options.skip_missing_images)
    rows: dict[str, int] = {}
    firsts: list[int] = []
    repeats: list[tuple[int, int]] = []
    row_of = np.full(len(found), -1, dtype=np.int64)
    for record, name in enumerate(found):
        if name is None:
            continue
        row = row_of[record] = rows.setdefault(name, len(rows))
        if row == len(firsts):
            firsts.append(record)
        else:
            repeats.append((firsts[row], record))
    splits = _one_split_each(records, repeats, firsts, place, report)
    notes = [] if records.is_long else _tell_repeats(records, repeats)
    if missing and options.skip_missing_images:
        count = len({records.images[i] for i in missing})
        notes.append(f"Images left out because they are not there ({option('skip_missing_images', True)}): {count:,}.")
    lines = np.array([records.lines[record] for record in firsts], dtype=np.int64)
    return Gathered(list(rows), lines, splits, row_of, notes)


def _not_found(records: Records, missing: Sequence[int], root: Path, place: Place, is_skipped: bool) -> ImageError:
    first, *others = dict.fromkeys(records.images[i] for i in missing)
    way_out = f" Pass {option('images', 'DIR')}."
    if len(missing) < len(records.images):
        leave_out = f"or leave it out with {option('skip_missing_images', True)}"
        way_out = "" if is_skipped else f" Check the name, pass {option('images', 'DIR')}, {leave_out}."
    return ImageError(
        f"{place(records.lines[missing[0]])}: image '{first}' not found under {root.as_posix().rstrip('/')}/"
        f"{_like_this(others)}.{hint(first, root)}{way_out}"
    )


def _like_this(others: Sequence[str]) -> str:
    """Count what else a message is about, and name some of it."""
    listed = ", ".join(others[:_EXAMPLES]) + (" …" if len(others) > _EXAMPLES else "")
    return f" ({len(others):,} more like this: {listed})" if others else ""


def _one_split_each(
    records: Records, repeats: Sequence[tuple[int, int]], firsts: Sequence[int], place: Place, report: Report
) -> list[str] | None:
    splits, images, lines = records.splits, records.images, records.lines
    if splits is None:
        return None
    torn = [(first, again) for first, again in repeats if splits[first] != splits[again]]
    if torn:
        (first, again), others = torn[0], dict.fromkeys(images[again] for _, again in torn)
        error = TableError(
            f"{place(lines[again])}: image '{images[again]}' belongs to '{splits[again]}' here and to "
            f"'{splits[first]}' on line {lines[first]}{_like_this(list(others)[1:])}. Keep it in one of them."
        )
        report("images in two splits", error)
    return [splits[record] for record in firsts]


def _tell_repeats(records: Records, repeats: Sequence[tuple[int, int]]) -> list[str]:
    if not repeats:
        return []
    first, again = repeats[0]
    count = len({first for first, _ in repeats})
    return [
        f"Images on more than one line, their tags united: {count:,} (first '{records.images[again]}', "
        f"lines {records.lines[first]} and {records.lines[again]})."
    ]


def build_matrix(
    records: Records, gathered: Gathered, naming: Naming, blank: LabelState, place: Place, report: Report
) -> scipy.sparse.csr_array:
    """Sparse *state − blank*; what one line calls there and another absent is a problem, and else unknown."""
    record, spelling, state = records.entries
    width = np.int64(max(len(naming.classes), 1))
    columns, differences = [np.zeros(0, np.int32)], [np.zeros(0, np.int8)]
    filled = np.zeros(len(gathered.images), dtype=np.int64)
    clashes: list[_Clash] = []
    for block in _blocks(record, gathered.row_of):
        key = gathered.row_of[record[block]] * width + naming.class_of[spelling[block]]
        counted = (gathered.row_of[record[block]] >= 0) & (naming.class_of[spelling[block]] >= 0)
        members, key, said = record[block][counted], key[counted], state[block][counted]
        order = np.argsort(key, kind="stable")
        members, key, said = members[order], key[order], said[order]
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        there = np.bitwise_or.reduceat(said == POSITIVE, starts) if len(key) else np.zeros(0, np.bool_)
        absent = np.bitwise_or.reduceat(said == NEGATIVE, starts) if len(key) else np.zeros(0, np.bool_)
        ends = np.append(starts, len(key))[1:]
        for start, end in zip(starts[there & absent], ends[there & absent], strict=True):
            name, run = naming.classes[int(key[start] % width)], slice(start, end)
            positive, negative = (int(members[run][said[run] == mark][0]) for mark in (POSITIVE, NEGATIVE))
            clashes.append(_Clash(name, records.images[positive], records.lines[positive], records.lines[negative]))
        difference = there.astype(np.int8) - absent.astype(np.int8) - np.int8(blank)
        key, difference = key[starts][difference != 0], difference[difference != 0]
        columns.append((key % width).astype(np.int32))
        differences.append(difference)
        filled += np.bincount(key // width, minlength=len(filled))
    if clashes:
        report("contradictions", _contradiction(clashes, place))
    column, begins = np.concatenate(columns), np.concatenate([[0], np.cumsum(filled)])
    # 32 bits do for the classes; and for the positions as long as there are fewer than 2³¹ of them.
    index = np.int32 if len(column) < np.iinfo(np.int32).max else np.int64
    parts = (np.concatenate(differences), column.astype(index, copy=False), begins.astype(index))
    return scipy.sparse.csr_array(parts, shape=(len(gathered.images), len(naming.classes)))


def _blocks(record: npt.NDArray[np.int32], row_of: npt.NDArray[np.int64]) -> Iterator[slice]:
    """Cut the entries between two records, so that sorting a large table needs little memory."""
    rows = row_of[row_of >= 0]
    begin = 0
    while begin < len(record):
        end = len(record)
        # Lines of one image may stand anywhere in the file; then everything is one block.
        if end - begin > _BLOCK and np.all(rows[1:] > rows[:-1]):
            end = int(np.searchsorted(record, record[begin + _BLOCK], side="right"))
        yield slice(begin, end)
        begin = end


@dataclass(frozen=True)
class _Clash:
    """A tag that is said to be there on one line and to be absent on another, or on the same."""

    tag: str
    image: str
    line_there: int
    line_absent: int


def _contradiction(clashes: Sequence[_Clash], place: Place) -> TableError:
    first, *others = clashes
    upper, lower = sorted((first.line_there, first.line_absent))
    lines = place(upper) if upper == lower else f"{place(upper)} and {lower}"
    more = _like_this([f"'{clash.tag}' in '{clash.image}'" for clash in others])
    return TableError(
        f"{lines}: '{first.tag}' is said to be there and to be absent in image '{first.image}'{more}. "
        "Keep one of the two."
    )
