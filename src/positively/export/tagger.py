"""Export a run as a folder for tagger programs: model.onnx, selected_tags.csv, preprocess.json, categories.json.

The format is that of the animetimm models, which ``imgutils.generic.multilabel_timm_predict`` (dghs-imgutils) reads.
"""

from __future__ import annotations

import csv
import io
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from positively.embedding import Preprocessing
from positively.embedding.graph import EMBEDDING
from positively.embedding.onnx import open_session
from positively.export.graph import Pixels, Scores, is_export, run_model, verify_scores, write_verified
from positively.files import refuse_foreign, write_json, write_text
from positively.labels import POSITIVE
from positively.machine import thread_count
from positively.runs.network import LOGITS, SCORES, normalized_model
from positively.runs.run import Run
from positively.runs.sources import read_training_labels

_NEVER = 2.0
"""Threshold of a class that is never predicted; finite, because programs read the column as numbers."""
_FILES = {"model.onnx", "selected_tags.csv", "preprocess.json", "categories.json"}
_CATEGORY = {"category": 0, "name": "general"}
_INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "lanczos")


_OUTPUTS = {EMBEDDING: "embedding", LOGITS: "logits", SCORES: "prediction"}


@dataclass(frozen=True)
class TaggerFolder:
    """The exported folder."""

    path: Path
    difference: float
    """Largest difference between its scores and those of the run."""


def export_tagger(run: Run, out: str | Path | None = None) -> TaggerFolder:
    """Export a run as a folder for tagger programs, verified against the run.

    The input of model.onnx is ``input`` B×3×H×W, RGB as defined in preprocess.json (resized to a square, normalized);
    its outputs are ``embedding``, ``logits`` and ``prediction``. selected_tags.csv has one class per row, with its
    number of known positives and its threshold as ``best_threshold`` (2 for a class that is never predicted).

    Args:
        run: The run, with its current ``head`` and ``min_precision``.
        out: The folder; by default tagger/ in the run folder.

    Returns:
        Path and largest difference of the exported folder.

    Raises:
        FileError: if the folder has other files.
        RunError: if the network cannot be exported, or the scores differ from those of the run.
    """
    folder = Path(out) if out is not None else run.path / "tagger"
    refuse_foreign(folder, lambda path: path.name in _FILES and is_export(folder / "model.onnx"), "DIR")
    model = normalized_model(run_model(run), _preprocessing(run), _OUTPUTS)

    def verify(temporary: Path) -> float:
        return verify_scores(run, model, _FolderScores(temporary, run))

    try:
        # Write the model first: it identifies the folder as ours if the process is killed.
        difference = write_verified(
            folder / "model.onnx", lambda place: place.write_bytes(model.SerializeToString()), verify
        )
        write_text(folder / "selected_tags.csv", _selected_tags(run))
        write_json(folder / "categories.json", [_CATEGORY])
        write_json(folder / "preprocess.json", {"test": _stages(run), "val": _stages(run)})
        run.folder.record(*(folder / name for name in _FILES))
    finally:
        with suppress(OSError):  # removes the folder if nothing was written to it
            folder.rmdir()
    return TaggerFolder(folder, difference)


class _FolderScores:
    """The scores of the folder's file for pixels in [0, 1], normalized as in preprocess.json."""

    def __init__(self, path: Path, run: Run) -> None:
        stage = _stages(run)[-1]
        self._session = open_session(path, thread_count())
        self._mean, self._std = (np.array(stage[name], np.float32)[:, None, None] for name in ("mean", "std"))

    def __call__(self, pixels: Pixels) -> Scores:
        (scores,) = self._session.run(["prediction"], {"input": (pixels - self._mean) / self._std})
        return np.asarray(scores, dtype=np.float64)


def _stages(run: Run) -> list[dict[str, Any]]:
    backbone = _preprocessing(run)
    known = backbone.interpolation in _INTERPOLATIONS
    return [
        {
            "type": "resize",
            "size": [backbone.image_size, backbone.image_size],
            "interpolation": backbone.interpolation if known else "bicubic",
            "max_size": None,
            "antialias": True,
        },
        {"type": "maybe_to_tensor"},
        {"type": "normalize", "mean": list(backbone.mean), "std": list(backbone.std)},
    ]


def _preprocessing(run: Run) -> Preprocessing:
    config = run.model_config
    named = {name: config[name] for name in ("image_size", "interpolation", "resize") if name in config}
    return Preprocessing(mean=tuple(config["mean"]), std=tuple(config["std"]), **named)


def _selected_tags(run: Run) -> str:
    _, states = read_training_labels(run.folder, run.classes)
    counts = [0] * len(run.classes) if states is None else (states == POSITIVE).sum(axis=0).tolist()
    thresholds = np.where(np.isfinite(run.thresholds), run.thresholds, _NEVER).astype(np.float32).tolist()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["tag_id", "name", "category", "count", "best_threshold"])
    for row, (name, count, threshold) in enumerate(zip(run.classes, counts, thresholds, strict=True)):
        writer.writerow([row, name, _CATEGORY["category"], count, threshold])
    return text.getvalue()
