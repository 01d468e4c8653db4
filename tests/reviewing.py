"""Shared by the tests of the review: a table of coloured squares with half of its tags, and a server in a thread."""

import csv
import threading
import time
from contextlib import contextmanager

import numpy as np
import uvicorn
from fastapi.testclient import TestClient

import shapes
from conftest import options
from positively.config import TrainConfig
from positively.pipeline import embed_table
from positively.review.exporting import export_table, free_export
from positively.review.guard import RUN, Guard
from positively.review.server import create_app
from positively.review.serving import listen
from positively.review.session import ReviewSession
from positively.review.store import DecisionStore
from positively.tables.options import ReadOptions
from positively.tables.overlap import with_hashes
from positively.tables.reading import read_labels
from positively.workspace import Workspace


def write_tags(folder, place, truth, rows=None):
    """Write tags.csv with half of the positive tags, and return its path."""
    known = truth.with_known_ratio(0.5, seed=3)
    with (folder / "tags.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "tags", "note"])
        for row in range(len(truth)) if rows is None else rows:
            tags = [name for name, state in zip(truth.classes, known.states([row])[0], strict=True) if state > 0]
            writer.writerow([truth.images[row], ";".join(tags), f"photo {row}"])
    return folder / "tags.csv"


def words(place):
    """Options of the command line for the small backbone."""
    settings = {"images": place, **shapes.frozen(place)}
    return options({name: value for name, value in settings.items() if name != "head_options"})


def config(place):
    """The same for Python."""
    return TrainConfig(**shapes.frozen(place, head_options={}))


class Opened:
    """A review in this process: its session, its guard and its service."""

    def __init__(self, source, place, features=None, table=None, port=8517, **model):
        self.source, self.options = source, ReadOptions(images=str(place))
        if table is None:
            table, _ = read_labels(source, self.options)
            table = with_hashes(table)
            features = embed_table(table, config(place)).X
        self.store = DecisionStore(Workspace.of(source).decisions, table)
        self.session = ReviewSession(table, features, self.store, source, self.options, **model)
        self.guard = Guard("127.0.0.1", port)
        self.app = create_app(self.session, self.guard, self.export)

    def export(self):
        out = free_export(self.source, self.store)
        decided = self.session.decided()
        return out, *export_table(out, self.source, self.session.table, self.options, self.store, decided)

    def client(self, host="127.0.0.1", **options):
        """Somebody who asks as the page does, with its cookie and the start it is of."""
        own = {"cookies": {self.guard.cookie: self.guard.token}, "headers": {RUN: self.guard.run}}
        return TestClient(self.app, base_url=f"http://{host}:8517", **own | options)

    def close(self):
        self.session.close()


@contextmanager
def served(source, place, port=0, **options):
    """A review on a port of its own, or a given one, in a thread; gives it with its address."""
    listening = listen("127.0.0.1", port)
    opened = Opened(source, place, port=listening.getsockname()[1], **options)
    server = uvicorn.Server(uvicorn.Config(opened.app, log_level="error", lifespan="off", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield opened
    finally:
        server.should_exit = True
        thread.join(timeout=5)
        opened.close()


def truth_of(truth, opened, tag):
    """Whether each row of an open review truly carries a tag."""
    rows = {image: row for row, image in enumerate(truth.images)}
    column = truth.classes.index(tag)
    return np.array([truth.states([rows[image]])[0][column] > 0 for image in opened.session.table.images])
