"""The public functions: read a table, find its missing tags, fit a model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy.typing as npt

from positively.config import RENAMED, TrainConfig, current_options
from positively.embedding import Embeddings, embed
from positively.errors import ConfigError, and_more
from positively.labels import LabelTable
from positively.logs import logger, shown
from positively.machine import process_count, trains_on_gpu
from positively.missing import MissingTags, missing_in_scores, missing_in_table
from positively.options import check_options, kinds_of, shown_value
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
from positively.runs.sources import photo_root, read_config
from positively.runs.train import train_probe
from positively.tables.learnable import require_learnable, require_table
from positively.tables.options import ReadOptions
from positively.tables.overlap import with_hashes
from positively.tables.reading import read_labels
from positively.workspace import is_run

__all__ = ["Embeddings", "ReadOptions", "Run", "TrainConfig", "embed", "find_missing", "fit", "read", "write_report"]


def read(path: str | Path, *, split: str | None = None, quiet: bool = False, **options: Any) -> LabelTable:
    """Read a table of tags, COCO annotations or PASCAL VOC, and log how it was understood.

    Args:
        path: CSV, TSV, Excel, Parquet or JSON lines file, a COCO json or folder, or a VOCdevkit.
        split: Only the rows with this value in the split column.
        quiet: Log nothing, unless logging is configured.
        **options: Fields of :class:`positively.ReadOptions`, such as ``images="photos/"``.
    """
    if not isinstance(path, str | Path):
        raise ConfigError(
            f"read takes the path of a table, not {shown_value(path)}. Write a DataFrame to a file "
            "(frame.to_csv('tags.csv', index=False)), or make a table from an array of states: "
            "po.LabelTable.from_states(images, classes, states)."
        )
    options = _renamed(options)
    table, notes = read_labels(path, ReadOptions(**_checked(options, ReadOptions, "read")))
    with shown(quiet):
        logger.info("\n".join(notes))
    return table.split(split) if split else table


def fit(
    table: LabelTable,
    *,
    method: str | None = None,
    backbone: Any = None,
    out: str | Path | None = "auto",
    config: TrainConfig | None = None,
    quiet: bool = False,
    **options: Any,
) -> Run:
    """Train a classifier on a table and return the run.

    Args:
        table: Tags of the training images.
        method: Name of the method; default: auto, a probe if the backbone is frozen.
        backbone: Name of a backbone, or a torch module that maps images B×3×H×W to a feature map or vectors; the module
            is trained in place. Default: what suits the machine.
        out: Folder of the run. "auto" creates one in the workspace of the table, ``tags.positively/`` next to
            ``tags.csv``; None keeps the run in a temporary folder, which is removed together with the returned object.
        config: A whole configuration; other arguments override its fields.
        quiet: Log nothing, unless logging is configured.
        **options: Fields of :class:`positively.TrainConfig`, such as ``epochs=10``.
    """
    require_table(table, "fit", "po.read('tags.csv', images='photos/')")
    options = _renamed(options)
    module = None if backbone is None or isinstance(backbone, str) else backbone
    named = {"method": method, "backbone": backbone if module is None else type(module).__name__}
    options |= {key: value for key, value in named.items() if value is not None}
    temporary = TemporaryDirectory(prefix="positively-", ignore_cleanup_errors=True) if out is None else None
    if out != "auto":
        options["out"] = str(out) if temporary is None else str(Path(temporary.name) / "run")
    settings = replace(config or TrainConfig(), **_checked(options, TrainConfig, "fit"))
    with shown(quiet):
        # The folder of the images is stored with the run, for its report.
        path = train(table, settings, backbone=module, reading={"images": str(table.root)})
        if temporary is None:
            report_training(path, table)
    run = Run(path, backbone=module)
    run.temporary = temporary
    return run


def train(
    table: LabelTable, config: TrainConfig, *, backbone: Any = None, reading: dict[str, Any] | None = None
) -> Path:
    """Train with a configuration, and return the run folder.

    Args:
        table: Tags of the training images.
        config: The options; those that are left open are chosen and logged.
        backbone: A torch module instead of the name of a backbone.
        reading: How the table was read, to be stored in config.yaml.
    """
    if config.plugin:
        load_plugin(config.plugin)
    if backbone is None:
        check_probe_config(config)
    goes_deeper = trains_on_gpu() and may_go_deeper(config, table)
    if backbone is None and _is_probe_alone(config) and not goes_deeper:
        require_learnable(table)
        return train_probe(table, config, reading=reading)
    path: Path = TORCH["train"](table, config, backbone=backbone, reading=reading)
    return path


def train_file(
    source: Path, options: ReadOptions, config: TrainConfig, reading: dict[str, Any]
) -> tuple[Path, LabelTable]:
    """Read a table and train on it, as ``positively train`` does. If several processes train, one of them reads.

    Args:
        source: The table.
        options: How to read it.
        config: The options of the training.
        reading: How the table is read, to be stored in config.yaml.

    Returns:
        The run folder, and the table.
    """

    def read_once() -> LabelTable:
        table, notes = read_labels(source, replace(options, to_learn=True))
        logger.info("\n".join(notes))
        return table

    if _is_probe_alone(config) and not trains_on_gpu():
        table = read_once()
        return train(table, config, reading=reading), table
    # The wing starts the other processes, each of which runs this command, so nothing may be read before.
    found: tuple[Path, LabelTable] = TORCH["train-together"](read_once, config, reading)
    return found


def _is_probe_alone(config: TrainConfig) -> bool:
    """Whether these options ask for a probe in a single process."""
    return is_probe(config) and process_count() == 1 and config.devices in ("auto", 1) and config.nodes == 1


def write_report(run: Run | str | Path, out: str | Path | None = None, *, images: str | Path | None = None) -> Path:
    """Write a one-page summary of a run as a self-contained HTML file, and return its path.

    ``fit`` writes it already. Write it again after the run was evaluated, or if the images have moved.

    Args:
        run: The run, or its folder.
        out: The page; default: report.html in the run folder.
        images: Folder of the images; default: where they were when the run was trained.
    """
    from positively.report.run.writing import write_run_report

    return write_run_report(run.path if isinstance(run, Run) else run, out, images=images)


def find_missing(
    source: LabelTable | Run | str | Path | npt.ArrayLike,
    states: npt.ArrayLike | None = None,
    *,
    images: str | Path | Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    min_probability: float = 0.0,
    config: TrainConfig | None = None,
    quiet: bool = False,
    **options: Any,
) -> MissingTags:
    """Find the tags that are probably missing, most probable first, and those that look wrong.

    Every score comes from a model that did not see the label it judges: leave-one-out scores if the backbone is frozen,
    cross-fitting if a network learns (``depth="tail"``), the stored scores if the source is a run.

    Args:
        source: A table or the path of one, a run or its folder, or N×C probabilities of any model that did not see the
            labels.
        states: N×C label states for such probabilities: +1 positive, 0 unknown, −1 negative.
        images: For the path of a table, the folder of its images; for probabilities, the names of the images.
        classes: Names of the classes of such probabilities.
        min_probability: Leave out what is less probable than this.
        config: For a table: a whole configuration; other arguments override its fields.
        quiet: Log nothing, unless logging is configured.
        **options: For a table: fields of :class:`positively.TrainConfig`, such as ``backbone``; for the path of one
            also those of :class:`positively.ReadOptions`, such as ``separator``.

    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> truth = generator.random((1000, 2)) < 0.3
    >>> known = truth & (generator.random(truth.shape) < 0.5)
    >>> scores = 1 / (1 + np.exp(-generator.normal(6.0 * truth - 3.0)))
    >>> found = find_missing(scores, known.astype(int), classes=["cat", "dog"])
    >>> found[0].tag in ("cat", "dog"), bool(abs(found.counts.missing.sum() / (truth & ~known).sum() - 1) < 0.2)
    (True, True)
    """
    options = _renamed(options)
    with shown(quiet):
        if isinstance(source, str | Path) and not is_run(Path(source)):
            named = {name: options.pop(name) for name in list(options) if name in kinds_of(ReadOptions)}
            if isinstance(images, str | Path):
                named["images"], images = images, None
            source = read(source, quiet=quiet, **named)
        if isinstance(source, LabelTable):
            _refuse(states=states, images=images, classes=classes)
            settings = replace(config or TrainConfig(), **_checked(options, TrainConfig, "find_missing"))
            return missing(source, settings, min_probability=min_probability)
        _refuse(config=config, **options)
        if isinstance(source, Run | str | Path):
            _refuse(states=states, images=images, classes=classes)
            run = source if isinstance(source, Run) else Run(source)
            listed = missing_in_run(run, min_probability=min_probability)
            return replace(listed, root=photo_root(run.path, listed.images, read_config(run.folder)) or Path())
        if hasattr(source, "predict_proba"):
            raise ConfigError(
                "find_missing takes probabilities of a model that did not see the labels, not the model. For a "
                "PUClassifier pass scipy.special.expit(classifier.loo_scores_), for another classifier "
                "cross_val_predict(classifier, X, Y, method='predict_proba')."
            )
        if states is None:
            raise ConfigError("find_missing takes a table, a run, or an array of probabilities with its states.")
        if isinstance(images, str | Path):
            raise ConfigError("With an array of probabilities, images are names, one for each row.")
        return missing_in_scores(source, states, images, classes, min_probability=min_probability)


def _refuse(**given: Any) -> None:
    """Raise if find_missing was given what does not belong to its source."""
    wrong = [name for name, value in given.items() if value is not None]
    if wrong:
        raise ConfigError(
            f"find_missing does not take {and_more(wrong)} here. States and names of images and classes belong to an "
            "array of probabilities; options belong to a table."
        )


def missing(
    table: LabelTable, config: TrainConfig, *, min_probability: float = 0.0, folds: int = 5, store: Path | None = None
) -> MissingTags:
    """Find the missing tags of a table with a configuration.

    Args:
        table: Images and their known tags.
        config: Backbone and options of the probe; or of the trainings, if a network learns.
        min_probability: Leave out what is less probable than this.
        folds: Number of trainings, if a network learns.
        store: Folder for the scores of finished folds.
    """
    if config.plugin:
        load_plugin(config.plugin)
    check_probe_config(config)
    if not is_probe(config):
        found: MissingTags = TORCH["cross-fit"](
            table, config, min_probability=min_probability, folds=folds, store=store
        )
        return replace(found, root=table.root)
    kernel = kernel_options(config)
    table = table if config.embeddings else with_hashes(table)
    X = embed_table(table, config, kernel).X
    fitted = {"seed": config.seed, "landmarks": kernel.landmarks}
    listed = missing_in_table(table, X, probe_options(config), **fitted, min_probability=min_probability)
    return replace(listed, root=table.root)


def _renamed(options: dict[str, Any]) -> dict[str, Any]:
    """Options under the names of today; the earlier ones work for one release."""
    for name in options.keys() & RENAMED.keys():
        warnings.warn(f"{name} is called {RENAMED[name][0]} now.", FutureWarning, stacklevel=3)
    return current_options(options)


def _checked(options: dict[str, Any], kind: type, function: str) -> dict[str, Any]:
    """Options whose names and values the dataclass knows; paths become text."""
    checked = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
    if checked.get("embeddings") is not None:
        checked["embeddings"] = _files(checked["embeddings"])
    check_options(function, checked, kinds_of(kind))
    return checked


def _files(embeddings: Any) -> list[str]:
    """Files with embeddings, from one path or several."""
    given = [embeddings] if isinstance(embeddings, str | Path) else embeddings
    if not (isinstance(given, list | tuple) and all(isinstance(file, str | Path) for file in given)):
        raise ConfigError(
            f"embeddings are files here, not {shown_value(embeddings)}. Save the array in the order of the table with "
            "np.savez('photos.npz', embeddings=X, images=table.images), and pass embeddings='photos.npz'. Without "
            "files: po.PUClassifier().fit(X, table.states())."
        )
    return [str(file) for file in given]
