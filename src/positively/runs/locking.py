"""The place of a run: its folder is created and locked by one process at a time."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import ExitStack, suppress
from glob import escape
from itertools import count
from pathlib import Path

from positively.errors import RunError, option
from positively.files import safe_name
from positively.labels import LabelTable
from positively.locking import held
from positively.workspace import Workspace

LOCK, HOLDER = ".lock", ".lock-holder"
"""The lock file, and the file that names its holder: on Windows, a locked file cannot be read."""

# Workers that read images outlive a killed training by a few seconds and hold its lock.
_ORPHAN_SECONDS = 15.0


def default_place(table: LabelTable, method: str, resume: bool) -> Path:
    """Where a run goes by default: into the workspace of its table, or into ``runs/`` if the table is not a file.

    Args:
        table: What the run learns from.
        method: Its method.
        resume: Whether it continues a run: then ``runs/``, which earlier versions used, is searched too.
    """
    old = Path("runs") / safe_name(f"{Path(table.source).stem}-{method}")
    if table.origin is None:
        return old
    place = Workspace.of(table.origin).runs / safe_name(method)
    return old if resume and _numbers(old) and not _numbers(place) else place


def make_folder(out: str | Path | None, default: str | Path, resume: bool) -> tuple[Path, list[Path]]:
    """Create the folder of a run. Processes that start at the same time without ``out`` get different folders.

    Args:
        out: The folder, if the user named one.
        default: The folder otherwise, or ``<default>-<number>`` with the next number.
        resume: Use the default folder with the highest number, if there is one.

    Returns:
        The folder, and the folders that were created for it, the innermost first.
    """
    base = Path(default if out is None else out)
    taken = _numbers(base) if out is None else []
    for number in count(taken[-1] + (not resume) if taken else 1):
        path = base if number == 1 else base.with_name(f"{base.name}-{number}")
        made = [path, *(place for place in path.parents if not place.exists())]
        try:
            path.mkdir(parents=True)
            return path, made
        except FileExistsError:
            if path.is_dir() and (resume or out is not None):
                return path, []
            if out is not None:
                raise _cannot_make(path, "a file has that name") from None
        except OSError as error:
            raise _cannot_make(path, error.strerror) from None
    raise AssertionError("unreachable")


def _numbers(base: Path) -> list[int]:
    """Sorted numbers of the runs of this name; the run without a number is 1."""
    numbers = [path.name.removeprefix(f"{base.name}-") for path in base.parent.glob(f"{escape(base.name)}-*")]
    return sorted([1] * base.exists() + [int(number) for number in numbers if number.isdecimal()])


def _cannot_make(path: Path, reason: str | None) -> RunError:
    return RunError(
        f"The run folder {path} cannot be created: {reason}. Choose another one with {option('out', 'DIR')}."
    )


def lock_folder(folder: Path) -> ExitStack:
    """Lock a folder until the returned stack is closed.

    Raises:
        RunError: If another process holds the lock, or the folder is not writable.
    """
    lock = ExitStack()
    try:
        is_ours = lock.enter_context(held(folder / LOCK))
        if not is_ours and _is_dead(_holder(folder)):
            is_ours = lock.enter_context(held(folder / LOCK, _ORPHAN_SECONDS))
    except OSError as error:
        raise RunError(
            f"The run folder {folder} is not writable: {error.strerror}. Choose another one with "
            f"{option('out', 'DIR')}."
        ) from None
    if not is_ours:
        holder = _holder(folder)
        who = f" (process {holder})" if holder else ""
        raise RunError(
            f"{folder} is in use by another training{who}. Wait for it, or choose another folder with "
            f"{option('out', 'DIR')}."
        )
    with suppress(OSError):  # the holder is only needed for the message above
        (folder / HOLDER).write_text(f"{os.getpid()} on {socket.gethostname()}", encoding="utf-8")
    lock.callback(_remove_holder, folder)
    return lock


def _remove_holder(folder: Path) -> None:
    with suppress(OSError):
        (folder / HOLDER).unlink(missing_ok=True)


def _holder(folder: Path) -> str:
    """Process and machine that hold the lock, if known."""
    try:
        return (folder / HOLDER).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def _is_dead(holder: str) -> bool:
    """Whether the holder was a process of this machine that has ended."""
    if sys.platform == "win32":  # where os.kill would end the process, and workers do not inherit a lock
        return False
    number, _, machine = holder.partition(" on ")
    if machine != socket.gethostname() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
