"""Where a run goes: a folder is made for it, and belongs to one process at a time."""

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
"""The file that is locked, and the one that says who holds it: on Windows nobody else can read a locked file."""

# Workers that read images outlive a killed training by a few seconds, and hold its lock as long.
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
    """Make the folder of a run; two processes that start at once without ``out`` get different ones.

    Args:
        out: The folder, if the user named one.
        default: The folder otherwise, or ``<default>-<number>`` with the next number.
        resume: Take the default folder with the highest number, if there is any.

    Returns:
        The folder, and which folders were made for it, inmost first (none if it was there).
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
                raise _cannot_make(path, "there is a file of that name") from None
        except OSError as error:
            raise _cannot_make(path, error.strerror) from None
    raise AssertionError("there is always another number")


def _numbers(base: Path) -> list[int]:
    """Numbers of the runs of this name, in order; the one without a number is the first."""
    numbers = [path.name.removeprefix(f"{base.name}-") for path in base.parent.glob(f"{escape(base.name)}-*")]
    return sorted([1] * base.exists() + [int(number) for number in numbers if number.isdecimal()])


def _cannot_make(path: Path, reason: str | None) -> RunError:
    return RunError(f"The run folder {path} cannot be made: {reason}. Pass {option('out', 'DIR')}.")


def lock_folder(folder: Path) -> ExitStack:
    """Lock a folder until what is returned is closed.

    Raises:
        RunError: If another process has it, or the folder cannot be written to.
    """
    lock = ExitStack()
    try:
        is_ours = lock.enter_context(held(folder / LOCK))
        if not is_ours and _is_dead(_holder(folder)):
            is_ours = lock.enter_context(held(folder / LOCK, _ORPHAN_SECONDS))
    except OSError as error:
        raise RunError(
            f"The run folder {folder} cannot be written to: {error.strerror}. Pass {option('out', 'DIR')}."
        ) from None
    if not is_ours:
        holder = _holder(folder)
        who = f" (process {holder})" if holder else ""
        raise RunError(f"{folder} is in use by another training{who}. Wait for it, or pass {option('out', 'DIR')}.")
    with suppress(OSError):  # who holds it is only for the sentence above
        (folder / HOLDER).write_text(f"{os.getpid()} on {socket.gethostname()}", encoding="utf-8")
    lock.callback(_remove_holder, folder)
    return lock


def _remove_holder(folder: Path) -> None:
    with suppress(OSError):
        (folder / HOLDER).unlink(missing_ok=True)


def _holder(folder: Path) -> str:
    """Process and machine that hold the lock, if they can be read."""
    try:
        return (folder / HOLDER).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def _is_dead(holder: str) -> bool:
    """Whether the holder was a process of this machine that is no more."""
    if sys.platform == "win32":  # os.kill would end the process; and workers do not inherit a lock there
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
