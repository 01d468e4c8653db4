"""JSON lines: one object a line, such as ``{"image": "a.jpg", "tags": ["cat", "dog"]}``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from positively.errors import TableError
from positively.tables.dialect import RawTable, Row, read_text
from positively.tables.rows import RowFormat

if TYPE_CHECKING:
    from positively.tables.editable import EditableTable


class JSONLines(RowFormat):
    """Objects with the same keys. Tags are a list, or an object tag → score as ``predict`` writes it."""

    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)

    def open(self, path: Path) -> RawTable:
        """Open a file; its columns are all keys that occur."""
        entries = _entries(path)
        columns = tuple(dict.fromkeys(name for _, entry in entries for name in entry))

        def rows(as_cell: Callable[[Any], str] = _as_cell) -> Iterator[Row]:
            for number, entry in entries:
                yield number, [as_cell(entry.get(name)) for name in columns]

        return RawTable(path.name, columns, rows, kind="JSON lines", whole_rows=lambda: rows(_as_text))

    def write(self, table: EditableTable, out: Path) -> None:
        """Write tags as lists, new states as text, and everything else as in the source."""
        is_ours = table.source is not None and isinstance(table.format, JSONLines)
        old = [entry for _, entry in _entries(table.source)] if is_ours and table.source is not None else []
        with out.open("w", encoding="utf-8", newline="\n") as file:
            for row in table.rows:
                entry: dict[str, Any] = {}
                for place, name in enumerate(table.columns):
                    cell = row.cells[place]
                    if place in table.tag_columns or isinstance(cell, list):
                        entry[name] = table.tags(row, place)
                    elif not (old and place < table.width and isinstance(cell, str)):
                        entry[name] = table.text(cell, place)
                    elif name in old[row.origin]:
                        entry[name] = old[row.origin][name]
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _entries(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """The objects of a file with the numbers of their lines."""
    lines = enumerate(read_text(path)[0].split("\n"), 1)
    return [(number, _parse(path, number, line)) for number, line in lines if line.strip()]


def _parse(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        raise TableError(f"{path} line {number}: not a JSON object. Each line needs one, with an image and its tags.")
    return entry


def _as_cell(value: Any) -> str:
    return _as_text(list(value) if isinstance(value, dict) else value)


def _as_text(value: Any) -> str:
    return value or "" if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
