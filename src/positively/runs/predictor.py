"""Class scores of images, by ONNX Runtime here, or by torch in the wing that needs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image

from positively.embedding import Embedder, OnnxEmbedder, Preprocessing
from positively.errors import RunError
from positively.metrics.logits import sigmoid
from positively.probe.classifier import Classifier
from positively.registry import TORCH

Scores = npt.NDArray[np.float64]

# Embeddings per call of the classifier: several times faster than one by one.
_BATCH = 32


def preprocessing_of_run(config: dict[str, Any]) -> Preprocessing:
    """The preprocessing of a run's images, by its config.json."""
    chosen = {name: config[name] for name in ("image_size", "interpolation", "resize") if name in config}
    return Preprocessing(**chosen)


def module_embedder(run: Path, config: dict[str, Any], module: Any, device: str | None) -> Embedder:
    """The torch module that a probe was trained with.

    Raises:
        RunError: The module has other weights or another architecture.
    """
    chosen = {name: value for name, value in config["head_options"].items() if name in ("pooling", "window")}
    made: Embedder = TORCH["embedder"](module, image_size=config["image_size"], device=device, **chosen)
    if made.key != config["embedding_key"]:
        raise RunError(f"{run} was trained with a module of other weights or another architecture. Pass that module.")
    return made


class Predictor(Protocol):
    """Images → class scores."""

    def __call__(self, images: Iterable[Image.Image], /) -> Iterator[Scores]:
        """Scores (C,) of each image, in order."""


class ProbePredictor:
    """The embedder and the classifier of a run."""

    def __init__(self, embedder: Embedder, classifier: Classifier) -> None:
        self.embedder, self.classifier = embedder, classifier

    def __call__(self, images: Iterable[Image.Image], /) -> Iterator[Scores]:
        """Scores (C,) of each image, in order."""
        vectors = self.embedder(images)
        while batch := list(islice(vectors, _BATCH)):
            yield from sigmoid(self.classifier.logits(np.stack(batch)))


class OnnxPredictor:
    """The whole network of a run as one ONNX file."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        self._network = OnnxEmbedder(path, preprocessing_of_run(config), key="", output="scores")

    def __call__(self, images: Iterable[Image.Image], /) -> Iterator[Scores]:
        """Scores (C,) of each image, in order."""
        for scores in self._network(images):
            yield scores.astype(np.float64)
