"""What a run learned from, found again: the folder of its photos, and their labels as the training saw them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from positively.config import TrainConfig, current_options
from positively.errors import ImageError, PositivelyError, RunError, option
from positively.images.paths import locate
from positively.labels import LabelTable, States
from positively.runs.folder import RunFolder
from positively.runs.hiding import hide_labels
from positively.tables.options import ReadOptions
from positively.tables.reading import read_labels

_SAMPLE = 32
_MOST_FOLDERS = 64


def read_config(folder: RunFolder, *, verify: bool = True) -> dict[str, Any]:
    """Content of config.yaml; while a run is being trained, the manifest does not know it yet."""
    try:
        path = folder.verified(folder.config) if verify else folder.config
        return current_options(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, AttributeError, yaml.YAMLError):
        raise RunError(f"{folder.config} is missing or damaged. Put it back, or train the run again.") from None


def find_root(images: Sequence[str], candidates: Iterable[Path]) -> Path | None:
    """The folder below which most of some of the images lie; None if none of them does anywhere."""
    sample = list(images[:: max(1, len(images) // _SAMPLE)])
    best: tuple[int, Path | None] = (0, None)
    for root in dict.fromkeys(candidates):
        found = sum(name is not None for name in locate(sample, root))
        best = max(best, (found, root), key=lambda pair: pair[0])
        if found == len(sample):
            break
    return best[1]


def image_folders(run: Path, config: Mapping[str, Any]) -> Iterable[Path]:
    """Folders in which a run's images may lie, by its configuration, also if all was moved together."""
    table = Path(str(config.get("table") or ""))
    named = [Path(str(config["images"]))] if config.get("images") else []
    named += [table, table.parent, table.parent.parent] if config.get("table") else []
    for path in named:
        # A relative path was relative to where the command was given: here, or above the run folder.
        bases = [Path()] if path.is_absolute() else [Path(), *run.absolute().parents]
        for base in bases:
            yield base / path
    for path in named:  # COCO and VOC keep images below the folder that was named
        for below in (path, path / "images"):
            folders = sorted(entry for entry in below.iterdir() if entry.is_dir()) if below.is_dir() else []
            yield from folders[:_MOST_FOLDERS]


def photo_root(
    run: Path,
    names: Sequence[str],
    config: Mapping[str, Any],
    images: str | Path | None = None,
    likely: Iterable[Path] = (),
) -> Path | None:
    """Folder below which a run's photos lie; None if they are nowhere.

    Args:
        run: The run folder.
        names: The run's photos.
        config: Its configuration.
        images: The folder, if the user names it.
        likely: Folders to look in first, if not.

    Raises:
        ImageError: If no photo lies in the folder the user named.
    """
    if images is None:
        return find_root(names, [*likely, *image_folders(run, config)])
    root = find_root(names, [Path(images)])
    if root is None:
        raise ImageError(
            f"None of the run's images lies under {images}, such as {names[0]}. Pass the folder that was "
            f"{option('images')} when it was trained."
        )
    return root


def read_table_again(config: Mapping[str, Any], classes: list[str]) -> LabelTable | None:
    """The run's table, if it still lies where it was; its images need not."""
    if not config.get("table"):
        return None
    reading = {field.name: config[field.name] for field in fields(ReadOptions) if field.name in config}
    try:
        options = ReadOptions(**{**reading, "verify": False, "skip_missing_images": True, "skip_broken": True})
        return read_labels(config["table"], options, classes=classes)[0]
    except (PositivelyError, OSError, TypeError):
        return None


def states_as_trained(
    table: LabelTable, config: Mapping[str, Any], classes: list[str], images: list[str]
) -> States | None:
    """Labels of these images as the training saw them."""
    settings = {field.name: config[field.name] for field in fields(TrainConfig) if field.name in config}
    seen = hide_labels(table, TrainConfig(**settings)).with_classes(classes)
    rows = {image: row for row, image in enumerate(seen.images)}
    if not all(image in rows for image in images):
        return None
    return seen.states([rows[image] for image in images])


def read_training_labels(folder: RunFolder, classes: list[str]) -> tuple[list[str], States | None]:
    """Names of a run's images, and their label states N×C; None if neither the run nor its table has them."""
    stored = folder.read_out_of_sample()
    if stored is not None:
        images, states, _ = stored
        return images, states
    images = folder.read_image_names()
    config = read_config(folder)
    table = read_table_again(config, classes)
    return images, None if table is None else states_as_trained(table, config, classes, images)
