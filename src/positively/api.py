"""The public face: read a table, fit a model, use the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from positively.config import TrainConfig
from positively.embedding import Embeddings, embed
from positively.errors import ConfigError, and_more
from positively.labels import LabelTable
from positively.logs import logger, shown
from positively.machine import process_count, trains_on_gpu
from positively.missing import MissingTags, missing_in_scores, missing_in_table
from positively.options import check_options, kinds_of
from positively.pipeline import (
    check_probe_config,
    embed_table,
    is_probe,
    kernel_options,
    may_go_deeper,
    probe_options,
)
from positively.registry import TORCH, load_plugin
from positively.report.finished import report_training
from positively.runs import Run
from positively.runs.missing import missing_in_run
from positively.runs.train import train_probe
from positively.tables.options import ReadOptions
from positively.tables.overlap import with_hashes
from positively.tables.reading import read_labels

__all__ = ["Embeddings", "Run", "embed", "find_missing", "fit", "read", "write_report"]


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
    backbone: Any = None,
    config: TrainConfig | None = None,
    quiet: bool = False,
    **options: Any,
) -> Run:
    """Train a classifier on a table and return the run.

    Args:
        table: Tags of the training images.
        method: Name of the method; default: auto, a probe where the backbone is frozen.
        backbone: Name of a backbone, or a torch module that maps images B×3×H×W to a feature map or vectors; the module
            is trained in place. Default: what suits the machine.
        config: A whole configuration; what is given beside it wins.
        quiet: Show nothing, where no logging is set up.
        **options: Fields of :class:`positively.config.TrainConfig`, such as ``epochs=10``.
    """
    if not isinstance(table, LabelTable):
        raise ConfigError(f"fit takes a table, not {table!r}; read it first: po.read('tags.csv', images='photos/').")
    module = None if backbone is None or isinstance(backbone, str) else backbone
    named = {"method": method, "backbone": backbone if module is None else type(module).__name__}
    options |= {key: value for key, value in named.items() if value is not None}
    settings = replace(config or TrainConfig(), **_checked(options, TrainConfig, "fit"))
    with shown(quiet):
        # Where the images lie is stored with the run, for its report.
        path = train(table, settings, backbone=module, reading={"images": str(table.root)})
        report_training(path, table)
    return Run(path, backbone=module)


def train(
    table: LabelTable, config: TrainConfig, *, backbone: Any = None, reading: dict[str, Any] | None = None
) -> Path:
    """Train as a configuration says, and return the run folder: a probe here, a network that learns in its wing.

    Args:
        table: Tags of the training images.
        config: What to do; everything left open is chosen and logged.
        backbone: A torch module in place of a backbone's name.
        reading: How the table was read, to stand in config.yaml.
    """
    if config.plugin:
        load_plugin(config.plugin)
    if backbone is None:
        check_probe_config(config)
    goes_deeper = trains_on_gpu() and may_go_deeper(config, table)
    if backbone is None and _is_probe_alone(config) and not goes_deeper:
        return train_probe(table, config, reading=reading)
    path: Path = TORCH["train"](table, config, backbone=backbone, reading=reading)
    return path


def train_file(
    source: Path, options: ReadOptions, config: TrainConfig, reading: dict[str, Any]
) -> tuple[Path, LabelTable]:
    """Read a table and train on it, as ``positively train`` does; where several processes train, one of them reads.

    Args:
        source: The table.
        options: How to read it.
        config: What to do.
        reading: How the table is read, to stand in config.yaml.

    Returns:
        The run folder, and the table.
    """

    def read_once() -> LabelTable:
        table, notes = read_labels(source, options)
        logger.info("\n".join(notes))
        return table

    if _is_probe_alone(config) and not trains_on_gpu():
        table = read_once()
        return train(table, config, reading=reading), table
    # The wing launches the other processes, each of which runs this command: none may be ahead of them.
    found: tuple[Path, LabelTable] = TORCH["train-together"](read_once, config, reading)
    return found


def _is_probe_alone(config: TrainConfig) -> bool:
    """Whether these options ask for a probe, and for one process."""
    return is_probe(config) and process_count() == 1 and config.devices in ("auto", 1) and config.nodes == 1


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
    min_probability: float = 0.0,
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
        min_probability: Leave out what is less probable than this.
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
        return missing_in_scores(source, states, images, classes, min_probability=min_probability)
    if not (states is None and images is None and classes is None):
        raise ConfigError("States and names belong to an array of probabilities; a table or a run has its own.")
    if not isinstance(source, LabelTable):
        return missing_in_run(source if isinstance(source, Run) else Run(source), min_probability=min_probability)
    settings = replace(config or TrainConfig(), **_checked(options, TrainConfig, "find_missing"))
    with shown(quiet):
        return missing(source, settings, min_probability=min_probability)


def missing(
    table: LabelTable, config: TrainConfig, *, min_probability: float = 0.0, folds: int = 5, store: Path | None = None
) -> MissingTags:
    """Find what a table lacks, as a configuration says.

    Args:
        table: Images and what is known of them.
        config: Backbone and options of the probe; or of the trainings, where a network learns.
        min_probability: Leave out what is less probable than this.
        folds: Trainings, where a network learns.
        store: Folder for the scores of finished folds.
    """
    if config.plugin:
        load_plugin(config.plugin)
    check_probe_config(config)
    if not is_probe(config):
        found: MissingTags = TORCH["cross-fit"](
            table, config, min_probability=min_probability, folds=folds, store=store
        )
        return found
    kernel = kernel_options(config)
    table = table if config.embeddings else with_hashes(table)
    X = embed_table(table, config, kernel).X
    fitted = {"seed": config.seed, "landmarks": kernel.landmarks}
    return missing_in_table(table, X, probe_options(config), **fitted, min_probability=min_probability)


def _checked(options: dict[str, Any], kind: type, function: str) -> dict[str, Any]:
    """Options whose names and values the dataclass knows; paths become text."""
    checked = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
    check_options(function, checked, kinds_of(kind))
    return checked
