"""A run as an ONNX file of eight-bit integers: smaller and quicker, with what that costs measured and stored in it."""

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
from positively.runs.network import is_any_size, is_backbone_node
from positively.runs.run import Run

_CALIBRATED, _COMPARED = 128, 400
_BATCH = 16
_WEIGHTED = ("Conv", "Gemm", "MatMul")
# With them a convolution's range is what its activation lets through, not what goes into it.
_ACTIVATIONS = ("Clip", "Relu")


@dataclass(frozen=True)
class Int8File:
    """What was written."""

    path: Path
    any_size: bool
    """Whether it takes images of other sizes than the run's, in steps of 32 pixels."""
    calibrated: int
    """Photos that told which numbers occur."""
    loss: Loss
    """What it costs, by other photos."""


def export_int8(run: Run, out: str | Path | None = None, *, images: str | Path | None = None) -> Int8File:
    """Write a run as ONNX whose backbone computes in eight-bit integers, and measure what that costs.

    It takes and gives what :func:`export_onnx` does. The ranges of its integers are found on photos of the run's own
    table, the loss on others; both are in its metadata, under ``int8``. Normalisation, the first convolution, the head
    and the sigmoid stay in single precision: a kernel takes differences of close numbers.

    Args:
        run: The run; its ``head`` and ``min_precision`` are those of the file.
        out: The file; default: model-int8.onnx in the run folder.
        images: Folder of the run's photos; default: where they were when it was trained.

    Raises:
        ImageError: If the run's photos are not found.
        RunError: If the network cannot be exported or made of integers, or if that costs too much to be of use.
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
    """Write a model with integers in its backbone, whose ranges are those the batches show.

    The settings are those that kept most of a run's tags (docs/research/measurements.md):

    - Weights have a scale for each output channel; one for all lost 16 % of the log-rank.
    - Ranges are smallest and largest (MinMax). Percentiles, entropy and moving averages changed as many tags.
    - Activations are unsigned and weights take seven bits (``reduce_range``): a CPU without VNNI adds pairs of products
      in sixteen bits, which overflow. There, eight bits changed half as many tags again, and logits of a random ViT
      erred by 20 % in place of 4. Where nothing overflows they are finer (a random ResNet-50: 1.8 % in place of 2.9),
      but a file has to be right on any CPU. Signed activations were as good, and slower.
    - The first convolution, which sees the pixels, stays exact: that took no time that could be measured, and halved
      the largest difference of a score.
    """
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    chosen = integer_nodes({node.name: node.op_type for node in model.graph.node if is_backbone_node(node.name)})
    if not chosen:
        raise RunError(
            "The backbone has no layers besides its first that integers could compute. Export the run without "
            f"{option('int8')}."
        )
    with tempfile.TemporaryDirectory() as folder:
        inferred = Path(folder) / "inferred.onnx"
        # Shapes alone: ONNX Runtime's folding would rename the nodes.
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
    """Nodes to compute in integers, if any with weights are left: all of the backbone but its first convolution."""
    first = next((name for name, operator in backbone.items() if operator == "Conv"), None)
    chosen = [name for name, operator in backbone.items() if operator in _WEIGHTED + _ACTIVATIONS and name != first]
    return chosen if any(backbone[name] in _WEIGHTED for name in chosen) else []


class _Reader:
    """Batches as ONNX Runtime asks for them."""

    def __init__(self, batches: Iterator[Pixels]) -> None:
        self._batches = batches

    def get_next(self) -> dict[str, Pixels] | None:
        pixels = next(self._batches, None)
        return None if pixels is None else {"images": pixels}


def _measure(path: Path, run: Run, photos: Photos) -> Loss:
    """What the file loses; the first photos go through it in small batches, so that every number of them is tried."""
    score, expected = file_scores(path, run), RunScores(run)
    batches = photos.batches(run, chain((1, 2, 5), repeat(_BATCH)))
    both = [(expected(pixels), score(pixels)) for pixels in batches]
    exact, smaller = (np.concatenate(part) for part in zip(*both, strict=True))
    return compare(exact, smaller, run.thresholds, photos.states)


def _refuse_useless(loss: Loss, run: Run) -> None:
    if not loss.is_usable:
        raise RunError(
            f"{run.path} loses too much by integers: more than {100 * MOST_RANK_LOST:g} % of how high known tags rank, "
            f"or more than {100 * MOST_TAGS_CHANGED:g} % of its tags. {loss} Nothing was written. Export it without "
            f"{option('int8')}."
        )


def _add_metadata(path: Path, entries: dict[str, str]) -> None:
    import onnx

    proto: Any = onnx.load(path)
    onnx.helper.set_model_props(proto, entries)
    onnx.save(proto, path)
