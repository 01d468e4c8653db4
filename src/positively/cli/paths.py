"""Paths that a verb was given, looked at before anything heavy is imported."""

from __future__ import annotations

from pathlib import Path

from positively.errors import ImageError, RunError, TableError


def require_table(path: str) -> Path:
    """The path of a table, if there is anything at it."""
    found = Path(path)
    if not found.exists():
        raise TableError(f"{path}: no such file or folder.")
    return found


def is_run(path: Path) -> bool:
    """Whether a folder holds a run, going by its files."""
    return (path / "config.yaml").exists() and (path / "environment.json").exists()


def require_run(path: str) -> Path:
    """The path of a run folder, if it holds a finished run."""
    found = Path(path)
    if not found.is_dir():
        raise RunError(f"There is no run folder {path}.")
    if not (found / "config.json").exists():
        raise RunError(f"{path} holds no finished run.")
    return found


def require_images(places: list[str]) -> None:
    """Raise unless there is something at every place."""
    for place in places:
        if place != "-" and not Path(place).exists():
            raise ImageError(f"{place}: no such file or folder.")
