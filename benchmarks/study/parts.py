"""Parts of the study: combinations of settings and rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from benchmarks.study import budget, settings, teaching, variants
from benchmarks.study.closed import Labels
from benchmarks.study.problem import Problem
from benchmarks.study.running import CHOSEN_STEP, ESTIMATOR, Job
from benchmarks.study.settings import Setting
from benchmarks.study.sweep import STEPS, sweep
from benchmarks.study.variants import Variant
from positively.errors import ConfigError
from positively.models import Depth
from positively.probe import SelfTraining

SWEEPS = {name: f"sweep-{name.replace(' ', '-')}" for name in STEPS}
"""Rows of part ``criterion``, by name of the step."""
_SWEEP_SECONDS = {"one step": 15, "soft step": 40}

PARTS: dict[str, tuple[Setting, ...]] = {
    "ablation": settings.UNIFORM,
    "criterion": (*settings.UNIFORM, *settings.BIASED),
    "settings": (*settings.UNIFORM, *settings.OTHERS),
    "budget": budget.SETTINGS,
    "teaching": tuple(one for one in settings.UNIFORM if one.ratio in (0.1, 0.5, 1.0)),
}
"""Settings of each part."""
ROWS: dict[str, tuple[Variant, ...]] = {
    "ablation": variants.ABLATION,
    "settings": variants.SETTINGS,
    "budget": budget.VARIANTS,
    "teaching": teaching.VARIANTS,
}
"""Rows of each part; those of ``criterion`` are ``SWEEPS``."""
DEPTHS: dict[str, Depth] = {"teaching": "tail"}
"""Depth of the training, where it is not 'probe'."""


def jobs(part: str, size: int, seeds: int, names: Sequence[str] = (), sizes: Sequence[int] = ()) -> list[Job]:
    """Cells of a part.

    Args:
        part: One of ``PARTS``.
        size: Number of training images.
        seeds: Number of seeds.
        names: Settings; default: all of the part.
        sizes: Additional sizes at 30 % known, for part ``settings``.

    Returns:
        The cells.

    Raises:
        ConfigError: If a setting is unknown.
    """
    known = {setting.name: setting for setting in PARTS[part]}
    wrong = [name for name in names if name not in known]
    if wrong:
        raise ConfigError(f"Part {part} has no setting '{wrong[0]}'; choose from {', '.join(known)}.")
    chosen = [(known[name], size) for name in names or known]
    if part == "settings":
        chosen += [(settings.AT_SIZES, other) for other in sizes if other < size]
    return [
        job
        for seed in range(seeds)
        for setting, photos in chosen
        for job in (_sweeps if part == "criterion" else partial(_grid, part))(setting, photos, seed)
    ]


def rows_of(part: str, setting: Setting) -> list[Variant]:
    """Rows that apply to a setting."""
    fits: Callable[[Setting, Variant], bool] = budget.fits if part == "budget" else _fits
    return [variant for variant in ROWS[part] if fits(setting, variant)]


def _fits(setting: Setting, variant: Variant) -> bool:
    return setting.has_negatives or not variant.needs_negatives


def _grid(part: str, setting: Setting, size: int, seed: int) -> list[Job]:
    return [
        Job(setting, row.name, row.title, partial(_score, row), size, seed, row.seconds, _estimator(row))
        for row in rows_of(part, setting)
    ]


def _estimator(row: Variant) -> str:
    estimator = CHOSEN_STEP if row.chooses_step else ESTIMATOR
    return f"{estimator}, {teaching.VERSION}" if row in teaching.VARIANTS else estimator


def _score(row: Variant, problem: Problem, labels: Labels) -> dict[str, Any]:
    learned = row.learn(problem, labels)
    found = {"mAP": learned.scores, **learned.others}
    test = {name: problem.quality(scores) for name, scores in found.items()} | learned.measures
    return {"test": test, "chosen": learned.chosen}


def _sweeps(setting: Setting, size: int, seed: int) -> list[Job]:
    return [
        Job(setting, SWEEPS[name], name, partial(_sweep, step), size, seed, _SWEEP_SECONDS[name])
        for name, step in STEPS.items()
    ]


def _sweep(step: SelfTraining, problem: Problem, labels: Labels) -> dict[str, Any]:
    history = sweep(problem, labels, step)
    return {"test": {"mAP": max(entry["mAP"] for entry in history)}, "history": history}
