"""Time at the page from an answer to what it changes: stored on disk, model updated, next photos and counts sent.

Made features, 100 tags, one thread; ratios are to the model's own update in the same run (``benchmarks.review``).

Run as ``python -m benchmarks.page [PHOTOS ...]`` from the root of the project.
"""

import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import torch
import uvicorn
from PIL import Image

from positively.labels import LabelTable
from positively.review import DecisionStore, Guard, ReviewSession, create_app, listen
from positively.review.guard import RUN
from positively.tables import ReadOptions

TAGS, WIDTH, ANSWERS = 100, 128, 200


def main() -> None:
    torch.set_num_threads(1)
    sizes = [int(word) for word in sys.argv[1:]] or [5_000, 20_000, 100_000]
    print(f"{TAGS} tags, {ANSWERS} answers; ms: p50 / p99   (the model's update alone, p50)")
    for photos in sizes:
        with tempfile.TemporaryDirectory() as folder:
            page, model = measure(photos, Path(folder))
        middle, late = np.percentile(page, [50, 99])
        print(f"{photos:>8,} photos: {middle:6.1f} / {late:6.1f}   ({np.median(model):.1f})", flush=True)


def measure(photos: int, folder: Path) -> tuple[list[float], list[float]]:
    """Milliseconds of each answer at the page, and of the model's update alone."""
    generator = np.random.default_rng(0)
    truth = generator.random((photos, TAGS)) < 0.05
    features = generator.random((photos, WIDTH), dtype=np.float32)
    features += truth.astype(np.float32) @ generator.random((TAGS, WIDTH), dtype=np.float32)
    states = (truth & (generator.random(truth.shape) < 0.5)).astype(np.int8)
    Image.new("RGB", (8, 8)).save(folder / "0.jpg")
    table = LabelTable.from_states([f"{row}.jpg" for row in range(photos)], [f"tag {c}" for c in range(TAGS)], states)
    source = folder / "tags.csv"
    session = ReviewSession(table, features, DecisionStore(folder / "r.sqlite", table), source, ReadOptions())
    listening = listen("127.0.0.1", None)
    guard = Guard("127.0.0.1", listening.getsockname()[1])
    server = uvicorn.Server(
        uvicorn.Config(create_app(session, guard, lambda: (source, 0, 0)), log_level="error", lifespan="off")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    page, model = [], []
    address, headers = guard.address.partition("/?")[0], {RUN: guard.run}
    with httpx.Client(base_url=address, headers=headers, trust_env=False) as client:
        client.get(f"/?token={guard.token}")
        for number in range(ANSWERS):
            column = int(generator.integers(TAGS))
            row = int(session.model.ranking(column, 1)[0])
            began = time.perf_counter()
            pairs = [[row, table.classes[column]]]
            client.post(
                "/api/answer", json={"pairs": pairs, "state": 1 if truth[row, column] else -1, "way": "likeliest"}
            )
            client.post("/api/grid", json={"tag": table.classes[column], "count": 24}).raise_for_status()
            client.get("/api/status").raise_for_status()
            page.append(1000 * (time.perf_counter() - began))
            if number % 10 == 0:
                row = int(session.model.ranking(column, 1)[0])
                began = time.perf_counter()
                session.model.answer(row, column, 1)
                session.model.ranking(column, 24)
                model.append(1000 * (time.perf_counter() - began))
                session.model.answer(row, column, 0)
    server.should_exit = True
    thread.join(timeout=5)
    session.close()
    return page, model


if __name__ == "__main__":
    main()
