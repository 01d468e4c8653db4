"""Features kept on disk, shared by every run that uses the same weights and the same transform.

A store is a folder of segments. A segment is one safetensors file, written whole and moved into place, that holds
features and the content hashes of their images; it is never changed afterwards. So any number of processes may read and
add at once: the worst that can happen is that two of them compute the same features.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from torch import nn

from positively.files import write_with

Matrix = npt.NDArray[np.float32]
_MAX_BYTES = 20 * 2**30


def default_store() -> Path:
    """Folder of the kept features: ``POSITIVELY_CACHE``, else the user's cache folder."""
    cache = os.environ.get("POSITIVELY_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(cache) / "positively" / "features"


def fingerprint(network: nn.Module, *settings: object) -> str:
    """Short name of a network's weights and of all settings that shape its features."""
    digest = hashlib.blake2b(repr(settings).encode(), digest_size=12)
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


class FeatureStore:
    """Features of one network and transform, by the content hash of the image."""

    def __init__(self, folder: Path, max_bytes: int = _MAX_BYTES) -> None:
        self.folder, self.max_bytes = folder, max_bytes
        self._place: dict[str, tuple[Path, int]] = {}
        self._read: set[Path] = set()

    def refresh(self) -> None:
        """Take in the segments that were added since the last look."""
        for path in sorted(self.folder.glob("*.safetensors")):
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
        """Images whose features are not here yet."""
        self.refresh()
        return {h for h in hashes if h not in self._place}

    def add(self, hashes: Sequence[str], features: Matrix) -> None:
        """Keep these features, one row a hash, as a new segment; the oldest segments go when the store is full."""
        codes = np.frombuffer(bytes.fromhex("".join(hashes)), dtype=np.uint8).reshape(len(hashes), -1)
        kept = np.ascontiguousarray(features, dtype=np.float32)
        arrays: dict[str, npt.NDArray[Any]] = {"hashes": codes, "features": kept}
        path = self.folder / f"{uuid.uuid4().hex}.safetensors"
        write_with(path, lambda temporary: save_file(arrays, temporary))
        self._trim(keep=path)

    def get(self, hashes: Sequence[str]) -> Matrix:
        """Features of these images, one row a hash."""
        self.refresh()
        by_segment: dict[Path, list[tuple[int, int]]] = {}
        for position, name in enumerate(hashes):
            path, row = self._place[name]
            by_segment.setdefault(path, []).append((position, row))
        result: Matrix | None = None
        for path, pairs in by_segment.items():
            positions, rows = np.array(pairs).T
            with safe_open(path, framework="numpy") as segment:
                features = segment.get_tensor("features")
            if result is None:
                result = np.empty((len(hashes), *features.shape[1:]), dtype=np.float32)
            result[positions] = features[rows]
            path.touch()  # last use, for the trimming
        return np.empty((0, 0), dtype=np.float32) if result is None else result

    def _trim(self, keep: Path) -> None:
        segments = sorted(self.folder.parent.glob("*/*.safetensors"), key=lambda path: path.stat().st_mtime)
        excess = sum(path.stat().st_size for path in segments) - self.max_bytes
        for path in segments:
            if excess <= 0:
                break
            if path != keep:
                excess -= path.stat().st_size
                path.unlink(missing_ok=True)
