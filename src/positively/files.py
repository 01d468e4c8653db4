"""Writing files so that nothing is ever half written."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeVar

from positively.errors import FileError, option

Result = TypeVar("Result")

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_PERMISSION = {errno.EACCES, errno.EPERM, errno.EROFS}
# torch and safetensors write by themselves and have no errno: their words tell a failed write from a bug.
_TORCH_WRITER = re.compile(r"inline_container\.cc|PytorchStreamWriter")
_SAFETENSORS_WRITER = re.compile(r"I/O error: .*\(os error (\d+)\)")
_RESERVED = re.compile(r'[<>:"/\\|?*\x00-\x1f]')
# On Windows a virus scanner or an indexer may hold a new file for a moment: how long it is waited for, in seconds.
_PAUSES: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4, 0.8) if sys.platform == "win32" else ()
# Windows takes no longer paths unless it was told to.
_LONGEST_PATH = 259


def write_with(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then move it into place in one step.

    A reader sees the old file or the new one; a full disk or a kill leaves the old one.

    Raises:
        FileError: If the file cannot be written. Any other error of ``write`` is a bug, and goes on as it is.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch()
        permissions = temporary.stat().st_mode
        write(temporary)
        temporary.chmod(permissions)  # safetensors makes a new file that nobody else may read
        with temporary.open("r+b") as file:  # Windows flushes only a file that may be written to
            os.fsync(file.fileno())
        retrying(lambda: temporary.replace(path))
    except Exception as error:
        code = _failed_write(error)
        if code is None:
            raise
        raise FileError(_sentence(path, code)) from error
    finally:
        with suppress(OSError):  # no folder to write in, hence no temporary file either
            temporary.unlink(missing_ok=True)


def sibling(source: Path, ending: str) -> Path:
    """A place beside a file or a folder, named after it: ``tags.csv`` → ``tags.review.sqlite``; ``.`` by its real name.

    >>> sibling(Path("a/tags.csv"), "-missing").as_posix()
    'a/tags-missing'
    """
    named = source if source.name not in ("", "..") else Path(os.path.abspath(source))  # noqa: PTH100 (links stay)
    name = named.name if source.is_dir() else named.stem
    return named.parent / f"{name or 'photos'}{ending}"  # the root of a disk has no name at all


def safe_name(text: str) -> str:
    """A text as the name of a file on every system: on Windows a colon would begin the name of a hidden stream.

    >>> safe_name("BCE: known/all")
    'BCE- known-all'
    """
    return _RESERVED.sub("-", text).rstrip(". ")


def foreign_files(path: Path, is_ours: Callable[[Path], bool]) -> list[Path]:
    """What lies in a folder, or as a file at a path, and is not ours.

    In a folder hidden files do not count: systems put them everywhere, and a killed process leaves them half written.
    """
    if not path.is_dir():
        return [path] if path.exists() and not is_ours(path) else []
    return [file for file in sorted(path.iterdir()) if not file.name.startswith(".") and not is_ours(file)]


def refuse_foreign(path: Path, is_ours: Callable[[Path], bool], kind: str = "FILE", name: str = "out") -> None:
    """Raise if what lies at a path, or in a folder there, is not ours.

    Args:
        path: Where something is to be written.
        is_ours: Whether a file that lies there may be replaced.
        kind: What is to be written, "FILE" or "DIR".
        name: Option by which the user chooses the path.

    Raises:
        FileError: With the name of the file.
    """
    if kind == "FILE" and path.is_dir():
        raise FileError(f"{path} is a folder. Name a file with {option(name, kind)}.")
    others = foreign_files(path, is_ours)
    if others:
        raise FileError(
            f"{others[0]} is not replaced: positively did not write it here, or it was changed since, or it is being "
            f"read. Move it away, or name another place with {option(name, kind)}."
        )


def free_place(first: Path, is_ours: Callable[[Path], bool]) -> Path:
    """A path, or the first of ``tags-2.csv``, ``tags-3.csv`` and so on that is free or ours."""
    numbered = (first.with_name(f"{first.stem}-{number}{first.suffix}") for number in count(2))
    return next(place for place in chain([first], numbered) if not place.exists() or is_ours(place))


def file_digest(path: Path) -> str:
    """What ``b2sum`` prints of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def is_temporary(path: Path) -> bool:
    """Whether a file is what a killed process had begun to write."""
    return path.name.startswith(".") and path.name.endswith(".tmp")


def write_text(path: Path, text: str) -> None:
    """Write a text file in one step; its line ends are the same on every system."""
    write_with(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline=""))


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file in one step."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def retrying(action: Callable[[], Result]) -> Result:
    """Do something to a file that another process may hold for a moment, which on Windows is no permission."""
    for pause in _PAUSES:
        try:
            return action()
        except PermissionError:
            time.sleep(pause)
    return action()


def _failed_write(error: BaseException) -> int | None:
    """The system's number for a write that failed (0 if it was not told); ``None`` for any other error."""
    if isinstance(error, OSError):
        return error.errno or 0
    if type(error).__name__ == "SafetensorError":
        match = _SAFETENSORS_WRITER.search(str(error))
        # On Windows these are numbers of its own: the fourth argument turns them into those of every system.
        return OSError(int(match[1]), "", None, int(match[1])).errno if match else None
    if isinstance(error, RuntimeError) and _TORCH_WRITER.search(str(error)):
        # Closing the archive fails too, and hides the first error, which knows more if it came from Python's file.
        return (_failed_write(error.__context__) if error.__context__ else None) or 0
    return None


def _sentence(path: Path, code: int) -> str:
    reason = os.strerror(code) if code else "the system did not take it; is the disk full?"
    if code in _NO_PERMISSION and sys.platform == "win32":  # which lets nobody replace a file that is open
        fix = "Close it in other programs, get leave to write there, or take another folder"
    elif code in _NO_PERMISSION:
        fix = "Get leave to write there, or take another folder"
    elif sys.platform == "win32" and len(str(path.absolute())) > _LONGEST_PATH:
        fix = f"Windows takes paths of up to {_LONGEST_PATH} letters: take a folder nearer to the root of the disk"
    elif code in _NO_ROOM or not code:
        fix = "Make room on its disk, or take another folder"
    else:
        fix = "Take another folder"
    untouched = "; what was there before is untouched" if os.path.lexists(path) else ""
    return f"{path} cannot be written: {reason.rstrip('.')}. {fix}{untouched}."
