"""The folder in which the parts of one file are made, by all the processes that share the work."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from positively.errors import FileError, option
from positively.files import is_temporary, patiently, write_text

_OURS = re.compile(r"(worker-)?[0-9a-f]{32}\.(jsonl|lock)|job\.(json|lock)")


class PartsFolder:
    """``FILE.parts`` beside the file: the parts, what they belong to, and who is at work.

    Every lock in it is taken away by the system when its process ends, however that ends.
    """

    def __init__(self, out: Path) -> None:
        self.path = out.with_name(f"{out.name}.parts")
        self._job = self.path / "job.json"
        self._presence = self.path / f"worker-{uuid.uuid4().hex}.lock"

    def part(self, name: str) -> Path:
        """The file of a part."""
        return self.path / f"{name}.jsonl"

    def locked(self) -> AbstractContextManager[object]:
        """Hold the folder while it is begun or put together: one process at a time."""
        try:
            return self._lock(self.path / "job.lock")
        except OSError as error:
            reason = error.strerror or str(error)
            raise FileError(f"{self.path} cannot be made: {reason}. Pass another file with {option('out')}.") from error

    def read_job(self) -> dict[str, str] | None:
        """What the parts belong to; None where there are none, or all of them are put together."""
        try:
            job = json.loads(patiently(lambda: self._job.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except ValueError:
            return {}
        return job if isinstance(job, dict) else {}

    def write_job(self, job: dict[str, str]) -> None:
        """Say what the parts belong to."""
        write_text(self._job, json.dumps(job))

    def refuse_foreign(self) -> None:
        """Raise if there are files that are not ours; hidden ones, which systems leave everywhere, do not count."""
        foreign = [path.name for path in self._files() if not _is_ours(path) and not path.name.startswith(".")]
        if foreign:
            raise FileError(
                f"{self.path} holds '{foreign[0]}', which is not ours. Pass another file with {option('out')}."
            )

    def present(self) -> AbstractContextManager[object]:
        """Be seen as one who is at work here, until the context is left."""
        return self._lock(self._presence)

    def is_busy(self) -> bool:
        """Whether any other process is at work here."""
        for path in self._files():
            if path.name.startswith("worker-") and path != self._presence:
                try:
                    with self._lock(path, seconds=0):
                        pass
                except Timeout:
                    return True
        return False

    @contextmanager
    def claimed(self, part: Path) -> Iterator[bool]:
        """Whether this process may compute a part."""
        try:
            lock = self._lock(part.with_suffix(".lock"), seconds=0)
        except Timeout:
            yield False
            return
        with lock:
            yield True

    def clear(self) -> None:
        """Remove what is ours, and the folder if nothing else is in it; what it belonged to goes first."""
        patiently(lambda: self._job.unlink(missing_ok=True))
        for path in filter(_is_ours, self._files()):
            with suppress(OSError):  # Windows does not remove what is held
                path.unlink(missing_ok=True)
        with suppress(OSError):
            self.path.rmdir()

    def _files(self) -> list[Path]:
        return sorted(self.path.iterdir()) if self.path.is_dir() else []

    def _lock(self, path: Path, seconds: float = -1) -> AbstractContextManager[object]:
        self.path.mkdir(parents=True, exist_ok=True)  # another process may just have cleared it away
        return FileLock(path).acquire(timeout=seconds)


def _is_ours(path: Path) -> bool:
    return _OURS.fullmatch(path.name) is not None or is_temporary(path)
