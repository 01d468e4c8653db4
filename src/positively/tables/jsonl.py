"""JSON lines: one object a line, such as ``{"image": "a.jpg", "tags": ["cat", "dog"]}``."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
        text, _ = read_text(path)
        entries: list[tuple[int, dict[str, Any]]] = []
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                entries.append((number, _parse(path, number, line)))
        columns = tuple(dict.fromkeys(name for _, entry in entries for name in entry))

        def rows() -> Iterator[Row]:
            for number, entry in entries:
                yield number, [_as_cell(entry.get(name)) for name in columns]

        return RawTable(path.name, columns, rows, kind="JSON lines")

    def write(self, table: EditableTable, out: Path) -> None:
        """Write tags as lists and everything else as text."""
        with out.open("w", encoding="utf-8", newline="\n") as file:
            for row in table.rows:
                entry = {
                    name: table.tags(row, place)
                    if place in table.tag_columns or isinstance(row.cells[place], list)
                    else table.text(row.cells[place], place)
                    for place, name in enumerate(table.columns)
                }
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _parse(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        raise TableError(f"{path} line {number}: not a JSON object. Each line needs one, with an image and its tags.")
    return entry


def _as_cell(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(list(value) if isinstance(value, dict) else value, ensure_ascii=False)
