"""A table that is edited and written back: named columns and rows of cells."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from positively.errors import TableError
from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, LabelState, LabelTable
from positively.tables.cells import EMPTY_IN_PANDAS, Code, TagSyntax, find_syntax, reviewed_cell
from positively.tables.columns import Layout, find_layout
from positively.tables.names import clean, normalized, read_aliases
from positively.tables.options import ReadOptions
from positively.tables.records import find_tag_syntax, read_records

if TYPE_CHECKING:
    from positively.tables.rows import RowFormat


class Tags(list[str]):
    """New tags of a cell."""


Cell = str | Tags | LabelState | None
"""The text of the file, the new contents, or nothing."""


@dataclass
class Row:
    """Cells, and the row of the file they come from."""

    cells: list[Cell]
    origin: int


class EditableTable:
    """Columns, rows, and the role of each column. Cells that do not change are written as they were."""

    def __init__(self, columns: list[str], rows: list[Row], layout: Layout, options: ReadOptions) -> None:
        self.columns, self.rows, self.layout, self.options = columns, rows, layout, options
        self.source: Path | None = None
        self.format: RowFormat | None = None
        """Format of the source; None if the table is written from labels alone."""
        self.is_long = False
        self.syntax: TagSyntax = find_syntax([], options.separator or ";")
        self.codes: set[Code] = set()
        self.marks = {POSITIVE: "1", NEGATIVE: "-1", UNKNOWN: "" if options.blank == "unknown" else "0"}
        self.own: int | None = None
        self.key: Callable[[str], str] = normalized
        self.width = len(columns)
        """Number of columns of the source; added columns come after them."""
        self.had_header = True

    @classmethod
    def of(cls, table: LabelTable, options: ReadOptions) -> EditableTable:
        """A new table with the columns image, tags and absent."""
        listed, rows = table.offsets.sorted_indices(), []
        for number, image in enumerate(table.images):
            part = slice(listed.indptr[number], listed.indptr[number + 1])
            pairs = list(zip(listed.indices[part].tolist(), (listed.data[part] + table.blank).tolist(), strict=True))
            # The blank state is not listed: in a table with complete tags, no tag is listed as absent.
            there, absent = (Tags(table.classes[c] for c, s in pairs if s == state) for state in (POSITIVE, NEGATIVE))
            rows.append(Row([image, there, absent], number))
        return cls(["image", "tags", "absent"], rows, Layout(0, 1, 2), options)

    @classmethod
    def read(cls, path: Path, form: RowFormat, options: ReadOptions) -> EditableTable:
        """Read a file."""
        raw = form.open(path)
        layout = find_layout(raw, options)
        rows = [Row(list(cells), number) for number, (_, cells) in enumerate(raw.rows())]
        if raw.whole_rows is not None:
            for row, (_, whole) in zip(rows, raw.whole_rows(), strict=True):
                for place in layout.unread:
                    row.cells[place] = whole[place]
        made = cls(list(raw.columns), rows, layout, options)
        records = read_records(raw, layout, options)
        made.source, made.format, made.is_long, made.had_header = path, form, records.is_long, raw.has_header
        made.codes = records.codes
        made.syntax = records.syntax or made.syntax
        if not raw.has_header:  # an added column needs a header, and then all columns need names
            roles = {layout.image: "image", layout.tags: "tags", layout.split: "split", layout.state: "state"}
            asked = (options.image_column, options.tags_column, options.absent_column, options.split_column)
            made.columns = [name if name in asked else roles.get(c, name) for c, name in enumerate(raw.columns)]
        if options.aliases is not None:
            aliases = read_aliases(Path(options.aliases))
            made.key = lambda name: normalized(aliases.get(normalized(name), name))
        return made

    @property
    def has_header(self) -> bool:
        """Whether a header is written: always if there is an added column."""
        return self.had_header or len(self.columns) > self.width

    @property
    def separator(self) -> str | None:
        """The character that no tag may contain, because it separates tags; None if there is none."""
        if self.format is None:
            return self.options.separator
        if self.layout.classes:
            return None
        return ";" if self.syntax.one_a_cell and not self.is_long else self.syntax.separator

    @property
    def tag_columns(self) -> list[int]:
        """Positions of the columns with tags or absences."""
        return self.layout.tag_columns

    def tags(self, row: Row, column: int) -> Tags:
        """The tags of a cell, in their spelling."""
        cell = row.cells[column]
        return cell if isinstance(cell, Tags) else _split(self.syntax, cell if isinstance(cell, str) else "")

    def add_column(self, name: str, value: Cell = None, others: tuple[str, ...] = ()) -> int:
        """Add a last column, under the first of these names that is free, or the first with a number."""
        taken, number = {normalized(column) for column in self.columns}, 2
        free = next((word for word in (name, *others) if normalized(word) not in taken), name)
        while normalized(free) in taken:
            free, number = f"{name} {number}", number + 1
        self.columns.append(free)
        for row in self.rows:
            row.cells.append(value)
        return len(self.columns) - 1

    def settle_syntax(self) -> None:
        """Make sure that tags can be read back: if a mark inside a tag would split it, write all cells as lists."""
        cells = [(row, place) for row in self.rows for place in self.layout.tag_columns]
        changed = [tag for row, place in cells if isinstance(row.cells[place], Tags) for tag in self.tags(row, place)]
        torn = next((tag for tag in changed if self.separator is not None and self.separator in tag), None)
        if torn is not None:
            raise TableError(torn_tag(torn, str(self.separator)))
        if not changed or self.syntax.is_list:
            return
        places = (self.layout.image, *self.layout.tag_columns)
        texts = [[self.text(row.cells[place], place) for place in places] for row in self.rows]
        header = self.columns[places[1]] if self.has_header else ""
        found = find_tag_syntax(texts, header, self.options, self.layout.state is not None)
        if any(_split(found, self.text(row.cells[place], place)) != self.tags(row, place) for row, place in cells):
            for row, place in cells:
                row.cells[place] = self.tags(row, place)
            self.syntax = find_syntax(["[]"], None)

    def text(self, cell: Cell, place: int) -> str:
        """The text of a cell."""
        if isinstance(cell, LabelState):
            return self.marks[cell]
        if not isinstance(cell, Tags):
            return cell or ""
        if place == self.layout.reviewed:
            return reviewed_cell(cell)
        separator = self.syntax.separator or ";"
        if self.syntax.is_list or (place == self.own and any(separator in tag for tag in cell)):
            return json.dumps(cell, ensure_ascii=False) if cell else ""
        return separator.join(cell)

    def texts(self) -> Iterator[list[str]]:
        """The rows as text."""
        return ([self.text(cell, place) for place, cell in enumerate(row.cells)] for row in self.rows)


def torn_tag(tag: str, separator: str) -> str:
    """The error message for a tag that contains the separator."""
    return f"The tag '{tag}' contains '{separator}', which separates tags in this table. Rename it."


def _split(syntax: TagSyntax, text: str) -> Tags:
    if text.strip() in EMPTY_IN_PANDAS:
        return Tags()
    return Tags(tag for tag in map(clean, syntax.split(text)) if tag)
