"""Weights that torch wrote before its zip format, read without torch and without running code.

Such a file is five pickles (a magic number, the protocol, facts about the machine, the tensors, the keys of their
storages), and then every storage: the number of its elements, and their bytes. A tensor in the pickle is a view of a
storage, which it names by its key.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from positively.errors import WeightsError

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001

_STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "|i1",
    "ByteStorage": "|u1",
    "BoolStorage": "|b1",
}
"""NumPy's types of torch's storages; NumPy has none for bfloat16."""


class _Storage(NamedTuple):
    """The memory of one or more tensors, which lies behind the pickles."""

    key: str
    type: str
    size: int


class _View(NamedTuple):
    """A tensor as ``torch._utils._rebuild_tensor_v2`` is told about it."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool
    hooks: object


class _TensorDict(OrderedDict[str, _View]):
    """An ordered dict that takes no attributes from the file: a state dict of torch has its versions there."""

    def __setstate__(self, state: object) -> None:
        """Ignore them."""


_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): _TensorDict,
    ("torch._utils", "_rebuild_tensor_v2"): _View,
    **{("torch", name): kind for name, kind in _STORAGES.items()},
}


class _TensorUnpickler(pickle.Unpickler):  # noqa: S301 (that is what it is for)
    """Knows tensors and ordered dicts, by classes of our own; a pickle can name nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """One of our classes in place of the one that is named."""
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is no part of a tensor")
        return _ALLOWED[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        """A storage, by what the pickle says of it."""
        kind, dtype, key, _device, size, view = pid
        if kind != "storage" or dtype not in _STORAGES.values() or view is not None:
            raise pickle.UnpicklingError(f"it refers to a {kind} that is not a plain storage")
        return _Storage(key, dtype, size)


def read_legacy_torch_file(path: Path, sha256: str) -> dict[str, npt.NDArray[Any]]:
    """Read the tensors of a file that ``torch.save`` wrote in its legacy format.

    The digest is compared before anything of the file is interpreted. Its pickles then get at nothing but tensors and
    ordered dicts.

    Args:
        path: The file: a dict of names and tensors, such as a state dict.
        sha256: Digest of the file that is expected, in hexadecimal digits.

    Returns:
        The tensors by their names, in the order of the file.

    Raises:
        WeightsError: If it is another file, or holds anything else than tensors.
    """
    try:
        content = path.read_bytes()
    except OSError as reason:
        raise WeightsError(f"{path} cannot be read: {reason.strerror}.") from reason
    if hashlib.sha256(content).hexdigest() != sha256:
        raise WeightsError(f"{path} is not the expected file (its SHA-256 differs), so it is not loaded.")
    try:
        return _read_tensors(content)
    except Exception as reason:  # an unpickler may raise anything
        raise WeightsError(f"{path} is not a legacy torch file of plain tensors: {reason}.") from reason


def _read_tensors(content: bytes) -> dict[str, npt.NDArray[Any]]:
    file = io.BytesIO(content)
    magic, protocol, machine, views, keys = (_TensorUnpickler(file).load() for _ in range(5))
    if magic != _MAGIC or protocol != _PROTOCOL or not machine["little_endian"]:
        raise ValueError("its header is another one")
    if not isinstance(views, dict) or not all(isinstance(view, _View) for view in views.values()):
        raise ValueError("it holds other things than tensors")
    starts = _find_storages(content, file.tell(), keys, {view.storage.key: view.storage for view in views.values()})
    return {name: _read_view(content, starts[view.storage.key], view) for name, view in views.items()}


def _find_storages(content: bytes, position: int, keys: list[str], storages: dict[str, _Storage]) -> dict[str, int]:
    """Where the elements of every storage begin."""
    starts = {}
    for key in keys:
        storage = storages[key]
        if int.from_bytes(content[position : position + 8], "little") != storage.size:
            raise ValueError(f"storage {key} has another size than its tensors say")
        starts[key] = position + 8
        position = starts[key] + storage.size * np.dtype(storage.type).itemsize
    if position != len(content):
        raise ValueError("its storages end elsewhere than the file")
    return starts


def _read_view(content: bytes, start: int, view: _View) -> npt.NDArray[Any]:
    kind = np.dtype(view.storage.type)
    memory = memoryview(content)[start : start + view.storage.size * kind.itemsize]
    strides = [kind.itemsize * stride for stride in view.strides]
    # This constructor refuses views that reach beyond the memory.
    return np.ndarray(view.shape, kind, memory, view.offset * kind.itemsize, strides).copy()
