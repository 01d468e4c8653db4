"""Parquet files, read as rows of text cells like CSV, and written with the types of the source.

This is the only module that imports pyarrow, which is an extra, and only to read or write a Parquet file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from positively.errors import TableError, needs_extra
from positively.labels import NEGATIVE, LabelState
from positively.tables.dialect import RawTable, Row
from positively.tables.rows import RowFormat

if TYPE_CHECKING:
    from positively.tables.editable import EditableTable

_BATCH_ROWS = 10_000
_MAGIC = b"PAR1"


def import_pyarrow(doing: str) -> Any:
    """Module ``pyarrow`` with its parts for Parquet.

    Args:
        doing: The purpose, such as "Writing".

    Raises:
        ConfigError: It is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise needs_extra(f"{doing} Parquet", "pyarrow", "parquet") from error
    return pyarrow


class Parquet(RowFormat):
    """Columns of any type: lists become JSON lists in a cell, numbers and booleans become text."""

    suffixes: ClassVar[tuple[str, ...]] = (".parquet",)

    def matches(self, path: Path) -> bool:
        """Whether a file begins like Parquet, with any suffix."""
        try:
            with path.open("rb") as file:
                return file.read(len(_MAGIC)) == _MAGIC
        except OSError:
            return False

    def open(self, path: Path) -> RawTable:
        """Open a file, to be read in batches of rows."""
        arrow = import_pyarrow("Reading")
        try:
            file = arrow.parquet.ParquetFile(path)
        except (arrow.ArrowException, OSError) as error:
            fix = "Write it again, or save it as CSV"
            raise TableError(f"{path}: cannot be read as Parquet ({error}). {fix}.") from None
        columns = tuple(str(name) for name in file.schema_arrow.names)
        row_count = file.metadata.num_rows
        file.close()
        if not row_count:
            raise TableError(f"{path}: the file has no rows. Each image needs a row.")

        def rows(as_cell: Callable[[object], str] = _as_cell) -> Iterator[Row]:
            row = 0
            with arrow.parquet.ParquetFile(path) as opened:
                for batch in opened.iter_batches(batch_size=_BATCH_ROWS):
                    for values in zip(*(_values(arrow, column) for column in batch.columns), strict=True):
                        row += 1
                        yield row, [as_cell(value) for value in values]

        def whole_rows() -> Iterator[Row]:
            return rows(lambda value: str(value) if _holds_no_labels(value) else _as_cell(value))

        return RawTable(path.name, columns, rows, kind="Parquet", unit="row", whole_rows=whole_rows)

    def write(self, table: EditableTable, out: Path) -> None:
        """Write each column with its type in the source, if that can represent the new values."""
        arrow = import_pyarrow("Writing")
        is_parquet = table.source is not None and isinstance(table.format, Parquet)
        source = arrow.parquet.read_table(table.source) if is_parquet else None
        arrays = [_column(arrow, table, source, place) for place in range(len(table.columns))]
        made = arrow.Table.from_arrays(arrays, names=table.columns)
        if source is not None:
            known = [field.with_type(array.type) for field, array in zip(source.schema, arrays, strict=False)]
            added = list(made.schema)[table.width :]
            made = made.cast(arrow.schema([*known, *added], metadata=source.schema.metadata))
        arrow.parquet.write_table(made, out)


def write_columns(out: Path, parts: Iterable[Mapping[str, Any]]) -> None:
    """Write a table that is given as columns, some rows at a time; lists are text, and NaN is blank.

    Args:
        out: The file.
        parts: At least one, all with the same columns: name → list of text, or array of numbers.
    """
    arrow = import_pyarrow("Writing")
    writer = None
    try:
        for part in parts:
            kinds = {list: arrow.string()}  # an empty list has no type of its own
            arrays = {name: arrow.array(v, kinds.get(type(v)), from_pandas=True) for name, v in part.items()}
            made = arrow.table(arrays)
            writer = writer or arrow.parquet.ParquetWriter(out, made.schema)
            writer.write_table(made)
    finally:
        if writer is not None:
            writer.close()


def _holds_no_labels(value: object) -> bool:
    """Embedded images and records, which are read as blanks."""
    return isinstance(value, bytes | dict)


def _values(arrow: Any, column: Any) -> list[object]:
    """The values of a column; times in nanoseconds, for which Python has no type, as text."""
    kind = column.type
    is_time = arrow.types.is_timestamp(kind) or arrow.types.is_time(kind)
    values: list[object] = (column.cast(arrow.string()) if is_time and kind.unit == "ns" else column).to_pylist()
    return values


def _as_cell(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, list):
        return json.dumps([item for item in value if item is not None], ensure_ascii=False, default=str)
    return "" if _holds_no_labels(value) else str(value)


def _column(arrow: Any, table: EditableTable, source: Any, place: int) -> Any:
    """A column with its type, or the narrowest type for its new values."""
    types, list_type = arrow.types, arrow.list_(arrow.string())
    cells = [row.cells[place] for row in table.rows]
    if source is None or place >= table.width:
        tags = table.layout.tags
        lists = source is not None and tags is not None and _is_list(arrow, source.column(tags).type)
        if lists and any(isinstance(cell, list) for cell in cells):
            return arrow.array(cells, list_type)
        return arrow.array([table.text(cell, place) or None for cell in cells], arrow.string())
    column = source.column(place)
    if all(cell is None or isinstance(cell, str) for cell in cells):
        rows = [None if row.cells[place] is None else row.origin for row in table.rows]
        return column.take(arrow.array(rows, arrow.int64()))
    kind, native = column.type, column.to_pylist()
    is_list = _is_list(arrow, kind)
    values: list[Any] = []  # new values as text, others as in the file
    for row, cell in zip(table.rows, cells, strict=True):
        new = list(cell) if is_list and isinstance(cell, list) else table.text(cell, place) or None
        values.append(native[row.origin] if isinstance(cell, str) else new)
    if is_list:
        listed = [None if value is None else [str(tag) for tag in value if tag is not None] for value in values]
        return _cast(arrow, arrow.array(listed, list_type), kind)
    is_state = any(isinstance(cell, LabelState) for cell in cells)
    if is_state and (types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)):
        # Booleans and unsigned numbers have no −1.
        widened = NEGATIVE in cells and (types.is_boolean(kind) or types.is_unsigned_integer(kind))
        numbers = [None if value is None else float(value) for value in values]
        return arrow.array(numbers, arrow.float64()).cast(arrow.int8() if widened else kind)
    texts = [None if value is None else str(value) for value in values]
    return _cast(arrow, arrow.array(texts, arrow.string()), kind)


def _is_list(arrow: Any, kind: Any) -> bool:
    return bool(arrow.types.is_list(kind) or arrow.types.is_large_list(kind))


def _cast(arrow: Any, array: Any, kind: Any) -> Any:
    """Convert to the type of the column, if possible."""
    try:
        return array.cast(kind)
    except arrow.ArrowException:
        return array
