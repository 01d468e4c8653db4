"""Predictions of any number of images into one file, by any number of processes, each image exactly once.

The images are split into parts of a few hundred. A part is a small file next to the result, written atomically. A
process that holds the lock of a missing part computes it, so processes share the work without communicating, and the
part of a killed process is computed by another one. The process that finds all parts complete joins them.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from positively.errors import ConfigError, FileError, RunError, option
from positively.files import refuse_foreign, write_text, write_with
from positively.logs import is_first_process, logger
from positively.machine import process_count
from positively.runs.formats import FORMATS
from positively.runs.parts import PartsFolder, is_part
from positively.runs.run import Run
from positively.runs.tagging import Picture, Prediction, Tagger

_PART_IMAGES = 256
_SECONDS_BETWEEN_LOOKS = 0.5
_JUST_NOW_SECONDS = 60.0


@dataclass(frozen=True)
class Written:
    """The result of writing predictions."""

    path: Path
    images: int
    broken: dict[str, str]
    """Name of each image that could not be read → why; empty in a process that did not join the parts."""
    is_ours: bool
    """Whether this process joined the parts."""


def write_predictions(
    run: Run,
    pictures: Sequence[Picture],
    out: str | Path,
    *,
    top: int | None = None,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Written:
    """Write the tags of image files to a file; an interrupted call continues where it stopped.

    The same call in other processes at the same time shares the work. An image that cannot be read gets an error
    instead of tags.

    Args:
        run: The run.
        pictures: Files to tag.
        out: The file; .csv, .jsonl or .parquet.
        top: This many best tags, regardless of thresholds.
        overwrite: Replace an existing file.
        progress: Called with the number of newly finished images, of any process.

    Raises:
        FileError: If the file exists.
        RunError: If the file was started with another run, other options or other images.
    """
    job, waits = Job(run, pictures, Path(out), top), False
    presence = job.begin(overwrite) if process_count() == 1 or is_first_process() else job.join()
    if presence is None:
        return Written(job.out, len(pictures), {}, is_ours=False)
    with presence:
        while not job.is_over():
            if job.take_one(progress or (lambda more: None)):
                continue
            if not waits:
                logger.info("Waiting for other processes to finish their parts.")
            waits = True
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        return job.finish()


class Job:
    """The work of writing one file."""

    def __init__(self, run: Run, pictures: Sequence[Picture], out: Path, top: int | None) -> None:
        if out.suffix not in FORMATS:
            raise ConfigError(f"{option('out', str(out))}: the file must end in {' or '.join(FORMATS)}.")
        if out.is_dir():
            raise FileError(f"{out} is a folder. Name a file with {option('out', 'FILE')}.")
        self.out, self.folder = out, PartsFolder(out)
        self._tagger = Tagger(run, top)
        self._pictures = [pictures[i : i + _PART_IMAGES] for i in range(0, len(pictures), _PART_IMAGES)]
        self._open = dict.fromkeys(range(len(self._pictures)))  # ordered, with fast removal

    @cached_property
    def _run(self) -> str:
        """Digest of everything but the images that predictions depend on: the run and its options."""
        run = self._tagger.run
        return _digest(run.model_config, run.head, run.thresholds.tolist(), run.runtime, self._tagger.top)

    @cached_property
    def parts(self) -> list[Path]:
        """The file of every part, named after its images, so finished parts stay valid if images are added."""
        return [self.folder.part(_digest(self._run, [_stamp(one) for one in part])) for part in self._pictures]

    @cached_property
    def _identity(self) -> dict[str, str]:
        return {"run": self._run, "pictures": _digest([part.name for part in self.parts])}

    def begin(self, overwrite: bool) -> AbstractContextManager[object]:
        """Create the folder of the parts or reuse it; the context marks this process as working."""
        refuse_foreign(self.folder.path, is_part, "DIR")
        with self.folder.locked():
            begun = self.folder.read_job()
            if self.out.exists() and not overwrite:
                if begun in (None, self._identity) and not self.folder.is_busy():
                    self.folder.clear()  # the process was killed after the file was written
                raise FileError(
                    f"{self.out} already exists. Pass {option('overwrite', True)}, or choose another file with "
                    f"{option('out')}."
                )
            if begun not in (None, self._identity) and self.folder.is_busy():
                raise RunError(
                    f"Another process is writing {self.out} for other images or with other options. Wait for it, or "
                    f"choose another file with {option('out')}."
                )
            if begun is not None and begun.get("run") != self._run and not overwrite:
                raise RunError(
                    f"{self.out} was started with another run or other options. Continue with those, or pass "
                    f"{option('overwrite', True)} to start again."
                )
            if begun != self._identity:
                self.folder.write_job(self._identity)
            return self.folder.present()

    def join(self) -> AbstractContextManager[object] | None:
        """Wait for the first of several processes that were started together; None if the work is already done.

        A file written within the last minute was written by these processes.
        """
        while True:
            if self.folder.read_job() == self._identity:
                return self.folder.present()
            if self.out.exists() and time.time() - self.out.stat().st_mtime < _JUST_NOW_SECONDS:
                return None
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def is_over(self) -> bool:
        """Whether all parts are done, or another process has joined them."""
        return not self._open or self._is_finished()

    def _is_finished(self) -> bool:
        """Whether another process has joined the parts."""
        begun = self.folder.read_job()
        if begun == self._identity:
            return False
        if begun is not None:
            raise RunError(f"Another process is now writing {self.out} for other images or with other options.")
        if not self.out.exists():
            raise FileError(
                f"{self.folder.path} was removed while {self.out} was being written. Run the command again."
            )
        return True

    def take_one(self, progress: Callable[[int], None]) -> bool:
        """Compute the first unclaimed part; whether this or another process has finished a part."""
        is_news = False
        for number in list(self._open):
            is_computed = False
            if not self.parts[number].exists():
                with self.folder.claimed(self.parts[number]) as is_ours:
                    if not is_ours:
                        continue
                    is_computed = self._compute(number)
            del self._open[number]
            progress(len(self._pictures[number]))
            is_news = True
            if is_computed:
                break
        return is_news

    def _compute(self, number: int) -> bool:
        """Compute a claimed part, unless another process has finished it before."""
        part = self.parts[number]
        if part.exists() or self._is_finished():
            return False
        lines = (json.dumps(asdict(one)) for one in self._tagger(self._pictures[number]))
        write_text(part, "".join(f"{line}\n" for line in lines))
        return True

    def finish(self) -> Written:
        """Join the parts, unless another process has, and remove them."""
        broken: dict[str, str] = {}
        with self.folder.locked():
            is_ours = not self._is_finished()
            if is_ours:
                write = FORMATS[self.out.suffix]
                write_with(self.out, lambda temporary: write(temporary, self._predictions(broken)))
            self.folder.clear()
        return Written(self.out, sum(map(len, self._pictures)), broken, is_ours)

    def _predictions(self, broken: dict[str, str]) -> Iterator[Prediction]:
        """All predictions in order; errors are collected in ``broken``."""
        for part in self.parts:
            with part.open(encoding="utf-8") as file:
                for line in file:
                    prediction = Prediction(**json.loads(line))
                    if prediction.error:
                        broken[prediction.image] = prediction.error
                    yield prediction


def _stamp(picture: Picture) -> tuple[str, str, int, int]:
    """Identity of an image; a replaced file is a different image."""
    path = str(picture.source)
    try:
        status = Path(path).stat()
        return picture.name, path, status.st_size, status.st_mtime_ns
    except (OSError, ValueError):
        return picture.name, path, 0, 0


def _digest(*values: object) -> str:
    return hashlib.blake2b(json.dumps(values).encode(), digest_size=16).hexdigest()
