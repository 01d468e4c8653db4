"""A run as one ONNX file, for any runtime and language: pixels in, scores and tags out, checked before it says done."""

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
    """What was written."""

    path: Path
    any_size: bool
    """Whether it takes images of other sizes than the run's, in steps of 32 pixels."""
    difference: float
    """Largest difference of a score to the run's that was seen."""


def export_onnx(run: Run, out: str | Path | None = None) -> OnnxFile:
    """Write a run as ONNX and compare it with the run at batches of 1, 2 and 5.

    The file takes ``images`` B×3×H×W, RGB in [0, 1], and gives ``scores`` and ``tags`` B×classes, ``embedding`` and
    ``logits``. Its metadata holds the classes, their thresholds, the size and how photos are resized to it. A run
    brings such a file with it; this writes one for other programs, with another head or other thresholds if asked.

    Args:
        run: The run; its ``head`` and ``min_precision`` are those of the file.
        out: The file; default: the run's own model.onnx, or export.onnx beside it if head or thresholds differ.

    Raises:
        RunError: If the network cannot be exported, or the file does not give what the run gives.
    """
    own = run.folder.network
    is_own = run.head == run.model_config["head"] and run.min_precision is None
    path = Path(out) if out is not None else own if is_own else run.path / "export.onnx"
    if path.absolute() == own.absolute() and not is_own:
        raise FileError(f"{path} is the run's own network. Name another file with {option('out', 'FILE')}.")
    refuse_foreign(path, is_export)
    model = run_model(run)

    def verify(temporary: Path) -> float:
        return verify_scores(run, model, file_scores(temporary, run))

    if path.absolute() == own.absolute():
        return OnnxFile(path, is_any_size(model), verify(path))
    difference = write_verified(path, lambda temporary: temporary.write_bytes(model.SerializeToString()), verify)
    run.folder.record(path)
    return OnnxFile(path, is_any_size(model), difference)


def file_scores(path: Path, run: Run) -> Callable[[Pixels], Scores]:
    """What a file gives of pixels; its tags have to be its scores at the run's thresholds."""
    session, thresholds = open_session(path, thread_count()), run.thresholds.astype(np.float32)

    def score(pixels: Pixels) -> Scores:
        scores, tags = session.run([SCORES, TAGS], {IMAGES: pixels})
        if not np.array_equal(tags, scores >= thresholds):
            raise RunError(
                "The exported network gives other tags than its scores at the thresholds. Nothing was written."
            )
        return np.asarray(scores, dtype=np.float64)

    return score
