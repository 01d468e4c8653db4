"""Excel workbooks (.xlsx). The one module that imports openpyxl, which is an extra, and only to read or write one."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from positively.errors import TableError, needs_extra
from positively.images.decode import is_image_name
from positively.tables.dialect import RawTable, Row, read_bytes
from positively.tables.rows import RowFormat

if TYPE_CHECKING:
    from positively.tables.editable import EditableTable

# Rows in which a name of an image is looked for, to find the sheet with the table.
_SAMPLED_ROWS = 50


class XLSX(RowFormat):
    """The first sheet that names images. The first row with any content is the header."""

    suffixes: ClassVar[tuple[str, ...]] = (".xlsx",)

    def open(self, path: Path) -> RawTable:
        """Open a workbook; formulas have the values that Excel stored."""
        book = _open(path, read_only=True, data_only=True)
        name, rows = _find_sheet(book)
        book.close()
        has_header = bool(rows) and not is_image_name(rows[0][1][0].strip())
        if len(rows) <= has_header:
            raise TableError(f"{path}: no sheet has a header and a row below it. Each image needs a row.")
        width = max(len(cells) for _, cells in rows)
        table = [(number, _padded(cells, width)) for number, cells in rows]
        first = table[0][1]
        columns = tuple(cell.strip() if has_header else f"column {i}" for i, cell in enumerate(first, 1))
        body, kind = table[has_header:], f"Excel, sheet '{name}'"
        return RawTable(path.name, columns, lambda: iter(body), has_header, table[0][0], kind=kind, unit="row")

    def write(self, table: EditableTable, out: Path) -> None:
        """Write into a copy of the source if that is a workbook; other sheets, numbers and formats stay as they are."""
        openpyxl = _import("Writing")
        if table.source is not None and isinstance(table.format, XLSX):
            name, rows = _find_sheet(_open(table.source, data_only=True))
            book = _open(table.source)
            sheet, places = book[name], [number for number, _ in rows]
        else:
            book = openpyxl.Workbook()
            sheet, places = book.active, []
        first = places[0] if places else 1
        places = places[table.had_header :]
        old = [[_copied(sheet.cell(number, place + 1)) for place in range(table.width)] for number in places]
        if table.has_header:
            _fill(sheet, first, [(name, "s") for name in table.columns])
            first += 1
        for number, (row, texts) in enumerate(zip(table.rows, table.texts(), strict=True), first):
            # What did not change keeps its type: a number, a date, a formula.
            kept = [bool(old) and place < table.width and isinstance(cell, str) for place, cell in enumerate(row.cells)]
            _fill(sheet, number, [old[row.origin][i] if kept[i] else (text, "s") for i, text in enumerate(texts)])
        for number in places:
            if number >= first + len(table.rows):
                _fill(sheet, number, [("", "s")] * table.width)
        book.save(out)


def _import(doing: str) -> Any:
    try:
        import openpyxl
    except ImportError as error:
        raise needs_extra(f"{doing} Excel workbooks", "openpyxl", "xlsx") from error
    return openpyxl


def _open(path: Path, **options: bool) -> Any:
    openpyxl = _import("Reading")
    contents = io.BytesIO(read_bytes(path))
    try:
        return openpyxl.load_workbook(contents, **options)
    except Exception as error:  # a damaged workbook fails in many ways
        raise TableError(f"{path}: cannot be read as an Excel workbook ({error}). Save it again, or as CSV.") from None


def _find_sheet(book: Any) -> tuple[str, list[Row]]:
    """Name and rows with content of the first sheet that names images, or else of the first one with any content."""
    found: dict[str, list[Row]] = {}
    for sheet in book.worksheets:
        rows = [
            (number, [_as_cell(value) for value in values])
            for number, values in enumerate(sheet.iter_rows(values_only=True), 1)
        ]
        found[sheet.title] = [(number, cells) for number, cells in rows if any(cell.strip() for cell in cells)]
        if any(is_image_name(cell.strip()) for _, cells in found[sheet.title][:_SAMPLED_ROWS] for cell in cells):
            return sheet.title, found[sheet.title]
    return next(((name, rows) for name, rows in found.items() if rows), ("", []))


def _as_cell(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # Excel stores every number as a float
    return "" if value is None else str(value)


def _padded(cells: list[str], width: int) -> list[str]:
    return [*cells, *[""] * (width - len(cells))]


def _copied(cell: Any) -> tuple[object, str]:
    return cell.value, cell.data_type


def _fill(sheet: Any, row: int, values: Sequence[tuple[object, str]]) -> None:
    """Write values with their types; "s" is text, also if it begins with "="."""
    from openpyxl.cell import MergedCell

    for column, (value, kind) in enumerate(values, 1):
        cell = sheet.cell(row, column)
        if value in ("", None) and cell.value is None:
            continue
        if isinstance(cell, MergedCell):
            raise TableError(f"Sheet {sheet.title!r}: cell {cell.coordinate} is merged with others. Unmerge them.")
        cell.value = None if value == "" else value
        if kind == "s" and value:
            cell.data_type = "s"
