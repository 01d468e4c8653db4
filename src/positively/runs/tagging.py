"""Pictures → predictions: decoded by threads, scored in batches, in the order in which they came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from positively.errors import ConfigError, ImageError
from positively.finetune.extract import frozen_network
from positively.finetune.scoring import sigmoid
from positively.images.decode import ImageSource
from positively.images.reading import read_ahead
from positively.images.transforms import ImageTransform, Pixels
from positively.models.onnx import run_frozen

if TYPE_CHECKING:
    from positively.runs.run import Run

_BATCH = 16


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
    """A run's network and cuts, made ready once for any number of pictures."""

    def __init__(self, run: Run, images: int, top: int | None = None) -> None:
        """Take a run; nothing is loaded before the first picture is there.

        Args:
            run: The run.
            images: How many pictures there will be in all, which decides what runs the network; 0 if nobody knows.
            top: This many best tags, whatever the cuts say.
        """
        if top is not None and top < 1:
            raise ConfigError(f"The number of best tags is at least 1, not {top}.")
        self.run, self.images, self.top = run, images, top

    def __call__(self, pictures: Iterable[Picture]) -> Iterator[Prediction]:
        """Predictions of pictures, in their order; what cannot be read is one with an error."""
        remaining = iter(pictures)
        batches = iter(lambda: list(islice(remaining, _BATCH)), [])
        transform = self.run.transform  # loads the run, here and not in every thread

        def read(batch: list[Picture]) -> tuple[list[Picture], list[Pixels | str]]:
            return batch, [_pixels(transform, picture) for picture in batch]

        for batch, pixels in read_ahead(read, batches):
            readable = [one for one in pixels if not isinstance(one, str)]
            scores = iter(self._scores(np.stack(readable)) if readable else ())
            for picture, one in zip(batch, pixels, strict=True):
                if isinstance(one, str):
                    yield Prediction(picture.name, error=one)
                else:
                    yield self._tags(picture.name, next(scores))

    @torch.inference_mode()
    def _scores(self, pixels: Pixels) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        logits = self._network(torch.from_numpy(pixels).permute(0, 3, 1, 2))
        scores: np.ndarray[tuple[int, int], np.dtype[np.float64]] = sigmoid(logits.float().numpy())
        return scores

    @cached_property
    def _network(self) -> Callable[[Tensor], Tensor]:
        """Pixels to logits. The graph of a frozen backbone is the one that its training left."""
        model, runtime = self.run.model.eval(), self.run.runtime
        if model.depth != "probe":
            return run_frozen(model, model.backbone.image_size, self.images, runtime=runtime)
        features = frozen_network(model, self.run.transform, self.images, runtime=runtime)
        return lambda images: model.trainable(features(images).to(self.run.device)).cpu()

    def _tags(self, name: str, scores: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Prediction:
        cuts = self.run.thresholds
        order = np.argsort(-scores, kind="stable")
        learned = order[np.isfinite(cuts[order])]
        chosen = learned[: self.top] if self.top is not None else learned[scores[learned] >= cuts[learned]]
        return Prediction(name, {self.run.classes[c]: float(scores[c]) for c in chosen})


def _pixels(transform: ImageTransform, picture: Picture) -> Pixels | str:
    """What the network sees of a picture, or why it cannot be read."""
    try:
        return transform(picture.source, name=picture.name)
    except ImageError as error:
        if isinstance(picture.source, str | Path):  # in a list of files, a few words
            return str(getattr(error, "reason", error.message))
        return error.message.removeprefix(f"{picture.name}: ").rstrip(".")
