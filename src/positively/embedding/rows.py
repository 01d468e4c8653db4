"""Rows of embeddings: an array in memory, or an object that reads rows on access."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


class FeatureRows(Protocol):
    """One embedding per image: an array, or an object that returns an array when indexed."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any, /) -> npt.NDArray[Any]: ...


class SelectedRows:
    """A selection of rows, read on access."""

    def __init__(self, features: FeatureRows, places: npt.NDArray[np.int64]) -> None:
        self._features, self._places = features, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, rows: Any, /) -> npt.NDArray[Any]:
        return self._features[self._places[rows]]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self._features[self._places], dtype=dtype)
