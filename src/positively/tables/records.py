"""Read rows of cells as images, tags, and the state of each pair, in all three shapes of a table."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from positively.errors import TableError, option, plural
from positively.images.paths import tidy
from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, LabelState
from positively.tables.cells import (
    EMPTY_IN_PANDAS,
    Code,
    TagSyntax,
    are_pairs,
    find_syntax,
    reviewed_tags,
    state_code,
)
from positively.tables.columns import Layout
from positively.tables.dialect import RawTable
from positively.tables.headers import TAG, header_word, split_name
from positively.tables.names import Spellings, clean
from positively.tables.options import ReadOptions

# Longest part of a cell that a message shows.
_SHOWN = 80
# Images that carry two tags next to each other, and none that carries one alone: fewer are a coincidence.
_OFTEN = 3
_MEANINGS = {"unknown": UNKNOWN, "negative": NEGATIVE}


@dataclass
class Records:
    """The contents of a file: ``entries`` of (record, spelling, state), in the order of the records."""

    shape: str
    images: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    splits: list[str] | None = None
    is_long: bool = False
    """Whether each line holds one image and one tag."""
    syntax: TagSyntax | None = None
    """How tags are separated; None where each class has a column of its own."""
    codes: set[Code] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    reviewed: list[tuple[int, str]] = field(default_factory=list)
    """Record and tag of each pair that was decided because of its score."""
    _names: list[str] = field(default_factory=list)
    _first_lines: list[int] = field(default_factory=list)
    _known: dict[str, int] = field(default_factory=dict)
    _records: array[int] = field(default_factory=lambda: array("i"))
    _spellings: array[int] = field(default_factory=lambda: array("i"))
    _states: array[int] = field(default_factory=lambda: array("b"))

    def spelling(self, tag: str, line: int) -> int | None:
        """The number of a spelling; None for a blank."""
        name = clean(tag)
        if not name:
            return None
        number = self._known.setdefault(name, len(self._names))
        if number == len(self._names):
            self._names.append(name)
            self._first_lines.append(line)
        return self._known.setdefault(tag, number)

    def add(self, tags: Sequence[str], state: LabelState) -> None:
        """Add the tags of a cell to the last image."""
        for tag in tags:
            number = self._known.get(tag)
            if number is None:
                number = self.spelling(tag, self.lines[-1])
            if number is not None:
                self.add_number(number, state)

    def add_number(self, spelling: int, state: LabelState) -> None:
        """Add a tag to the last image."""
        self._records.append(len(self.images) - 1)
        self._spellings.append(spelling)
        self._states.append(state)

    @property
    def entries(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int8]]:
        """The record, spelling and state of each pair."""
        return (
            np.asarray(self._records, dtype=np.int32),
            np.asarray(self._spellings, dtype=np.int32),
            np.asarray(self._states, dtype=np.int8),
        )

    def always_together(self) -> list[str]:
        """Tags that never occur without each other, one right after the other, with the number of their images.

        They may be one tag that holds a comma.
        """
        record, spelling, state = self.entries
        if not len(record):
            return []
        follows = (record[1:] == record[:-1]) & (state[1:] == POSITIVE) & (state[:-1] == POSITIVE)
        width = np.int64(len(self._names))
        pairs = spelling[:-1][follows] * width + spelling[1:][follows]
        counts = np.bincount(spelling, minlength=len(self._names))
        found = []
        for pair, count in zip(*np.unique(pairs, return_counts=True), strict=True):
            first, second = divmod(int(pair), int(width))
            if count >= _OFTEN and first != second and counts[first] == counts[second] == count:
                found.append(f"'{self._names[first]}' and '{self._names[second]}' ({plural(int(count), 'image')})")
        return found

    @property
    def spellings(self) -> Spellings:
        """The tags as written."""
        counts = np.bincount(np.array(self._spellings, dtype=np.int64), minlength=len(self._names))
        return Spellings(self._names, counts.tolist(), self._first_lines)


def read_records(raw: RawTable, layout: Layout, options: ReadOptions) -> Records:
    """Read every row."""
    records = _read_class_columns(raw, layout, options) if layout.classes else _read_tags(raw, layout, options)
    if layout.unread:
        unread = [f"'{raw.columns[i]}'" for i in layout.unread if raw.columns[i]]
        records.notes += [f"Columns that were not read: {', '.join(unread)}."] if unread else []
    return records


def _rows(raw: RawTable, layout: Layout, records: Records) -> Iterator[tuple[int, list[str]]]:
    """Iterate over the rows, and record the image and split of each."""
    if layout.split is not None:
        records.splits = []
    for line, cells in raw.rows():
        image = tidy(cells[layout.image])
        if not image:
            missing = f"the column '{raw.columns[layout.image]}' is empty"
            raise TableError(f"{raw.place(line)}: {missing}. Add the name of the image, or remove the line.")
        records.images.append(image)
        records.lines.append(line)
        if layout.split is not None and records.splits is not None:
            split = split_name(cells[layout.split])
            if split is None:
                raise TableError(
                    f"{raw.place(line)}: the split '{cells[layout.split]}' is not train, val or test. "
                    f"Correct it, or rename the column '{raw.columns[layout.split]}' if it does not hold splits."
                )
            records.splits.append(split)
        if layout.reviewed is not None:
            records.reviewed += [(len(records.images) - 1, tag) for tag in reviewed_tags(cells[layout.reviewed])]
        yield line, cells


def find_tag_syntax(rows: Sequence[Sequence[str]], header: str, options: ReadOptions, has_states: bool) -> TagSyntax:
    """Find how tags stand in the cells of a table.

    Args:
        rows: Of each line the image, the cell of tags, and perhaps that of absences.
        header: Name of the column of tags.
        options: How to read the table.
        has_states: Whether each line has a state of its own.
    """
    filled = [row for row in rows if row[1].strip() not in EMPTY_IN_PANDAS]
    is_one_tag = header_word(header) in TAG
    one_a_cell = are_pairs([tidy(row[0]) for row in filled], [row[1] for row in filled], is_one_tag)
    cells = [cell for row in rows for cell in row[1:] if cell.strip() not in EMPTY_IN_PANDAS]
    return find_syntax(cells, options.separator, has_states=has_states, one_a_cell=one_a_cell)


def _read_tags(raw: RawTable, layout: Layout, options: ReadOptions) -> Records:
    assert layout.tags is not None
    rows = [[cells[column] for column in (layout.image, *layout.tag_columns)] for _, cells in raw.rows()]
    syntax = find_tag_syntax(rows, raw.columns[layout.tags], options, layout.state is not None)
    records = Records(f"one column of tags, {syntax.wording}", notes=list(syntax.notes), syntax=syntax)
    zero, blank = _MEANINGS[options.zero], _MEANINGS[options.blank]
    states = {"positive": POSITIVE, "negative": NEGATIVE, "zero": zero}
    for line, cells in _rows(raw, layout, records):
        state = POSITIVE
        if layout.state is not None:
            code = _state_of(raw, line, cells[layout.state], layout.state)
            records.codes.add(code)
            state = states[code]
        tags = _split(raw, line, syntax, cells[layout.tags])
        for tag in tags if state == UNKNOWN == blank else ():
            records.spelling(tag, line)  # mentioned, and nothing more to keep
        records.add(() if state == UNKNOWN == blank else tags, state)
        if layout.absent is not None:
            records.add(_split(raw, line, syntax, cells[layout.absent]), NEGATIVE)
    cells_of_tags = [cell for row in rows for cell in row[1:]]
    gaps = Counter(text for cell in cells_of_tags if (text := cell.strip()) in EMPTY_IN_PANDAS)
    if gaps:
        listed = ", ".join(f"'{text}' {count:,}" for text, count in gaps.items())
        records.notes.append(f"Cells that pandas writes for empty ones, read as no tag: {listed}.")
    repeats = len(set(records.images)) < len(records.images)
    records.is_long = layout.state is not None or (syntax.one_a_cell and repeats)
    if records.is_long and syntax.one_a_cell:
        records.shape = "one image-tag pair per line"
    elif syntax.one_a_cell and (example := next((cell for cell in cells_of_tags if " " in cell.strip()), None)):
        records.notes.append(
            f"Each cell was read as one tag, such as '{example.strip()}'. If blanks separate the tags, "
            f"pass {option('separator')} ' '."
        )
    return records


def _split(raw: RawTable, line: int, syntax: TagSyntax, cell: str) -> list[str]:
    if cell.strip() in EMPTY_IN_PANDAS:
        return []
    try:
        return syntax.split(cell)
    except ValueError:
        shown = cell if len(cell) <= _SHOWN else f"{cell[:_SHOWN]}…"
        raise TableError(f'{raw.place(line)}: {shown} is not a list of tags such as ["cat", "dog"].') from None


def _state_of(raw: RawTable, line: int, cell: str, column: int) -> Code:
    code = state_code(cell)
    if code is None or code == "blank":
        raise TableError(
            f"{raw.place(line)}: '{cell}' in the column '{raw.columns[column]}' is not 1 (present), "
            "-1 (absent) or 0. Correct it, or rename the column if it does not hold states."
        )
    return code


class _CellStates(dict[str, LabelState | None]):
    """Text of a cell → state to store (None: nothing), computed once for each text."""

    def __init__(self, keep: Callable[[Code], LabelState | None], codes: set[Code]):
        super().__init__()
        self.keep, self.codes = keep, codes

    def __missing__(self, cell: str) -> LabelState | None:
        code = state_code(cell)
        if code is None:
            raise ValueError(cell)
        self.codes.add(code)
        self[cell] = self.keep(code)
        return self[cell]


def _read_class_columns(raw: RawTable, layout: Layout, options: ReadOptions) -> Records:
    records = Records("one column per class")
    blank = _MEANINGS[options.blank]
    said = {"positive": POSITIVE, "negative": NEGATIVE, "zero": _MEANINGS[options.zero], "blank": None}
    # The blank state is not stored, unless another line of the same image could contradict it.
    once = _CellStates(lambda code: None if said[code] == blank else said[code], records.codes)
    again = _CellStates(lambda code: said[code], records.codes)
    counts = Counter(tidy(cells[layout.image]) for _, cells in raw.rows())
    columns = [(i, records.spelling(raw.columns[i], raw.header_line)) for i in layout.classes]
    for line, cells in _rows(raw, layout, records):
        states = again if counts[records.images[-1]] > 1 else once
        try:
            for i, spelling in columns:
                state = states[cells[i]]
                if state is not None and spelling is not None:
                    records.add_number(spelling, state)
        except ValueError:
            raise TableError(
                f"{raw.place(line)}: '{cells[i]}' in the column '{raw.columns[i]}' is not 1, 0, -1 or blank. "
                "Correct it, or remove the column if it is not a class."
            ) from None
    if len(records.codes) == 4 and options.zero == options.blank == "unknown":
        raise TableError(
            f"{raw.source} has 1, 0, -1 and blank cells, so 0 and blank may have different meanings. Pass "
            f"{option('zero', 'negative')} if 0 means that the tag is absent, or {option('blank', 'negative')} if an "
            "empty cell means it. If both mean unknown, replace the 0s by blanks."
        )
    return records
