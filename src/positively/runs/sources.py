"""Find the training data of a run again: the folder of its images, and their labels as the training saw them."""

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
    """Content of config.yaml; during the training, the manifest does not list it yet."""
    try:
        path = folder.verified(folder.config) if verify else folder.config
        return current_options(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, AttributeError, yaml.YAMLError):
        raise RunError(f"{folder.config} is missing or damaged. Restore it, or train the run again.") from None


def find_root(images: Sequence[str], candidates: Iterable[Path]) -> Path | None:
    """The folder that contains most of a sample of the images; None if no folder contains any."""
    sample = list(images[:: max(1, len(images) // _SAMPLE)])
    best: tuple[int, Path | None] = (0, None)
    for root in dict.fromkeys(candidates):
        found = sum(name is not None for name in locate(sample, root))
        best = max(best, (found, root), key=lambda pair: pair[0])
        if found == len(sample):
            break
    return best[1]


def image_folders(run: Path, config: Mapping[str, Any]) -> Iterable[Path]:
    """Candidate folders of a run's images, by its configuration, also if everything was moved together."""
    table = Path(str(config.get("table") or ""))
    named = [Path(str(config["images"]))] if config.get("images") else []
    named += [table, table.parent, table.parent.parent] if config.get("table") else []
    for path in named:
        # Relative paths were relative to the working folder: the current one, or one above the run folder.
        bases = [Path()] if path.is_absolute() else [Path(), *run.absolute().parents]
        for base in bases:
            yield base / path
    for path in named:  # COCO and VOC keep images in subfolders
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
    """Folder of a run's images; None if they are not found.

    Args:
        run: The run folder.
        names: Names of the run's images.
        config: Its configuration.
        images: The folder, if the user gives it.
        likely: Folders to search first, otherwise.

    Raises:
        ImageError: If the given folder contains none of the images.
    """
    if images is None:
        return find_root(names, [*likely, *image_folders(run, config)])
    root = find_root(names, [Path(images)])
    if root is None:
        raise ImageError(
            f"None of the run's images (such as {names[0]}) is in {images}. Pass the folder that was "
            f"{option('images')} in the training."
        )
    return root


def read_table_again(config: Mapping[str, Any], classes: list[str]) -> LabelTable | None:
    """The run's table, if it is still in its place; its images may be gone."""
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
    """Labels of these images as the training saw them; None if some images are not in the table."""
    settings = {field.name: config[field.name] for field in fields(TrainConfig) if field.name in config}
    seen = hide_labels(table, TrainConfig(**settings)).with_classes(classes)
    rows = {image: row for row, image in enumerate(seen.images)}
    if not all(image in rows for image in images):
        return None
    return seen.states([rows[image] for image in images])


def read_training_labels(folder: RunFolder, classes: list[str]) -> tuple[list[str], States | None]:
    """Names of a run's images, and their label states N×C; the states are None if they are not available."""
    stored = folder.read_out_of_sample()
    if stored is not None:
        images, states, _ = stored
        return images, states
    images = folder.read_image_names()
    config = read_config(folder)
    table = read_table_again(config, classes)
    return images, None if table is None else states_as_trained(table, config, classes, images)
