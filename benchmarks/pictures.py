"""The screenshots of the review page and of a report in the documentation, taken in a real browser.

Run ``positively demo``, then ``python -m benchmarks.pictures [DEMO] [OUT]`` from the root of the project. DEMO is the
folder of the demo, positively-demo by default, and OUT is docs/images by default. It needs Playwright and chromium. The
answers on the page follow the truth and are not stored in the demo.
"""

import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import uvicorn
from playwright.sync_api import Page, sync_playwright

import positively as po
from positively.demo import Library
from positively.review import DecisionStore, Guard, ReviewSession, create_app, listen
from positively.tables import with_hashes
from positively.workspace import Workspace

ANSWERED, TAG = 9, "balloon"
WINDOW = {"width": 1280, "height": 800}


def main() -> None:
    demo = Path(sys.argv[1] if len(sys.argv) > 1 else "positively-demo")
    out = Path(sys.argv[2] if len(sys.argv) > 2 else "docs/images")
    library = Library(demo)
    report = po.write_report(Workspace.of(library.photos).runs / "auto")
    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={**WINDOW, "height": 1100}, device_scale_factor=1)
        page.goto(report.absolute().as_uri())
        page.screenshot(path=out / "report.png")
        page.set_viewport_size(WINDOW)
        with tempfile.TemporaryDirectory() as folder:
            review(page, library, Path(folder), out)
        browser.close()


def review(page: Page, library: Library, folder: Path, out: Path) -> None:
    """Answer a few photos of one tag as the truth says, and take the picture."""
    table = with_hashes(po.read(library.photos))
    truth = po.read(library.truth).with_classes(table.classes).states() == 1
    session = ReviewSession(table, po.embed(table).X, DecisionStore(folder / "decisions.sqlite", table))
    listening = listen("127.0.0.1", None)
    guard = Guard("127.0.0.1", listening.getsockname()[1])
    app = create_app(session, guard, lambda: (out, 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    page.goto(f"{guard.address}#grid/{TAG}")
    page.wait_for_selector(".tiles img")
    column = table.classes.index(TAG)
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
