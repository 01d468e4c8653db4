"""Prediction on 20,000 images by two processes that are killed twice, compared with one uninterrupted process.

Run as ``python -m benchmarks.predict RUN [COUNT]`` from the root of the project. Every image must be in the result
exactly once, with the same tags.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

from benchmarks.images import photo

SIDE = 160


def write_images(folder: Path, count: int) -> None:
    folder.mkdir()
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda number: photo(SIDE, SIDE, number).save(folder / f"{number:06d}.jpg"), range(count)))


def start(run: str, folder: Path, out: Path, threads: int) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "positively", "predict", run, str(folder), "--out", str(out)]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    return subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL)


def read(path: Path) -> list[tuple[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [(row["image"], row["tags"]) for row in csv.DictReader(file)]


def main() -> None:
    run, count = sys.argv[1], int((*sys.argv[2:], 20_000)[0])
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        write_images(place / "images", count)
        begun = perf_counter()
        assert start(run, place / "images", place / "alone.csv", threads=2).wait() == 0
        alone = perf_counter() - begun

        begun = perf_counter()
        parts = place / "shared.csv.parts"
        for share in (0.25, 0.6):  # kill when this share is done
            both = [start(run, place / "images", place / "shared.csv", threads=1) for _ in range(2)]
            while len(list(parts.glob("*.jsonl"))) * 256 < share * count:
                time.sleep(0.2)
            for process in both:
                process.kill()
                process.wait()
            print(f"killed both with {len(list(parts.glob('*.jsonl')))} of {-(-count // 256)} parts done", flush=True)
        both = [start(run, place / "images", place / "shared.csv", threads=1) for _ in range(2)]
        assert [process.wait() for process in both] == [0, 0]
        shared = perf_counter() - begun

        one, two = read(place / "alone.csv"), read(place / "shared.csv")
        print(f"one process: {len(one):,} images, {len(dict(one)):,} different, {alone:.0f} s")
        print(f"two processes, killed twice: {len(two):,} images, {len(dict(two)):,} different, {shared / alone:.2f} ×")
        print(f"images with other tags: {sum(a != b for a, b in zip(one, two, strict=True)):,}")
        print(f"files equal to the byte: {(place / 'alone.csv').read_bytes() == (place / 'shared.csv').read_bytes()}")


if __name__ == "__main__":
    main()
