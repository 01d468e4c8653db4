"""Predictions of any number of pictures into one file, by any number of processes, each picture exactly once.

The pictures are cut into parts of a few hundred. A part is one small file beside the result, written whole; whoever
holds the lock of a part that is not there yet computes it, so that any number of processes share the work without
knowing of one another, and what a process was at when it was killed is taken by the next. Who finds all parts there
puts them together.
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
    """What became of the pictures."""

    path: Path
    images: int
    broken: dict[str, str]
    """Name of each picture that could not be read → why; empty in a process that did not put the parts together."""
    is_ours: bool
    """Whether this process put the parts together."""


def write_predictions(
    run: Run,
    pictures: Sequence[Picture],
    out: str | Path,
    *,
    top: int | None = None,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Written:
    """Write the tags of picture files to a file, and go on where an earlier call was stopped.

    The same call in another process, at the same time, takes part in the work. A picture that cannot be read has an
    error in place of tags.

    Args:
        run: The run.
        pictures: Files to tag.
        out: The file; its ending says the format: .csv, .jsonl or .parquet.
        top: This many best tags, whatever the cuts say.
        overwrite: Replace the file if it is there.
        progress: Called with how many more pictures are done, by this process or another.

    Raises:
        FileError: If the file is there.
        RunError: If it was begun with another run or other options, or is being written of other pictures.
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
                logger.info("Waiting for other processes, which have the rest.")
            waits = True
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        return job.finish()


class Job:
    """Pictures on their way into one file."""

    def __init__(self, run: Run, pictures: Sequence[Picture], out: Path, top: int | None) -> None:
        if out.suffix not in FORMATS:
            raise ConfigError(f"{option('out', str(out))}: the ending says the format, {' or '.join(FORMATS)}.")
        if out.is_dir():
            raise FileError(f"{out} is a folder. Name a file with {option('out', 'FILE')}.")
        self.out, self.folder = out, PartsFolder(out)
        self._tagger = Tagger(run, top)
        self._pictures = [pictures[i : i + _PART_IMAGES] for i in range(0, len(pictures), _PART_IMAGES)]
        self._open = dict.fromkeys(range(len(self._pictures)))  # in order, and quick to take one out of

    @cached_property
    def _run(self) -> str:
        """What predictions depend on beside the pictures: the run, and how it is used."""
        run = self._tagger.run
        return _digest(run.model_config, run.head, run.thresholds.tolist(), run.runtime, self._tagger.top)

    @cached_property
    def parts(self) -> list[Path]:
        """The file of every part, named after what is in it: parts before a photo that is added later stay."""
        return [self.folder.part(_digest(self._run, [_stamp(one) for one in part])) for part in self._pictures]

    @cached_property
    def _identity(self) -> dict[str, str]:
        return {"run": self._run, "pictures": _digest([part.name for part in self.parts])}

    def begin(self, overwrite: bool) -> AbstractContextManager[object]:
        """Make the folder of the parts ready, or take the one that is there; the context says who is at work."""
        refuse_foreign(self.folder.path, is_part, "DIR")
        with self.folder.locked():
            begun = self.folder.read_job()
            if self.out.exists() and not overwrite:
                if begun in (None, self._identity) and not self.folder.is_busy():
                    self.folder.clear()  # a kill came just after the file was written
                raise FileError(
                    f"{self.out} is there already. Pass {option('overwrite', True)}, or another file with "
                    f"{option('out')}."
                )
            if begun not in (None, self._identity) and self.folder.is_busy():
                raise RunError(
                    f"Another process is writing {self.out}, of other pictures or by other options. Wait for it, or "
                    f"pass another file with {option('out')}."
                )
            if begun is not None and begun.get("run") != self._run and not overwrite:
                raise RunError(
                    f"{self.out} was begun with another run or other options. Go on with those, or pass "
                    f"{option('overwrite', True)} to begin anew."
                )
            if begun != self._identity:
                self.folder.write_job(self._identity)
            return self.folder.present()

    def join(self) -> AbstractContextManager[object] | None:
        """Wait until the first of several processes that were started together has begun; None if all is done already.

        A file that came to be within the last minute is theirs: none of them can have been quicker than that.
        """
        while True:
            if self.folder.read_job() == self._identity:
                return self.folder.present()
            if self.out.exists() and time.time() - self.out.stat().st_mtime < _JUST_NOW_SECONDS:
                return None
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def is_over(self) -> bool:
        """Whether every part is there, or all of it was put together by another process."""
        return not self._open or self._is_finished()

    def _is_finished(self) -> bool:
        """Whether another process has put the parts together."""
        begun = self.folder.read_job()
        if begun == self._identity:
            return False
        if begun is not None:
            raise RunError(f"Another process has taken over {self.out}, for other pictures or with other options.")
        if not self.out.exists():
            raise FileError(f"{self.folder.path} was removed while {self.out} was being made. Start it again.")
        return True

    def take_one(self, progress: Callable[[int], None]) -> bool:
        """Compute the first part that is nobody's; whether there was one, or others have finished some meanwhile."""
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
        """Compute a part that this process has claimed, unless it came to be before that."""
        part = self.parts[number]
        if part.exists() or self._is_finished():
            return False
        lines = (json.dumps(asdict(one)) for one in self._tagger(self._pictures[number]))
        write_text(part, "".join(f"{line}\n" for line in lines))
        return True

    def finish(self) -> Written:
        """Put the parts together, unless another process has; then they go."""
        broken: dict[str, str] = {}
        with self.folder.locked():
            is_ours = not self._is_finished()
            if is_ours:
                write = FORMATS[self.out.suffix]
                write_with(self.out, lambda temporary: write(temporary, self._predictions(broken)))
            self.folder.clear()
        return Written(self.out, sum(map(len, self._pictures)), broken, is_ours)

    def _predictions(self, broken: dict[str, str]) -> Iterator[Prediction]:
        """All predictions in order; what could not be read is noted on the way."""
        for part in self.parts:
            with part.open(encoding="utf-8") as file:
                for line in file:
                    prediction = Prediction(**json.loads(line))
                    if prediction.error:
                        broken[prediction.image] = prediction.error
                    yield prediction


def _stamp(picture: Picture) -> tuple[str, str, int, int]:
    """What a picture is known by: a file that was replaced is another one."""
    path = str(picture.source)
    try:
        status = Path(path).stat()
        return picture.name, path, status.st_size, status.st_mtime_ns
    except (OSError, ValueError):
        return picture.name, path, 0, 0


def _digest(*values: object) -> str:
    return hashlib.blake2b(json.dumps(values).encode(), digest_size=16).hexdigest()
