"""The folder in which the parts of one file are made, by all the processes that share the work."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from positively.errors import FileError, option
from positively.files import is_temporary, retrying, write_text
from positively.locking import FOREVER, held, remove_lock

_OURS = re.compile(r"(worker-)?[0-9a-f]{32}\.(jsonl|lock)|job\.(json|lock)")


class PartsFolder:
    """``FILE.parts`` beside the file: the parts, what they belong to, and who is at work."""

    def __init__(self, out: Path) -> None:
        self.path = out.with_name(f"{out.name}.parts")
        self._job = self.path / "job.json"
        self._job_lock = self.path / "job.lock"
        self._worker = self.path / f"worker-{uuid.uuid4().hex}.lock"
        self._presence = ExitStack()

    def part(self, name: str) -> Path:
        """The file of a part."""
        return self.path / f"{name}.jsonl"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder while it is begun or put together: one process at a time."""
        with ExitStack() as lock:
            try:
                lock.enter_context(held(self._job_lock, FOREVER))
            except OSError as error:
                reason = error.strerror or str(error)
                raise FileError(
                    f"{self.path} cannot be made: {reason}. Pass another file with {option('out')}."
                ) from error
            yield

    def read_job(self) -> dict[str, str] | None:
        """What the parts belong to; None where there are none, or all of them are put together."""
        try:
            job = json.loads(retrying(lambda: self._job.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except ValueError:
            return {}
        return job if isinstance(job, dict) else {}

    def write_job(self, job: dict[str, str]) -> None:
        """Say what the parts belong to."""
        write_text(self._job, json.dumps(job))

    def present(self) -> AbstractContextManager[object]:
        """Show other processes that this one is at work here, from now until the context ends."""
        self._presence.enter_context(held(self._worker))
        return self._presence

    def is_busy(self) -> bool:
        """Whether another process is at work here."""
        for path in self._files():
            if path.name.startswith("worker-") and path != self._worker:
                with held(path) as is_free:
                    if not is_free:
                        return True
        return False

    def claimed(self, part: Path) -> AbstractContextManager[bool]:
        """Whether this process may compute a part."""
        return held(part.with_suffix(".lock"))

    def clear(self) -> None:
        """Remove our files, what they belong to first; the last process at work removes the folder. Call it locked."""
        retrying(lambda: self._job.unlink(missing_ok=True))
        self._presence.close()
        for path in filter(is_part, self._files()):
            if path.suffix == ".lock" and path != self._job_lock:
                remove_lock(path)
            else:
                with suppress(OSError):  # Windows removes no file that is open
                    path.unlink(missing_ok=True)
        with suppress(OSError):
            self.path.rmdir()

    def _files(self) -> list[Path]:
        return sorted(self.path.iterdir()) if self.path.is_dir() else []


def is_part(path: Path) -> bool:
    """Whether a file of a parts folder is ours, by its name."""
    return _OURS.fullmatch(path.name) is not None or is_temporary(path)
