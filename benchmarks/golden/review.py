"""Golden record of a scripted review through the HTTP interface of the page: questions, and effects of the answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from fastapi.testclient import TestClient

import positively as po
from benchmarks.golden import names
from benchmarks.golden.probe import Record

QUESTIONS, EVERY = 40, 20
"""Number of answers, and answers between two updates of the model."""
WAYS = ("likeliest", "teaching", "audit")
_PORT = 8517


def record_review(
    folder: Path,
    source: Path,
    table: po.LabelTable,
    rows: npt.NDArray[np.float32],
    truth: npt.NDArray[np.int8],
    recorded: npt.NDArray[np.int64] | None = None,
) -> Record:
    """Run a review with true answers.

    Args:
        folder: Where decisions are stored.
        source: File of the table.
        table: The table, with content hashes.
        rows: Stored embeddings, shape (N, D).
        truth: True label states +1 and −1 in the class order of the table, shape (N, C).
        recorded: Questions of a record. They are answered whatever is asked, so that one changed question does not
            change all later ones.

    Returns:
        The record.
    """
    session_of, store_of, guard_of, create_app, options_of = names.review_parts()
    options = options_of(images=str(table.root))
    session = session_of(table, rows, store_of(folder / "review.sqlite", table), source, options)
    try:
        names.stop_renewals(session)
        guard = guard_of("127.0.0.1", _PORT)
        app = create_app(session, guard, lambda: (folder, 0, 0))
        own: dict[str, Any] = {"cookies": {guard.cookie: guard.token}, "headers": {"Review-Run": guard.run}}
        with TestClient(app, base_url=f"http://127.0.0.1:{_PORT}", **own) as client:
            return _play(session, client, table, truth, recorded)
    finally:
        session.close()


def _play(
    session: Any,
    client: TestClient,
    table: po.LabelTable,
    truth: npt.NDArray[np.int8],
    recorded: npt.NDArray[np.int64] | None,
) -> Record:
    def post(path: str, **content: Any) -> Any:
        answer = client.post(f"/api/{path}", json=content)
        assert answer.status_code == 200, answer.text
        return answer.json()

    found: Record = {"probabilities at the start": names.probabilities(session)}
    questions, stated = [], []
    for number in range(QUESTIONS):
        asked = post("questions", way="mixed", begin=number)["items"][0]
        questions.append((asked["row"], table.classes.index(asked["tag"]), WAYS.index(asked["way"])))
        stated.append(asked["probability"])
        row, column, way = questions[-1] if recorded is None else recorded[number].tolist()
        state = int(truth[row, column])
        post("answer", pairs=[[row, table.classes[column]]], state=state, way=WAYS[way], only_open=True)
        if (number + 1) % EVERY == 0:
            found[f"probabilities after {number + 1}"] = names.probabilities(session)
            names.renew(session)
            found[f"probabilities after {number + 1}, renewed"] = names.probabilities(session)
    found |= {"questions": np.array(questions), "questions stated": np.array(stated)}
    rare = int((truth > 0).sum(axis=0).argmin())
    chosen = np.flatnonzero(truth[:, rare] > 0)[:4].tolist()
    post("tag", name="again", rows=chosen)
    found["probabilities of a new tag"] = names.probabilities(session)[:, -1]
    post("undo")
    grid = post("grid", tag=table.classes[rare], count=20)["items"]
    found["grid.pairs"] = np.array([[item["row"], rare] for item in grid], dtype=np.int16)
    found["grid.values"] = np.array([item["probability"] for item in grid])
    tags = client.get("/api/status").json()["tags"]
    keys = ("known", "gained", "rejected", "missing", "learned", "right", "judged")
    found["status"] = np.array([[tag[key] for key in keys] for tag in tags], dtype=np.float64)
    return found
