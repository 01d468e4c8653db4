"""Resize and augment images for a network.

The pixels are bytes; the classifier scales and normalizes them on its own device.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from positively.images.decode import ImageSource, load_image

Pixels = npt.NDArray[np.uint8]
Augment = Literal["none", "flip", "crop"]

_RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
# The reference code resizes to 512 and crops a square of 512, 448, 384, 320 or 256; here as shares of the image.
_CROP_SHARES = (1.0, 0.875, 0.75, 0.625, 0.5)


@dataclass(frozen=True)
class ImageTransform:
    """Read an image as size×size pixels. Both sides are squashed to a square, as in all systems of the paper.

    ``augment`` is for training only: "flip" mirrors half of the images; "crop" also crops to one of the five sizes of
    the reference code. Crop and resize are a single resampling.
    """

    size: int
    interpolation: str = "bicubic"
    augment: Augment = "none"

    def __call__(
        self, source: ImageSource, generator: np.random.Generator | None = None, name: str | None = None
    ) -> Pixels:
        """Pixels size×size×3; augmented only if a generator is given. ``name`` is the image's name in errors."""
        random = generator if self.augment != "none" else None
        share = random.choice(_CROP_SHARES) if random is not None and self.augment == "crop" else 1.0
        image = load_image(source, at_least=round(self.size / share), name=name)
        box = None
        if random is not None and share < 1.0:
            width, height = image.width * share, image.height * share
            left, top = random.uniform(0, image.width - width), random.uniform(0, image.height - height)
            box = (left, top, left + width, top + height)
        image = image.resize((self.size, self.size), _resampling(self.interpolation), box=box, reducing_gap=3.0)
        if random is not None and random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return np.asarray(image)


def resize(
    image: Image.Image, size: int, interpolation: str = "bicubic", way: Literal["squash", "crop"] = "squash"
) -> Image.Image:
    """Resize an image to a square: squash both sides, or resize the short side and crop the center.

    >>> resize(Image.new("RGB", (40, 20)), 10).size, resize(Image.new("RGB", (40, 20)), 10, way="crop").size
    ((10, 10), (10, 10))
    """
    box = None
    if way == "crop":
        side = min(image.size)
        left, top = (image.width - side) / 2, (image.height - side) / 2
        box = (left, top, left + side, top + side)
    return image.resize((size, size), _resampling(interpolation), box=box, reducing_gap=3.0)


def _resampling(interpolation: str) -> Image.Resampling:
    return _RESAMPLING.get(interpolation, Image.Resampling.BICUBIC)
