"""The ONNX model of a run, and verified writing: a file is kept only if its scores equal those of the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from positively.embedding.graph import EMBEDDING, IMAGES
from positively.embedding.onnx import example_pixels, open_session
from positively.errors import RunError
from positively.files import write_with
from positively.machine import thread_count
from positively.metrics.logits import sigmoid
from positively.registry import TORCH
from positively.runs.folder import RunFolder
from positively.runs.network import SCORES, is_any_size, with_scores
from positively.runs.run import Run

TOLERANCE = 1e-4
"""Largest allowed difference between the scores of an export and those of the run."""
Pixels = npt.NDArray[np.float32]
Scores = npt.NDArray[np.float64]
_BATCHES = (1, 2, 5)
_STEP = 32
"""Step in pixels between image sizes, for networks that support several sizes."""
Found = TypeVar("Found")


def run_model(run: Run) -> Any:
    """The network of a run as an ONNX model, with the run's current head and thresholds.

    Raises:
        ConfigError: if the run has no ONNX file yet, and torch, which would make it, is not installed.
        RunError: if the network cannot be exported.
    """
    import onnx

    if not run.folder.network.exists():
        if run.is_probe:
            is_file = run.model_config["backbone"] == "embeddings"
            source = "embeddings from a file" if is_file else "your own embedder without an ONNX file"
            raise RunError(f"{run.path} was trained with {source}, so it has no network to export.")
        TORCH["network"](run)
    classifier = run.classifier if run.is_probe else None
    return with_scores(onnx.load(run.folder.verified(run.folder.network)), classifier, run.thresholds, run.head)


class RunScores:
    """Scores of a run for pixels B×3×H×W in [0, 1], computed with its own file (and NumPy, for a probe)."""

    def __init__(self, run: Run) -> None:
        self._session = open_session(run.folder.verified(run.folder.network), thread_count())
        self._classifier = run.classifier if run.is_probe else None

    def __call__(self, pixels: Pixels) -> Scores:
        """Scores B×C."""
        if self._classifier is None:
            (scores,) = self._session.run([SCORES], {IMAGES: pixels})
            return np.asarray(scores, dtype=np.float64)
        (embeddings,) = self._session.run([EMBEDDING], {IMAGES: pixels})
        return sigmoid(self._classifier.logits(embeddings))


def write_verified(path: Path, save: Callable[[Path], object], verify: Callable[[Path], Found]) -> Found:
    """Write a file atomically if ``verify`` does not raise; return the result of ``verify``."""
    found: list[Found] = []

    def write(temporary: Path) -> None:
        save(temporary)
        found.append(verify(temporary))

    write_with(path, write)
    return found[-1]


def verify_scores(run: Run, model: Any, score: Callable[[Pixels], npt.NDArray[Any]]) -> float:
    """Largest difference between the scores of a file and those of the run, for several batch and image sizes.

    Raises:
        RunError: if the difference is larger than ``TOLERANCE``.
    """
    size, expected = run.image_size, RunScores(run)
    shapes = [(batch, size, size) for batch in _BATCHES]
    if is_any_size(model):
        shapes.append((2, size + _STEP, size))
    examples = [example_pixels(*shape) for shape in shapes]
    difference = max(float(np.abs(score(pixels) - expected(pixels)).max()) for pixels in examples)
    if not difference <= TOLERANCE:  # also raises for NaN
        raise RunError(
            f"The scores of the exported network are wrong: they differ by {difference:.2g} from those of the run. "
            "Nothing was written."
        )
    return difference


def is_export(path: Path) -> bool:
    """Whether an ONNX file is an export of this package, and not the network of a run."""
    import onnx

    folder = RunFolder(path.parent)
    if path.name == folder.network.name and folder.is_finished:
        return False
    try:
        return any(entry.key == "positively" for entry in onnx.load(path, load_external_data=False).metadata_props)
    except Exception:  # not an ONNX file
        return False
