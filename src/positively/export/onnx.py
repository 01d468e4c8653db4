"""A run as one ONNX file, for any runtime and language: pixels in, scores and tags out, checked before it says done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from positively.errors import RunError
from positively.export.graph import (
    Pixels,
    Scores,
    make_graph,
    metadata,
    open_session,
    refuse_foreign,
    verify_scores,
    write_verified,
)
from positively.export.module import ExportModule
from positively.models.onnx import import_runtime
from positively.runs import Run


@dataclass(frozen=True)
class OnnxFile:
    """What was written."""

    path: Path
    any_size: bool
    """Whether it takes images of other sizes than the run's, in steps of 32 pixels."""
    difference: float
    """Largest difference of a score to torch's that was seen."""


def export_onnx(run: Run, out: str | Path | None = None) -> OnnxFile:
    """Write a run as ONNX and compare it with torch at batches of 1, 2 and 5.

    The file takes ``images`` B×3×H×W, RGB in [0, 1], and gives ``scores`` and ``tags`` B×classes. Its metadata holds
    the classes, their cuts, the size and how photos are resized to it.

    Args:
        run: The run; its ``head`` and ``precision`` are those of the file.
        out: The file; default: model.onnx in the run folder.

    Raises:
        ConfigError: If the extra ``[onnx]`` is not installed.
        RunError: If the network cannot be exported, or the file does not give what torch gives.
    """
    import_runtime()
    path = Path(out) if out is not None else run.path / "model.onnx"
    refuse_foreign(path)
    graph = make_graph(run.model, ExportModule(run.model, run.thresholds))
    graph.program.model.metadata_props.update(metadata(run, graph.any_size))

    def verify(temporary: Path) -> float:
        return verify_scores(run, graph.any_size, file_scores(temporary, run))

    difference = write_verified(path, lambda temporary: graph.program.save(str(temporary)), verify)
    return OnnxFile(path, graph.any_size, difference)


def file_scores(path: Path, run: Run) -> Callable[[Pixels], Scores]:
    """What a file gives of pixels; its tags have to be its scores at the run's cuts."""
    session, cuts = open_session(path), run.thresholds.astype(np.float32)

    def score(pixels: Pixels) -> Scores:
        scores, tags = session.run(["scores", "tags"], {"images": pixels})
        if not np.array_equal(tags, scores >= cuts):
            raise RunError("The exported network gives other tags than its scores at the cuts. Nothing was written.")
        return np.asarray(scores, dtype=np.float64)

    return score
