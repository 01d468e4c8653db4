"""A run as one ONNX file, for any runtime and language: pixels in, scores and tags out, checked before it says done."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import positively
from positively.errors import FileError, RunError, option
from positively.export.module import ExportModule
from positively.files import write_with
from positively.models.onnx import example_pixels, import_runtime, to_onnx
from positively.models.padding import SIZE_STEP, pad_evenly
from positively.predict import Run

TOLERANCE = 1e-4
"""Largest difference of a score to torch's with which an export is still the same model."""
_BATCHES = (1, 2, 5)
_LARGEST_SIDE = 2048


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
    runtime = import_runtime()
    path = Path(out) if out is not None else run.path / "model.onnx"
    _refuse_foreign(path)
    module = ExportModule(run.model, run.thresholds)
    size = run.model.backbone.image_size
    # A ViT has the positions of one size; any other network takes what it can halve.
    any_size = size % SIZE_STEP == 0 and not hasattr(run.model.backbone.network, "pos_embed")
    if any_size:
        pad_evenly(module)
    program = onnx_program(module, size, any_size)
    program.model.metadata_props.update(_metadata(run, any_size))

    seen: list[float] = []

    def write(temporary: Path) -> None:
        program.save(str(temporary))
        seen.append(_largest_difference(runtime, temporary, run, any_size))
        if not seen[-1] <= TOLERANCE:  # also where it is no number
            raise RunError(
                f"The exported network does not give what torch gives: a score differs by {seen[-1]:.2g}. Nothing was "
                "written."
            )

    write_with(path, write)
    return OnnxFile(path, any_size, seen[-1])


def onnx_program(module: ExportModule, size: int, any_size: bool) -> Any:
    """The module as torch's ONNX program, for any number of images."""
    side = torch.export.Dim
    shape, height, width = {0: side("batch")}, size, size
    if any_size:
        # An example whose sides differ, and that no stage brings down to one position: what is true of it alone would
        # become a rule of the graph.
        height = max(size, 4 * SIZE_STEP)
        width = height + SIZE_STEP
        most = _LARGEST_SIDE // SIZE_STEP
        shape |= {2: SIZE_STEP * side("rows", max=most), 3: SIZE_STEP * side("columns", max=most)}
    return to_onnx(module, torch.rand(2, 3, height, width), ["scores", "tags"], shape)


def _metadata(run: Run, any_size: bool) -> dict[str, str]:
    backbone = run.model.backbone
    cuts = [float(cut) if np.isfinite(cut) else None for cut in run.thresholds]
    told = {
        "positively": positively.__version__,
        "classes": run.classes,
        "cuts": cuts,
        "image_size": backbone.image_size,
        "any_size": any_size,
        "resize": "squash",
        "interpolation": backbone.interpolation,
        "pixels": "RGB in [0, 1]",
        "backbone": backbone.name,
        "head": run.head,
    }
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in told.items()}


def _largest_difference(runtime: Any, path: Path, run: Run, any_size: bool) -> float:
    """Between the file's scores and those of the run's own network, at every batch and (if it may) another size."""
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    size = run.model.backbone.image_size
    shapes = [(batch, size, size) for batch in _BATCHES]
    if any_size:
        shapes.append((2, size + SIZE_STEP, size))
    largest = 0.0
    for batch, height, width in shapes:
        pixels = example_pixels(batch, height, width)
        scores, tags = session.run(["scores", "tags"], {"images": pixels})
        with torch.inference_mode():
            expected = run.model(torch.from_numpy(pixels).to(run.device)).double().sigmoid().cpu().numpy()
        if not np.array_equal(tags, scores >= run.thresholds.astype(np.float32)):
            return float("inf")
        largest = max(largest, float(np.abs(scores - expected).max()))
    return largest


def _refuse_foreign(path: Path) -> None:
    """What was not written here is not overwritten."""
    if path.is_dir():
        raise FileError(f"{path} is a folder. Name a file with {option('out', 'model.onnx')}.")
    if not path.exists():
        return
    import onnx

    try:
        ours = any(entry.key == "positively" for entry in onnx.load(path, load_external_data=False).metadata_props)
    except Exception:  # whatever it is, it is not ours
        ours = False
    if not ours:
        raise FileError(f"{path} exists and is no export of positively. Name another with {option('out', 'FILE')}.")
