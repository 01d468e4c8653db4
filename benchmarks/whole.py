"""From photos to model, cuts and missing list: the whole way as a user types it, and where its time goes.

Run as ``python -m benchmarks.whole TABLE IMAGES WEIGHTS`` from the root of the project. TABLE has complete tags, of
which 30 % are shown; WEIGHTS are those of tf_efficientnet_lite0 (or 'pretrained'). Nothing is stored before. Decoding
and the network are timed alone as well, each on all cores: on the way they run beside one another.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import torch

from positively.cli.process import keep_freed_memory
from positively.images import ImageTransform
from positively.images.reading import read_ahead
from positively.models import create_classifier
from positively.models.onnx import run_frozen
from positively.tables import ReadOptions, read_labels

BACKBONE, SIZE, BATCH = "tf_efficientnet_lite0", 224, 32


IN_PYTHON = """
import sys
from positively.cli.process import prepare_process
prepare_process()
import positively as po
table, images, weights, out = sys.argv[1:]
run = po.fit(po.read(table, images=images), backbone="tf_efficientnet_lite0", weights=weights, known_ratio=0.3, out=out)
po.find_missing(run).write(out + "/missing")
"""


def timed(place: str, *words: str) -> float:
    """Seconds of one process, with a cache of its own."""
    start = perf_counter()
    environment = {**os.environ, "POSITIVELY_CACHE": place}
    subprocess.run([sys.executable, *words], check=True, env=environment, capture_output=True)
    return perf_counter() - start


def command(place: str, *words: str) -> float:
    """Seconds of one command of ours."""
    return timed(place, "-m", "positively", *words)


def main() -> None:
    keep_freed_memory()
    table, images, weights = sys.argv[1:4]
    network = ["--backbone", BACKBONE, "--weights", weights]
    with tempfile.TemporaryDirectory() as place:
        run = str(Path(place) / "run")
        trained = command(place, "train", table, "--images", images, "--known-ratio", "0.3", *network, "--out", run)
        again = command(place, "train", table, "--images", images, "--known-ratio", "0.3", *network, "--out", run + "2")
        missing = command(place, "missing", run)
        loading = command(place, "check")
    with tempfile.TemporaryDirectory() as place:
        in_python = timed(place, "-c", IN_PYTHON, table, images, weights, str(Path(place) / "run"))

    paths = read_labels(table, ReadOptions(images=images, verify=False))[0].paths
    transform = ImageTransform(SIZE)
    start = perf_counter()
    for _ in read_ahead(lambda batch: [transform(path) for path in batch], _batches(paths)):
        pass
    decoding = perf_counter() - start
    classifier = create_classifier(BACKBONE, 80, weights, SIZE, depth="probe").eval()
    features = run_frozen(classifier, SIZE, len(paths))
    batch = torch.randint(0, 256, (BATCH, 3, SIZE, SIZE), dtype=torch.uint8)
    start = perf_counter()
    for _ in _batches(paths):
        features(batch)
    computing = perf_counter() - start

    rows = {
        "model, cuts and missing list, one process": in_python,
        "  network, alone": computing,
        "  decoding, alone": decoding,
        "  the rest": in_python - computing - decoding,
        "the same as two commands": trained + missing,
        "  train": trained,
        "  missing RUN": missing,
        "train again, features stored": again,
        "a command that only loads torch": loading,
    }
    print(f"{len(paths):,} photos, {torch.get_num_threads()} threads")
    for name, seconds in rows.items():
        print(f"{name:<44}{seconds:7.1f} s  {100 * seconds / in_python:5.0f} %")


def _batches(paths: list[Path]) -> list[list[Path]]:
    return [paths[begin : begin + BATCH] for begin in range(0, len(paths), BATCH)]


if __name__ == "__main__":
    main()
