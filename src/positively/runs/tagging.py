"""Pictures → predictions: decoded by threads, scored a few at a time, in the order in which they came."""

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

if TYPE_CHECKING:
    from positively.runs.run import Run, Scores


class Picture(NamedTuple):
    """An image, and what it is called in what comes out."""

    name: str
    source: ImageSource


@dataclass(frozen=True)
class Prediction:
    """Tags of one image, best first, with their scores."""

    image: str
    tags: dict[str, float] = field(default_factory=dict)
    error: str | None = None
    """Why the image could not be read, if it could not."""


def named(images: Iterable[ImageSource]) -> Iterator[Picture]:
    """Files by their path, everything else by its number."""
    for number, image in enumerate(images, 1):
        yield Picture(str(image) if isinstance(image, str | Path) else f"image {number}", image)


class Tagger:
    """A run's predictor and thresholds, made ready once for any number of pictures."""

    def __init__(self, run: Run, top: int | None = None) -> None:
        """Take a run; nothing is loaded before the first picture is there.

        Args:
            run: The run.
            top: This many best tags, whatever the thresholds say.
        """
        if top is not None and top < 1:
            raise ConfigError(f"The number of best tags is at least 1, not {top}.")
        self.run, self.top = run, top

    def __call__(self, pictures: Iterable[Picture]) -> Iterator[Prediction]:
        """Predictions of pictures, in their order; what cannot be read is one with an error."""
        predictor, size = self.run.predictor, self.run.image_size  # loaded here, not by several threads
        waiting: deque[tuple[str, str | None]] = deque()  # names of those read and not yet given, and what is wrong

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
    """Those at the front of the queue that could not be read."""
    while waiting and waiting[0][1] is not None:
        name, problem = waiting.popleft()
        yield Prediction(name, error=problem)


def _load(picture: Picture, size: int) -> Image.Image | str:
    """A picture, or why it cannot be read."""
    try:
        return load_image(picture.source, at_least=size, name=picture.name)
    except ImageError as error:
        if isinstance(picture.source, str | Path):  # in a list of files, a few words
            return str(getattr(error, "reason", error.message))
        return error.message.removeprefix(f"{picture.name}: ").rstrip(".")
