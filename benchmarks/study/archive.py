"""Archive of the results in one file, one line per cell. It is in the repository, so that all tables can be reproduced.

Cells of the archive are copied to the folder of results before anything runs, so that they are not computed again on
another machine.
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
    """Write the cells of a folder of results, sorted by name; returns their number."""
    paths = sorted((out / "cells").glob("*.json"))
    lines = [json.dumps({"file": path.name} | _short(json.loads(path.read_text()))) for path in paths]
    write_text(archive, "".join(f"{line}\n" for line in lines))
    return len(lines)


def unpack(archive: Path, out: Path) -> int:
    """Copy the cells of an archive to a folder of results; existing ones are kept. Returns the number of lines."""
    lines = archive.read_text(encoding="utf-8").splitlines() if archive.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            cell = json.loads(line)
            path = out / "cells" / Path(cell.pop("file")).name
        except (ValueError, KeyError, AttributeError):
            raise RunError(f"{archive} line {number} is not a result of the study.") from None
        if not path.exists():
            write_json(path, cell)
    return len(lines)


def _short(value: Any) -> Any:
    """Drop empty values, and round numbers to nine digits."""
    if isinstance(value, dict):
        return {name: _short(entry) for name, entry in value.items() if entry not in ("", [], {}) or name in _REQUIRED}
    if isinstance(value, list):
        return [_short(entry) for entry in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
