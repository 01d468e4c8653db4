"""Results in one file, a line a cell: it stands in the repository, so that every table can be printed again.

What was measured on one machine is not computed again on another: cells of the archive are put into the folder of the
results before anything runs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from positively.errors import RunError
from positively.files import write_json, write_text

_DIGITS = 9
_REQUIRED = ("family", "options")


def pack(out: Path, archive: Path) -> int:
    """Write the cells of a folder of results, in the order of their names; returns how many there are."""
    paths = sorted((out / "cells").glob("*.json"))
    lines = [json.dumps({"file": path.name} | _short(json.loads(path.read_text()))) for path in paths]
    write_text(archive, "".join(f"{line}\n" for line in lines))
    return len(lines)


def unpack(archive: Path, out: Path) -> int:
    """Put the cells of an archive into a folder of results; those that are there stay."""
    lines = archive.read_text(encoding="utf-8").splitlines() if archive.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            cell = json.loads(line)
            path = out / "cells" / Path(cell.pop("file")).name
        except (ValueError, KeyError, AttributeError):
            raise RunError(f"{archive} line {number} is no result of the study.") from None
        if not path.exists():
            write_json(path, cell)
    return len(lines)


def _short(value: Any) -> Any:
    """Without what is empty, and with numbers of nine digits."""
    if isinstance(value, dict):
        return {name: _short(entry) for name, entry in value.items() if entry not in ("", [], {}) or name in _REQUIRED}
    if isinstance(value, list):
        return [_short(entry) for entry in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
