"""Running a grid: one result file a cell, any number of processes, nothing computed twice."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from positively.config import TrainConfig
from positively.errors import ConfigError, DivergedError, InterruptedRunError, WeightsError, in_python, option
from positively.files import safe_name, write_json, write_with
from positively.finetune import possible_starts, training_identity
from positively.images import content_hash
from positively.locking import FOREVER, held
from positively.logs import logger
from positively.models import Start, head_options
from positively.probe import METHOD
from positively.research.bench.datasets import Dataset
from positively.research.bench.results import Cell, Result, read_result, write_result
from positively.research.bench.runner import DatasetRunner
from positively.research.bench.suite import CURVES, Row, Suite
from positively.research.recipes import Recipe

if TYPE_CHECKING:
    from lightning_fabric import Fabric

NOT_MEASURABLE_HERE = "not measurable here"
_OUT_OF_REACH = "out-of-reach.json"
# Networks whose weights could not be had when they were last tried.
Candidate = tuple[Start, float]
RATES = {"probe": (3e-4, 1e-3, 3e-3), "tail": (1e-4, 3e-4, 1e-3), "finetune": (3e-5, 1e-4, 3e-4)}
"""What a row's start and learning rate are chosen from."""
_CHOICE_HOLDOUT = 0.2
_CHOICE_SEED = 0
_BEYOND, _FASTER = 2, 10 / 3
# A row that does best at the highest rate is tried at more, each so much faster.
# A process that finds all cells that are left in the hands of others looks again after this time.
_WAIT_SECONDS = 2.0


@dataclass(frozen=True)
class Job:
    """A cell, and all that is needed to train it."""

    cell: Cell
    config: TrainConfig
    choice_config: TrainConfig
    """That of the seed with which start and rate are chosen for all seeds: a mask may tell each seed something else."""
    candidates: tuple[Candidate, ...]
    """Starts and learning rates to choose from; one is no choice."""
    choose_epoch: bool = False
    """Whether the epoch is chosen with them; otherwise the training finds it, by the labels it may see."""
    own_weights: bool = False
    """Whether its row brings a backbone of its own, whose weights may be out of reach here."""


@dataclass(frozen=True)
class Choice:
    """What serves a row best, and all it was chosen from."""

    start: Start
    lr: float
    epoch: int | None = None
    """None: found by the training itself."""
    tried: tuple[dict[str, Any], ...] = ()


