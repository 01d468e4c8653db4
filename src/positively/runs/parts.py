"""The folder for the parts of one file, shared by all processes that work on it."""

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
    """``FILE.parts`` next to the file: the parts, the job they belong to, and the working processes."""

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
        """Lock the folder while the job starts or the parts are joined."""
        with ExitStack() as lock:
            try:
                lock.enter_context(held(self._job_lock, FOREVER))
            except OSError as error:
                reason = error.strerror or str(error)
                raise FileError(
                    f"{self.path} cannot be created: {reason}. Choose another file with {option('out')}."
                ) from error
            yield

    def read_job(self) -> dict[str, str] | None:
        """The job of the parts; None if there is none, or if it is finished."""
        try:
            job = json.loads(retrying(lambda: self._job.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except ValueError:
            return {}
        return job if isinstance(job, dict) else {}

    def write_job(self, job: dict[str, str]) -> None:
        """Write the job of the parts."""
        write_text(self._job, json.dumps(job))

    def present(self) -> AbstractContextManager[object]:
        """Mark this process as working until the context ends."""
        self._presence.enter_context(held(self._worker))
        return self._presence

    def is_busy(self) -> bool:
        """Whether another process is working here."""
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
        """Remove our files, the job first; the last working process removes the folder. Call it while locked."""
        retrying(lambda: self._job.unlink(missing_ok=True))
        self._presence.close()
        for path in filter(is_part, self._files()):
            if path.suffix == ".lock" and path != self._job_lock:
                remove_lock(path)
            else:
                with suppress(OSError):  # Windows cannot remove an open file
                    path.unlink(missing_ok=True)
        with suppress(OSError):
            self.path.rmdir()

    def _files(self) -> list[Path]:
        return sorted(self.path.iterdir()) if self.path.is_dir() else []


def is_part(path: Path) -> bool:
    """Whether a file of a parts folder is ours, by its name."""
    return _OURS.fullmatch(path.name) is not None or is_temporary(path)
