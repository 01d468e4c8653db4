"""Export a run as an ONNX file with 8-bit integers, which is smaller and faster, and measure the loss of quality."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np

from positively.errors import RunError, option
from positively.export.graph import Pixels, RunScores, is_export, run_model, write_verified
from positively.export.loss import MOST_RANK_LOST, MOST_TAGS_CHANGED, Loss, compare
from positively.export.onnx import file_scores
from positively.export.photos import Photos, draw_photos
from positively.files import refuse_foreign
from positively.machine import import_onnxruntime
from positively.runs.network import is_any_size, is_backbone_node
from positively.runs.run import Run

_CALIBRATED, _COMPARED = 128, 400
_BATCH = 16
_WEIGHTED = ("Conv", "Gemm", "MatMul")
# With these, the range of a convolution is that of its activation's output.
_ACTIVATIONS = ("Clip", "Relu")


@dataclass(frozen=True)
class Int8File:
    """The exported file."""

    path: Path
    any_size: bool
    """Whether it supports other image sizes than the run's, in steps of 32 pixels."""
    calibrated: int
    """Number of images used to calibrate the ranges of the integers."""
    loss: Loss
    """Loss of quality, measured on other images."""


def export_int8(run: Run, out: str | Path | None = None, *, images: str | Path | None = None) -> Int8File:
    """Export a run as ONNX with a backbone in 8-bit integers, and measure the loss of quality.

    Inputs and outputs are those of :func:`export_onnx`. The ranges of the integers are calibrated on some images of
    the run's table and the loss is measured on others; it is stored in the metadata, under ``int8``. Normalization, the
    first convolution, the head and the sigmoid stay in single precision, because a kernel needs differences of similar
    numbers.

    Args:
        run: The run, with its current ``head`` and ``min_precision``.
        out: The file; by default model-int8.onnx in the run folder.
        images: Folder of the run's images; by default where they were in training.

    Returns:
        Path, supported sizes and loss of quality of the exported file.

    Raises:
        ImageError: if the run's images are not found.
        RunError: if the network cannot be exported or quantized, or if the loss of quality is too large.
    """
    path = Path(out) if out is not None else run.path / "model-int8.onnx"
    refuse_foreign(path, is_export)
    calibrating, comparing = draw_photos(run, images, _CALIBRATED, _COMPARED)
    model = run_model(run)

    def save(temporary: Path) -> None:
        quantize(model, calibrating.batches(run, repeat(_BATCH)), temporary)

    def verify(temporary: Path) -> Loss:
        loss = _measure(temporary, run, comparing)
        _refuse_useless(loss, run)
        told = {"int8": loss.to_json(), "int8_calibrated": str(len(calibrating))}
        _add_metadata(temporary, {entry.key: entry.value for entry in model.metadata_props} | told)
        return loss

    loss = write_verified(path, save, verify)
    run.folder.record(path)
    return Int8File(path, is_any_size(model), len(calibrating), loss)


def quantize(model: Any, batches: Iterator[Pixels], path: Path) -> None:
    """Write a model whose backbone is quantized to integers, calibrated on batches of images.

    We chose the settings that changed the fewest tags (docs/research/measurements.md):

    - Weights have one scale per output channel; a single scale lost 16 % of the log-rank.
    - Ranges are minimum and maximum (MinMax). Percentiles, entropy and moving averages changed as many tags.
    - Activations are unsigned and weights have 7 bits (``reduce_range``), because a CPU without VNNI adds pairs of
      products in 16 bits, which can overflow. With 8 bits on such a CPU, 50 % more tags changed, and the logits of a
      random ViT had an error of 20 % instead of 4 %. Without overflow, 8 bits are more accurate (1.8 % instead of 2.9 %
      for a random ResNet-50), but a file must be correct on every CPU. Signed activations were as good but slower.
    - The first convolution stays exact, which cost no measurable time and halved the largest difference of a score.
    """
    import_onnxruntime()
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    chosen = integer_nodes({node.name: node.op_type for node in model.graph.node if is_backbone_node(node.name)})
    if not chosen:
        raise RunError(
            "The backbone has no layers that can be quantized, except for the first. Export the run without "
            f"{option('int8')}."
        )
    with tempfile.TemporaryDirectory() as folder:
        inferred = Path(folder) / "inferred.onnx"
        # Infer shapes only, because ONNX Runtime's optimization would rename the nodes.
        quant_pre_process(model, str(inferred), skip_optimization=True, skip_symbolic_shape=True)
        quantize_static(
            inferred,
            path,
            _Reader(batches),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=[*_WEIGHTED, *_ACTIVATIONS],
            nodes_to_quantize=chosen,
            per_channel=True,
            reduce_range=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
            extra_options={"MatMulConstBOnly": True},
        )


def integer_nodes(backbone: dict[str, str]) -> list[str]:
    """Nodes to quantize: all of the backbone except its first convolution; empty if none of them has weights."""
    first = next((name for name, operator in backbone.items() if operator == "Conv"), None)
    chosen = [name for name, operator in backbone.items() if operator in _WEIGHTED + _ACTIVATIONS and name != first]
    return chosen if any(backbone[name] in _WEIGHTED for name in chosen) else []


class _Reader:
    """Provides batches to ONNX Runtime's calibration."""

    def __init__(self, batches: Iterator[Pixels]) -> None:
        self._batches = batches

    def get_next(self) -> dict[str, Pixels] | None:
        pixels = next(self._batches, None)
        return None if pixels is None else {"images": pixels}


def _measure(path: Path, run: Run, photos: Photos) -> Loss:
    """Measure the loss of quality; the first batches are small, to test several batch sizes."""
    score, expected = file_scores(path, run), RunScores(run)
    batches = photos.batches(run, chain((1, 2, 5), repeat(_BATCH)))
    both = [(expected(pixels), score(pixels)) for pixels in batches]
    exact, smaller = (np.concatenate(part) for part in zip(*both, strict=True))
    return compare(exact, smaller, run.thresholds, photos.states)


def _refuse_useless(loss: Loss, run: Run) -> None:
    if not loss.is_usable:
        raise RunError(
            f"{run.path} loses too much quality with 8-bit integers: more than {100 * MOST_RANK_LOST:g} % of the "
            f"log-rank, or more than {100 * MOST_TAGS_CHANGED:g} % of its tags change. {loss} Nothing was written. "
            f"Export it without {option('int8')}."
        )


def _add_metadata(path: Path, entries: dict[str, str]) -> None:
    import onnx

    proto: Any = onnx.load(path)
    onnx.helper.set_model_props(proto, entries)
    onnx.save(proto, path)
