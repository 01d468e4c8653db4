"""The images of a table → embeddings: read from the cache where they are on disk, computed once where they are not."""

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
from positively.errors import ConfigError, ImageError
from positively.images.decode import load_image
from positively.images.reading import read_ahead
from positively.labels import LabelTable
from positively.tables.overlap import image_hashes

# Embeddings computed between two writes: the most that a kill can cost.
_SEGMENT_IMAGES = 512
# Images smaller than this are decoded whole anyway.
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
    """Embed every image of a table, one row each, in the table's order.

    What is computed is on disk after every few hundred images, and at any error or Ctrl-C: the next call goes on from
    there. Images are told apart by their content, so that a renamed or moved one is not computed again.

    Args:
        table: The images.
        backbone: Name of a backbone, an .onnx file, or an :class:`Embedder` of your own.
        weights: 'pretrained', a .safetensors file with timm's names, or 'none' for random ones.
        image_size: Side of the images in pixels; by default what the backbone was trained with.
        pooling: How the feature map is pooled over its positions.
        window: Side of the parts of an image that are embedded too, in positions of the map; 0: the whole image alone.
        seed: Seed of random weights.
        cache: Folder of the stored embeddings; by default the user's cache.
        progress: Called with how many images are done, and how many are to be.
    """
    options = {"weights": weights, "image_size": image_size, "pooling": pooling, "window": window, "seed": seed}
    embedder = find_embedder(backbone, **options) if isinstance(backbone, str) else backbone  # type: ignore[arg-type]
    store = FeatureStore((Path(cache) if cache else default_store()) / embedder.key)
    hashes = image_hashes(table)
    missing = store.missing(hashes)
    rows = {code: row for row, code in reversed(list(enumerate(hashes))) if code in missing}
    _compute(embedder, table, sorted(rows.values()), hashes, store, progress)
    return Embeddings(store.get(hashes), embedder.key, embedder)


def _compute(
    embedder: Embedder,
    table: LabelTable,
    rows: list[int],
    hashes: list[str],
    store: FeatureStore,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Embed some rows and store them, a segment at a time; however it ends, what was computed is stored."""
    if not rows:
        return
    images: Iterator[Image.Image] = read_ahead(partial(_load, table, _side(embedder)), rows)
    vectors = embedder(images)
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
                f"The embedder gave {done:,} embeddings of {len(rows):,} images. It must give one for each."
            )
        done += len(part)


def _checked(found: Any, others: list[Vector]) -> Vector:
    """An embedding, if it is numbers of the same shape as those before it."""
    vector = np.asarray(found, dtype=np.float32)
    expected = others[0].shape if others else vector.shape
    if vector.ndim not in (1, 2) or vector.shape != expected or not np.isfinite(vector).all():
        raise ConfigError(
            f"The embedder gave an embedding of shape {vector.shape} after {expected}, or no numbers. Embeddings "
            "are arrays of finite numbers, (D,) or (1+P, D), all of one shape."
        )
    return vector


def _side(embedder: Embedder) -> int:
    """Pixels a side that decoding has to keep."""
    preprocessing = getattr(embedder, "preprocessing", None)
    return preprocessing.image_size if preprocessing else _LEAST_SIDE


def _load(table: LabelTable, size: int, row: int) -> Image.Image:
    try:
        return load_image(table.root / table.images[row], at_least=size)
    except ImageError as error:
        raise ImageError(f"{table.place(row)}: {error.message}") from None
