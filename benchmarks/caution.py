"""When does the caution of a list of missing tags appear, and when is it needed?

It is needed if the list promises over 5 points more correct tags among its first 100, 500 or 1,000 than there are.
Tables of 300, 1,000 and 5,000 photos are drawn from COCO (all 80 classes, 20 and 40 of them) and VOC; tags are hidden
uniformly, by class (as in ``benchmarks.missing``), or all but one of each photo; some tables stay complete.

Run as ``python -m benchmarks.caution FILE.npz…`` from the root of the project. Each file holds ``X``, the embeddings of
some photos, and ``Y``, their complete labels (images × classes, 1 where a tag is present).
"""

import sys
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks.missing import find, hide

SIZES = {300: 5, 1000: 4, 5000: 2}  # photos → masks
CLASSES = (None, 20, 40)
KINDS = [("uniform", r) for r in (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)] + [("by class", r) for r in (0.1, 0.3, 0.5, 0.7)]
KINDS += [("single", 0.0), ("complete", 1.0)]
DEPTHS, ALLOWED = (100, 500, 1000), 0.05


def main() -> None:
    counts: dict[str, Counter] = {}
    for file in sys.argv[1:]:
        stored = np.load(file)
        for classes in CLASSES if stored["Y"].shape[1] > max(filter(None, CLASSES)) else (None,):
            measure(Path(file).stem, stored["X"], stored["Y"] > 0, classes, counts)
    print(f"{'tables':<24}{'warned, needed':>16}{'warned, not':>14}{'silent, needed':>16}{'silent, not':>14}")
    for name, found in counts.items():
        pairs = [(True, True), (True, False), (False, True), (False, False)]
        print(f"{name:<24}" + "".join(f"{found[pair]:>15}" for pair in pairs))


def measure(
    name: str, features: np.ndarray, truth: np.ndarray, classes: int | None, counts: dict[str, Counter]
) -> None:
    generator = np.random.default_rng(5)
    if classes is not None:
        truth = truth[:, generator.choice(truth.shape[1], classes, replace=False)]
        features, truth = features[truth.any(axis=1)], truth[truth.any(axis=1)]
    for size, masks in SIZES.items():
        for seed in range(masks):
            rows = np.random.default_rng([seed, size]).permutation(len(truth))[:size]
            for kind, ratio in KINDS:
                warned, needed = judge(features[rows], truth[rows], kind, ratio, seed)
                for group in (kind, f"{size:,} photos", "all but complete" if kind != "complete" else "complete"):
                    counts.setdefault(group, Counter())[warned, needed] += 1
        print(f"{name}, {classes or truth.shape[1]} classes, {size:,} photos: done", flush=True)


def judge(features: np.ndarray, truth: np.ndarray, kind: str, ratio: float, seed: int) -> tuple[bool, bool]:
    """Whether the list has the caution, and whether it should have it."""
    if kind == "single":
        draws = np.where(truth, np.random.default_rng(seed).random(truth.shape), -1.0)
        states = (truth & (draws == draws.max(axis=1, keepdims=True))).astype(np.int8)
    else:
        states = truth.astype(np.int8) if kind == "complete" else hide(truth, ratio, seed, kind)
    there = states.any(axis=0)
    found, _ = find(features, states[:, there])
    right = (truth & (states == 0))[:, there][found.rows, found.columns]
    excess = [
        found.expected_precision[depth - 1] - right[:depth].mean() for depth in DEPTHS if depth <= len(found)
    ]  # in shares
    return found.caution is not None, max(excess, default=0.0) > ALLOWED


if __name__ == "__main__":
    main()
