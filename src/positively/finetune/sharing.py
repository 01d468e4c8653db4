"""Finds out which processes share a folder. On several machines each may have its own disk."""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path

from positively import distributed
from positively.distributed import agree


def processes_at(folder: Path) -> list[int]:
    """Ranks of the processes that see the same folder, found by writing a marker file per process."""
    mark = folder / f".{distributed.broadcast(uuid.uuid4().hex)}.{distributed.rank()}"

    def leave_mark() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        mark.touch()

    try:
        agree(leave_mark)
        found = sorted(int(path.suffix[1:]) for path in folder.glob(f"{mark.stem}.*"))
        distributed.barrier()  # keep the markers until all processes have looked
    finally:
        with suppress(PermissionError):  # locked by a virus scanner (Windows); an empty file does no harm
            mark.unlink(missing_ok=True)
    return found
