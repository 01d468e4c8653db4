"""What embeds images, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from PIL import Image

from positively.embedding.rows import FeatureRows

Pooling = Literal["average", "max", "mix"]
Vector = npt.NDArray[np.float32]


@runtime_checkable
class Embedder(Protocol):
    """Images → embeddings. Anything with these two members can be passed to :func:`positively.embed`.

    One that also has ``export(path)``, which writes an ONNX file and returns a :class:`BackboneEmbedder` of it, gives
    runs that carry their network with them.
    """

    key: str
    """Changes whenever the numbers would: weights, pooling, image size, preprocessing. Stored embeddings go by it."""

    def __call__(self, images: Iterable[Image.Image], /) -> Iterator[Vector]:
        """The embedding of each RGB image, (D,) or (1+P, D) with parts, in the order of the images."""


@dataclass(frozen=True)
class Preprocessing:
    """From an image to what a network reads: resized to a square, scaled to [0, 1], normalised."""

    image_size: int = 224
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)
    interpolation: str = "bicubic"
    resize: Literal["squash", "crop"] = "squash"
    """'squash' both sides to a square, or resize the short side and 'crop' the middle, as CLIP does."""


@dataclass(frozen=True)
class Embeddings:
    """One embedding an image, in the order of a table."""

    X: FeatureRows
    """N×D, or N×(1+P)×D with those of parts; an array, or rows that are read from disk when they are asked for."""
    key: str
    """Of the embedder; embeddings with different keys cannot be compared."""
    embedder: Embedder | None = field(default=None, repr=False)
    """What computed them; None for embeddings from a file."""

    def __len__(self) -> int:
        return len(self.X)

    @property
    def width(self) -> int:
        """Numbers in an embedding."""
        return int(self.X[slice(0, 1)].shape[-1])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[np.float32]:
        return np.asarray(self.X[slice(None)] if not isinstance(self.X, np.ndarray) else self.X, dtype=dtype)
