"""The probe by number of images: time and memory, time of a changed label, and scikit-learn for comparison.

Every size runs in its own process, with memory-mapped embeddings as for large tables.
Run as ``python -m benchmarks.probe [FIGURE.png]`` from the root of the project.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SIZES = (1_000, 10_000, 100_000, 1_000_000)
WIDTH, CLASSES, LANDMARKS = 128, 20, 500

PROGRAM = """
import json, resource, sys, time
import numpy as np
from scipy import sparse
from positively import probe
images, width, classes, landmarks, file = int(sys.argv[1]), *map(int, sys.argv[2:5]), sys.argv[5]
features = np.memmap(file, np.float32, "r", shape=(images, width))
rows, columns = np.nonzero(np.random.default_rng(1).random((images, classes)) < 0.03)
states = sparse.csr_array((np.ones(len(rows), np.int8), (rows, columns)), (images, classes))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.perf_counter()
fitted = probe.fit(features, states, landmarks=landmarks)
seconds = time.perf_counter() - began
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": seconds, "gigabytes": memory / 2**20, "own": (memory - before) / 2**20}))
"""


def main() -> None:
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for images in SIZES:
            file = Path(folder) / f"{images}.bin"
            written = np.memmap(file, np.float32, "w+", shape=(images, WIDTH))
            for start in range(0, images, 100_000):
                part = written[start : start + 100_000]
                part[:] = np.random.default_rng(start).gamma(1.0, size=part.shape)
            written.flush()
            arguments = [str(images), str(WIDTH), str(CLASSES), str(LANDMARKS), str(file)]
            done = subprocess.run(
                [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True
            )
            found[images] = json.loads(done.stdout)
            file.unlink()
    first = found[SIZES[1]]["seconds"] / SIZES[1]
    print(f"probe, {CLASSES} classes, {LANDMARKS} landmarks, {WIDTH} dimensions")
    for images, figures in found.items():
        each = figures["seconds"] / images / first
        print(
            f"  {images:>9,} images  {figures['seconds']:7.1f} s  {figures['gigabytes']:5.2f} GB  "
            f"time per image {each:5.2f} × that of {SIZES[1]:,} images"
        )
    if len(sys.argv) > 1:
        draw(found, Path(sys.argv[1]))
    peer()
    changed_label()


def peer() -> None:
    """Compare with scikit-learn at one penalty for all classes; ours includes all its choices."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline

    from benchmarks.timing import measure, ratio_table
    from positively import probe

    generator = np.random.default_rng(0)
    features = generator.gamma(1.0, size=(5000, 256)).astype(np.float32)
    states = (generator.random((5000, 40)) < 0.03).astype(np.int8)
    penalties = 10.0 ** np.arange(-5, 0.1, 0.5) * len(features)
    tasks = {
        "positively.probe.fit, one step": lambda: probe.fit(features, states, landmarks=500, step=probe.ONE_STEP),
        "Nystroem + RidgeCV, same grid": lambda: make_pipeline(
            Nystroem(n_components=500, gamma=0.6 / 2, random_state=0), RidgeCV(penalties)
        ).fit(features, states.astype(np.float64)),
    }
    print(ratio_table("5,000 images, 40 classes, 500 landmarks", measure(tasks, repeats=3)))


def changed_label() -> None:
    """Time of a changed label of one class, compared with a new fit."""
    from positively import probe

    generator = np.random.default_rng(0)
    features = generator.gamma(1.0, size=(20_000, 256)).astype(np.float32)
    states = (generator.random((20_000, 40)) < 0.01).astype(np.int8)
    began = time.perf_counter()
    fitted = probe.fit(features, states, landmarks=2000, step=probe.ONE_STEP)
    whole = time.perf_counter() - began
    times = []
    for row in range(10):
        changed = states[[row]].copy()
        changed[0, 0] = 1 - changed[0, 0]
        began = time.perf_counter()
        fitted.update([row], changed)
        times.append(time.perf_counter() - began)
    print(
        f"20,000 images, 2,000 landmarks: a changed label takes {1000 * min(times):.0f} ms, "
        f"1/{whole / min(times):,.0f} of a fit\n"
    )


def draw(found: dict[int, dict[str, float]], file: Path) -> None:
    """Plot time and memory against the number of images on logarithmic axes, with a line of slope 1."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    panels = figure.subplots(1, 2)
    sizes = np.array(list(found))
    for panel, name, unit in zip(panels, ("seconds", "gigabytes"), ("seconds", "gigabytes in memory"), strict=True):
        values = np.array([figures[name] for figures in found.values()])
        panel.loglog(sizes, values, "o-", color="#0b7a75")
        panel.loglog(sizes, values[-1] * sizes / sizes[-1], "--", color="#8d99ae", label="proportional to the images")
        panel.set_xlabel("images")
        panel.set_ylabel(unit)
        panel.set_ylim(values.min() / 3, values.max() * 3)
        panel.legend(frameon=False)
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    main()
