"""The README's pictures of the review page and of a report, taken in a real browser on the demo's scenes.

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
from playwright.sync_api import Page, sync_playwright

import positively as po
from positively.app.guard import Guard
from positively.app.server import create_app
from positively.app.serving import listen
from positively.app.session import ReviewSession
from positively.app.store import DecisionStore
from positively.demo import make_tables, write_tags
from positively.training.config import TrainConfig
from positively.training.frozen import frozen_features

ANSWERED, SIZE = 10, {"width": 1280, "height": 800}


def main() -> None:
    weights, out = sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else "docs/images")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        complete, _ = make_tables(folder)
        tags = write_tags(folder, complete, seed=0)
        config = TrainConfig(backbone="tf_efficientnet_lite0", weights=weights, out=str(folder / "scenes-run"))
        run = po.fit(tags, config=config)
        with sync_playwright() as engine:
            browser = engine.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport=SIZE, device_scale_factor=1)
            page.goto((run.path / "report.html").as_uri())
            page.screenshot(path=out / "report.png")
            review(page, tags, complete.states() == 1, folder, config, out)
            browser.close()


def review(page: Page, tags: po.LabelTable, truth: np.ndarray, folder: Path, config: TrainConfig, out: Path) -> None:
    """Answer a few photos of one tag, as a person who knows it would, and take the picture."""
    table, features = frozen_features(tags, config)
    store = DecisionStore(folder / "review.sqlite", table)
    session = ReviewSession(table, features, store)
    listening = listen("127.0.0.1", None)
    guard = Guard("127.0.0.1", listening.getsockname()[1])
    app = create_app(session, guard, lambda: (out, 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    tag = tags.classes[3]
    page.goto(f"{guard.address}#grid/{tag}")
    page.wait_for_selector(".tiles img")
    column = tags.classes.index(tag)
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
