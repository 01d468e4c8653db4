"""COCO and PASCAL VOC at three known ratios: mAP, thresholds and the top of the missing list. Takes minutes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

import positively as po

RATIOS = (0.1, 0.5, 0.9)
BACKBONE = "tf_efficientnet_lite0"
TOP = 2000
"""Number of recorded suggestions of the missing list."""


def record_benchmarks(
    coco: Path, voc: Path, weights: str, ratios: tuple[float, ...] = RATIOS
) -> dict[str, npt.NDArray]:
    """Train on each dataset with a share of its labels, positives only, and record the results.

    Args:
        coco: Folder with train.csv, val.csv, train/ and val/, whose tags are complete.
        voc: A VOCdevkit; its train part is used for training and its val part for evaluation.
        weights: A .safetensors file of the backbone, or 'pretrained'.
        ratios: Known ratios.

    Returns:
        The record.
    """
    coco_tables = [
        po.read(coco / f"{part}.csv", images=coco, blank="negative", quiet=True) for part in ("train", "val")
    ]
    voc_tables = [po.read(voc, part=part, quiet=True) for part in ("train", "val")]
    found: dict[str, npt.NDArray] = {}
    for name, (train, val) in {"coco": coco_tables, "voc": voc_tables}.items():
        for ratio in ratios:
            recorded = _record(train, val, weights, ratio)
            found |= {f"{name}/{100 * ratio:.0f} %/{key}": value for key, value in recorded.items()}
            print(f"{name} {100 * ratio:.0f} %: mAP {100 * float(recorded['mAP']):.3f}", flush=True)
    return found


def _record(train: po.LabelTable, val: po.LabelTable, weights: str, ratio: float) -> dict[str, npt.NDArray]:
    table = train.with_known_ratio(ratio, 0).positives_only()
    with tempfile.TemporaryDirectory() as folder:
        run = po.fit(table, backbone=BACKBONE, weights=weights, out=Path(folder) / "run", quiet=True)
        evaluation = run.evaluate(val)
        missing = po.find_missing(run)
        thresholds = np.array(run.thresholds)
    return {
        "mAP": np.array(evaluation.mean_average_precision),
        "average_precision": np.array(list(evaluation.average_precision.values())),
        "f1": np.array([evaluation.f1.overall_f1, evaluation.f1.class_f1]),
        "thresholds": thresholds,
        "counts": np.stack([missing.counts.known, missing.counts.missing, missing.counts.at_most]),
        "missing.pairs": np.stack([missing.rows, missing.columns], axis=1)[:TOP].astype(np.int32),
        "missing.values": missing.values[:TOP],
    }
