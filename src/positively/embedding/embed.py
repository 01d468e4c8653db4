"""Embed the images of a table, with a cache on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from positively.embedding.backbones import find_embedder
from positively.embedding.base import Embedder, Embeddings, Pooling, Vector
from positively.embedding.cache import FeatureStore, default_store
from positively.errors import ConfigError, ImageError, PositivelyError, short
from positively.images.decode import load_image
from positively.images.reading import read_ahead
from positively.labels import LabelTable
from positively.tables.overlap import image_hashes

# Embeddings computed between two writes; a killed process loses at most this many.
_SEGMENT_IMAGES = 512
# Minimum side to decode images at, for embedders without a known image size.
_LEAST_SIDE = 224


def embed(
    table: LabelTable,
    backbone: str | Embedder = "auto",
    *,
    weights: str = "pretrained",
    image_size: int | None = None,
    pooling: Pooling = "average",
    window: int = 0,
    seed: int = 0,
    cache: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Embeddings:
    """Compute the embedding of every image of a table.

    Embeddings are stored on disk every few hundred images, and also at an error or Ctrl-C, and the next call continues
    from there. Images are identified by their content, so renamed or moved images are not computed again.

    Args:
        table: The images.
        backbone: Name of a backbone, an .onnx file, or your own :class:`Embedder`.
        weights: 'pretrained', a .safetensors file with timm's names, or 'none' for random weights.
        image_size: Side of the images in pixels; by default the size that the backbone was trained with.
        pooling: How the feature map is pooled over its positions: 'average', 'max' or 'mix'.
        window: Side of the image parts that are embedded too, in positions of the feature map; 0 for whole images
            only.
        seed: Seed of random weights.
        cache: Folder of the stored embeddings; by default the user's cache folder.
        progress: Called with the number of embedded images and the total number.

    Returns:
        N×D embeddings (N×(1+P)×D with parts), in the order of the table.

    Raises:
        ConfigError: if there is no such backbone, or an embedder fails or does not return one vector for each image.
        ImageError: if an image cannot be read.
        WeightsError: if the weights cannot be loaded.
    """
    options = {"weights": weights, "image_size": image_size, "pooling": pooling, "window": window, "seed": seed}
    embedder = find_embedder(backbone, **options) if isinstance(backbone, str) else backbone  # type: ignore[arg-type]
    key = getattr(embedder, "key", None)
    if not callable(embedder) or not isinstance(key, str) or not key:
        raise ConfigError(
            f"{type(embedder).__name__} is not an embedder: it needs an attribute 'key' (a string) and must be "
            "callable with images."
        )
    store = FeatureStore((Path(cache) if cache else default_store()) / key)
    hashes = image_hashes(table)
    missing = store.missing(hashes)
    rows = {code: row for row, code in reversed(list(enumerate(hashes))) if code in missing}
    _compute(embedder, table, sorted(rows.values()), hashes, store, progress)
    return Embeddings(store.get(hashes), key, embedder)


def _compute(
    embedder: Embedder,
    table: LabelTable,
    rows: list[int],
    hashes: list[str],
    store: FeatureStore,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Embed some rows and store them in segments, also if an error stops it."""
    if not rows:
        return
    images: Iterator[Image.Image] = read_ahead(partial(_load, table, _side(embedder)), rows)
    vectors = _vectors(embedder, images)
    done = 0
    while done < len(rows):
        part: list[Vector] = []
        try:
            for found in islice(vectors, _SEGMENT_IMAGES):
                vector = _checked(found, part)
                if not done + len(part):
                    store.require_room(vector.nbytes * len(rows))
                part.append(vector)
                if progress:
                    progress(done + len(part), len(rows))
        finally:
            if part:
                codes = [hashes[row] for row in rows[done : done + len(part)]]
                store.add(codes, np.stack(part).astype(np.float32, copy=False))
        if not part:
            raise ConfigError(
                f"The embedder returned {done:,} embeddings for {len(rows):,} images. It must return one for each."
            )
        done += len(part)


def _vectors(embedder: Embedder, images: Iterator[Image.Image]) -> Iterator[Any]:
    """The output of an embedder, with its exceptions as ConfigErrors."""
    try:
        yield from embedder(images)
    except PositivelyError:
        raise
    except Exception as error:  # an embedder may be user code
        raise ConfigError(f"The embedder failed: {type(error).__name__}: {short(error)}.") from error


def _checked(found: Any, others: list[Vector]) -> Vector:
    """Check that an embedding is finite and has the shape of the others."""
    vector = np.asarray(found, dtype=np.float32)
    expected = others[0].shape if others else vector.shape
    if vector.ndim not in (1, 2) or vector.shape != expected or not np.isfinite(vector).all():
        raise ConfigError(
            f"The embedder returned an embedding of shape {vector.shape} (expected {expected}) or with numbers that "
            "are not finite. All embeddings must be finite and have the same shape, (D,) or (1+P, D)."
        )
    return vector


def _side(embedder: Embedder) -> int:
    """Minimum side in pixels to decode images at."""
    preprocessing = getattr(embedder, "preprocessing", None)
    return preprocessing.image_size if preprocessing else _LEAST_SIDE


def _load(table: LabelTable, size: int, row: int) -> Image.Image:
    try:
        return load_image(table.root / table.images[row], at_least=size)
    except ImageError as error:
        raise ImageError(f"{table.place(row)}: {error.message}") from None
