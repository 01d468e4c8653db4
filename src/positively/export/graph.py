"""A run as an ONNX graph, and how a file of it is written: only once it was found right."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

import positively
from positively.errors import FileError, RunError, option
from positively.files import write_with
from positively.models import Classifier
from positively.models.onnx import example_pixels, import_runtime, to_onnx
from positively.models.padding import SIZE_STEP, pad_evenly
from positively.runs import Run

TOLERANCE = 1e-4
"""Largest difference of a score to torch's with which an export is still the same model."""
Pixels = npt.NDArray[np.float32]
Scores = npt.NDArray[np.float64]
_BATCHES = (1, 2, 5)
_LARGEST_SIDE = 2048
_SCOPES = "pkg.torch.onnx.name_scopes"
Found = TypeVar("Found")


@dataclass(frozen=True)
class RunGraph:
    """The graph of a run."""

    program: Any
    """Torch's ONNX program."""
    any_size: bool
    """Whether it takes images of other sizes than the run's, in steps of 32 pixels."""
    backbone_nodes: dict[str, str]
    """Name → operator of the nodes that are the backbone's, in their order."""


def make_graph(model: Classifier, module: nn.Module, outputs: Sequence[str] = ("scores", "tags")) -> RunGraph:
    """The graph of a module made from a network, without the places on this machine that torch writes into it."""
    size = model.backbone.image_size
    # A ViT has the positions of one size; any other network takes what it can halve.
    any_size = size % SIZE_STEP == 0 and not hasattr(model.backbone.network, "pos_embed")
    if any_size:
        pad_evenly(module)
    program = onnx_program(module, size, any_size, outputs)
    nodes = {}
    for node in program.model.graph:
        if any(scope.endswith("backbone") for scope in ast.literal_eval(node.metadata_props.get(_SCOPES, "[]"))):
            nodes[node.name] = node.op_type
        node.metadata_props.clear()
    return RunGraph(program, any_size, nodes)


def onnx_program(module: nn.Module, size: int, any_size: bool, outputs: Sequence[str] = ("scores", "tags")) -> Any:
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
    return to_onnx(module, torch.zeros(2, 3, height, width), list(outputs), shape)


def metadata(run: Run, any_size: bool) -> dict[str, str]:
    """What a program has to know of a file beside its inputs and outputs."""
    backbone = run.model.backbone
    told = {
        "positively": positively.__version__,
        "classes": run.classes,
        "cuts": [float(cut) if np.isfinite(cut) else None for cut in run.thresholds],
        "image_size": backbone.image_size,
        "any_size": any_size,
        "resize": "squash",
        "interpolation": backbone.interpolation,
        "pixels": "RGB in [0, 1]",
        "backbone": backbone.name,
        "head": run.head,
    }
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in told.items()}


def write_verified(path: Path, save: Callable[[Path], object], verify: Callable[[Path], Found]) -> Found:
    """Write a file in one step after ``verify`` found it right, which raises otherwise; return what it found."""
    found: list[Found] = []

    def write(temporary: Path) -> None:
        save(temporary)
        found.append(verify(temporary))

    write_with(path, write)
    return found[-1]


def open_session(path: Path) -> Any:
    """ONNX Runtime with a file, on the CPU."""
    options = import_runtime().SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return import_runtime().InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def torch_scores(run: Run, pixels: Pixels) -> Scores:
    """What the run itself gives of pixels B×3×H×W in [0, 1]."""
    with torch.inference_mode():
        logits = run.model(torch.from_numpy(pixels).to(run.device))
    scores: Scores = logits.double().sigmoid().cpu().numpy()
    return scores


def verify_scores(run: Run, any_size: bool, score: Callable[[Pixels], npt.NDArray[Any]]) -> float:
    """Largest difference of a file's scores to torch's, at every batch and (if it may) another size.

    Raises:
        RunError: If it is no longer the same model.
    """
    size = run.model.backbone.image_size
    shapes = [(batch, size, size) for batch in _BATCHES]
    if any_size:
        shapes.append((2, size + SIZE_STEP, size))
    examples = [example_pixels(*shape) for shape in shapes]
    difference = max(float(np.abs(score(pixels) - torch_scores(run, pixels)).max()) for pixels in examples)
    if not difference <= TOLERANCE:  # also where it is no number
        raise RunError(
            f"The exported network does not give what torch gives: a score differs by {difference:.2g}. Nothing was "
            "written."
        )
    return difference


def refuse_foreign(path: Path) -> None:
    """What was not written here is not overwritten."""
    if path.is_dir():
        raise FileError(f"{path} is a folder. Name a file with {option('out', 'model.onnx')}.")
    if path.exists() and not is_ours(path):
        raise FileError(f"{path} exists and is no export of positively. Name another with {option('out', 'FILE')}.")


def is_ours(path: Path) -> bool:
    """Whether an ONNX file was written here."""
    import onnx

    try:
        return any(entry.key == "positively" for entry in onnx.load(path, load_external_data=False).metadata_props)
    except Exception:  # whatever it is, it is not ours
        return False
