"""CSV, TSV and other text with delimiters, in any of the usual encodings."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from positively.errors import TableError
from positively.images.decode import is_image_name
from positively.tables.dialect import Dialect, RawTable, Row, dialect_of, find_delimiter, parse_rows, read_text
from positively.tables.rows import RowFormat

if TYPE_CHECKING:
    from positively.tables.editable import EditableTable


class CSV(RowFormat):
    """Cells separated by , ; tab or |, with or without a header."""

    suffixes: ClassVar[tuple[str, ...]] = (".csv",)
    delimiter: ClassVar[str | None] = None
    """The delimiter to write; None for that of the source, or a comma."""

    def open(self, path: Path) -> RawTable:
        """Open a file and find its delimiter. A first line with an image name is not a header."""
        text, encoding = read_text(path)
        delimiter = find_delimiter(text)
        first_line, first = next(parse_rows(text, delimiter, path.name), (0, []))
        if not first:
            raise TableError(f"{path}: the file is empty. It needs a header and a line for each image.")
        has_header = not is_image_name(first[0].strip())
        columns = tuple(cell.strip() if has_header else f"column {i}" for i, cell in enumerate(first, 1))

        def rows() -> Iterator[Row]:
            for line, cells in islice(parse_rows(text, delimiter, path.name), int(has_header), None):
                if len(cells) != len(columns):
                    raise TableError(_wrong_width(path.name, line, cells, len(columns), has_header, delimiter))
                yield line, cells

        if next(rows(), None) is None:
            raise TableError(f"{path}: there is no line below the header. Each image needs a line.")
        return RawTable(path.name, columns, rows, has_header, first_line, encoding)

    def write(self, table: EditableTable, out: Path) -> None:
        """Write the rows with the delimiter, encoding and line ends of the source if it is CSV, too."""
        source = table.source if isinstance(table.format, CSV) else None
        dialect = Dialect() if source is None else dialect_of(source)
        delimiter = self.delimiter or dialect.delimiter
        text = io.StringIO(newline="")
        if dialect.has_hint:
            text.write(f"sep={delimiter}{dialect.line_end}")
        writer = csv.writer(text, delimiter=delimiter, lineterminator=dialect.line_end)
        if table.has_header:
            writer.writerow(table.columns)
        writer.writerows(table.texts())
        out.write_text(text.getvalue(), encoding=dialect.encoding, newline="")


class TSV(CSV):
    """As CSV, but written with tabs."""

    suffixes: ClassVar[tuple[str, ...]] = (".tsv",)
    delimiter: ClassVar[str | None] = "\t"


def _wrong_width(source: str, line: int, cells: list[str], width: int, has_header: bool, delimiter: str) -> str:
    like = "the header" if has_header else "the first line"
    name = "tab" if delimiter == "\t" else f"'{delimiter}'"
    return (
        f"{source} line {line}: {like} has {width} cells, separated by {name}, and this one has {len(cells)}. "
        'Put cells that contain the delimiter in quotation marks: "cat, dog".'
    )
