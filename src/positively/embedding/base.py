"""The embedder protocol, and embeddings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from PIL import Image

from positively.embedding.rows import FeatureRows
from positively.errors import ConfigError

Pooling = Literal["average", "max", "mix"]
Vector = npt.NDArray[np.float32]


@runtime_checkable
class Embedder(Protocol):
    """Computes embeddings of images. Any object with these two members can be passed to :func:`positively.embed`.

    If it also has ``export(path)``, which writes an ONNX file and returns a :class:`BackboneEmbedder` of it, runs
    contain their network.
    """

    key: str
    """Identifies the embeddings in the cache. It must change when weights, pooling, image size or preprocessing do."""

    def __call__(self, images: Iterable[Image.Image], /) -> Iterator[Vector]:
        """Yield the embedding of each RGB image in order: (D,), or (1+P, D) with parts."""


@dataclass(frozen=True)
class Preprocessing:
    """How images are prepared for a network: resized to a square, scaled to [0, 1] and normalized."""

    image_size: int = 224
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)
    interpolation: str = "bicubic"
    resize: Literal["squash", "crop"] = "squash"
    """'squash' resizes both sides; 'crop' resizes the short side and crops the center, as CLIP does."""


@dataclass(frozen=True)
class Embeddings:
    """Embeddings of images, in the order of a table. ``np.asarray(embeddings)`` is the array.

    Attributes:
        X: N×D, or N×(1+P)×D with parts: an array, or an object that reads rows from disk on access.
        key: Identifies the network and its preprocessing.
        embedder: What computed them; None for embeddings from a file.
        width: Length D of an embedding.
    """

    X: FeatureRows
    """N×D, or N×(1+P)×D with parts: an array, or an object that reads rows from disk on access."""
    key: str
    """Key of the embedder; embeddings with different keys cannot be compared."""
    embedder: Embedder | None = field(default=None, repr=False)
    """The embedder; None for embeddings from a file."""

    @classmethod
    def of(cls, given: Embeddings | npt.ArrayLike) -> Embeddings:
        """Embeddings unchanged, and an array as embeddings of a network that is not known.

        Raises:
            ConfigError: if it is not N×D or N×(1+P)×D numbers.
        """
        if isinstance(given, Embeddings):
            return given
        rows = np.asarray(given)
        if rows.ndim not in (2, 3) or rows.dtype.kind not in "fiu":
            raise ConfigError(f"Pass embeddings as a 2-D array of numbers, items × dimensions, not {rows.shape}.")
        return cls(rows.astype(np.float32), key="")

    def __len__(self) -> int:
        return len(self.X)

    @property
    def width(self) -> int:
        """Length of an embedding."""
        return int(self.X[slice(0, 1)].shape[-1])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[np.float32]:
        return np.asarray(self.X[slice(None)] if not isinstance(self.X, np.ndarray) else self.X, dtype=dtype)
