"""Which processes of a training share a folder: on several machines each may have one of its own."""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path

from positively import distributed
from positively.distributed import agree


def processes_at(folder: Path) -> list[int]:
    """Numbers of the processes that see this folder: on several machines each may have one of its own."""
    mark = folder / f".{distributed.broadcast(uuid.uuid4().hex)}.{distributed.rank()}"

    def leave_mark() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        mark.touch()

    try:
        agree(leave_mark)
        found = sorted(int(path.suffix[1:]) for path in folder.glob(f"{mark.stem}.*"))
        distributed.barrier()  # nobody takes a mark away before all have looked
    finally:
        with suppress(PermissionError):  # held by a scanner (Windows): an empty file that stays harms nobody
            mark.unlink(missing_ok=True)
    return found
