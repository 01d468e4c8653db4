"""The network of a run in torch: for GPUs, for runs without an ONNX file, and for exports."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import timm
import torch
from PIL import Image

from positively.embedding import BACKBONES
from positively.errors import RunError
from positively.metrics.logits import sigmoid
from positively.models.classifier import Classifier, create_classifier
from positively.models.heads import KernelHead, LinearHead
from positively.models.heads.fitted import fill_kernel, fill_linear
from positively.models.saving import load_model
from positively.probe import LinearClassifier
from positively.runs.sources import read_config

if TYPE_CHECKING:
    from positively.runs.run import Run

_BATCH = 16


class NetworkPredictor:
    """Predicts class scores of images with the trained network of a run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.device = run.device or _device()

    @cached_property
    def model(self) -> Classifier:
        """The network."""
        return load_network(self._run).to(self.device)

    @torch.inference_mode()
    def __call__(self, images: Iterable[Image.Image], /) -> Iterator[npt.NDArray[np.float64]]:
        """Score images. Yields scores of shape (C,) per image, in order."""
        remaining, model, transform = iter(images), self.model.eval(), self._run.transform
        while batch := list(islice(remaining, _BATCH)):
            pixels = torch.from_numpy(np.stack([transform(image) for image in batch])).permute(0, 3, 1, 2)
            with torch.inference_mode():
                logits = model(pixels.to(self.device))
            yield from sigmoid(logits.float().cpu().numpy())


def load_network(run: Run) -> Classifier:
    """Load the network of a run, with the head that the run uses.

    A probe stores its classifier only; its backbone is created by name, with its original weights.
    """
    if run.is_probe:
        return _build_probe(run)
    model = load_model(run.folder, run.model_config, run.backbone)
    if run.head == "linear" and isinstance(model.head, KernelHead):
        model.replace_head(model.head.as_linear())
    return model


def _build_probe(run: Run) -> Classifier:
    config = run.model_config
    name = BACKBONES[config["backbone"]].timm if config["backbone"] in BACKBONES else config["backbone"]
    if run.backbone is None and (name is None or not timm.is_model(name)):
        raise RunError(f"The backbone of {run.path}, {config['backbone']}, is not a timm model.")
    options = {key: value for key, value in config["head_options"].items() if key in ("pooling", "window")}
    classifier = run.classifier
    if isinstance(classifier, LinearClassifier):
        options.pop("window", None)
    else:
        options["landmarks"] = len(classifier.landmarks)
    head = "linear" if isinstance(classifier, LinearClassifier) else "kernel"
    model = create_classifier(
        run.backbone if run.backbone is not None else str(name),
        classes=len(run.classes),
        weights=_weights(run),
        image_size=config["image_size"],
        head=head,
        head_options=options,
        depth="probe",
    )
    if isinstance(classifier, LinearClassifier):
        assert isinstance(model.head, LinearHead)
        fill_linear(model.head.linear, classifier)
    else:
        assert isinstance(model.head, KernelHead)
        fill_kernel(model.head, classifier)
    return model.eval().to(memory_format=torch.channels_last)


def _weights(run: Run) -> str:
    """Weights of the backbone as configured in training; a run from the hub has no such configuration."""
    weights = read_config(run.folder).get("weights") if run.folder.config.exists() else None
    if weights is None:
        raise RunError(f"{run.path} does not name the weights of its backbone. Use the original run folder.")
    return str(weights)


def _device() -> str:
    """A GPU of this process, or the CPU."""
    count = torch.cuda.device_count()
    return f"cuda:{int(os.environ.get('LOCAL_RANK', '0')) % count}" if count else "cpu"