class Bench:
    """One folder of results."""

    def __init__(
        self,
        out: Path,
        datasets: Sequence[Dataset],
        base: TrainConfig,
        fabric: Fabric,
        choose: Literal["yes", "rate", "no"],
        recipe: Recipe | None = None,
        word_vectors: Mapping[str, str] | None = None,
    ) -> None:
        self.out, self.base, self.choose, self.recipe = out, base, choose, recipe
        self.word_vectors = word_vectors or {}  # files, by dataset
        self.runners = {dataset.name: DatasetRunner(dataset, base, fabric) for dataset in datasets}
        if len(self.runners) < len(datasets):
            names = ", ".join(dataset.name for dataset in datasets)
            raise ConfigError(f"Two of the benchmarks have the same name: {names}.")
        self._out_of_reach: set[str] = set()  # backbones with their heads, whose weights cannot be had
        self._digests = {dataset.name: dataset.digest() for dataset in datasets}

    def jobs(self, suite: Suite, seeds: int) -> list[Job]:
        """Every cell of a suite, the first seed of all of them first."""
        return [
            self._job(runner, row, ratio, noise, seed, self.choose == "yes" and suite.show not in CURVES)
            for seed, runner in product(range(seeds), self.runners.values())
            for row, ratio, noise in suite.grid()
        ]

    def _job(self, runner: DatasetRunner, row: Row, ratio: float, noise: float, seed: int, choose_epoch: bool) -> Job:
        config = choice_config = self._config(runner, row, ratio, noise, seed)
        if seed != _CHOICE_SEED:
            choice_config = self._config(runner, row, ratio, noise, _CHOICE_SEED)
        cell = Cell(runner.dataset.name, row.name, str(config.depth), ratio, noise, seed)
        finds_epoch = config.method == METHOD or row.train.get("restore_best") or config.patience
        choose_epoch = choose_epoch and not finds_epoch
        own_weights = "weights" in row.train
        return Job(cell, config, choice_config, self._candidates(row, config), choose_epoch, own_weights)

    def _config(self, runner: DatasetRunner, row: Row, ratio: float, noise: float, seed: int) -> TrainConfig:
        grid = {"known_ratio": ratio, "flip_positives": noise, "seed": seed, **row.train}
        options = row.options
        if row.published:
            published = row.published_options(runner.dataset.family, ratio, self.recipe)
            options = {**runner.benchmark_options(row.method, replace(self.base, **grid), published), **options}
        config = runner.configure(row.method, options, **grid)
        file = self.word_vectors.get(runner.dataset.name)
        if file and any(field.name == "word_vectors" for field in fields(head_options(config.head))):
            config = replace(config, head_options={"word_vectors": file, **config.head_options})
        return config

    def _candidates(self, row: Row, config: TrainConfig) -> tuple[Candidate, ...]:
        """Starts and rates; what the user or the row fixes is not chosen."""
        if config.method == METHOD:
            return (("default", config.lr or 0.0),)
        fixed_start = self.base.start != "auto" or "start" in row.train or self.choose == "no"
        fixed_rate = self.base.lr is not None or "lr" in row.train or self.choose == "no"
        possible = possible_starts(config.head)
        own: Start = config.start if config.start != "auto" and config.start in (*possible, "solved") else "default"
        starts = (own,) if fixed_start else possible
        rates = (config.lr or 0.0,) if fixed_rate else RATES[str(config.depth)]
        return tuple(product(starts, rates))

    def run(self, jobs: Sequence[Job], progress: Callable[[Job, int, int], None]) -> None:
        """Compute what is missing; ``progress`` hears of each cell that is there, with how many are and of how many."""
        distinct: dict[Path, Job] = {}
        for job in jobs:
            distinct.setdefault(self._path(job), job)  # suites share cells
        missing = {path: job for path, job in distinct.items() if not path.exists()}
        done = len(distinct) - len(missing)
        while missing:
            before = len(missing)
            for path, job in list(missing.items()):
                with held(self._lock(path)) as mine:
                    if mine and not path.exists():
                        self._compute(job, path)
                if path.exists() or self._is_out_of_reach(job):
                    del missing[path]
                    done += 1
                    progress(job, done, len(distinct))
            if len(missing) == before:  # all in the hands of other processes
                time.sleep(_WAIT_SECONDS)

    def results(self, jobs: Sequence[Job]) -> list[Result]:
        """Results of these cells that are there, under the names their suite gives them.

        A cell whose row brings weights that were not to be had is one that could not be measured.
        """
        listed = self.out / _OUT_OF_REACH
        out_of_reach = json.loads(listed.read_text(encoding="utf-8")) if listed.exists() else []
        paths = [(job, self._path(job)) for job in jobs]
        return [
            replace(read_result(path), cell=job.cell)
            if path.exists()
            else self._result(job, job.config, failure=NOT_MEASURABLE_HERE)
            for job, path in paths
            if path.exists() or (job.own_weights and _network(job.config) in out_of_reach)
        ]

    def _is_out_of_reach(self, job: Job) -> bool:
        return job.own_weights and _network(job.config) in self._out_of_reach

    def _compute(self, job: Job, path: Path) -> None:
        """Train a cell and write its result; one whose loss is no number is written down as that, and stops nothing."""
        if self._is_out_of_reach(job):
            return
        try:
            self._train(job, path)
        except WeightsError as error:
            if not job.own_weights:
                raise
            self._out_of_reach.add(_network(job.config))
            write_json(self.out / _OUT_OF_REACH, sorted(self._out_of_reach))
            logger.warning(f"{job.cell.row} is not measurable here: {error.message}")
        except DivergedError as error:
            logger.warning(f"{job.cell.name}: {error.message}")
            shutil.rmtree(self._work(path), ignore_errors=True)
            write_result(path, self._result(job, job.config, failure=in_python(error.message)))
        except InterruptedRunError:
            raise InterruptedRunError(f"Stopped in {job.cell.name}. The same command goes on.") from None

    def _train(self, job: Job, path: Path) -> None:
        began = time.perf_counter()
        runner = self.runners[job.cell.dataset]
        choice = self._choice(job)
        config = replace(job.config, start=choice.start, lr=choice.lr)
        if choice.epoch is not None:
            config = replace(config, stop_epoch=choice.epoch, restore_best=False)
        # A head is trained in seconds; what takes longer goes on where it was killed.
        work = None if config.depth == "probe" else self._work(path)
        outcome = runner.train(config, work=work)
        assert outcome.test_logits is not None
        scores: dict[str, npt.NDArray[Any]] = {"logits": outcome.test_logits, "thresholds": outcome.thresholds}
        write_with(path.with_suffix(".safetensors"), lambda temporary: save_file(scores, temporary))
        self._write_truth(runner.dataset)
        result = self._result(
            job,
            config,
            chosen={**asdict(choice), "epoch": outcome.epoch},
            labels=outcome.labels,
            test=runner.measure(outcome),
            history=outcome.history,
            scores=path.with_suffix(".safetensors").name,
            seconds=time.perf_counter() - began,
        )
        write_result(path, result)
        if work:
            shutil.rmtree(work, ignore_errors=True)

    def _work(self, path: Path) -> Path:
        return self.out / "work" / path.stem

    def _result(self, job: Job, config: TrainConfig, **found: Any) -> Result:
        return Result(
            cell=job.cell,
            family=self.runners[job.cell.dataset].dataset.family,
            method=config.method,
            options=config.method_options,
            backbone=config.backbone,
            image_size=config.image_size or 0,
            settings=asdict(config),
            **found,
        )

    def _choice(self, job: Job) -> Choice:
        """Start, rate and epoch with the highest mAP on a fifth of the training images, whose labels are complete.

        One choice serves all seeds of a row at a ratio; it is made with one seed and written down with all it was
        chosen from. No test image is looked at.
        """
        if len(job.candidates) == 1 and not job.choose_epoch:
            return Choice(*job.candidates[0])
        runner, config = self.runners[job.cell.dataset], job.choice_config
        path = self.out / "choices" / f"{self._name(job, seed=False)}.json"
        with held(self._lock(path), FOREVER):
            tried: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
            while (following := next_candidate(job.candidates, tried)) is not None:
                start, rate = following
                candidate = replace(config, start=start, lr=rate, holdout=_CHOICE_HOLDOUT, refit=False)
                work = None if config.depth == "probe" else self.out / "work" / f"{path.stem}-{start}-{rate:g}"
                try:
                    outcome = runner.train(candidate, test=False, work=work)
                    best = _best(outcome.history) if job.choose_epoch else outcome.history[outcome.epoch - 1]
                    quality, epoch = best["holdout_map"], int(best["epoch"])
                except DivergedError:  # the loss is no longer a number: too fast for this row
                    quality, epoch = math.nan, 0
                judged = None if math.isnan(quality) else quality
                tried.append({"start": start, "lr": rate, "epoch": epoch, "mAP": judged})
                write_json(path, tried)
                if work:
                    shutil.rmtree(work, ignore_errors=True)
        if all(one["mAP"] is None for one in tried):
            raise DivergedError(f"The loss is no number with any start and rate. Pass a lower {option('lr')}.")
        found = max((one for one in tried if one["mAP"] is not None), key=lambda one: float(one["mAP"]))
        return Choice(found["start"], found["lr"], found["epoch"] if job.choose_epoch else None, tuple(tried))

    def _write_truth(self, dataset: Dataset) -> None:
        """Test labels, beside the scores: every number can be computed again from the two."""
        name = safe_name(f"truth-{dataset.name}-{self._digests[dataset.name]}")
        path = self.out / "cells" / f"{name}.safetensors"
        if not path.exists():
            write_with(path, lambda temporary: save_file({"states": dataset.test.states()}, temporary))

    def _lock(self, path: Path) -> Path:
        return self.out / "locks" / path.stem

    def _path(self, job: Job) -> Path:
        return self.out / "cells" / f"{self._name(job)}.json"

    def _name(self, job: Job, seed: bool = True) -> str:
        """Readable, and different for whatever shapes the result; a row's name does not, so that suites share cells."""
        config = job.config if seed else job.choice_config
        settings = {**training_identity(config), "weights": _content(config.weights)}
        if config.stop_epoch is not None:
            settings |= {"stop_epoch": config.stop_epoch}
        if config.head_options:  # which may name files
            settings |= {"head_options": {k: _content(v) for k, v in config.head_options.items()}}
        settings |= {"data": self._digests[job.cell.dataset], "candidates": job.candidates}
        if len(job.candidates) > 1:
            settings |= {"start": "chosen", "lr": "chosen", "choice": (_CHOICE_HOLDOUT, _CHOICE_SEED, _BEYOND)}
        if job.choose_epoch:
            settings |= {"epoch": "chosen", "choice": (_CHOICE_HOLDOUT, _CHOICE_SEED, _BEYOND)}
        if not seed:
            settings |= {"seed": None}
        code = hashlib.blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=5).hexdigest()
        cell = job.cell
        parts = [cell.dataset, cell.depth, config.method, f"known{100 * cell.ratio:g}"]
        parts += [f"flipped{100 * cell.noise:g}"] if cell.noise else []
        parts += [f"seed{cell.seed}"] if seed else []
        return safe_name("-".join([*parts, code]))


