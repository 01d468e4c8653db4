"""Read weights in torch's legacy format (before its zip format), without torch and without running code.

Such a file has five pickles (a magic number, the protocol, machine information, the tensors and the keys of their
storages), followed by every storage: the number of its elements and their bytes. A tensor in the pickle is a view of a
storage, which it references by key.
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
"""NumPy types of torch's storages; NumPy has no bfloat16."""


class _Storage(NamedTuple):
    """The memory of one or more tensors, stored after the pickles."""

    key: str
    type: str
    size: int


class _View(NamedTuple):
    """A tensor: the arguments of ``torch._utils._rebuild_tensor_v2``."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool
    hooks: object


class _TensorDict(OrderedDict[str, _View]):
    """An ordered dict that ignores attributes in the file; torch stores versions of a state dict there."""

    def __setstate__(self, state: object) -> None:
        """Ignore them."""


_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): _TensorDict,
    ("torch._utils", "_rebuild_tensor_v2"): _View,
    **{("torch", name): kind for name, kind in _STORAGES.items()},
}


class _TensorUnpickler(pickle.Unpickler):  # noqa: S301 (that is what it is for)
    """Unpickles tensors and ordered dicts, as classes of this module; everything else is an error."""

    def find_class(self, module: str, name: str) -> Any:
        """The class of this module that replaces the named one."""
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is not part of a tensor")
        return _ALLOWED[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        """A storage from its description in the pickle."""
        kind, dtype, key, _device, size, view = pid
        if kind != "storage" or dtype not in _STORAGES.values() or view is not None:
            raise pickle.UnpicklingError(f"it refers to a {kind} that is not a plain storage")
        return _Storage(key, dtype, size)


def read_legacy_torch_file(path: Path, sha256: str) -> dict[str, npt.NDArray[Any]]:
    """Read the tensors of a file that ``torch.save`` wrote in its legacy format.

    The digest is checked before the file is interpreted, and its pickles can only contain tensors and ordered dicts.

    Args:
        path: A file with a dict of tensors, such as a state dict.
        sha256: Expected digest of the file in hexadecimal digits.

    Returns:
        The tensors by name, in the order of the file.

    Raises:
        WeightsError: if it is another file, or contains anything other than tensors.
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
        raise ValueError("its header differs")
    if not isinstance(views, dict) or not all(isinstance(view, _View) for view in views.values()):
        raise ValueError("it contains other objects than tensors")
    starts = _find_storages(content, file.tell(), keys, {view.storage.key: view.storage for view in views.values()})
    return {name: _read_view(content, starts[view.storage.key], view) for name, view in views.items()}


def _find_storages(content: bytes, position: int, keys: list[str], storages: dict[str, _Storage]) -> dict[str, int]:
    """Start of the elements of every storage."""
    starts = {}
    for key in keys:
        storage = storages[key]
        if int.from_bytes(content[position : position + 8], "little") != storage.size:
            raise ValueError(f"the size of storage {key} differs from that of its tensors")
        starts[key] = position + 8
        position = starts[key] + storage.size * np.dtype(storage.type).itemsize
    if position != len(content):
        raise ValueError("its storages do not end at the end of the file")
    return starts


def _read_view(content: bytes, start: int, view: _View) -> npt.NDArray[Any]:
    kind = np.dtype(view.storage.type)
    memory = memoryview(content)[start : start + view.storage.size * kind.itemsize]
    strides = [kind.itemsize * stride for stride in view.strides]
    # This constructor raises if a view reaches beyond the memory.
    return np.ndarray(view.shape, kind, memory, view.offset * kind.itemsize, strides).copy()
