"""Latency of the review page: answer stored, model updated, next photos and counts sent.

With ``--browser`` (Chromium and playwright): from a key press to its answer on the screen and to the next page, for the
first eight pages of 10,000 photos and after forty.

Uses synthetic embeddings and 100 tags; set OMP_NUM_THREADS=1. Ratios are relative to the update of the model in the
same run (``benchmarks.review``).

Run as ``python -m benchmarks.page [--browser] [PHOTOS ...]`` from the root of the project.
"""

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import uvicorn
from PIL import Image

from positively.labels import LabelTable
from positively.review import DecisionStore, Guard, ReviewSession, create_app, listen
from positively.review.guard import RUN
from positively.tables import ReadOptions

TAGS, WIDTH, ANSWERS = 100, 128, 200
PAGES = 48
TURNING = """async (pages) => {
    const tiles = document.querySelector(".tiles");
    const press = (key, shiftKey = false) => document.activeElement.dispatchEvent(
        new KeyboardEvent("keydown", { key, shiftKey, bubbles: true, cancelable: true }));
    const painted = (is) => new Promise((done) => {
        const look = () => is() && (observer.disconnect(), requestAnimationFrame(() => done(performance.now())));
        const observer = new MutationObserver(look);
        observer.observe(tiles, { subtree: true, childList: true, attributes: true });
        look();
    });
    const told = [];
    for (let page = 0; page < pages; page += 1) {
        const began = performance.now();
        press("r");
        const answered = (await painted(() => tiles.querySelector(".rejected"))) - began;
        press("R", true);
        const done = await painted(() => !tiles.querySelector("li:not(.rejected)"));
        press("Enter");
        told.push([answered, (await painted(() => !tiles.querySelector(".rejected"))) - done]);
    }
    return told;
}"""
"""Rejects page after page; returns milliseconds from a key press to its answer on the screen, and to the next page."""


def main() -> None:
    if "--browser" in sys.argv:
        with tempfile.TemporaryDirectory() as folder:
            times = in_browser(10_000, Path(folder))
        for name, found in zip(("answer on the screen", "next page"), times.T, strict=True):
            first, last = np.median(found[:8]), np.median(found[-8:])
            print(f"{name}: {first:.0f} ms at first, {last:.0f} ms after {PAGES - 8} pages")
        return
    sizes = [int(word) for word in sys.argv[1:]] or [5_000, 20_000, 100_000]
    print(f"{TAGS} tags, {ANSWERS} answers; ms: p50 / p99   (the model's update alone, p50)")
    for photos in sizes:
        with tempfile.TemporaryDirectory() as folder:
            page, model = measure(photos, Path(folder))
        middle, late = np.percentile(page, [50, 99])
        print(f"{photos:>8,} photos: {middle:6.1f} / {late:6.1f}   ({np.median(model):.1f})", flush=True)


@contextmanager
def opened(photos: int, folder: Path) -> Iterator[tuple[ReviewSession, Guard, np.ndarray]]:
    """Serve a review of synthetic photos, with its truth."""
    generator = np.random.default_rng(0)
    truth = generator.random((photos, TAGS)) < 0.05
    features = generator.random((photos, WIDTH), dtype=np.float32)
    features += truth.astype(np.float32) @ generator.random((TAGS, WIDTH), dtype=np.float32)
    states = (truth & (generator.random(truth.shape) < 0.5)).astype(np.int8)
    for row in range(photos):
        os.link(folder / "0.jpg", folder / f"{row}.jpg") if row else Image.new("RGB", (8, 8)).save(folder / "0.jpg")
    names = [f"{row}.jpg" for row in range(photos)]
    table = replace(LabelTable.from_states(names, [f"tag {number}" for number in range(TAGS)], states), root=folder)
    source = folder / "tags.csv"
    session = ReviewSession(table, features, DecisionStore(folder / "r.sqlite", table), source, ReadOptions())
    listening = listen("127.0.0.1", None)
    guard = Guard("127.0.0.1", listening.getsockname()[1])
    server = uvicorn.Server(
        uvicorn.Config(create_app(session, guard, lambda: (source, 0, 0)), log_level="error", lifespan="off")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield session, guard, truth
    finally:
        server.should_exit = True
        thread.join(timeout=5)
        session.close()


def measure(photos: int, folder: Path) -> tuple[list[float], list[float]]:
    """Milliseconds of each answer on the page, and of the update of the model alone."""
    generator, page, model = np.random.default_rng(1), [], []
    with opened(photos, folder) as (session, guard, truth):
        classes, address = session.model.classes, guard.address.partition("/?")[0]
        with httpx.Client(base_url=address, headers={RUN: guard.run}, trust_env=False) as client:
            client.get(f"/?token={guard.token}")
            for number in range(ANSWERS):
                column = int(generator.integers(TAGS))
                row = int(session.model.ranking(column, 1)[0])
                began = time.perf_counter()
                state = 1 if truth[row, column] else -1
                answer = {"pairs": [[row, classes[column]]], "state": state, "way": "likeliest"}
                client.post("/api/answer", json=answer)
                client.post("/api/grid", json={"tag": classes[column], "count": 24}).raise_for_status()
                client.get("/api/status").raise_for_status()
                page.append(1000 * (time.perf_counter() - began))
                if number % 10 == 0:
                    row = int(session.model.ranking(column, 1)[0])
                    began = time.perf_counter()
                    session.model.answer(row, column, 1)
                    session.model.ranking(column, 24)
                    model.append(1000 * (time.perf_counter() - began))
                    session.model.answer(row, column, 0)
    return page, model


def in_browser(photos: int, folder: Path) -> np.ndarray:
    """Milliseconds from a key press to its answer on the screen and to the next page, for many pages."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with opened(photos, folder) as (_, guard, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{guard.address}#grid/tag%207")
        page.wait_for_selector("body[data-ready]")
        times = np.array(page.evaluate(TURNING, PAGES))
        browser.close()
    return times


if __name__ == "__main__":
    main()
