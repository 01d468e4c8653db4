"""Read and write embeddings in files.

| file | content |
|---|---|
| .npy | N×D array, in the order of the table |
| .npz | ``embeddings`` N×D, with ``images`` (N names) or ``hashes`` (N content hashes); without both, as .npy |
| .parquet | a column of names (``image``) or hashes (``hash``), and a column of lists (``embedding``) |
| .safetensors | tensor ``embeddings`` N×D, with ``images`` as a JSON list in the metadata; without it, as .npy |
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from positively.embedding.base import Embeddings
from positively.errors import ConfigError, FileError, PositivelyError, and_more, option, short
from positively.files import write_with
from positively.labels import LabelTable
from positively.tables.overlap import can_hash, image_hashes
from positively.tables.parquet import import_pyarrow

_WRITABLE = (".npz", ".npy", ".parquet", ".safetensors")
_ARRAYS = ("embeddings", "features", "X", "arr_0")
_NAMES, _HASHES = ("images", "image", "names", "filename", "path"), ("hashes", "hash")
Values = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class EmbeddingFile:
    """Content of a file."""

    X: Values
    """N×D, or N×(1+P)×D."""
    images: Sequence[str] | None = None
    hashes: Sequence[str] | None = None
    key: str = ""
    """Key of the embedder; empty if the file does not have it."""


def read_embeddings(files: Sequence[str | Path], table: LabelTable) -> Embeddings:
    """Read the embeddings of a table's images from files.

    Rows are matched by image name, otherwise by content hash. A file with neither must have one row for each image, in
    the order of the table. If several files each contain all images (two backbones), their embeddings are concatenated;
    otherwise, each file contains some of the images.

    Args:
        files: .npy, .npz, .parquet or .safetensors files.
        table: The images.

    Raises:
        ConfigError: if an image has no embedding or an embedding is not finite; the message names file and image.
    """
    hashes: list[str] = []  # computed only if a file needs them

    def content() -> list[str]:
        hashes.extend([] if hashes else image_hashes(table))
        return hashes

    paths = [Path(name) for name in files]
    read = [read_file(path) for path in paths]
    rows = [_rows(path, found, table, content) for path, found in zip(paths, read, strict=True)]
    lacking = np.all([row < 0 for row in rows], axis=0)
    if lacking.any():
        names = [table.images[row] for row in np.flatnonzero(lacking).tolist()]
        raise ConfigError(
            f"{', '.join(map(str, paths))}: {len(names):,} of {len(table):,} images have no embedding: "
            f"{and_more(names, 3)}. Embed them too, or remove their lines from the table; "
            f"{option('skip_missing_images', True)} and {option('skip_broken', True)} apply to image files only."
        )
    keys = [found.key for found in read]
    if len(read) > 1 and all((row >= 0).all() for row in rows):
        parts = [_unit(_select(found.X, row)) for found, row in zip(read, rows, strict=True)]
        X = np.concatenate(parts, axis=-1)
        key = hashlib.blake2b(" ".join(keys).encode(), digest_size=12).hexdigest() if all(keys) else ""
    else:
        X, key = _stack(paths, read, rows), keys[0] if len(set(keys)) == 1 else ""
    _refuse_odd(X, table, paths)
    return Embeddings(X, key)


def read_named(files: Sequence[str | Path]) -> tuple[Embeddings, list[str]]:
    """All embeddings of some files, one file after the other, and the names (or numbers) of their images."""
    read = [read_file(Path(name)) for name in files]
    counts = [len(found.X) for found in read]
    rows = [np.full(sum(counts), -1, dtype=np.int64) for _ in read]
    names: list[str] = []
    for row, found, count in zip(rows, read, counts, strict=True):
        row[len(names) : len(names) + count] = np.arange(count)
        names += found.images or found.hashes or [f"item {len(names) + number}" for number in range(1, count + 1)]
    keys = {found.key for found in read}
    return Embeddings(_stack([Path(name) for name in files], read, rows), keys.pop() if len(keys) == 1 else ""), names


def read_file(path: Path) -> EmbeddingFile:
    """Read one file.

    Raises:
        ConfigError: if the format is unknown, the file is damaged or it has no N×D array.
    """
    readers: Mapping[str, Callable[[Path], EmbeddingFile]] = {
        ".npy": lambda path: EmbeddingFile(np.load(path, mmap_mode="r", allow_pickle=False)),
        ".npz": _read_npz,
        ".parquet": _read_parquet,
        ".safetensors": _read_safetensors,
    }
    if path.suffix.lower() not in readers:
        raise ConfigError(f"{path}: embeddings are read from {', '.join(readers)} files only.")
    if not path.is_file():
        raise ConfigError(f"{path}: the file does not exist.")
    try:
        found = readers[path.suffix.lower()](path)
    except PositivelyError:
        raise
    except Exception as reason:  # every format has its own exceptions
        raise ConfigError(f"{path} cannot be read: {short(reason)}.") from reason
    if found.X.ndim not in (2, 3) or not np.issubdtype(found.X.dtype, np.number) or not found.X.shape[-1]:
        raise ConfigError(f"{path} has an array of shape {found.X.shape}; embeddings must be images × numbers.")
    for names in (found.images, found.hashes):
        if names is not None and len(names) != len(found.X):
            raise ConfigError(f"{path} has {len(found.X):,} embeddings but names {len(names):,} images.")
    return found


def check_writable(path: Path, *, overwrite: bool = False) -> None:
    """Check that a file can be written, before anything is computed.

    Raises:
        FileError: if its extension is unknown, or it exists and must not be overwritten.
    """
    if path.suffix.lower() not in _WRITABLE:
        raise FileError(f"{path}: embeddings are written to {', '.join(_WRITABLE)} files only.")
    if path.exists() and not overwrite:
        raise FileError(f"{path} exists. Choose another file, or pass {option('overwrite', True)}.")
    if path.suffix.lower() == ".parquet":
        import_pyarrow("Writing")


def write_embeddings(path: Path, embeddings: Embeddings, table: LabelTable) -> None:
    """Write embeddings with the names and hashes of their images, for :func:`read_embeddings`.

    Args:
        path: A .npy, .npz, .parquet or .safetensors file.
        embeddings: The embeddings.
        table: The images.

    Raises:
        FileError: if the extension is unknown or the file cannot be written.
    """
    X, images = np.asarray(embeddings, dtype=np.float32), list(table.images)
    hashes, key = list(image_hashes(table)), embeddings.key

    def npz(temporary: Path) -> None:
        with temporary.open("wb") as file:  # np.savez would add an extension to a name
            np.savez(file, embeddings=X, images=np.array(images), hashes=np.array(hashes), key=np.array(key))

    def npy(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.save(file, X)

    def tensors(temporary: Path) -> None:
        from safetensors.numpy import save_file

        told = {"images": json.dumps(images), "hashes": json.dumps(hashes), "key": key}
        save_file({"embeddings": np.ascontiguousarray(X)}, temporary, metadata=told)

    def parquet(temporary: Path) -> None:
        pyarrow = import_pyarrow("Writing")
        flat = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(X.reshape(-1)), int(np.prod(X.shape[1:])))
        columns = {"image": images, "hash": hashes, "embedding": flat}
        pyarrow.parquet.write_table(pyarrow.table(columns).replace_schema_metadata({"key": key}), temporary)

    writers = {".npy": npy, ".npz": npz, ".parquet": parquet, ".safetensors": tensors}
    check_writable(path, overwrite=True)
    if X.ndim == 3 and path.suffix.lower() == ".parquet":
        raise FileError(f"{path}: embeddings of parts do not fit into a Parquet column. Use .npz.")
    write_with(path, writers[path.suffix.lower()])


def _read_npz(path: Path) -> EmbeddingFile:
    with np.load(path, allow_pickle=False) as content:
        entries = {name: content[name] for name in content.files}
    array = next((entries[name] for name in _ARRAYS if name in entries), None)
    if array is None:
        raise ConfigError(f"{path} has {', '.join(entries) or 'no array'}, but no array 'embeddings'.")
    key = str(entries["key"]) if "key" in entries else ""
    return EmbeddingFile(array, _first(entries, _NAMES), _first(entries, _HASHES), key)


def _read_safetensors(path: Path) -> EmbeddingFile:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as content:
        names, told = set(content.keys()), content.metadata() or {}
        array = next((content.get_tensor(name) for name in _ARRAYS if name in names), None)
    if array is None:
        raise ConfigError(f"{path} has {', '.join(sorted(names)) or 'no tensor'}, but no tensor 'embeddings'.")
    lists = {name: json.loads(told[name]) for name in (*_NAMES, *_HASHES) if name in told}
    return EmbeddingFile(array, _first(lists, _NAMES), _first(lists, _HASHES), told.get("key", ""))


def _read_parquet(path: Path) -> EmbeddingFile:
    content = import_pyarrow("Reading").parquet.read_table(path)
    columns = {name: content.column(name) for name in content.column_names}
    column = next((columns[name] for name in ("embedding", *_ARRAYS) if name in columns), None)
    if column is None:
        raise ConfigError(f"{path} has {', '.join(columns) or 'no column'}, but no column 'embedding' with lists.")
    chunk = column.combine_chunks()
    lengths = set(chunk.value_lengths().to_pylist()) if hasattr(chunk, "value_lengths") else {chunk.type.list_size}
    if len(lengths) > 1 or None in lengths:
        raise ConfigError(f"{path}: the lists in column 'embedding' differ in length.")
    array = np.asarray(chunk.flatten().to_numpy(zero_copy_only=False)).reshape(len(chunk), -1)
    names = {name: values.to_pylist() for name, values in columns.items() if name in (*_NAMES, *_HASHES)}
    told = (content.schema.metadata or {}).get(b"key", b"").decode()
    return EmbeddingFile(array, _first(names, _NAMES), _first(names, _HASHES), told)


def _first(entries: Mapping[str, Any], names: Sequence[str]) -> list[str] | None:
    found = next((entries[name] for name in names if name in entries), None)
    return None if found is None else [str(value) for value in found]


def _rows(
    path: Path, found: EmbeddingFile, table: LabelTable, content: Callable[[], list[str]]
) -> npt.NDArray[np.int64]:
    """Row of the file for each image of the table; −1 for images that are not in the file."""
    if found.images is None and found.hashes is None:
        if len(found.X) != len(table):
            raise ConfigError(
                f"{path} has {len(found.X):,} embeddings without names, but {table.source} lists {len(table):,} "
                "images. Add the names: write an .npz file with 'embeddings' and 'images'."
            )
        return np.arange(len(table))
    rows = np.full(len(table), -1, dtype=np.int64)
    if found.images is not None:
        by_name = {PurePosixPath(name).as_posix(): row for row, name in enumerate(found.images)}
        bare = [PurePosixPath(name).name for name in found.images]
        by_bare = {name: row for row, name in enumerate(bare)} if len(set(bare)) == len(bare) else {}
        for row, name in enumerate(table.images):
            place = PurePosixPath(name)
            rows[row] = by_name.get(place.as_posix(), by_bare.get(place.name, -1))
    if found.hashes is not None and (rows < 0).any() and can_hash(table):
        by_hash = {code: row for row, code in enumerate(found.hashes)}
        codes = content()
        rows = np.array([by_hash.get(code, -1) if row < 0 else row for code, row in zip(codes, rows, strict=True)])
    return rows


def _select(X: Values, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    return np.asarray(X[rows], dtype=np.float32)


def _unit(X: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Rows with length 1, so that two concatenated backbones have the same weight."""
    lengths = np.linalg.norm(X, axis=-1, keepdims=True)
    scaled: npt.NDArray[np.float32] = X / np.maximum(lengths, 1e-12)
    return scaled


def _stack(
    paths: Sequence[Path], read: Sequence[EmbeddingFile], rows: Sequence[npt.NDArray[np.int64]]
) -> npt.NDArray[np.float32]:
    """The embedding of each image from the first file that contains it."""
    shapes = {found.X.shape[1:] for found in read}
    if len(shapes) > 1:
        told = ", ".join(f"{path} {found.X.shape[-1]:,}" for path, found in zip(paths, read, strict=True))
        raise ConfigError(f"Files with different images must have embeddings of the same length: {told}.")
    X = np.empty((len(rows[0]), *shapes.pop()), dtype=np.float32)
    for found, row in reversed(list(zip(read, rows, strict=True))):
        held = row >= 0
        X[held] = found.X[row[held]]
    return X


def _refuse_odd(X: npt.NDArray[np.float32], table: LabelTable, paths: Sequence[Path]) -> None:
    flat = X.reshape(len(X), -1)
    odd = np.flatnonzero(~np.isfinite(flat).all(axis=1))
    if len(odd):
        names = [table.images[row] for row in odd.tolist()]
        raise ConfigError(
            f"{', '.join(map(str, paths))}: {len(names):,} embeddings have numbers that are not finite: "
            f"{and_more(names, 3)}."
        )
