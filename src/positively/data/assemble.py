"""Records → one sparse row an image."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse

from positively.data.names import Naming
from positively.data.options import ReadOptions
from positively.data.places import hint, locate
from positively.data.records import Records
from positively.errors import ImageError, TableError
from positively.labels import NEGATIVE, POSITIVE, LabelState

_BLOCK = 4_000_000

Place = Callable[[int], str]


@dataclass(frozen=True)
class Gathered:
    """The images that are there, once each, and the row of each record among them (−1: left out)."""

    images: list[str]
    lines: npt.NDArray[np.int64]
    splits: list[str] | None
    row_of: npt.NDArray[np.int64]
    notes: list[str]


def gather_images(records: Records, root: Path, options: ReadOptions, place: Place) -> Gathered:
    """Unite the lines of each image, and look whether it lies below ``root``."""
    found = locate(records.images, root)
    missing = [i for i, name in enumerate(found) if name is None]
    if missing and (not options.skip_missing or len(missing) == len(found)):
        raise _not_found(records, missing, root, place)
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
    splits = _one_split_each(records, repeats, firsts, place)
    notes = [] if records.is_long else _tell_repeats(records, repeats)
    if missing:
        count = len({records.images[i] for i in missing})
        notes.append(f"Images left out because they are not there (--skip-missing): {count:,}.")
    lines = np.array([records.lines[record] for record in firsts], dtype=np.int64)
    return Gathered(list(rows), lines, splits, row_of, notes)


def _not_found(records: Records, missing: Sequence[int], root: Path, place: Place) -> ImageError:
    first = records.images[missing[0]]
    more = len({records.images[i] for i in missing}) - 1
    others = f" ({more:,} more like this)" if more else ""
    way_out = "Pass --images DIR." if len(missing) == len(records.images) else "Pass --images DIR, or --skip-missing."
    return ImageError(
        f"{place(records.lines[missing[0]])}: image '{first}' not found under {root.as_posix().rstrip('/')}/{others}."
        f"{hint(first, root)} {way_out}"
    )


def _one_split_each(
    records: Records, repeats: Sequence[tuple[int, int]], firsts: Sequence[int], place: Place
) -> list[str] | None:
    if records.splits is None:
        return None
    for first, again in repeats:
        if records.splits[first] != records.splits[again]:
            raise TableError(
                f"{place(records.lines[again])}: image '{records.images[again]}' belongs to '{records.splits[again]}' "
                f"here and to '{records.splits[first]}' on line {records.lines[first]}. Keep it in one of them."
            )
    return [records.splits[record] for record in firsts]


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
    records: Records, gathered: Gathered, naming: Naming, blank: LabelState, place: Place
) -> sparse.csr_array:
    """Sparse *state − blank*; what one line calls there and another absent is an error."""
    record, spelling, state = records.entries
    width = np.int64(max(len(naming.classes), 1))
    columns, differences = [np.zeros(0, np.int32)], [np.zeros(0, np.int8)]
    filled = np.zeros(len(gathered.images), dtype=np.int64)
    for block in _blocks(record, gathered.row_of):
        key = gathered.row_of[record[block]] * width + naming.class_of[spelling[block]]
        kept = (gathered.row_of[record[block]] >= 0) & (naming.class_of[spelling[block]] >= 0)
        members, key, said = record[block][kept], key[kept], state[block][kept]
        order = np.argsort(key, kind="stable")
        members, key, said = members[order], key[order], said[order]
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        there = np.bitwise_or.reduceat(said == POSITIVE, starts) if len(key) else np.zeros(0, np.bool_)
        absent = np.bitwise_or.reduceat(said == NEGATIVE, starts) if len(key) else np.zeros(0, np.bool_)
        if np.any(there & absent):
            same = key == key[starts[there & absent][0]]
            name = naming.classes[int(key[same][0] % width)]
            raise _contradiction(records, members[same], said[same], name, place)
        difference = there.astype(np.int8) - absent.astype(np.int8) - np.int8(blank)
        key, difference = key[starts][difference != 0], difference[difference != 0]
        columns.append((key % width).astype(np.int32))
        differences.append(difference)
        filled += np.bincount(key // width, minlength=len(filled))
    column, begins = np.concatenate(columns), np.concatenate([[0], np.cumsum(filled)])
    # 32 bits do for the classes; and for the positions as long as there are fewer than 2³¹ of them.
    index = np.int32 if len(column) < np.iinfo(np.int32).max else np.int64
    parts = (np.concatenate(differences), column.astype(index, copy=False), begins.astype(index))
    return sparse.csr_array(parts, shape=(len(gathered.images), len(naming.classes)))


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


def _contradiction(
    records: Records,
    members: npt.NDArray[np.int32],
    states: npt.NDArray[np.int8],
    name: str,
    place: Place,
) -> TableError:
    there, absent = int(members[states == POSITIVE][0]), int(members[states == NEGATIVE][0])
    first, later = sorted((records.lines[there], records.lines[absent]))
    lines = place(first) if first == later else f"{place(first)} and {later}"
    return TableError(
        f"{lines}: '{name}' is said to be there and to be absent in image '{records.images[there]}'. "
        "Keep one of the two."
    )
