"""Work that all processes of a training share: nobody waits for one that failed, and each has its part."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from positively import distributed
from positively.errors import PositivelyError, RunError

Result = TypeVar("Result")


def agree(work: Callable[[], Result], alone: bool = False) -> Result:
    """Do a piece of work on every process; if it fails on one of them, all raise.

    The one that failed raises its own error, the others a :class:`RunError` that repeats it. ``alone`` asks nobody.
    """
    if alone:
        return work()
    failure: BaseException | None = None
    try:
        result = work()
    except BaseException as error:  # also Ctrl-C: the others have to hear of it
        failure = error
    (failed,) = distributed.any_process(failure is not None)
    if not failed:
        return result
    messages = distributed.gather(_message(failure))
    if failure is not None:
        raise failure  # with its own traceback
    process, message = next((number, text) for number, text in enumerate(messages) if text)
    raise RunError(f"Process {process} of {len(messages)} failed: {message}")


def _message(failure: BaseException | None) -> str:
    if failure is None:
        return ""
    return failure.message if isinstance(failure, PositivelyError) else repr(failure)


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
        mark.unlink(missing_ok=True)
    return found
