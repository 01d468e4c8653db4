"""A table as a person sees it: named columns and rows of cells, some of which are to say something new."""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from positively.errors import TableError
from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, LabelState, LabelTable
from positively.tables.cells import EMPTY_IN_PANDAS, Code, TagSyntax, find_syntax
from positively.tables.columns import Layout, find_layout
from positively.tables.dialect import find_delimiter, has_excel_hint, read_raw_text, read_text
from positively.tables.names import clean, read_aliases, same
from positively.tables.options import ReadOptions
from positively.tables.parquet import is_parquet, read_raw_parquet
from positively.tables.records import read_records


class Tags(list[str]):
    """The tags that a cell is to hold."""


Cell = str | Tags | LabelState | None
"""Text as it stands in the file; or what the cell is to say; or nothing."""


@dataclass
class Row:
    """Cells, and the row of the file that their text comes from."""

    cells: list[Cell]
    origin: int


class Sheet:
    """Columns, rows, and which column is what; a cell that is not changed is written as it was."""

    def __init__(self, columns: list[str], rows: list[Row], layout: Layout, options: ReadOptions) -> None:
        self.columns, self.rows, self.layout, self.options = columns, rows, layout, options
        self.is_file, self.is_long, self.has_header, self.delimiter = False, False, True, ","
        self.syntax: TagSyntax = find_syntax([], options.separator or ";", pairs=False)
        self.codes: set[Code] = set()
        self.marks = {POSITIVE: "1", NEGATIVE: "-1", UNKNOWN: "" if options.blank == "unknown" else "0"}
        self.own: int | None = None
        self.key: Callable[[str], str] = same
        self._width = len(columns)
        self.encoding, self.line_end, self.has_hint = "utf-8", "\n", False
        self._arrow: Any = None

    @classmethod
    def of(cls, table: LabelTable, options: ReadOptions) -> Sheet:
        """What only lists tags: image, tags, absent."""
        listed, rows = table.offsets.sorted_indices(), []
        for number, image in enumerate(table.images):
            part = slice(listed.indptr[number], listed.indptr[number + 1])
            pairs = list(zip(listed.indices[part].tolist(), (listed.data[part] + table.blank).tolist(), strict=True))
            # What equals the blank state is not listed: beside complete tags, nothing is called absent.
            there, absent = (Tags(table.classes[c] for c, s in pairs if s == state) for state in (POSITIVE, NEGATIVE))
            rows.append(Row([image, there, absent], number))
        return cls(["image", "tags", "absent"], rows, Layout(0, 1, 2), options)

    @classmethod
    def read(cls, path: Path, options: ReadOptions) -> Sheet:
        """A file as it stands."""
        parquet = is_parquet(path)
        raw = read_raw_parquet(path) if parquet else read_raw_text(path)
        layout = find_layout(raw, options)
        rows = [Row(list(cells), number) for number, (_, cells) in enumerate(raw.rows())]
        sheet = cls(list(raw.columns), rows, layout, options)
        records = read_records(raw, layout, options)
        sheet.is_file, sheet.is_long, sheet.has_header = True, records.is_long, raw.has_header
        sheet.codes = records.codes
        if not raw.has_header:  # a column more needs a header, and then all have names
            roles = {layout.image: "image", layout.tags: "tags", layout.split: "split", layout.state: "state"}
            asked = (options.image_column, options.tags_column, options.absent_column, options.split_column)
            sheet.columns = [name if name in asked else roles.get(c, name) for c, name in enumerate(raw.columns)]
        if parquet:
            sheet._open_parquet(path)
        else:
            text, encoding = read_text(path)
            sheet.delimiter, sheet.has_hint = find_delimiter(text), has_excel_hint(text)
            # Excel takes UTF-8 without its mark for Windows-1252.
            marked = path.read_bytes().startswith(codecs.BOM_UTF8) or encoding != "UTF-8"
            sheet.encoding = "utf-8-sig" if marked else "utf-8"
            sheet.line_end = "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"
        if layout.tags is not None:
            sheet.syntax = sheet._find_syntax()
        if options.aliases is not None:
            aliases = read_aliases(Path(options.aliases))
            sheet.key = lambda name: same(aliases.get(same(name), name))
        return sheet

    def _open_parquet(self, path: Path) -> None:
        import pyarrow
        import pyarrow.parquet

        self._arrow = pyarrow.parquet.read_table(path)
        for place in self.layout.unread:
            kind = self._arrow.schema.field(place).type
            if pyarrow.types.is_struct(kind) or pyarrow.types.is_binary(kind):  # the reader takes them for blanks
                for row, value in zip(self.rows, self._arrow.column(place).to_pylist(), strict=True):
                    row.cells[place] = "" if value is None else str(value)

    @property
    def separator(self) -> str | None:
        """What no tag may hold, since it stands between two tags of a cell, or would; None if nothing does."""
        if self.layout.classes or not self.is_file:
            return self.options.separator if not self.is_file else None
        return ";" if self.syntax.one_a_cell and not self.is_long else self.syntax.separator

    @property
    def _tag_columns(self) -> list[int]:
        return [place for place in (self.layout.tags, self.layout.absent) if place is not None]

    def _find_syntax(self) -> TagSyntax:
        texts = (self._text(row.cells[place], place) for row in self.rows for place in self._tag_columns)
        filled = [text for text in texts if text.strip() not in EMPTY_IN_PANDAS]
        return find_syntax(filled, self.options.separator, pairs=self.layout.state is not None)

    def tags(self, row: Row, column: int) -> Tags:
        """The tags in a cell, as they are spelled there."""
        cell = row.cells[column]
        return cell if isinstance(cell, Tags) else _split(self.syntax, cell if isinstance(cell, str) else "")

    def add_column(self, name: str, value: Cell = None, others: tuple[str, ...] = ()) -> int:
        """A new last column under a name that no other has: this, one of the others, or this with a number."""
        taken, number = {same(column) for column in self.columns}, 2
        free = next((word for word in (name, *others) if same(word) not in taken), name)
        while same(free) in taken:
            free, number = f"{name} {number}", number + 1
        self.columns.append(free)
        for row in self.rows:
            row.cells.append(value)
        return len(self.columns) - 1

    def _settle_syntax(self) -> None:
        """Make sure that tags are found again: where a mark inside a name would tear it, all are written as lists."""
        cells = [(row, place) for row in self.rows for place in self._tag_columns]
        changed = [tag for row, place in cells if isinstance(row.cells[place], Tags) for tag in self.tags(row, place)]
        torn = next((tag for tag in changed if self.separator is not None and self.separator in tag), None)
        if torn is not None:
            raise TableError(torn_tag(torn, str(self.separator)))
        if not changed or self.syntax.is_list:
            return
        found = self._find_syntax()
        if any(_split(found, self._text(row.cells[place], place)) != self.tags(row, place) for row, place in cells):
            for row, place in cells:
                row.cells[place] = self.tags(row, place)
            self.syntax = find_syntax(["[]"], None, pairs=False)

    def _text(self, cell: Cell, place: int) -> str:
        if isinstance(cell, LabelState):
            return self.marks[cell]
        if not isinstance(cell, Tags):
            return cell or ""
        separator = self.syntax.separator or ";"
        if self.syntax.is_list or (place == self.own and any(separator in tag for tag in cell)):
            return json.dumps(cell, ensure_ascii=False) if cell else ""
        return separator.join(cell)

    def write(self, out: Path, suffix: str) -> None:
        """Write all of it, in the format that the suffix says."""
        self._settle_syntax()
        if suffix == ".parquet":
            self._write_parquet(out)
            return
        text = io.StringIO(newline="")
        delimiter = "\t" if suffix == ".tsv" else self.delimiter
        if self.has_hint:
            text.write(f"sep={delimiter}{self.line_end}")
        writer = csv.writer(text, delimiter=delimiter, lineterminator=self.line_end)
        if self.has_header or len(self.columns) > self._width:
            writer.writerow(self.columns)
        writer.writerows([self._text(cell, place) for place, cell in enumerate(row.cells)] for row in self.rows)
        out.write_text(text.getvalue(), encoding=self.encoding, newline="")

    def _write_parquet(self, out: Path) -> None:
        import pyarrow
        import pyarrow.parquet

        arrays = [self._column(place) for place in range(len(self.columns))]
        table = pyarrow.Table.from_arrays(arrays, names=self.columns)
        if self._arrow is not None:
            known = [field.with_type(array.type) for field, array in zip(self._arrow.schema, arrays, strict=False)]
            added = list(table.schema)[self._width :]
            table = table.cast(pyarrow.schema([*known, *added], metadata=self._arrow.schema.metadata))
        pyarrow.parquet.write_table(table, out)

    def _column(self, place: int) -> Any:
        """A column in the type it has, or the narrowest that holds what it is to say."""
        import pyarrow
        from pyarrow import types

        cells = [row.cells[place] for row in self.rows]
        if self._arrow is None or place >= self._width:
            lists = self._arrow is not None and self.layout.tags is not None and self._holds_lists(self.layout.tags)
            if lists and any(isinstance(cell, Tags) for cell in cells):
                return pyarrow.array(cells, pyarrow.list_(pyarrow.string()))
            return pyarrow.array([self._text(cell, place) or None for cell in cells], pyarrow.string())
        column = self._arrow.column(place)
        if all(cell is None or isinstance(cell, str) for cell in cells):
            rows = [None if row.cells[place] is None else row.origin for row in self.rows]
            return column.take(pyarrow.array(rows, pyarrow.int64()))
        kind, native = column.type, column.to_pylist()
        is_list = self._holds_lists(place)
        values: list[Any] = []  # what is changed as text, beside what the file holds
        for row, cell in zip(self.rows, cells, strict=True):
            new = list(cell) if is_list and isinstance(cell, Tags) else self._text(cell, place) or None
            values.append(native[row.origin] if isinstance(cell, str) else new)
        if is_list:
            listed = [None if value is None else [str(tag) for tag in value if tag is not None] for value in values]
            return _cast(pyarrow.array(listed, pyarrow.list_(pyarrow.string())), kind)
        is_state = any(isinstance(cell, LabelState) for cell in cells)
        if is_state and (types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)):
            # True and False, and unsigned numbers, have no −1.
            widened = NEGATIVE in cells and (types.is_boolean(kind) or types.is_unsigned_integer(kind))
            numbers = [None if value is None else float(value) for value in values]
            return pyarrow.array(numbers, pyarrow.float64()).cast(pyarrow.int8() if widened else kind)
        texts = [None if value is None else str(value) for value in values]
        return _cast(pyarrow.array(texts, pyarrow.string()), kind)

    def _holds_lists(self, place: int) -> bool:
        from pyarrow import types

        kind = self._arrow.schema.field(place).type
        return bool(types.is_list(kind) or types.is_large_list(kind))


def torn_tag(tag: str, separator: str) -> str:
    """Say why a tag cannot stand in a cell."""
    return f"The tag '{tag}' holds '{separator}', which separates tags in this table. Rename it."


def _split(syntax: TagSyntax, text: str) -> Tags:
    if text.strip() in EMPTY_IN_PANDAS:
        return Tags()
    return Tags(tag for tag in map(clean, syntax.split(text)) if tag)


def _cast(array: Any, kind: Any) -> Any:
    """In the type the column had, where that can hold all of it."""
    import pyarrow

    try:
        return array.cast(kind)
    except pyarrow.ArrowException:
        return array
