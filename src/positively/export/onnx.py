"""Export a run as one ONNX file: pixels in, scores and tags out, verified against the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from positively.embedding.graph import IMAGES
from positively.embedding.onnx import open_session
from positively.errors import FileError, RunError, option
from positively.export.graph import Pixels, Scores, is_export, run_model, verify_scores, write_verified
from positively.files import refuse_foreign
from positively.machine import thread_count
from positively.runs.network import SCORES, TAGS, is_any_size
from positively.runs.run import Run


@dataclass(frozen=True)
class OnnxFile:
    """The exported file."""

    path: Path
    any_size: bool
    """Whether it supports other image sizes than the run's, in steps of 32 pixels."""
    difference: float
    """Largest difference between its scores and those of the run."""


def export_onnx(run: Run, out: str | Path | None = None) -> OnnxFile:
    """Export a run as ONNX and compare its scores with the run at batch sizes of 1, 2 and 5.

    The input is ``images`` B×3×H×W, RGB in [0, 1]; the outputs are ``scores`` and ``tags`` B×C, ``embedding`` and
    ``logits``. The metadata has the classes, their thresholds, the image size and the way of resizing. A run contains
    such a file already; this function verifies it, or writes another one with another head or other thresholds.

    Args:
        run: The run, with its current ``head`` and ``min_precision``.
        out: The file; by default the run's own model.onnx, or export.onnx in the run folder if head or thresholds
            differ.

    Returns:
        Path, supported sizes and largest difference of the exported file.

    Raises:
        FileError: if the file exists and was not written by this package.
        RunError: if the network cannot be exported, or the scores differ from those of the run.
    """
    own = run.folder.network
    is_own = run.head == run.model_config["head"] and run.min_precision is None
    path = Path(out) if out is not None else own if is_own else run.path / "export.onnx"
    if path.absolute() == own.absolute() and not is_own:
        raise FileError(f"{path} is the run's own network. Choose another file with {option('out', 'FILE')}.")
    refuse_foreign(path, lambda file: file.absolute() == own.absolute() or is_export(file))
    model = run_model(run)

    def verify(temporary: Path) -> float:
        return verify_scores(run, model, file_scores(temporary, run))

    if path.absolute() == own.absolute():
        return OnnxFile(path, is_any_size(model), verify(path))
    difference = write_verified(path, lambda temporary: temporary.write_bytes(model.SerializeToString()), verify)
    run.folder.record(path)
    return OnnxFile(path, is_any_size(model), difference)


def file_scores(path: Path, run: Run) -> Callable[[Pixels], Scores]:
    """The scores of a file, as a function of pixels; raises if its tags do not follow from its scores."""
    session, thresholds = open_session(path, thread_count()), run.thresholds.astype(np.float32)

    def score(pixels: Pixels) -> Scores:
        scores, tags = session.run([SCORES, TAGS], {IMAGES: pixels})
        if not np.array_equal(tags, scores >= thresholds):
            raise RunError(
                "The tags of the exported network do not match its scores and thresholds. Nothing was written."
            )
        return np.asarray(scores, dtype=np.float64)

    return score
