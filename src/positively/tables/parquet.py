"""Parquet → the same rows of text cells that a CSV gives."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

from positively.errors import TableError
from positively.tables.dialect import RawTable, Row

_BATCH_ROWS = 10_000


def is_parquet(path: Path) -> bool:
    """Whether a file is Parquet, going by its first bytes; False also where there is none."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return False


def read_raw_parquet(path: Path) -> RawTable:
    """Open a Parquet file; lists become the list syntax of a cell, numbers and truth values their text."""
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise TableError(f"{path}: cannot be read as Parquet ({error}). Write it again, or save it as CSV.") from None
    columns = tuple(str(name) for name in file.schema_arrow.names)
    row_count = file.metadata.num_rows
    file.close()
    if not row_count:
        raise TableError(f"{path}: there is no row in it. Each image needs a row.")

    def rows() -> Iterator[Row]:
        row = 0
        with pyarrow.parquet.ParquetFile(path) as opened:
            for batch in opened.iter_batches(batch_size=_BATCH_ROWS):
                for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    row += 1
                    yield row, [_as_cell(value) for value in values]

    return RawTable(path.name, columns, rows, kind="Parquet")


def _as_cell(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, list):
        return json.dumps([item for item in value if item is not None], ensure_ascii=False, default=str)
    # Embedded pictures and records hold no tags; as blanks they are left unread.
    return "" if isinstance(value, bytes | dict) else str(value)
