"""The probe from positives alone compared with logistic regression under the best conditions.

The logistic regression has the same embeddings, the same kernel, and the L2 penalty that is best on the test images.
Three tables: coco-mini, VOC 2007, and 24,000 images of COCO as embeddings, scored on the images of coco-mini. Labels
are hidden uniformly. BCE over known labels gets the negatives at the same ratio; the probe gets none, and no ratio.

Run as ``python -m benchmarks.logistic FOLDER WEIGHTS [SEEDS]`` from the root of the project: FOLDER holds coco-mini/,
VOCdevkit/ and coco-features/, WEIGHTS are those of tf_efficientnet_lite0.
"""

import sys
from pathlib import Path

import numpy as np
import torch

from benchmarks.study.data import read_photos
from benchmarks.study.logistic import solve
from positively import probe
from positively.metrics import mean_average_precision
from positively.probe.linalg import root_normalize

L2 = (3e-7, 1e-6, 3e-6, 1e-5)
RATIOS = {"coco-mini": (0.1, 0.3, 0.5, 0.7, 0.9), "voc2007": (0.1, 0.3, 0.5, 0.7, 0.9), "24,000 photos": (0.1, 0.5)}


def main() -> None:
    folder, weights = Path(sys.argv[1]), sys.argv[2]
    seeds = range(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    for name, (features, truth, test, test_truth) in read_tables(folder, weights).items():
        lines: dict[str, list[float]] = {}
        for ratio in RATIOS[name]:
            figures = [compare(features, truth, test, test_truth, ratio, seed) for seed in seeds]
            for row in figures[0]:
                lines.setdefault(row, []).append(float(np.mean([one[row] for one in figures])))
        print(f"{name + ', mAP in percent, ' + str(len(seeds)) + ' masks':<58}", end="")
        print("".join(f"{100 * ratio:>7.0f} %" for ratio in RATIOS[name]))
        for row, values in lines.items():
            print(f"{row:<58}" + "".join(f"{value:>9.1f}" for value in values), flush=True)


def compare(features, truth, test, test_truth, ratio, seed) -> dict[str, float]:
    """MAP of each method, with one mask."""
    seen = np.where(np.random.default_rng(seed).random(truth.shape) < ratio, truth, 0).astype(np.int8)
    fitted = probe.fit(
        features, np.where(seen == 1, 1, 0).astype(np.int8), landmarks=2000 if len(features) < 10_000 else 3000
    )
    basis = fitted.kernel.ridge.basis
    kernel = [torch.from_numpy(basis.coordinates(x)) for x in (features, test)]
    plain = [torch.from_numpy(root_normalize(x)) for x in (features, test)]
    known, unknown = torch.from_numpy(seen), torch.from_numpy(np.where(seen == 1, 1, -1))

    def best(inputs, states) -> float:
        return max(100 * mean_average_precision(logistic(*inputs, states, l2), test_truth) for l2 in L2)

    figures = {
        "probe, positives alone": 100 * mean_average_precision(fitted.scores(test), test_truth),
        "BCE over known labels, normalised, L2 best on test": best(plain, known),
        "unknown as negative, normalised, L2 best on test": best(plain, unknown),
    }
    if len(features) > 10_000:
        figures["BCE over known labels, same kernel, L2 best on test"] = best(kernel, known)
    return figures


def logistic(train: torch.Tensor, test: torch.Tensor, states: torch.Tensor, l2: float) -> np.ndarray:
    """Scores of the test rows by L2-regularised logistic regression of every class over its known labels."""
    scale = float((train - train.mean(0)).square().sum(1).mean()) ** 0.5
    weight, bias = solve(train / scale, states, l2)
    return (test / scale @ weight + bias).numpy()


def read_tables(folder: Path, weights: str) -> dict[str, tuple[np.ndarray, ...]]:
    """Embeddings and complete labels of training and test images, by table."""
    tables = {}
    for place in ("coco-mini", "VOCdevkit"):
        photos = read_photos(folder / place, weights)
        tables[photos.name] = (photos.features, photos.truth, photos.test, photos.test_truth)
    packed = np.load(folder / "coco-features" / "lite0_train24k.npz")
    large = ((packed["root"].astype(np.float32) * packed["scale"]) ** 2).astype(np.float32)
    truth = np.where(np.unpackbits(packed["labels"], axis=1)[:, :80] > 0, 1, -1).astype(np.int8)
    tables["24,000 photos"] = (large, truth, *tables["coco-mini"][2:])
    return tables


if __name__ == "__main__":
    main()