def _best(history: Sequence[dict[str, float]]) -> dict[str, float]:
    """The epoch with the highest mAP on the images held out; one where it is no number is none."""
    return max(history, key=lambda epoch: np.nan_to_num(epoch["holdout_map"], nan=-1.0))


def next_candidate(candidates: Sequence[Candidate], tried: Sequence[dict[str, Any]]) -> Candidate | None:
    """The start and rate to try next: all of the grid, then beyond its highest rate for as long as that is the best.

    >>> next_candidate([("prior", 1e-3), ("prior", 3e-3)], [{"start": "prior", "lr": 1e-3, "mAP": 0.4}])
    ('prior', 0.003)
    >>> next_candidate([("prior", 3e-3)], [{"start": "prior", "lr": 3e-3, "mAP": 0.4}]) is None  # fixed: no choice
    True
    """
    if len(tried) < len(candidates):
        return candidates[len(tried)]
    judged = [one for one in tried if one["mAP"] is not None]
    if not judged or len({rate for _, rate in candidates}) == 1 or len(tried) >= len(candidates) + _BEYOND:
        return None
    best = max(judged, key=lambda one: float(one["mAP"]))
    highest = max(one["lr"] for one in tried if one["start"] == best["start"])
    return (best["start"], float(f"{best['lr'] * _FASTER:.1g}")) if best["lr"] == highest else None


def _network(config: TrainConfig) -> str:
    """What decides whether weights can be had: backbone and head."""
    return repr((config.backbone, config.weights, config.head, sorted(config.head_options.items())))


def _content(value: Any) -> Any:
    """A file is known by its content: it may be moved, and another may come under its name."""
    path = Path(value).expanduser() if isinstance(value, str) else None
    return _file_hash(path) if path and path.is_file() else value


@lru_cache
def _file_hash(path: Path) -> str:
    return content_hash(path)
