"""Read images from files, bytes and memory."""

from typing import TYPE_CHECKING

from positively.lazy import lazy

if TYPE_CHECKING:
    from positively.images.decode import content_hash, load_image
    from positively.images.transforms import ImageTransform

__all__ = [
    "ImageTransform",
    "content_hash",
    "load_image",
]

__getattr__ = lazy(
    __name__,
    {
        "decode": ["content_hash", "load_image"],
        "transforms": ["ImageTransform"],
    },
)
