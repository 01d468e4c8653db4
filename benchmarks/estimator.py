"""CPU time and peak memory of ``PUClassifier.fit`` and ``probe.fit``, also compared with another version.

Every fit runs in its own process; imports count for memory but not for time. The versions alternate. Run as
``python -m benchmarks.estimator [--baseline SRC] [--embeddings FILE.npz] [--threads N] [--repeats N]`` from the root of
the project. SRC is the ``src`` folder of another checkout whose ``probe.fit`` is measured as well. FILE holds ``root``
(uint8), ``scale`` and ``labels`` of real images, with embeddings (root · scale)².
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROWS, WIDTH, CLASSES = 5_000, 1_280, 80
SOURCE = Path(__file__).parents[1] / "src"

PROGRAM = """
import json, resource, sys
import numpy as np
name, rows, width, classes, file = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]
generator = np.random.default_rng(0)
if file:
    stored = np.load(file)
    X = np.square(stored["root"][:rows] * np.float32(stored["scale"]))
    truth = np.unpackbits(stored["labels"][:rows], axis=1)[:, :classes] == 1
else:
    truth = generator.random((rows, classes)) < generator.uniform(0.01, 0.06, classes)
    looks = generator.random((classes, width)) < 0.1
    X = (generator.gamma(1.0, size=(rows, width)) + 2 * truth @ looks).astype(np.float32)
Y = (truth & (generator.random(truth.shape) < 0.5)).astype(np.int8)
if name == "PUClassifier.fit":
    from positively.probe.estimator import PUClassifier
    fit = PUClassifier().fit
else:
    from positively.probe import fit
before = resource.getrusage(resource.RUSAGE_SELF)
fitted = fit(X, Y)
after = resource.getrusage(resource.RUSAGE_SELF)
spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
fitted = getattr(fitted, "probe_", fitted)
print(json.dumps({
    "seconds": spent, "memory": after.ru_maxrss / 2**20, "added": (after.ru_maxrss - before.ru_maxrss) / 2**20,
    "penalty": fitted.kernel.penalty,
}))
"""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--baseline", type=Path, help="src folder of another checkout")
    parser.add_argument("--embeddings", default="", help="npz file of real images; default: synthetic data")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    tasks = {"probe.fit": SOURCE, "PUClassifier.fit": SOURCE}
    if options.baseline:
        tasks = {"probe.fit, baseline": options.baseline.resolve(), **tasks}
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in tasks}
    for _ in range(options.repeats):
        for name, source in tasks.items():
            runs[name].append(measure(name, source, options.embeddings, options.threads))
    best = {name: {key: min(run[key] for run in found) for key in found[0]} for name, found in runs.items()}
    first = next(iter(best.values()))
    print(f"{ROWS:,} × {WIDTH:,} × {CLASSES}, {options.embeddings or 'synthetic'}, {options.threads} thread(s)")
    for name, figures in best.items():
        print(
            f"  {name:<20} {figures['seconds']:6.2f} s of CPU, {figures['seconds'] / first['seconds']:5.2f} ×; "
            f"peak {figures['memory']:5.2f} GB, {figures['memory'] / first['memory']:5.2f} ×, "
            f"of which the fit added {figures['added']:5.2f}; penalty {figures['penalty']:.6g}"
        )


def measure(name: str, source: Path, file: str, threads: int) -> dict[str, float]:
    """Measure one fit in its own process."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(threads)), "PYTHONPATH": str(source)}
    command = [sys.executable, "-c", PROGRAM, name, *map(str, (ROWS, WIDTH, CLASSES)), file]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


if __name__ == "__main__":
    main()
