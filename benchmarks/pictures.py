"""The screenshots of the review page and of a report in the documentation, taken in a real browser.

Run ``python -m benchmarks.pictures [WEIGHTS] [OUT]`` from the root of the project. WEIGHTS are those of
tf_efficientnet_lite0; by default those of the extra [offline]. OUT is docs/images by default. It needs Playwright and
chromium. The photos are those of ``positively demo``, and the answers on the page follow the truth.
"""

import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import uvicorn
from playwright.sync_api import Page, sync_playwright

import positively as po
from positively.config import TrainConfig
from positively.demo import make_library
from positively.pipeline import embed_table
from positively.review import DecisionStore, Guard, ReviewSession, create_app, listen
from positively.tables import with_hashes

ANSWERED, TAG = 9, "balloon"
WINDOW = {"width": 1280, "height": 800}


def main() -> None:
    weights = sys.argv[1] if len(sys.argv) > 1 else "pretrained"
    out = Path(sys.argv[2] if len(sys.argv) > 2 else "docs/images")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = make_library(folder)
        tags = po.read(library.photos)
        truth = po.read(library.truth).with_classes(tags.classes).states() == 1
        config = TrainConfig(backbone="lite0", weights=weights, out=str(folder / "photos"))
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


def review(page: Page, tags: po.LabelTable, truth: np.ndarray, folder: Path, config: TrainConfig, out: Path) -> None:
    """Answer a few photos of one tag as the truth says, and take the picture."""
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
