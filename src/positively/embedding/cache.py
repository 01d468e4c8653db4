"""Features on disk, shared by every run that uses the same weights and the same transform.

A store is a folder of segments. A segment is one safetensors file, written whole and moved into place, that holds
features and the content hashes of their images; it is never changed afterwards. So any number of processes may read and
add at once: the worst that can happen is that two of them compute the same features. Large features (maps) are mapped
from the files, not read: they may take more room than there is memory.
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
"""Names of our folders and files: nothing else in a folder the user named is ever removed."""

GRAPH = "network.onnx"
"""Name of the graph by which features were computed, beside them."""

_NETWORKS = "networks"

_in_use: set[Path] = set()
"""Segments this process reads or has written: it does not remove them while it lives."""

# Features up to this size are read into memory, larger ones are mapped.
_IN_MEMORY_BYTES = 2**30


def default_store() -> Path:
    """Folder of the stored features: ``POSITIVELY_CACHE``, else the user's cache folder."""
    return _cache() / "features"


def network_folder() -> Path:
    """Folder of the ONNX files that were converted from other forms."""
    return _cache() / _NETWORKS


def _cache() -> Path:
    own = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME"
    cache = os.environ.get("POSITIVELY_CACHE") or os.environ.get(own) or Path.home() / ".cache"
    return Path(cache) / "positively"


def default_limit() -> int:
    """Bytes that all stored features together may take: ``POSITIVELY_CACHE_GB`` (20 unless told)."""
    given = os.environ.get("POSITIVELY_CACHE_GB", "20")
    try:
        return int(float(given) * 2**30)
    except ValueError:
        raise ConfigError(f"POSITIVELY_CACHE_GB is a number of gigabytes, not {given!r}.") from None


class MappedFeatures:
    """One row of features an image, mapped from segments; rows that are asked for come as an array in memory."""

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
    """Features of one network and transform, by the content hash of the image."""

    def __init__(self, folder: Path, max_bytes: int | None = None) -> None:
        self.folder = folder
        self.max_bytes = default_limit() if max_bytes is None else max_bytes
        self._place: dict[str, tuple[Path, int]] = {}
        self._read: set[Path] = set()

    def refresh(self) -> None:
        """Take in the segments that were added since the last look."""
        for path in sorted(self.folder.glob(_SEGMENT)):
            if path in self._read:
                continue
            try:
                with safe_open(path, framework="numpy") as segment:
                    hashes = segment.get_tensor("hashes")
            except (OSError, SafetensorError):
                continue  # removed meanwhile, or not ours: its features are computed again
            self._read.add(path)
            self._place.update({bytes(h).hex(): (path, row) for row, h in enumerate(hashes)})

    def missing(self, hashes: Iterable[str]) -> set[str]:
        """Images whose features are not here yet; the others are held until this process ends."""
        self.refresh()
        hashes = list(hashes)
        for path in {self._place[h][0] for h in hashes if h in self._place}:
            self._hold(path)
        return {h for h in hashes if h not in self._place}

    def _hold(self, path: Path) -> None:
        """Note that a segment is in use: now, for other processes, and for as long as this one lives."""
        try:
            os.utime(path)
            _in_use.add(path)
        except PermissionError:  # a store that is shared and read only
            _in_use.add(path)
        except FileNotFoundError:  # another process made room meanwhile
            self._read.discard(path)
            self._place = {name: place for name, place in self._place.items() if place[0] != path}

    def require_room(self, needed: int) -> None:
        """Raise if this many bytes more cannot be stored."""
        held = sum(_size(path) for path in _in_use if path.parent.parent == self.folder.parent)
        self.folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.folder).free
        if held + needed > self.max_bytes or needed > free:
            reason = (
                f"and only {free / 2**30:.1f} GB are free on the disk of {self.folder}"
                if needed > free
                else f"and the store is bounded to {self.max_bytes / 2**30:.1f} GB (POSITIVELY_CACHE_GB)"
            )
            raise ConfigError(
                f"Stored features need {(held + needed) / 2**30:.1f} GB, {reason}. Make room, take fewer images or a "
                f"smaller {option('image_size')}, or another {option('depth')}."
            )

    def add(self, hashes: Sequence[str], features: npt.NDArray[Any]) -> None:
        """Keep these features, one row a hash, as a new segment; the oldest segments go when the store is full."""
        codes = np.frombuffer(bytes.fromhex("".join(hashes)), dtype=np.uint8).reshape(len(hashes), -1)
        arrays: dict[str, npt.NDArray[Any]] = {"hashes": codes, "features": np.ascontiguousarray(features)}
        path = self.folder / f"{uuid.uuid4().hex}.safetensors"
        write_with(path, lambda temporary: save_file(arrays, temporary))
        _in_use.add(path)
        self._trim()

    def get(self, hashes: Sequence[str]) -> FeatureRows:
        """Features of these images, one row a hash: an array if they are small, else mapped."""
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
                with suppress(PermissionError):  # Windows removes nothing that another process has mapped
                    path.unlink(missing_ok=True)
                    excess -= sizes[path]


def _size(path: Path) -> int:
    """Bytes of a file; none if another process removed it, or (Windows says so by refusing) is removing it."""
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
    """The features of a segment, mapped: its header (a length, then JSON) says where they lie."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(length))["features"]
    kind = {"F32": np.float32, "F16": np.float16}[entry["dtype"]]
    return np.memmap(
        path, dtype=kind, mode="r", offset=8 + length + entry["data_offsets"][0], shape=tuple(entry["shape"])
    )
