"""Checks of the paths on the command line, made before anything heavy is imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from positively.errors import ConfigError, ImageError, RunError, TableError
from positively.manifest import MANIFEST
from positively.workspace import is_run, is_workspace, latest_run


def require_table(path: str) -> Path:
    """The path of a table, which must exist."""
    found = Path(path)
    if not found.exists():
        raise TableError(f"{path}: no such file or folder.")
    return found


TRAIN_ONE = "Name a run folder, or train one: positively train tags.csv"


def require_run(path: str | None, near: Sequence[str] = (), otherwise: str = TRAIN_ONE) -> Path:
    """The folder of a finished run: the one that was named, or the latest of the workspace that was named, or here.

    Args:
        path: The run or the workspace, if one was named.
        near: Images or tables; runs next to them are searched if the current folder has none.
        otherwise: What to do if there is no run.
    """
    if path is None or is_workspace(Path(path)):
        beside = [folder for place in map(Path, near) for folder in (place, place.parent)]
        folders = [Path(), *beside] if path is None else [Path(path)]
        latest = next((run for folder in folders if (run := latest_run(folder)) is not None), None)
        if latest is None:
            where = path or "this folder"
            raise RunError(f"There is no run in {where}. {otherwise}")
        print(f"Run: {latest}", file=sys.stderr)
        return latest
    found = Path(path)
    if not found.is_dir():
        raise RunError(f"{path} is a file, not a run folder." if found.exists() else f"There is no run folder {path}.")
    if not (found / "config.json").exists():
        raise RunError(f"{path} holds no finished run.")
    return found


def split_run(places: list[str]) -> tuple[str | None, list[str]]:
    """The run and the images among the words of ``predict``; the run is None if only images are named.

    The first word is a run if it is a run folder, or if there is nothing at that path and it does not look like a file.
    """
    if not places or places[0] == "-":
        return None, places
    first = Path(places[0])
    late = next((place for place in places[1:] if is_run(Path(place))), None)
    if late is not None:
        raise ConfigError(f"{late} is a run. Name one run, before the images.")
    if first.exists():
        is_named = (
            is_run(first) or is_workspace(first) or all((first / name).exists() for name in ("config.json", MANIFEST))
        )
    else:
        is_named = len(places) > 1 or not first.suffix
    return (places[0], places[1:]) if is_named else (None, places)


def require_images(places: list[str]) -> None:
    """Raise unless all of these paths exist."""
    for place in places:
        if place != "-" and not Path(place).exists():
            raise ImageError(f"{place}: no such file or folder.")
