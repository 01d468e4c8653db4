"""Running the cells of the study: one result file each, any number of processes, and no cell computed twice."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from benchmarks.study.closed import Labels
from benchmarks.study.data import IMAGE_SIZE, Photos
from benchmarks.study.problem import Problem
from benchmarks.study.settings import Setting
from positively.files import safe_name
from positively.labels import NEGATIVE, POSITIVE
from positively.research.bench.results import Cell, Result, read_result, write_result

ESTIMATOR = "λ by PU AP"
"""Version of the probe, part of the file names of results."""
CHOSEN_STEP = "λ by PU AP, known labels filled in"
"""As above, for rows that choose between one step and two."""
_WAIT_SECONDS = 2.0
# Images × landmarks × classes of the cells whose times are given by the rows.
_TYPICAL = 5000 * 2000 * 80


@dataclass(frozen=True)
class Job:
    """A cell: setting, row, size and seed."""

    setting: Setting
    row: str
    """Name of the row in files."""
    title: str
    """Name of the row in tables."""
    measure: Callable[[Problem, Labels], dict[str, Any]]
    """Computes the fields of a result: ``test``, ``chosen``, ``history``."""
    size: int
    seed: int
    seconds: float
    """Approximate CPU time for 5,000 images, 2,000 landmarks and 80 classes."""
    estimator: str = ESTIMATOR
    """Version of what the result depends on."""


class Study:
    """The cells of one dataset in a folder of results."""

    def __init__(self, photos: Photos, out: Path, landmarks: int) -> None:
        self.photos, self.out, self.landmarks = photos, out, landmarks

    def run(self, jobs: Sequence[Job], progress: Callable[[str], None] = print) -> None:
        """Compute missing cells, grouped by seed and size because these share a decomposition."""
        ordered = sorted(jobs, key=lambda job: (job.seed, -job.size))
        missing = {self.path(job): job for job in ordered if not self.path(job).exists()}
        done = len({self.path(job) for job in jobs}) - len(missing)
        progress(f"{self.photos.name}: {done} cells exist, {self._estimate(list(missing.values()))}.")
        problem: Problem | None = None
        while missing:
            before = len(missing)
            for path, job in list(missing.items()):
                with self._held(path.stem) as mine:
                    if mine and not path.exists():
                        if problem is None or (problem.seed, len(problem.rows)) != (job.seed, job.size):
                            problem = self._problem(job)
                        self._compute(job, problem, path)
                if path.exists():
                    del missing[path]
                    found = read_result(path)
                    progress(
                        f"{found.cell.seed} {job.setting.name} {job.row}: mAP {100 * found.test['mAP']:.2f} in "
                        f"{found.seconds:.0f} s; {self._estimate(list(missing.values()))}"
                    )
            if len(missing) == before:  # all are being computed by other processes
                time.sleep(_WAIT_SECONDS)

    def path(self, job: Job) -> Path:
        """Path of the result of a cell."""
        code = repr((self.photos.key, self.landmarks, job.estimator)).encode()
        parts = [self.photos.name, self.photos.backbone, f"{job.size}", job.setting.name, job.row, f"seed{job.seed}"]
        parts.append(hashlib.blake2b(code, digest_size=4).hexdigest())
        return self.out / "cells" / f"{safe_name('-'.join(parts))}.json"

    def _problem(self, job: Job) -> Problem:
        folder = self.out / "reviews" / f"{self.photos.name}-{self.photos.backbone}-{self.photos.key}"
        return Problem(self.photos, job.size, job.seed, self.landmarks, folder)

    def _compute(self, job: Job, problem: Problem, path: Path) -> None:
        labels = job.setting.labels(problem)
        began = time.process_time()  # CPU time, independent of other load
        found = job.measure(problem, labels)
        counts = {
            "positives": int((labels.states == POSITIVE).sum()),
            "negatives": int((labels.states == NEGATIVE).sum()),
        }
        result = Result(
            cell=Cell(self.photos.name, job.title, self.photos.depth, job.setting.ratio, job.setting.noise, job.seed),
            family="",
            method=job.row,
            options={},
            backbone=self.photos.backbone,
            image_size=IMAGE_SIZE,
            labels={"images": len(problem.rows), **counts},
            settings={
                "setting": job.setting.name,
                "landmarks": self.landmarks,
                "answers": round(job.setting.answers * int((problem.truth == POSITIVE).sum())),
            },
            seconds=time.process_time() - began,
            **found,
        )
        write_result(path, result)

    def _estimate(self, missing: Sequence[Job]) -> str:
        """Describe how many cells are missing, and how long they take on one idle core."""
        classes = self.photos.truth.shape[1]
        shares = [job.size * min(job.size, self.landmarks) * classes / _TYPICAL for job in missing]
        seconds = sum(job.seconds * share for job, share in zip(missing, shares, strict=True))
        tables = {(job.seed, job.size) for job in missing}
        seconds += sum(12 * (min(size, self.landmarks) / 2000) ** 2 for _, size in tables)
        return f"{len(missing)} are missing, about {np.ceil(seconds / 60):.0f} min on an idle core"

    @contextmanager
    def _held(self, name: str) -> Iterator[bool]:
        """Hold a lock that the system releases when the process dies. Yields whether it was free."""
        path = self.out / "locks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(path, timeout=0):
                yield True
        except Timeout:
            yield False
