"""The README's pictures of the review page and of a report, taken in a real browser on postcards drawn here.

Run as ``python -m benchmarks.pictures WEIGHTS [OUT]`` from the root of the project: WEIGHTS are those of
tf_efficientnet_lite0, OUT is docs/images. It takes Playwright and chromium; answers on the page follow the truth.
"""

import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import uvicorn
from PIL import Image, ImageDraw
from playwright.sync_api import Page, sync_playwright

import positively as po
from positively.config import TrainConfig
from positively.files import write_text
from positively.pipeline import embed_table
from positively.review import DecisionStore, Guard, ReviewSession, create_app, listen
from positively.tables import with_hashes

CARDS, SIDE, KNOWN, ANSWERED, TAG = 600, 224, 0.35, 9, "boat"
WINDOW = {"width": 1280, "height": 800}
SKIES = ((("#bfe3f7", "#f4fbff")), ("#fbd3a8", "#fdf0dc"), ("#20304f", "#5a6f9c"), ("#cfd8dc", "#f2f4f5"))


def main() -> None:
    weights, out = sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else "docs/images")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tags, truth = draw_cards(folder)
        config = TrainConfig(backbone="tf_efficientnet_lite0", weights=weights, out=str(folder / "postcards"))
        run = po.fit(tags, config=config)
        with sync_playwright() as engine:
            browser = engine.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport=WINDOW, device_scale_factor=1)
            page.goto((run.path / "report.html").as_uri())
            page.set_viewport_size({**WINDOW, "height": 1100})
            page.screenshot(path=out / "report.png")
            page.set_viewport_size(WINDOW)
            review(page, tags, truth, folder, config, out)
            browser.close()


def draw_cards(folder: Path) -> tuple[po.LabelTable, np.ndarray]:
    """Write postcards and a table with some of their tags; returns the table, and the truth as flags."""
    generator = np.random.default_rng(0)
    names = list(THINGS)
    truth = generator.random((CARDS, len(names))) < 0.3
    lines = ["image,tags"]
    for number, flags in enumerate(truth):
        sky = SKIES[generator.integers(len(SKIES))]
        picture = Image.new("RGB", (SIDE, SIDE), sky[1])
        pen = ImageDraw.Draw(picture)
        pen.rectangle((0, 0, SIDE, 140), fill=sky[0])
        pen.rectangle((0, 140, SIDE, SIDE), fill=("#7fb069", "#3d7ea6", "#d9c08b")[generator.integers(3)])
        for thing in np.flatnonzero(flags):
            THINGS[names[thing]](pen, *generator.integers((15, 0), (SIDE - 70, 25)), generator)
        picture.save(folder / f"{number:03d}.jpg", quality=90)
        known = [names[thing] for thing in np.flatnonzero(flags) if generator.random() < KNOWN]
        lines.append(f"{number:03d}.jpg,{';'.join(known)}")
    write_text(folder / "postcards.csv", "\n".join(lines) + "\n")
    table = po.read(folder / "postcards.csv")
    return table, truth[:, [names.index(tag) for tag in table.classes]]


def _sun(pen, x, y, generator):
    pen.ellipse((x, y + 10, x + 44, y + 54), fill="#ffd23f")
    for angle in np.linspace(0, 2 * np.pi, 12, endpoint=False):
        reach = np.array([np.cos(angle), np.sin(angle)])
        pen.line([*(reach * 27 + (x + 22, y + 32)), *(reach * 36 + (x + 22, y + 32))], fill="#ffb703", width=4)


def _cloud(pen, x, y, generator):
    for dx, dy, size in ((0, 14, 26), (16, 2, 36), (40, 10, 30)):
        pen.ellipse((x + dx, y + 20 + dy, x + dx + size, y + 20 + dy + size * 0.8), fill="#ffffff", outline="#dfe6ea")


def _tree(pen, x, y, generator):
    pen.rectangle((x + 16, y + 150, x + 24, y + 182), fill="#6b4226")
    pen.polygon([(x - 6, y + 156), (x + 46, y + 156), (x + 20, y + 84)], fill="#2d6a4f")


def _house(pen, x, y, generator):
    pen.rectangle((x, y + 130, x + 56, y + 176), fill=("#f2e2c4", "#e07a5f", "#dfe7fd")[generator.integers(3)])
    pen.polygon([(x - 6, y + 132), (x + 62, y + 132), (x + 28, y + 102)], fill="#9b2226")
    pen.rectangle((x + 22, y + 150, x + 34, y + 176), fill="#5c4033")


def _boat(pen, x, y, generator):
    pen.polygon([(x, y + 168), (x + 64, y + 168), (x + 50, y + 188), (x + 12, y + 188)], fill="#bc4749")
    pen.line((x + 30, y + 168, x + 30, y + 110), fill="#4a3728", width=4)
    pen.polygon([(x + 33, y + 112), (x + 33, y + 162), (x + 62, y + 162)], fill="#fefae0", outline="#c9c2a5")


def _balloon(pen, x, y, generator):
    color = ("#e63946", "#8338ec", "#ff9f1c")[generator.integers(3)]
    pen.ellipse((x, y + 22, x + 46, y + 76), fill=color)
    pen.rectangle((x + 16, y + 88, x + 30, y + 98), fill="#7f5539")
    pen.line((x + 10, y + 68, x + 17, y + 88), fill="#444444", width=2)
    pen.line((x + 36, y + 68, x + 29, y + 88), fill="#444444", width=2)


def _mountain(pen, x, y, generator):
    pen.polygon([(x - 30, 140), (x + 100, 140), (x + 35, y + 50)], fill="#6c757d")
    pen.polygon([(x + 19, y + 72), (x + 51, y + 72), (x + 35, y + 50)], fill="#ffffff")


THINGS = {
    "mountain": _mountain,
    "sun": _sun,
    "cloud": _cloud,
    "balloon": _balloon,
    "house": _house,
    "tree": _tree,
    "boat": _boat,
}
"""Drawn in this order, from the back to the front."""


def review(page: Page, tags: po.LabelTable, truth: np.ndarray, folder: Path, config: TrainConfig, out: Path) -> None:
    """Answer a few photos of one tag, as a person who knows it would, and take the picture."""
    table = with_hashes(tags)
    features = embed_table(table, config).X
    session = ReviewSession(table, features, DecisionStore(folder / "review.sqlite", table))
    listening = listen("127.0.0.1", None)
    guard = Guard("127.0.0.1", listening.getsockname()[1])
    app = create_app(session, guard, lambda: (out, 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    page.goto(f"{guard.address}#grid/{TAG}")
    page.wait_for_selector(".tiles img")
    column = tags.classes.index(TAG)
    for row in session.model.ranking(column, ANSWERED).tolist():
        page.keyboard.press("a" if truth[row, column] else "r")
        time.sleep(0.3)
    time.sleep(3)
    page.screenshot(path=out / "review.png")
    server.should_exit = True
    thread.join(timeout=5)
    session.close()


if __name__ == "__main__":
    main()
