"""Mean average precision at the size of COCO's validation set, compared with scikit-learn and torchmetrics.

Run as ``python -m benchmarks.metrics`` from the root of the project.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.metrics import average_precision_score

from benchmarks.timing import measure, ratio_table
from positively.metrics import mean_average_precision

IMAGES, CLASSES = 40_504, 80


def main() -> None:
    try:
        from torchmetrics.functional.classification import multilabel_average_precision
    except ImportError:
        raise SystemExit("This benchmark needs torchmetrics: pip install -e '.[peers]'") from None
    generator = np.random.default_rng(0)
    frequencies = np.clip(0.004 + 0.01 * generator.pareto(1.2, CLASSES), 0.0, 0.5)
    truth = generator.random((IMAGES, CLASSES)) < frequencies
    logits = generator.normal(size=truth.shape) + 2.0 * truth - 3.0
    scores = (1.0 / (1.0 + np.exp(-logits))).astype(np.float32)
    states = np.where(truth, 1, -1).astype(np.int8)
    score_tensor, truth_tensor = torch.from_numpy(scores), torch.from_numpy(truth.astype(np.int64))

    tasks = {
        "positively": lambda: mean_average_precision(scores, states),
        "scikit-learn": lambda: float(average_precision_score(truth, scores, average="macro")),
        # Without argument checks, the fastest way to call it.
        "torchmetrics": lambda: float(
            multilabel_average_precision(score_tensor, truth_tensor, CLASSES, average="macro", validate_args=False)
        ),
    }
    values = {name: task() for name, task in tasks.items()}
    assert max(values.values()) - min(values.values()) < 1e-4, f"The results differ: {values}"
    print(ratio_table(f"mAP, {IMAGES:,} × {CLASSES}", measure(tasks, repeats=3)))


if __name__ == "__main__":
    main()
