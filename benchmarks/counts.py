"""Estimated number of images per tag, from positives alone, compared with two simple estimates.

Cells are the sum over the learned classes relative to the truth, and the median relative error of a class. Masks:
uniform; uneven (the known share differs by class, 0.2 to 0.9); one positive per image, which is not missing at random.

Run as ``python -m benchmarks.counts FOLDER WEIGHTS`` from the root of the project, with the arguments of
``benchmarks.logistic``.
"""

import sys
from pathlib import Path

import numpy as np

from benchmarks.logistic import read_tables
from positively import probe

MASKS = ("10 %", "30 %", "50 %", "70 %", "90 %", "uneven", "one a photo")


def main() -> None:
    tables = read_tables(Path(sys.argv[1]), sys.argv[2])
    for name in ("coco-mini", "voc2007"):
        features, truth = tables[name][:2]
        heads = ("probe", "observed", "common ratio", "at most holds", "median bound")
        print(f"{name:<14}" + "".join(f"{head:>16}" for head in heads))
        for mask in MASKS:
            states = hide(truth, mask)
            found = probe.fit(features, states).calibration
            learned = found.learned
            true, known = (truth == 1).sum(0)[learned], (states == 1).sum(0)[learned]
            answers = {
                "probe": found.positives[learned],
                "observed": known,
                "common ratio": known / found.common_label_frequency,
            }
            cells = [f"{a.sum() / true.sum():.2f} / {np.median(np.abs(a / true - 1)):.2f}" for a in answers.values()]
            bound = found.at_most[learned]
            print(
                f"{mask:<14}"
                + "".join(f"{cell:>16}" for cell in cells)
                + f"{np.mean(bound >= true):>16.2f}{np.median(bound / true):>14.2f} ×",
                flush=True,
            )


def hide(truth: np.ndarray, mask: str) -> np.ndarray:
    """Label states with known positives only."""
    generator = np.random.default_rng(3)
    draws, positive = generator.random(truth.shape), truth == 1
    if mask == "one a photo":
        first = np.where(positive, draws, 2).argmin(axis=1)
        known = positive & (np.arange(truth.shape[1]) == first[:, None])
    elif mask == "uneven":
        known = positive & (draws < generator.uniform(0.2, 0.9, truth.shape[1]))
    else:
        known = positive & (draws < float(mask.split()[0]) / 100)
    return known.astype(np.int8)


if __name__ == "__main__":
    main()
