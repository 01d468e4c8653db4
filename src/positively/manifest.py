"""``manifest.json``: digests of all files that positively wrote into a folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from positively.files import file_digest, write_json
from positively.locking import FOREVER, held

MANIFEST = "manifest.json"
_LOCK = ".manifest.lock"
_WRITTEN_BY = "positively"


class Manifest:
    """The manifest of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / MANIFEST

    def read(self) -> dict[str, str | None] | None:
        """Digests by file name (None for a file that is being written); None if the folder has no manifest."""
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            return dict(content["files"]) if content["written_by"] == _WRITTEN_BY else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def write(self, files: Mapping[str, str | None]) -> None:
        """Replace the manifest."""
        write_json(self.path, {"written_by": _WRITTEN_BY, "files": dict(sorted(files.items()))})

    def record(self, files: Iterable[Path]) -> None:
        """Record the digests of files that were just written; safe for several processes."""
        with held(self.folder / _LOCK, FOREVER):
            self.write((self.read() or {}) | {self.name(file): file_digest(file) for file in files})

    def name(self, file: Path) -> str:
        """Name of a file in the manifest; a link has its own name, as in the hub's cache."""
        return (file.parent.resolve() / file.name).relative_to(self.folder.resolve()).as_posix()

    def may_replace(self, file: Path) -> bool:
        """Whether a file is listed and unchanged; a file that a killed process was writing counts as unchanged."""
        listed = self.read() or {}
        return file.is_file() and self.name(file) in listed and listed[self.name(file)] in (None, file_digest(file))
