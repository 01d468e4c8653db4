"""From images to run, thresholds, report and missing list, compared with ONNX Runtime alone on the same decoded pixels.

Run as ``python -m benchmarks.whole TABLE IMAGES [--backbone NAME --weights FILE]`` from the root of the project. TABLE
has complete tags, of which 30 % are used. Ours runs in its own process, including imports, without stored embeddings:
first without a stored ONNX file of the backbone, then with one. ONNX Runtime alone runs the same backbone on pixels in
memory, one image per pass on every core, as ours does.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter

OURS = """
import sys
from positively.cli.process import prepare_process
prepare_process()
import positively as po
table, images, backbone, weights, out = sys.argv[1:]
run = po.fit(po.read(table, images=images), backbone=backbone, weights=weights, known_ratio=0.3, out=out)
po.find_missing(run).write(out + "/missing")
"""

ALONE = """
import json, sys
from time import perf_counter, process_time
from positively.cli.process import prepare_process
prepare_process()
import positively as po
from positively.embedding import find_embedder
from positively.embedding.onnx import open_session, pixels
from positively.images.decode import load_image
from positively.images.reading import read_ahead
from positively.machine import thread_count
table, images, backbone, weights = sys.argv[1:]
embedder = find_embedder(backbone, weights=weights)
paths = po.read(table, images=images, quiet=True).paths
decoded = list(read_ahead(lambda path: pixels(load_image(path), embedder.preprocessing)[None], paths))
session = open_session(embedder._graph())
start, spent = perf_counter(), process_time()
for _ in read_ahead(lambda batch: session.run(None, {"images": batch}), decoded, threads=thread_count()):
    pass
print(json.dumps([perf_counter() - start, process_time() - spent, len(decoded)]))
"""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("images")
    parser.add_argument("--backbone", default="lite0")
    parser.add_argument("--weights", default="pretrained")
    parser.add_argument("--python", default=sys.executable, help="interpreter of another environment")
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args(arguments)
    given = [str(Path(options.table).resolve()), str(Path(options.images).resolve()), options.backbone, options.weights]
    with tempfile.TemporaryDirectory() as place:
        run = partial(_run, options.python, place)
        first = run(OURS, *given, f"{place}/first")[:2]
        alone, again = [], []
        for number in range(options.repeats):  # alternating, so that load affects both
            alone.append(json.loads(run(ALONE, *given)[2]))
            shutil.rmtree(Path(place) / "cache" / "positively" / "features")
            again.append(run(OURS, *given, f"{place}/run{number}")[:2])
    images = int(alone[0][2])
    wall, spent = (min(found[part] for found in alone) for part in (0, 1))
    print(f"{images:,} images, {options.backbone}, {os.environ.get('OMP_NUM_THREADS', os.cpu_count())} threads")
    rows = {
        "ONNX Runtime alone": (wall, spent),
        "ours, first time": first,
        "ours, with a stored ONNX file": tuple(min(found[part] for found in again) for part in (0, 1)),
    }
    for name, (seconds, cpu) in rows.items():
        print(f"{name:<30} {seconds:7.1f} s {seconds / wall:5.2f} ×   {cpu:7.1f} s of CPU {cpu / spent:5.2f} ×")


def _run(python: str, place: str, program: str, *words: str) -> tuple[float, float, str]:
    """Seconds, CPU seconds and output of a process with its own cache."""
    environment = {**os.environ, "POSITIVELY_CACHE": f"{place}/cache"}
    start, before = perf_counter(), os.times()
    done = subprocess.run(
        [python, "-c", program, *words], env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    after = os.times()
    spent = sum(after[2:4]) - sum(before[2:4])
    return perf_counter() - start, spent, done.stdout


if __name__ == "__main__":
    main()
