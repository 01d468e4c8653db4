"""The public face: read a table, fit a model, use the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy.typing as npt
from torch import nn

from positively.config import TrainConfig
from positively.errors import ConfigError, and_more
from positively.export.finished import export_training
from positively.finetune.run import train
from positively.labels import LabelTable
from positively.logs import logger, shown
from positively.missing import MissingTags, missing_in_run, missing_in_scores, missing_in_table
from positively.options import check_options, kinds_of
from positively.report.finished import report_training
from positively.runs import Run
from positively.tables.options import ReadOptions
from positively.tables.reading import read_labels

__all__ = ["Run", "find_missing", "fit", "read", "write_report"]


def read(path: str | Path, *, split: str | None = None, quiet: bool = False, **options: Any) -> LabelTable:
    """Read a table of tags, COCO annotations or PASCAL VOC, and log how it was understood.

    Args:
        path: CSV, TSV or Parquet file, a COCO json or folder, or a VOCdevkit.
        split: Only the rows whose split column says so.
        quiet: Show nothing, where no logging is set up; whoever has set it up decides there.
        **options: Fields of :class:`positively.tables.options.ReadOptions`, such as ``images="photos/"``.
    """
    table, notes = read_labels(path, ReadOptions(**_checked(options, ReadOptions, "read")))
    with shown(quiet):
        logger.info("\n".join(notes))
    return table.split(split) if split else table


def fit(
    table: LabelTable,
    *,
    method: str | None = None,
    backbone: str | nn.Module | None = None,
    config: TrainConfig | None = None,
    quiet: bool = False,
    **options: Any,
) -> Run:
    """Train a classifier on a table and return the run.

    Args:
        table: Tags of the training images.
        method: Name of the method; default: auto, the closed form where the backbone is frozen.
        backbone: Name of a timm model, or a module that maps images B×3×H×W to a feature map or vectors; the module is
            trained in place. Default: what suits the machine.
        config: A whole configuration; what is given beside it wins.
        quiet: Show nothing, where no logging is set up.
        **options: Fields of :class:`positively.config.TrainConfig`, such as ``epochs=10``.
    """
    if not isinstance(table, LabelTable):
        raise ConfigError(f"fit takes a table, not {table!r}; read it first: po.read('tags.csv', images='photos/').")
    module = backbone if isinstance(backbone, nn.Module) else None
    name = type(backbone).__name__ if isinstance(backbone, nn.Module) else backbone
    named = {"method": method, "backbone": name}
    options |= {key: value for key, value in named.items() if value is not None}
    settings = replace(config or TrainConfig(), **_checked(options, TrainConfig, "fit"))
    # Where the images lie is stored with the run, for its report.
    reading = {"images": str(table.root)}
    with shown(quiet):
        path = train(table, settings, backbone=module, reading=reading)
        if module is None:  # one of one's own is nothing that timm could build
            export_training(path)
        report_training(path, table)
    return Run(path, backbone=module)


def write_report(run: Run | str | Path, out: str | Path | None = None, *, images: str | Path | None = None) -> Path:
    """Write what is to be known of a run as one self-contained HTML page, and return where it is.

    ``fit`` has written it already; write it again once the run was evaluated, or when the images have moved.

    Args:
        run: The run, or its folder.
        out: The page; default: report.html in the run folder.
        images: Folder in which the images lie; default: where they were when the run was trained.
    """
    from positively.report.run.writing import write_run_report

    return write_run_report(run.path if isinstance(run, Run) else run, out, images=images)


def find_missing(
    source: LabelTable | Run | str | Path | npt.ArrayLike,
    states: npt.ArrayLike | None = None,
    *,
    images: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    at_least: float = 0.0,
    config: TrainConfig | None = None,
    quiet: bool = False,
    **options: Any,
) -> MissingTags:
    """Find the tags that are probably missing, likeliest first, and those that look wrong.

    Every score comes from a model that did not see the label it judges: leave-one-out in closed form where the backbone
    is frozen, cross-fitting where a network learns (``depth="tail"``), what the run stored where a run is given.

    Args:
        source: A table, a run (or its folder), or N×C probabilities of any model that did not see the labels.
        states: N×C label states of such probabilities: +1 positive, 0 unknown, −1 negative.
        images: Names of the images of such probabilities.
        classes: Names of their classes.
        at_least: Leave out what is less probable than this.
        config: Of a table: a whole configuration; what is given beside it wins.
        quiet: Show nothing, where no logging is set up.
        **options: Of a table: fields of :class:`positively.config.TrainConfig`, such as ``backbone``.

    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> truth = generator.random((1000, 2)) < 0.3
    >>> known = truth & (generator.random(truth.shape) < 0.5)
    >>> scores = 1 / (1 + np.exp(-generator.normal(6.0 * truth - 3.0)))
    >>> found = find_missing(scores, known.astype(int), classes=["cat", "dog"])
    >>> found[0].tag in ("cat", "dog"), bool(abs(found.counts.missing.sum() / (truth & ~known).sum() - 1) < 0.2)
    (True, True)
    """
    if not isinstance(source, LabelTable) and (options or config):
        given = and_more([*options, *(["config"] if config else [])])
        raise ConfigError(f"find_missing takes {given} with a table only: what a run or an array holds is settled.")
    if not isinstance(source, LabelTable | Run | str | Path):
        if states is None:
            raise ConfigError(
                "find_missing takes a table, a run, or an array of probabilities together with its states."
            )
        return missing_in_scores(source, states, images, classes, at_least=at_least)
    if not (states is None and images is None and classes is None):
        raise ConfigError("States and names belong to an array of probabilities; a table or a run has its own.")
    if not isinstance(source, LabelTable):
        return missing_in_run(source if isinstance(source, Run) else Run(source), at_least=at_least)
    settings = replace(config or TrainConfig(), **_checked(options, TrainConfig, "find_missing"))
    with shown(quiet):
        return missing_in_table(source, settings, at_least=at_least)


def _checked(options: dict[str, Any], kind: type, function: str) -> dict[str, Any]:
    """Options whose names and values the dataclass knows; paths become text."""
    checked = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
    check_options(function, checked, kinds_of(kind))
    return checked
