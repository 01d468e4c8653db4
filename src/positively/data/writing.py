"""A table of tags with what was found since, in the shape it came in."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from positively.data.cells import EMPTY_IN_PANDAS, TagSyntax, find_syntax, state_code
from positively.data.columns import Layout, find_layout
from positively.data.dialect import RawTable, find_delimiter, read_raw_text, read_text
from positively.data.names import clean, read_aliases, same
from positively.data.options import ReadOptions
from positively.data.parquet import is_parquet, read_raw_parquet
from positively.data.places import locate
from positively.data.records import read_records
from positively.errors import TableError, option
from positively.files import write_text, write_with
from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, LabelState, LabelTable

Changes = Mapping[tuple[str, str], int]
"""(image, tag) → +1 added, −1 verified to be absent, 0 taken back to unknown."""

WRITABLE = (".csv", ".tsv", ".parquet")


def check_writable(out: Path, source: str | Path | None = None) -> None:
    """Refuse what would be written over, or in a format nobody knows: before anything is computed."""
    if out.suffix.lower() not in WRITABLE:
        raise TableError(f"{out}: the ending says the format, {', '.join(WRITABLE[:-1])} or {WRITABLE[-1]}.")
    if source is not None and out.exists() and Path(source).exists() and out.samefile(source):
        raise TableError(f"{out}: that is the table itself, which stays as it is. Name another file.")


def check_tag(name: str, source: Path | None, options: ReadOptions) -> str:
    """Clean the name of a new tag, and refuse one that could not be read back from the table it goes into.

    Args:
        name: As somebody typed it.
        source: The file the table was read from; COCO, VOC and bare folders have no syntax of their own.
        options: How it was read.
    """
    tag = clean(name)
    if not tag:
        raise TableError("A tag needs a name: this one is empty.")
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in tag):
        raise TableError(f"The tag {tag!a} holds a character that no table can hold. Leave it out.")
    if tag in EMPTY_IN_PANDAS:
        raise TableError(f"'{tag}' is what pandas writes for an empty cell, and would be read as no tag. Rename it.")
    separator = options.separator
    if source is not None and is_table(source):
        sheet = _Sheet.read(source, options)
        others = {same(column) for place, column in enumerate(sheet.columns) if place not in sheet.layout.classes}
        if sheet.layout.classes and (same(tag) in others or tag.startswith("Unnamed: ")):
            raise TableError(f"A column '{tag}' would not be read as a tag in {source.name}. Rename the tag.")
        separator = None if sheet.layout.classes else sheet.separator
    if separator is not None and separator in tag:
        raise TableError(_torn(tag, separator))
    return tag


def is_table(source: Path) -> bool:
    """Whether tags came from a file that can be written again in its own shape."""
    return source.is_file() and source.suffix.lower() != ".json"


def _torn(tag: str, separator: str) -> str:
    return f"The tag '{tag}' holds '{separator}', which separates tags in this table. Rename it."


def write_table(
    out: Path,
    table: LabelTable,
    changes: Changes,
    *,
    source: str | Path | None,
    options: ReadOptions,
    column: str | None = None,
) -> None:
    """Write the file a table came from again, with changes; every other cell and column stays.

    Args:
        out: CSV, TSV or Parquet file; never the source itself.
        table: What was read from the source.
        changes: (image, tag) → state; a tag may be new.
        source: The file the table was read from. COCO, VOC and bare folders are written as ``image,tags,absent``.
        options: How it was read.
        column: Name of a column for the added tags, in place of putting them among the others.
    """
    check_writable(out, source)
    path = None if source is None else Path(source)
    sheet = _Sheet.read(path, options) if path is not None and is_table(path) else _Sheet.of(table)
    sheet.change(changes, table.root, column)
    sheet.write(out)


class _Sheet:
    """A table as a person sees it: named columns, rows of cells, and which column is what."""

    def __init__(self, columns: list[str], rows: list[list[Any]], layout: Layout, raw: RawTable | None = None) -> None:
        self.columns, self.rows, self.layout, self.raw = columns, rows, layout, raw
        self.delimiter, self.has_header, self.is_long = ",", True, False
        self.syntax: TagSyntax = find_syntax([], ";", pairs=False)
        self.key: Callable[[str], str] = same
        self.schema: Any = None
        self.zero_is_unknown = True

    @classmethod
    def of(cls, table: LabelTable) -> _Sheet:
        """What only lists tags: image, tags, absent."""
        rows = []
        for image, states in zip(table.images, (table.states([row])[0] for row in range(len(table))), strict=True):
            cells = [";".join(table.classes[c] for c in (states == state).nonzero()[0]) for state in (1, -1)]
            rows.append([image, cells[0], cells[1] if table.blank == UNKNOWN else ""])
        return cls(["image", "tags", "absent"], rows, Layout(0, 1, 2))

    @classmethod
    def read(cls, path: Path, options: ReadOptions) -> _Sheet:
        """A file as it stands."""
        parquet = is_parquet(path)
        raw = read_raw_parquet(path) if parquet else read_raw_text(path)
        layout = find_layout(raw, options)
        sheet = cls(list(raw.columns), [list(cells) for _, cells in raw.rows()], layout, raw)
        records = read_records(raw, layout, options)
        sheet.is_long, sheet.has_header = records.is_long, raw.has_header
        sheet.zero_is_unknown = options.zero == "unknown"
        if not raw.has_header:  # a column more needs a header, and then all have names
            roles = {layout.image: "image", layout.tags: "tags", layout.split: "split", layout.state: "state"}
            sheet.columns = [roles.get(place, name) for place, name in enumerate(raw.columns)]
        if parquet:
            import pyarrow.parquet

            arrow = pyarrow.parquet.read_table(path)
            sheet.schema = arrow.schema
            native = [part.to_pylist() for part in arrow.columns]
            sheet.rows = [list(cells) for cells in zip(*native, strict=True)]
        else:
            sheet.delimiter = find_delimiter(read_text(path)[0])
        if layout.tags is not None:
            listed = [row[c] for row in sheet._text() for c in (layout.tags, layout.absent) if c is not None]
            filled = [cell for cell in listed if cell.strip() not in EMPTY_IN_PANDAS]
            sheet.syntax = find_syntax(filled, options.separator, pairs=layout.state is not None)
        if options.aliases is not None:
            aliases = read_aliases(Path(options.aliases))
            sheet.key = lambda name: same(aliases.get(same(name), name))
        return sheet

    @property
    def separator(self) -> str | None:
        """What stands between two tags of a cell, or would; None where that is no character."""
        return ";" if self.syntax.one_a_cell and not self.is_long else self.syntax.separator

    def _text(self) -> list[list[str]]:
        """Rows of text, whatever the cells are."""
        return self.rows if self.schema is None else [cells for _, cells in self.raw.rows()] if self.raw else []

    def change(self, changes: Changes, root: Path, column: str | None) -> None:
        """Put every change into the row of its image."""
        by_image: dict[str, dict[str, LabelState]] = defaultdict(dict)
        for (image, tag), state in changes.items():
            by_image[image][tag] = LabelState(state)
        names = locate([str(row[self.layout.image]).strip().removeprefix("./") for row in self.rows], root)
        rows_of: dict[str, list[int]] = defaultdict(list)
        for row, name in enumerate(names):
            if name is not None:
                rows_of[name].append(row)
        own = self._add_column(column) if column is not None else None
        if self.layout.classes:
            self._change_classes(by_image, rows_of, own)
        elif self.is_long:
            self._change_pairs(by_image, rows_of, own)
        else:
            self._change_tags(by_image, rows_of, own)

    def _add_column(self, name: str, value: Any = "") -> int:
        """A new last column, under a name that no other has."""
        taken, number, free = {same(column) for column in self.columns}, 2, name
        while same(free) in taken:
            free, number = f"{name} {number}", number + 1
        self.columns.append(free)
        for row in self.rows:
            row.append(value if self.schema is None else value or None)
        return len(self.columns) - 1

    def _change_tags(
        self, by_image: Mapping[str, Mapping[str, LabelState]], rows_of: Mapping[str, list[int]], own: int | None
    ) -> None:
        tags, absent = self.layout.tags, self.layout.absent
        assert tags is not None
        if absent is None and any(NEGATIVE in states.values() for states in by_image.values()):
            absent = self._add_column("absent")
        for image, states in by_image.items():
            for place, row in enumerate(rows_of.get(image, ())):  # the first row of an image takes what is new
                added, rejected = _of(states, POSITIVE), _of(states, NEGATIVE)
                gone = {self.key(tag) for tag in states}
                self._set(row, tags, self._without(row, tags, gone), added if own is None and not place else [])
                if absent is not None:
                    self._set(row, absent, self._without(row, absent, gone), rejected if not place else [])
                if own is not None and not place:
                    self._set(row, own, [], added)

    def _without(self, row: int, column: int, gone: set[str]) -> list[str]:
        cell = self.rows[row][column]
        tags = [str(tag) for tag in cell] if isinstance(cell, list) else self._split(cell)
        return [tag for tag in tags if self.key(tag) not in gone]

    def _split(self, cell: Any) -> list[str]:
        text = "" if cell is None else str(cell).strip()
        return [] if not text or text in EMPTY_IN_PANDAS else [tag.strip() for tag in self.syntax.split(text)]

    def _set(self, row: int, column: int, old: list[str], new: list[str]) -> None:
        """Tags of a cell; one that says the same as before stays to the letter."""
        cell = self.rows[row][column]
        if not new and old == ([str(tag) for tag in cell] if isinstance(cell, list) else self._split(cell)):
            return
        tags = [*old, *(tag for tag in new if self.key(tag) not in set(map(self.key, old)))]
        is_list = isinstance(cell, list) or (self.schema is not None and self._holds_lists(column))
        if is_list:
            self.rows[row][column] = tags
        elif self.syntax.separator is None and not self.syntax.one_a_cell:
            self.rows[row][column] = json.dumps(tags, ensure_ascii=False) if tags else ""
        else:
            separator = self.syntax.separator or ";"
            torn = next((tag for tag in tags if separator in tag), None)
            if torn is not None:
                raise TableError(_torn(torn, separator))
            self.rows[row][column] = separator.join(tags)

    def _holds_lists(self, column: int) -> bool:
        import pyarrow

        kind = self.schema.field(column).type if column < len(self.schema) else None
        return kind is not None and (pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind))

    def _change_classes(
        self, by_image: Mapping[str, Mapping[str, LabelState]], rows_of: Mapping[str, list[int]], own: int | None
    ) -> None:
        place_of = {self.key(self.columns[column]): column for column in self.layout.classes}
        texts = (_cell(cells[column]) for cells in self.rows for column in self.layout.classes)
        marks = {POSITIVE: next((text for text in texts if state_code(text) == "positive"), "1"), UNKNOWN: ""}
        marks[NEGATIVE] = "-1"
        if self.zero_is_unknown and any(NEGATIVE in states.values() for states in by_image.values()):
            # Beside −1, a 0 and a blank would look as if they meant different things: both say unknown.
            for cells in self.rows:
                for column in self.layout.classes:
                    cells[column] = (
                        self._native("", column) if state_code(_cell(cells[column])) == "zero" else cells[column]
                    )
        for image, states in by_image.items():
            for tag, state in states.items():
                if own is not None and state == POSITIVE:
                    continue
                if self.key(tag) not in place_of:
                    place_of[self.key(tag)] = self._add_column(tag)
                column = place_of[self.key(tag)]
                for row in rows_of.get(image, ()):
                    self.rows[row][column] = self._native(marks[state], column)
            if own is not None and image in rows_of:
                self._set(rows_of[image][0], own, [], _of(states, POSITIVE))

    def _native(self, mark: str, column: int) -> Any:
        """A state in the type of its column."""
        import pyarrow

        if self.schema is None or column >= len(self.schema):
            return mark
        kind = self.schema.field(column).type
        if not mark:
            return None
        if pyarrow.types.is_boolean(kind):
            if mark == "-1":
                raise TableError(
                    f"The column '{self.columns[column]}' holds true and false, and has no mark for an absence that "
                    f"was verified. Pass an {option('out')} that ends in .csv."
                )
            return True
        number = -1 if mark == "-1" else 1
        return number if pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) else mark

    def _change_pairs(
        self, by_image: Mapping[str, Mapping[str, LabelState]], rows_of: Mapping[str, list[int]], own: int | None
    ) -> None:
        tags, state_column = self.layout.tags, self.layout.state
        assert tags is not None
        if state_column is None and any(NEGATIVE in states.values() for states in by_image.values()):
            state_column = self._add_column("state", "1")
        gone: set[int] = set()
        for image, states in by_image.items():
            first = rows_of.get(image, [None])[0]
            if first is None:
                continue
            keys = {self.key(tag) for tag in states}
            gone |= {row for row in rows_of[image] if {self.key(t) for t in self._split(self.rows[row][tags])} & keys}
            for tag, state in states.items():
                if state == UNKNOWN:
                    continue
                into = tags if own is None or state == NEGATIVE else own
                shared = {self.layout.image, self.layout.split}
                cells: list[Any] = [
                    cell if column in shared else self._nothing for column, cell in enumerate(self.rows[first])
                ]
                cells[into] = tag
                if state_column is not None:
                    cells[state_column] = self._native("1" if state == POSITIVE else "-1", state_column)
                self.rows.append(cells)
        self.rows = [row for number, row in enumerate(self.rows) if number not in gone]

    @property
    def _nothing(self) -> Any:
        return "" if self.schema is None else None

    def write(self, out: Path) -> None:
        """Write all of it, in the format of the ending."""
        if out.suffix.lower() == ".parquet":
            self._write_parquet(out)
            return
        text = io.StringIO()
        delimiter = "\t" if out.suffix.lower() == ".tsv" else self.delimiter
        writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        if self.has_header or self.raw is None or len(self.columns) > len(self.raw.columns):
            writer.writerow(self.columns)
        writer.writerows([_cell(cell) for cell in row] for row in self.rows)
        write_text(out, text.getvalue())

    def _write_parquet(self, out: Path) -> None:
        import pyarrow
        import pyarrow.parquet

        known = [] if self.schema is None else list(self.schema)
        added = [pyarrow.field(name, pyarrow.string()) for name in self.columns[len(known) :]]
        columns = list(zip(*self.rows, strict=True)) or [()] * len(self.columns)
        fields = known + added
        arrays = [pyarrow.array(list(column), field.type) for column, field in zip(columns, fields, strict=True)]
        table = pyarrow.Table.from_arrays(arrays, schema=pyarrow.schema(fields))
        write_with(out, lambda temporary: pyarrow.parquet.write_table(table, temporary))


def _of(states: Mapping[str, LabelState], wanted: LabelState) -> list[str]:
    return [tag for tag, state in states.items() if state == wanted]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else str(value)
