"""The folder next to a table for all files that the commands write about it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from positively.files import sibling

_ENDING = ".positively"
_EXPORTED = re.compile(r"\.reviewed(-\d+)?$")


@dataclass(frozen=True)
class Workspace:
    """The workspace of a table or a folder of images: ``tags.positively/`` next to ``tags.csv``.

    >>> Workspace.of("data/tags.csv").runs.as_posix()
    'data/tags.positively/runs'
    """

    source: Path
    """The table, or the folder of images."""

    @classmethod
    def of(cls, source: str | Path) -> Workspace:
        """The workspace of a table or a folder; neither has to exist."""
        return cls(Path(source))

    @property
    def path(self) -> Path:
        """The folder itself. The table that a review exports shares the workspace of the table that was reviewed."""
        place = sibling(self.source, "")
        return place.with_name(_EXPORTED.sub("", place.name) + _ENDING)

    @property
    def missing(self) -> Path:
        """Folder for the lists of missing tags."""
        return self.path / "missing"

    @property
    def decisions(self) -> Path:
        """File for the decisions of a review; ``tags.review.sqlite`` of earlier versions if only that exists."""
        place, old = self.path / "decisions.sqlite", sibling(self.source, ".review.sqlite")
        return old if old.exists() and not place.exists() else place

    @property
    def runs(self) -> Path:
        """Folder for the runs, one folder each, named after the method."""
        return self.path / "runs"


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run, finished or not, by the names of its files."""
    return (folder / "config.yaml").exists() and (folder / "environment.json").exists()


def is_workspace(folder: Path) -> bool:
    """Whether a folder is a workspace with runs."""
    return folder.suffix == _ENDING and (folder / "runs").is_dir()


def latest_run(folder: str | Path = ".") -> Path | None:
    """The run that was finished last among those of a folder; None if there is none.

    Searches the workspaces in the folder, the workspace of the folder itself, and ``runs/``, which earlier versions
    used.
    """
    place = Path(folder)
    searched = [*place.glob(f"*{_ENDING}/runs"), Workspace.of(place).runs, place / "runs"]
    # config.json is the last file that a training writes.
    files = [file for runs in searched for file in runs.glob("*/config.json")]
    finished = [file for file in files if is_run(file.parent)]  # other programs write to runs/ too
    return max(finished, key=lambda file: file.stat().st_mtime_ns).parent if finished else None
