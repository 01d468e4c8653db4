"""Atomic writing of files, and checks against overwriting files of others."""

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
# torch and safetensors write without an errno, so their messages tell a failed write from a bug.
_TORCH_WRITER = re.compile(r"inline_container\.cc|PytorchStreamWriter")
_SAFETENSORS_WRITER = re.compile(r"I/O error: .*\(os error (\d+)\)")
_RESERVED = re.compile(r'[<>:"/\\|?*\x00-\x1f]')
# Seconds to wait on Windows, where a virus scanner or an indexer may hold a new file for a moment.
_PAUSES: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4, 0.8) if sys.platform == "win32" else ()
# The longest path that Windows takes by default.
_LONGEST_PATH = 259


def write_with(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file next to ``path``, then move it into place in one step.

    Readers see either the old file or the new one. A full disk or a killed process leaves the old one.

    Raises:
        FileError: If the file cannot be written. Any other error of ``write`` is raised as it is.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch()
        permissions = temporary.stat().st_mode
        write(temporary)
        temporary.chmod(permissions)  # safetensors makes a file that only its owner may read
        with temporary.open("r+b") as file:  # Windows flushes only writable files
            os.fsync(file.fileno())
        retrying(lambda: temporary.replace(path))
    except Exception as error:
        code = _failed_write(error)
        if code is None:
            raise
        raise FileError(_sentence(path, code)) from error
    finally:
        with suppress(OSError):  # there is no temporary file if there is no folder
            temporary.unlink(missing_ok=True)


def sibling(source: Path, ending: str) -> Path:
    """A path next to a file or a folder, named after it; ``.`` is resolved to its real name.

    >>> sibling(Path("a/tags.csv"), ".positively").as_posix()
    'a/tags.positively'
    """
    named = source if source.name not in ("", "..") else Path(os.path.abspath(source))  # noqa: PTH100 (links stay)
    name = named.name if source.is_dir() else named.stem
    return named.parent / f"{name or 'photos'}{ending}"  # the root of a disk has no name


def safe_name(text: str) -> str:
    """A text as a file name that every system allows.

    >>> safe_name("BCE: known/all")
    'BCE- known-all'
    """
    return _RESERVED.sub("-", text).rstrip(". ")


def foreign_files(path: Path, is_ours: Callable[[Path], bool]) -> list[Path]:
    """Files in a folder, or the file at a path, that positively did not write.

    Hidden files in a folder are ignored: systems create them, and a killed process leaves partial ones.
    """
    if not path.is_dir():
        return [path] if path.exists() and not is_ours(path) else []
    return [file for file in sorted(path.iterdir()) if not file.name.startswith(".") and not is_ours(file)]


def refuse_foreign(path: Path, is_ours: Callable[[Path], bool], kind: str = "FILE", name: str = "out") -> None:
    """Raise if a path, or a folder there, holds files that positively did not write.

    Args:
        path: The file or folder to write.
        is_ours: Whether an existing file may be replaced.
        kind: What is written, "FILE" or "DIR".
        name: Option by which the user chooses the path.

    Raises:
        FileError: With the name of the file.
    """
    if kind == "FILE" and path.is_dir():
        raise FileError(f"{path} is a folder. Name a file with {option(name, kind)}.")
    others = foreign_files(path, is_ours)
    if others:
        raise FileError(
            f"{others[0]} is not replaced: positively did not write it, or it was changed since, or it is the input. "
            f"Move it away, or choose another place with {option(name, kind)}."
        )


def free_place(first: Path, is_ours: Callable[[Path], bool]) -> Path:
    """The path, or the first of ``tags-2.csv``, ``tags-3.csv`` and so on, that is free or may be replaced."""
    numbered = (first.with_name(f"{first.stem}-{number}{first.suffix}") for number in count(2))
    return next(place for place in chain([first], numbered) if not place.exists() or is_ours(place))


def file_digest(path: Path) -> str:
    """BLAKE2b digest of a file, as ``b2sum`` prints it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def is_temporary(path: Path) -> bool:
    """Whether a file is a partial file of a killed process."""
    return path.name.startswith(".") and path.name.endswith(".tmp")


def write_text(path: Path, text: str) -> None:
    """Write a text file in one step, with the same line ends on every system."""
    write_with(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline=""))


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file in one step."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def retrying(action: Callable[[], Result]) -> Result:
    """Try again if another process holds a file for a moment, which Windows reports as a permission error."""
    for pause in _PAUSES:
        try:
            return action()
        except PermissionError:
            time.sleep(pause)
    return action()


def _failed_write(error: BaseException) -> int | None:
    """The errno of a failed write (0 if unknown); ``None`` for any other error."""
    if isinstance(error, OSError):
        return error.errno or 0
    if type(error).__name__ == "SafetensorError":
        match = _SAFETENSORS_WRITER.search(str(error))
        # Windows has its own numbers: the fourth argument translates them.
        return OSError(int(match[1]), "", None, int(match[1])).errno if match else None
    if isinstance(error, RuntimeError) and _TORCH_WRITER.search(str(error)):
        # Closing the archive fails too and hides the first error, which is more precise.
        return (_failed_write(error.__context__) if error.__context__ else None) or 0
    return None


def _sentence(path: Path, code: int) -> str:
    reason = os.strerror(code) if code else "the write failed; is the disk full?"
    if code in _NO_PERMISSION and sys.platform == "win32":  # where open files cannot be replaced
        fix = "Close it in other programs, check the permission, or choose another folder"
    elif code in _NO_PERMISSION:
        fix = "No write permission; choose another folder"
    elif sys.platform == "win32" and len(str(path.absolute())) > _LONGEST_PATH:
        fix = f"Windows allows paths of up to {_LONGEST_PATH} characters; choose a folder with a shorter path"
    elif code in _NO_ROOM or not code:
        fix = "Free some space on the disk, or choose another folder"
    else:
        fix = "Choose another folder"
    untouched = "; the existing file is unchanged" if os.path.lexists(path) else ""
    return f"{path} cannot be written: {reason.rstrip('.')}. {fix}{untouched}."
