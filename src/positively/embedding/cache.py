"""The cache of embeddings on disk, shared by all runs with the same weights and preprocessing.

A store is a folder of segments. A segment is a safetensors file with embeddings and the content hashes of their images.
It is written atomically and never changed, so several processes can read and add at the same time; at worst, two of
them compute the same embeddings. Large arrays (feature maps) are memory-mapped, because they may not fit into memory.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from positively.embedding.rows import FeatureRows
from positively.errors import ConfigError, option
from positively.files import write_with

_KEY, _SEGMENT = "[0-9a-f]" * 24, "[0-9a-f]" * 32 + ".safetensors"
"""Names of our folders and files; nothing else in the cache folder is ever removed."""

GRAPH = "network.onnx"
"""Name of the graph that computed the embeddings, in the same folder."""

_NETWORKS = "networks"

_in_use: set[Path] = set()
"""Segments that this process has read or written, and therefore does not remove."""

# Embeddings up to this size are read into memory; larger ones are memory-mapped.
_IN_MEMORY_BYTES = 2**30


def default_store() -> Path:
    """Folder of the stored embeddings: in ``POSITIVELY_CACHE`` if set, otherwise in the user's cache folder."""
    return _cache() / "features"


def network_folder() -> Path:
    """Folder of converted ONNX files."""
    return _cache() / _NETWORKS


def _cache() -> Path:
    own = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME"
    cache = os.environ.get("POSITIVELY_CACHE") or os.environ.get(own) or Path.home() / ".cache"
    return Path(cache) / "positively"


def default_limit() -> int:
    """Maximum total size of the stored embeddings in bytes: ``POSITIVELY_CACHE_GB`` (default 20)."""
    given = os.environ.get("POSITIVELY_CACHE_GB", "20")
    try:
        return int(float(given) * 2**30)
    except ValueError:
        raise ConfigError(f"POSITIVELY_CACHE_GB must be a number of gigabytes, not {given!r}.") from None


class MappedFeatures:
    """Embeddings that are memory-mapped from segments; indexing returns an array in memory."""

    def __init__(self, parts: Sequence[npt.NDArray[Any]], part: npt.NDArray[np.int64], row: npt.NDArray[np.int64]):
        self._parts, self._part, self._row = parts, part, row
        self.shape = (len(part), *(parts[0].shape[1:] if parts else (0,)))

    def __len__(self) -> int:
        return len(self._part)

    def __getitem__(self, rows: Any) -> npt.NDArray[Any]:
        part, row = self._part[rows], self._row[rows]
        result = np.empty((len(part), *self.shape[1:]), dtype=self._parts[0].dtype if self._parts else np.float32)
        for index in np.unique(part):
            result[part == index] = self._parts[index][row[part == index]]
        return result


class FeatureStore:
    """Embeddings of one embedder, by the content hash of the image."""

    def __init__(self, folder: Path, max_bytes: int | None = None) -> None:
        self.folder = folder
        self.max_bytes = default_limit() if max_bytes is None else max_bytes
        self._place: dict[str, tuple[Path, int]] = {}
        self._read: set[Path] = set()

    def refresh(self) -> None:
        """Read the segments that were added since the last call."""
        for path in sorted(self.folder.glob(_SEGMENT)):
            if path in self._read:
                continue
            try:
                with safe_open(path, framework="numpy") as segment:
                    hashes = segment.get_tensor("hashes")
            except (OSError, SafetensorError):
                continue  # removed meanwhile, or not ours: its embeddings are computed again
            self._read.add(path)
            self._place.update({bytes(h).hex(): (path, row) for row, h in enumerate(hashes)})

    def missing(self, hashes: Iterable[str]) -> set[str]:
        """Images without stored embeddings; the segments of the others are kept until this process ends."""
        self.refresh()
        hashes = list(hashes)
        for path in {self._place[h][0] for h in hashes if h in self._place}:
            self._hold(path)
        return {h for h in hashes if h not in self._place}

    def _hold(self, path: Path) -> None:
        """Mark a segment as in use, for this process and (by its time) for others."""
        try:
            os.utime(path)
            _in_use.add(path)
        except PermissionError:  # a shared, read-only store
            _in_use.add(path)
        except FileNotFoundError:  # another process has removed it
            self._read.discard(path)
            self._place = {name: place for name, place in self._place.items() if place[0] != path}

    def require_room(self, needed: int) -> None:
        """Raise a ConfigError if this number of bytes cannot be stored."""
        held = sum(_size(path) for path in _in_use if path.parent.parent == self.folder.parent)
        self.folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.folder).free
        if held + needed > self.max_bytes or needed > free:
            reason = (
                f"but only {free / 2**30:.1f} GB are free on the disk of {self.folder}"
                if needed > free
                else f"but the cache is limited to {self.max_bytes / 2**30:.1f} GB (POSITIVELY_CACHE_GB)"
            )
            raise ConfigError(
                f"Stored embeddings need {(held + needed) / 2**30:.1f} GB, {reason}. Free some space, or use fewer "
                f"images, a smaller {option('image_size')} or another {option('depth')}."
            )

    def add(self, hashes: Sequence[str], features: npt.NDArray[Any]) -> None:
        """Store embeddings, one row for each hash, as a new segment; if the cache is full, remove the oldest ones."""
        codes = np.frombuffer(bytes.fromhex("".join(hashes)), dtype=np.uint8).reshape(len(hashes), -1)
        arrays: dict[str, npt.NDArray[Any]] = {"hashes": codes, "features": np.ascontiguousarray(features)}
        path = self.folder / f"{uuid.uuid4().hex}.safetensors"
        write_with(path, lambda temporary: save_file(arrays, temporary))
        _in_use.add(path)
        self._trim()

    def get(self, hashes: Sequence[str]) -> FeatureRows:
        """Embeddings of these images, one row for each hash; an array, or memory-mapped if large."""
        self.refresh()
        paths = sorted({self._place[name][0] for name in hashes})
        number = {path: index for index, path in enumerate(paths)}
        places = np.array([(number[self._place[h][0]], self._place[h][1]) for h in hashes], dtype=np.int64)
        part, row = places.reshape(-1, 2).T
        mapped = MappedFeatures([_map_features(path) for path in paths], part, row)
        size = int(np.prod(mapped.shape)) * (mapped[:1].itemsize if len(mapped) else 1)
        return mapped[:] if size <= _IN_MEMORY_BYTES else mapped

    def _trim(self) -> None:
        patterns = (_SEGMENT, GRAPH)
        sizes = {path: _size(path) for one in patterns for path in self.folder.parent.glob(f"{_KEY}/{one}")}
        excess = sum(sizes.values()) - self.max_bytes
        for path in sorted(sizes, key=_last_use):
            if excess <= 0:
                break
            if path not in _in_use:
                with suppress(PermissionError):  # Windows does not remove files that another process has mapped
                    path.unlink(missing_ok=True)
                    excess -= sizes[path]


def _size(path: Path) -> int:
    """Size of a file; 0 if another process has removed it (or is removing it, on Windows)."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, PermissionError):
        return 0


def _last_use(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except (FileNotFoundError, PermissionError):
        return 0.0


def _map_features(path: Path) -> npt.NDArray[Any]:
    """Memory-map the embeddings of a segment; the header (a length, then JSON) has their offset."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(length))["features"]
    kind = {"F32": np.float32, "F16": np.float16}[entry["dtype"]]
    return np.memmap(
        path, dtype=kind, mode="r", offset=8 + length + entry["data_offsets"][0], shape=tuple(entry["shape"])
    )
