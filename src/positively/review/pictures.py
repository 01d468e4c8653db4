"""Photos of a table for the page: upright, small, as JPEG, and only photos of the table."""

from __future__ import annotations

import io
import os
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import BoundedSemaphore, Lock

from PIL import Image, ImageDraw

from positively.errors import ImageError
from positively.images.decode import image_size, load_image

THUMBNAIL, LARGE = 448, 1920
"""Longest side in pixels, for the grid on a high-resolution screen and for zoom."""

_CACHE_BYTES = 96 * 2**20
_MAGNIFY = 4


class Pictures:
    """JPEGs of the photos by row, with a cache in memory; thread-safe."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._cache: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._bytes = 0
        self._shapes: dict[int, float] = {}
        self._lock = Lock()
        # A page asks for dozens at once, and answers must not wait for them.
        self._decoding = BoundedSemaphore(max(1, (os.cpu_count() or 2) - 1))

    def __len__(self) -> int:
        return len(self._paths)

    def jpeg(self, row: int, side: int) -> bytes:
        """The photo of a row with sides up to ``side``; a placeholder if it cannot be read."""
        key = (row, side)
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        with self._decoding:
            try:
                made = _encode(load_image(self._paths[row], at_least=side), side)
            except ImageError:  # removed or damaged meanwhile; it may come back
                return _encode(_placeholder(), side)
        with self._lock:
            if key not in self._cache:
                self._cache[key] = made
                self._bytes += len(made)
            while self._bytes > _CACHE_BYTES and len(self._cache) > 1:
                self._bytes -= len(self._cache.popitem(last=False)[1])
        return made

    def aspect(self, row: int) -> float:
        """Displayed width divided by height, from the header of the file; 1 if it cannot be read."""
        if row not in self._shapes:
            self._shapes[row] = _aspect(self._paths[row])
        return self._shapes[row]


def _encode(image: Image.Image, side: int) -> bytes:
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    if max(image.size) < side // _MAGNIFY:  # a tiny picture is enlarged without blur, so that it can be judged
        factor = side // _MAGNIFY // max(image.size)
        image = image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=85 if side <= THUMBNAIL else 90)
    return file.getvalue()


def _placeholder() -> Image.Image:
    image = Image.new("RGB", (400, 300), "#d8dadd")
    draw = ImageDraw.Draw(image)
    draw.rectangle((130, 90, 270, 210), outline="#8b9198", width=5)
    draw.line((130, 90, 270, 210), fill="#8b9198", width=5)
    draw.line((130, 210, 270, 90), fill="#8b9198", width=5)
    return image


def _aspect(path: Path) -> float:
    try:
        width, height = image_size(path)
    except ImageError:  # the placeholder shows the error
        return 1.0
    return round(width / height, 4)
