"""Images → predictions: decoded by threads, scored in batches, in their original order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image

from positively.errors import ConfigError, ImageError
from positively.images.decode import ImageSource, load_image
from positively.images.reading import read_ahead
from positively.labels import LabelTable

if TYPE_CHECKING:
    from positively.runs.run import Run, Scores


class Picture(NamedTuple):
    """An image and its name in the output."""

    name: str
    source: ImageSource


@dataclass(frozen=True)
class Prediction:
    """Tags of one image, best first, with their scores."""

    image: str
    tags: dict[str, float] = field(default_factory=dict)
    error: str | None = None
    """Why the image could not be read; None if it was."""


def named(images: Iterable[ImageSource]) -> Iterator[Picture]:
    """Images with names: files by their path, others by their number."""
    for number, image in enumerate(images, 1):
        yield Picture(str(image) if isinstance(image, str | Path) else f"image {number}", image)


def is_one(images: object) -> bool:
    """Whether this is a single image."""
    if isinstance(images, np.ndarray):
        return images.ndim < 4 and images.dtype.kind not in "OSU"  # an array of paths is several images
    is_source = isinstance(images, str | Path | bytes | bytearray | memoryview | Image.Image)
    return is_source or hasattr(images, "read") or not isinstance(images, Iterable)


def load_row(table: LabelTable, size: int, row: int) -> Image.Image:
    """The image of a row; an error names its place in the table."""
    try:
        return load_image(table.root / table.images[row], at_least=size)
    except ImageError as error:
        raise ImageError(f"{table.place(row)}: {error.message}") from None


class Tagger:
    """A run's predictor and thresholds, loaded once for any number of images."""

    def __init__(self, run: Run, top: int | None = None) -> None:
        """Take a run; nothing is loaded before the first image.

        Args:
            run: The run.
            top: This many best tags, regardless of thresholds.
        """
        if top is not None and top < 1:
            raise ConfigError(f"The number of best tags must be at least 1, not {top}.")
        self.run, self.top = run, top

    def __call__(self, pictures: Iterable[Picture]) -> Iterator[Prediction]:
        """Predictions of images in their order; an image that cannot be read gets an error."""
        predictor, size = self.run.predictor, self.run.image_size  # loaded here, once, and not by several threads
        waiting: deque[tuple[str, str | None]] = (
            deque()
        )  # names of images that were read but not scored, with their errors

        def readable() -> Iterator[Image.Image]:
            for picture, found in read_ahead(lambda picture: (picture, _load(picture, size)), pictures):
                waiting.append((picture.name, found if isinstance(found, str) else None))
                if not isinstance(found, str):
                    yield found

        for scores in predictor(readable()):
            yield from _broken_first(waiting)
            yield self.tags(waiting.popleft()[0], scores)
        yield from _broken_first(waiting)

    def tags(self, name: str, scores: Scores) -> Prediction:
        """The tags of one image by its scores."""
        thresholds = self.run.thresholds
        order = np.argsort(-scores, kind="stable")
        learned = order[np.isfinite(thresholds[order])]
        chosen = learned[: self.top] if self.top is not None else learned[scores[learned] >= thresholds[learned]]
        return Prediction(name, {self.run.classes[c]: float(scores[c]) for c in chosen})


def _broken_first(waiting: deque[tuple[str, str | None]]) -> Iterator[Prediction]:
    """Errors at the front of the queue."""
    while waiting and waiting[0][1] is not None:
        name, problem = waiting.popleft()
        yield Prediction(name, error=problem)


def _load(picture: Picture, size: int) -> Image.Image | str:
    """An image, or why it cannot be read."""
    try:
        return load_image(picture.source, at_least=size, name=picture.name)
    except ImageError as error:
        if isinstance(picture.source, str | Path):  # short, for a list of files
            return str(getattr(error, "reason", error.message))
        return error.message.removeprefix(f"{picture.name}: ").rstrip(".")
