"""Running a grid: one result file per cell, any number of processes, and no cell computed twice."""

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
# Networks whose weights were not available when last tried.
Candidate = tuple[Start, float]
RATES = {"probe": (3e-4, 1e-3, 3e-3), "tail": (1e-4, 3e-4, 1e-3), "finetune": (3e-5, 1e-4, 3e-4)}
"""Learning rates to choose from."""
_CHOICE_HOLDOUT = 0.2
_CHOICE_SEED = 0
_BEYOND, _FASTER = 2, 10 / 3
# If the highest rate is the best, up to _BEYOND faster rates are tried, each by the factor _FASTER.
# Wait before looking again if all remaining cells are being computed by other processes.
_WAIT_SECONDS = 2.0


@dataclass(frozen=True)
class Job:
    """A cell and the configuration to train it."""

    cell: Cell
    config: TrainConfig
    choice_config: TrainConfig
    """Configuration with the seed on which start and rate are chosen for all seeds."""
    candidates: tuple[Candidate, ...]
    """Starts and learning rates to choose from; a single one is used without a choice."""
    choose_epoch: bool = False
    """Whether the epoch is chosen too; otherwise the training chooses it with the labels it has."""
    own_weights: bool = False
    """Whether the row has its own backbone, whose weights may not be available."""


@dataclass(frozen=True)
class Choice:
    """The chosen hyperparameters and all candidates."""

    start: Start
    lr: float
    epoch: int | None = None
    """None if the training chooses the epoch."""
    tried: tuple[dict[str, Any], ...] = ()


class Bench:
    """A folder of benchmark results.

    Args:
        out: The folder.
        datasets: Benchmark datasets.
        base: Options common to all trainings.
        fabric: Running Lightning Fabric instance.
        choose: Which hyperparameters are chosen per row.
        recipe: Recipe that replaces those of the datasets.
        word_vectors: Files of word vectors, by dataset.

    Raises:
        ConfigError: If two datasets have the same name.
    """

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
        self.word_vectors = word_vectors or {}
        self.runners = {dataset.name: DatasetRunner(dataset, base, fabric) for dataset in datasets}
        if len(self.runners) < len(datasets):
            names = ", ".join(dataset.name for dataset in datasets)
            raise ConfigError(f"Two datasets have the same name: {names}.")
        self._out_of_reach: set[str] = set()  # networks whose weights are not available
        self._digests = {dataset.name: dataset.digest() for dataset in datasets}

    def jobs(self, suite: Suite, seeds: int) -> list[Job]:
        """All cells of a suite, ordered by seed."""
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
        """Starts and rates to choose from. Values set by the user or the row are fixed."""
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
        """Compute the missing cells.

        Args:
            jobs: The cells.
            progress: Called for each finished cell with the number of finished cells and the total.
        """
        distinct: dict[Path, Job] = {}
        for job in jobs:
            distinct.setdefault(self._path(job), job)  # suites may share cells
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
            if len(missing) == before:  # all are being computed by other processes
                time.sleep(_WAIT_SECONDS)

    def results(self, jobs: Sequence[Job]) -> list[Result]:
        """Available results of the cells, under the names of their suite.

        Cells whose weights were not available are returned as failures.
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
        """Train a cell and write its result. A diverged training is recorded and does not stop the grid."""
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
            raise InterruptedRunError(f"Stopped in {job.cell.name}. Repeat the command to resume.") from None

    def _train(self, job: Job, path: Path) -> None:
        began = time.perf_counter()
        runner = self.runners[job.cell.dataset]
        choice = self._choice(job)
        config = replace(job.config, start=choice.start, lr=choice.lr)
        if choice.epoch is not None:
            config = replace(config, stop_epoch=choice.epoch, restore_best=False)
        # Heads are trained in seconds; longer trainings are resumable.
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
        """Choose start, rate and epoch by mAP on a fifth of the training images with complete labels.

        The choice is made with one seed for all seeds of a row at a ratio, and stored with all candidates. Test images
        are not used.
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
                except DivergedError:  # the learning rate is too high for this row
                    quality, epoch = math.nan, 0
                judged = None if math.isnan(quality) else quality
                tried.append({"start": start, "lr": rate, "epoch": epoch, "mAP": judged})
                write_json(path, tried)
                if work:
                    shutil.rmtree(work, ignore_errors=True)
        if all(one["mAP"] is None for one in tried):
            raise DivergedError(f"The loss is not finite with any start and rate. Pass a lower {option('lr')}.")
        found = max((one for one in tried if one["mAP"] is not None), key=lambda one: float(one["mAP"]))
        return Choice(found["start"], found["lr"], found["epoch"] if job.choose_epoch else None, tuple(tried))

    def _write_truth(self, dataset: Dataset) -> None:
        """Write the test labels, so that every measure can be recomputed from scores and labels."""
        name = safe_name(f"truth-{dataset.name}-{self._digests[dataset.name]}")
        path = self.out / "cells" / f"{name}.safetensors"
        if not path.exists():
            write_with(path, lambda temporary: save_file({"states": dataset.test.states()}, temporary))

    def _lock(self, path: Path) -> Path:
        return self.out / "locks" / path.stem

    def _path(self, job: Job) -> Path:
        return self.out / "cells" / f"{self._name(job)}.json"

    def _name(self, job: Job, seed: bool = True) -> str:
        """Readable file name that depends on everything that shapes the result, but not on the name of the row."""
        config = job.config if seed else job.choice_config
        settings = {**training_identity(config), "weights": _content(config.weights)}
        if config.stop_epoch is not None:
            settings |= {"stop_epoch": config.stop_epoch}
        if config.head_options:  # may contain file names
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
    """Epoch with the highest mAP on the held-out images; NaN counts as the lowest."""
    return max(history, key=lambda epoch: np.nan_to_num(epoch["holdout_map"], nan=-1.0))


def next_candidate(candidates: Sequence[Candidate], tried: Sequence[dict[str, Any]]) -> Candidate | None:
    """Next start and rate to try: the whole grid, then higher rates as long as the highest is the best.

    Args:
        candidates: The grid.
        tried: Candidates tried so far, with their mAP.

    Returns:
        Start and rate, or None when done.

    Example:
        >>> next_candidate([("prior", 1e-3), ("prior", 3e-3)], [{"start": "prior", "lr": 1e-3, "mAP": 0.4}])
        ('prior', 0.003)
        >>> next_candidate([("prior", 3e-3)], [{"start": "prior", "lr": 3e-3, "mAP": 0.4}]) is None  # fixed
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
    """Identity of a network with respect to its weights: backbone and head."""
    return repr((config.backbone, config.weights, config.head, sorted(config.head_options.items())))


def _content(value: Any) -> Any:
    """Replace file names by a digest of the content, as files may move or change."""
    path = Path(value).expanduser() if isinstance(value, str) else None
    return _file_hash(path) if path and path.is_file() else value


@lru_cache
def _file_hash(path: Path) -> str:
    return content_hash(path)
