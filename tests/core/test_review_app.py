"""The review behind its page: what is stored, who may ask, what is served, what is exported."""

import csv
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import webbrowser
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

from positively.api import missing
from positively.cli import main
from positively.cli import review as review_command
from positively.cli import train as train_command
from positively.errors import ConfigError, FileError, quoted
from positively.labels import UNKNOWN, LabelTable
from positively.pipeline import embed_table
from positively.review import views
from positively.review.exporting import default_export
from positively.review.guard import RUN
from positively.review.opening import open_reviewable
from positively.review.pictures import LARGE, THUMBNAIL, Pictures
from positively.review.serving import in_browser, listen
from positively.review.session import ReviewSession
from positively.review.store import DecisionStore
from positively.tables.options import ReadOptions
from positively.tables.overlap import with_hashes
from positively.tables.reading import read_labels
from positively.workspace import Workspace
from reviewing import Opened, config, truth_of, words, write_tags
from wording import assert_names, naming


@pytest.fixture
def source(tmp_path, place, tables):
    return write_tags(tmp_path, place, tables[0])


@pytest.fixture
def opened(source, place):
    opened = Opened(source, place)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def guarded(place, tables, tmp_path_factory):
    """One review for all that only knock."""
    opened = Opened(write_tags(tmp_path_factory.mktemp("guarded"), place, tables[0]), place)
    yield opened
    opened.close()


@pytest.fixture
def client(opened):
    made = opened.client(cookies=None)
    assert made.get("/", params={"token": opened.guard.token}).status_code == 200
    return made


def table_of(*names, source="tags.csv"):
    table = LabelTable.from_positives(names, ["cat", "dog"], [[] for _ in names])
    object.__setattr__(table, "source", source)
    return table


def separable(classes=2, count=300):
    """A table whose tags its features tell well, half of them known, and the truth with one tag more."""
    generator = np.random.default_rng(0)
    truth = generator.random((count, classes + 1)) < 0.2
    features = np.maximum(generator.normal(size=(count, 64)) + 2 * truth @ generator.normal(size=(classes + 1, 64)), 0)
    states = truth[:, :classes] & (generator.random((count, classes)) < 0.5)
    images, names = [f"{row}.jpg" for row in range(count)], ["Dog", "cat", "cow", "hen"][:classes]
    return LabelTable.from_states(images, names, states.astype(np.int8)), features.astype(np.float32), truth


def session_of(path, table, features):
    return ReviewSession(table, features, DecisionStore(path, table), landmarks=100)


# The store


def test_what_was_decided_is_there_after_a_restart(tmp_path):
    table = table_of("a.jpg", "b.jpg")
    store = DecisionStore(tmp_path / "x.review.sqlite", table)
    store.add("likeliest", [("a.jpg", "cat", 1), ("b.jpg", "cat", -1)])
    second = store.add("audit", [("a.jpg", "dog", 1)])
    store.undo(second.number)
    store.close()
    again = DecisionStore(tmp_path / "x.review.sqlite", table)
    (action,) = again.actions()
    assert action.decisions == (("a.jpg", "cat", 1), ("b.jpg", "cat", -1))
    assert (action.way, action.session, again.session) == ("likeliest", 1, 2) and action.time > 1e9
    again.close()
    with sqlite3.connect(tmp_path / "x.review.sqlite") as file:  # undone, and still on record
        assert file.execute("SELECT COUNT(*) FROM decisions").fetchone() == (3,)
        assert file.execute("SELECT way FROM actions WHERE undone IS NOT NULL").fetchall() == [("audit",)]


@pytest.mark.parametrize("kind", ["text", "database", "folder"])
def test_a_foreign_file_is_refused_and_untouched(tmp_path, kind):
    path = tmp_path / "tags.review.sqlite"
    if kind == "folder":
        path.mkdir()
    elif kind == "text":
        path.write_text("my own notes\n" * 20)
    else:
        with sqlite3.connect(path) as file:
            file.execute("CREATE TABLE mine (a)")
    before = None if kind == "folder" else path.read_bytes()
    with pytest.raises(FileError, match=r"review\.sqlite"):
        DecisionStore(path, table_of("a.jpg"))
    assert kind == "folder" or path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_review_of_other_photos_is_refused(tmp_path):
    path = tmp_path / "x.review.sqlite"
    DecisionStore(path, table_of("a.jpg", "b.jpg", "c.jpg")).close()
    with pytest.raises(ConfigError, match=naming("x.review.sqlite", "3", "tags.csv", "1", "pets")):
        DecisionStore(path, table_of("a.jpg", "x.jpg", source="pets.csv"))
    DecisionStore(path, table_of("z.jpg", "a.jpg", "b.jpg", "c.jpg")).close()  # the same, with one photo more


def test_a_damaged_store_is_a_sentence(tmp_path):
    path = tmp_path / "x.review.sqlite"
    DecisionStore(path, table_of("a.jpg")).close()
    path.write_bytes(path.read_bytes()[:200] + os.urandom(4000))
    with pytest.raises(FileError, match=r"review\.sqlite"):
        DecisionStore(path, table_of("a.jpg"))


@pytest.mark.parametrize("place", ["/proc/x.review.sqlite", "letter.txt/x.review.sqlite"])
def test_a_place_that_cannot_be_written_is_a_sentence_with_the_way_out(tmp_path, place):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(FileError, match=naming("x.review.sqlite", "out='FILE'")):
        DecisionStore(tmp_path / place, table_of("a.jpg"))


def test_a_review_that_may_not_be_read_is_a_sentence_with_the_way_out(tmp_path, monkeypatch):
    path = tmp_path / "x.review.sqlite"
    DecisionStore(path, table_of("a.jpg")).close()

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(FileError, match=naming("x.review.sqlite", "Permission denied", "out='FILE'")):
        DecisionStore(path, table_of("a.jpg"))


def test_a_folder_is_reviewed_from_inside_it_too(tmp_path, monkeypatch):
    (tmp_path / "photos" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "photos")
    monkeypatch.chdir(tmp_path / "photos")
    for folder in (".", "..", "deep/.."):
        name = "photos" if folder != ".." else tmp_path.name
        parent = tmp_path if folder != ".." else tmp_path.parent
        assert Workspace.of(Path(folder)).decisions == parent / f"{name}.positively" / "decisions.sqlite"
        assert default_export(Path(folder)) == parent / f"{name}.reviewed.csv"
    assert Workspace.of(tmp_path / "link").path == tmp_path / "link.positively"
    assert Workspace.of(Path("/")).path == Path("/photos.positively")
    Image.new("RGB", (8, 8)).save("a.png")
    assert open_reviewable(Path(), ReadOptions())[0].source == "photos"


def test_hidden_photos_are_not_reviewed(tmp_path):
    folder = tmp_path / ".photos"  # that the folder itself is hidden is the user's choice
    for name in ("a.png", ".b.png", ".thumbnails/c.png", "deep/.cache/d.png", "deep/e.png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(folder / name)
    assert list(open_reviewable(folder, ReadOptions())[0].images) == ["a.png", "deep/e.png"]


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path):
    program = (
        "import sys, time; from pathlib import Path; from positively.review.store import DecisionStore\n"
        "from positively.labels import LabelTable\n"
        "table = LabelTable.from_positives(['a.jpg'], ['cat'], [[]])\n"
        "store = DecisionStore(Path(sys.argv[1]), table)\n"
        "store.add('likeliest', [('a.jpg', 'cat', 1)])\n"
        "print('open', flush=True); time.sleep(60)"
    )
    path, table = tmp_path / "x.review.sqlite", LabelTable.from_positives(["a.jpg"], ["cat"], [[]])
    other = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "open\n"
    with pytest.raises(ConfigError, match="another review"):
        DecisionStore(path, table)
    other.kill()  # kill -9: the lock goes with the process, the decision stays
    other.wait()
    store = DecisionStore(path, table)
    assert [action.decisions for action in store.actions()] == [(("a.jpg", "cat", 1),)]
    store.close()


def test_names_alone_are_no_proof_and_hashes_stay(tmp_path):
    path, bare = tmp_path / "x.review.sqlite", table_of("a.jpg", "b.jpg")
    DecisionStore(path, bare).close()
    with pytest.raises(ConfigError, match=naming("2", "pets", "0", "content")):
        DecisionStore(path, replace(bare, source="pets"))
    known = replace(bare, hashes=["1f", "2e"])
    DecisionStore(path, known).close()
    DecisionStore(path, bare).close()  # comes without hashes, and takes none away
    DecisionStore(path, replace(known, source="pets")).close()
    with pytest.raises(ConfigError, match="cars"):
        DecisionStore(path, replace(known, source="cars", hashes=["3d", "4c"]))


def test_decisions_follow_the_spelling_of_the_table(tmp_path):
    path, table = tmp_path / "x.review.sqlite", table_of("a.jpg", "b.jpg")
    store = DecisionStore(path, table)
    store.add("likeliest", [("a.jpg", "cat", 1), ("b.jpg", "dog", -1)])
    store.undo(store.add("new tag", [("a.jpg", "hot dog", 1)], new_tag="hot dog").number)
    store.add("new tag", [("a.jpg", "Hot  Dog", 1)], new_tag="Hot  Dog")
    store.add("likeliest", [("b.jpg", "hot dog", 1)])
    store.close()
    again = DecisionStore(path, replace(table, classes=("Cat", "dog")))
    first, second, third = again.actions()
    assert first.decisions == (("a.jpg", "Cat", 1), ("b.jpg", "dog", -1))
    assert second.new_tag == "Hot  Dog" and third.decisions == (("b.jpg", "Hot  Dog", 1),)
    again.close()
    both = DecisionStore(path, replace(table, classes=("Cat", "cat")))
    assert both.actions()[0].decisions[0] == ("a.jpg", "cat", 1)
    both.close()


# Who may ask


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"cookies": {"positively-8517": "guess"}}, "token"),
        ({"cookies": {}}, "token"),
        ({"headers": {"host": "evil.example:8517"}}, "name"),
        ({"headers": {"host": "127.0.0.1:9999"}}, "name"),
        ({"headers": {"host": "192.0.2.7:8517"}}, "name"),
        ({"headers": {"origin": "http://evil.example"}}, "site"),
        ({"headers": {"origin": "null"}}, "site"),
        ({"headers": {"origin": "http://[bad"}}, "site"),
        ({"headers": {"origin": "https://127.0.0.1:8517"}}, "site"),
        ({"headers": {"sec-fetch-site": "cross-site"}}, "site"),
        ({"headers": {"sec-fetch-site": "same-site"}}, "site"),
    ],
)
@pytest.mark.parametrize(("method", "path"), [("GET", "/api/status"), ("POST", "/api/undo"), ("GET", "/thumbnail/0")])
def test_strangers_are_refused(guarded, change, sentence, method, path):
    cookies = change.get("cookies", {"positively-8517": guarded.guard.token})
    stranger = guarded.client(cookies=cookies)
    told = stranger.request(method, path, headers=change.get("headers"), json={} if method == "POST" else None)
    assert told.status_code == 403 and sentence in told.text
    friend = guarded.client("localhost")
    friendly = {"origin": "http://localhost:8517", "sec-fetch-site": "same-origin"}
    assert friend.request(method, path, headers=friendly, json={} if method == "POST" else None).status_code == 200


def test_the_page_leaves_a_strict_cookie_and_forbids_the_rest(guarded):
    stranger = guarded.client(cookies=None)
    assert stranger.get("/").status_code == 403
    assert stranger.get("/", params={"token": "guess"}).status_code == 403
    page = stranger.get("/", params={"token": guarded.guard.token}, headers={"sec-fetch-site": "cross-site"})
    assert page.status_code == 200 and "HttpOnly" in page.headers["set-cookie"]
    assert "SameSite=strict" in page.headers["set-cookie"]
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    for name in ("docs", "redoc", "openapi.json"):
        assert stranger.get(f"/{name}").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/thumbnail/200",
        "/thumbnail/-1",
        "/photo/200",
        "/thumbnail/..%2f..%2f..%2fetc%2fpasswd",
        "/photo/%2fetc%2fpasswd",
        "/page/..%2fserver.py",
        "/page/%2e%2e/server.py",
        "/page//etc/passwd",
        "/etc/passwd",
    ],
)
def test_a_path_outside_the_table_is_refused(guarded, path):
    told = guarded.client().get(path)
    assert told.status_code in (404, 422) and b"root:" not in told.content and b"import" not in told.content


# What is served


def test_photos_come_upright_small_and_as_jpeg(tmp_path):
    wide = Image.new("RGB", (1200, 600), "red")
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    wide.save(tmp_path / "a.jpg", exif=exif)
    wide.save(tmp_path / "b.png")
    (tmp_path / "c.jpg").write_bytes(b"no photo")
    pictures = Pictures([tmp_path / name for name in ("a.jpg", "b.png", "c.jpg", "gone.jpg")])
    import io

    shown = [Image.open(io.BytesIO(pictures.jpeg(row, THUMBNAIL))) for row in range(4)]
    assert {image.format for image in shown} == {"JPEG"}
    assert shown[0].size == (THUMBNAIL // 2, THUMBNAIL) and shown[1].size == (THUMBNAIL, THUMBNAIL // 2)
    assert [pictures.aspect(row) for row in range(3)] == [0.5, 2.0, 1.0]
    assert Image.open(io.BytesIO(pictures.jpeg(1, LARGE))).size == (1200, 600)
    assert shown[2].size == shown[3].size == (400, 300)  # a placeholder
    (tmp_path / "gone.jpg").write_bytes((tmp_path / "b.png").read_bytes())
    assert Image.open(io.BytesIO(pictures.jpeg(3, THUMBNAIL))).size == (THUMBNAIL, THUMBNAIL // 2)  # back again


def grid(client, tag, **more):
    return client.post("/api/grid", json={"tag": tag, "count": 12, **more}).json()["items"]


def answer(client, pairs, state, **more):
    told = client.post("/api/answer", json={"pairs": pairs, "state": state, "way": "likeliest", **more})
    assert told.status_code == 200, told.text
    return told.json()["changed"]


def tag_of(client, name):
    return next(tag for tag in client.get("/api/status").json()["tags"] if tag["name"] == name)


def test_answers_are_learned_counted_and_undone_without_end(client, opened):
    before = [item["row"] for item in grid(client, "red")]
    likely = [item["probability"] for item in grid(client, "red")]
    assert likely == sorted(likely, reverse=True) and all(0 <= p <= 1 for p in likely)
    answer(client, [[before[0], "red"], [before[1], "red"]], 1)
    answer(client, [[before[2], "red"]], -1)
    after = [item["row"] for item in grid(client, "red")]
    assert not set(before[:3]) & set(after)
    red = tag_of(client, "red")
    assert (red["gained"], red["rejected"], red["right"], red["judged"]) == (2, 1, 2, 3)
    status = client.get("/api/status").json()
    assert status["gained"] == 2 and status["session"]["gained"] == 2 and status["can_undo"]
    states = {item["row"]: item["state"] for item in grid(client, "red", rows=before[:4])}
    assert [states[row] for row in before[:4]] == [1, 1, -1, 0]
    told = [client.post("/api/undo", json={}).json() for _ in range(3)]
    assert told[0]["pairs"] == [[before[2], "red"]] and "red" in told[0]["what"]
    assert len(told[1]["pairs"]) == 2 and told[2]["what"] is None
    assert [item["row"] for item in grid(client, "red")] == before
    assert tag_of(client, "red")["gained"] == 0 and not client.get("/api/status").json()["can_undo"]


def test_a_page_of_an_earlier_start_is_refused_and_told_so(opened, client):
    assert f'data-run="{opened.guard.run}"' in client.get("/").text
    for headers in ({RUN: "0a1b2c3d"}, {}):
        for method, path in (("GET", "/api/status"), ("POST", "/api/answer"), ("POST", "/api/undo")):
            body = {"pairs": [[0, "red"]], "state": 1, "way": "likeliest"} if method == "POST" else None
            told = opened.client(headers=headers).request(method, path, json=body)
            assert told.status_code == 409 and told.text
    assert not opened.session.decided()


def test_what_is_on_record_is_no_gain_and_can_be_taken_away(client, opened):
    red = opened.session.column("red")
    row = int(np.flatnonzero(opened.session.table.states()[:, red] > 0)[0])
    assert answer(client, [[row, "red"]], 1, way="hand") == [] and not client.get("/api/status").json()["gained"]
    assert answer(client, [[row, "red"]], -1, way="hand") == [[row, "red"]]
    shown = client.post("/api/photo", json={"row": row}).json()["photo"]
    assert shown["decided"] == {"red": -1} and "red" not in shown["known"]
    told = client.post("/api/export", json={}).json()
    assert (told["tags"], told["absences"]) == (0, 1)
    with Path(told["path"]).open() as file:
        line = list(csv.DictReader(file))[row]
    assert "red" not in line["tags"].split(";") and line["absent"] == "red"
    assert answer(client, [[row, "red"]], 1, way="hand") == [[row, "red"]]  # it is there after all: no gain either
    assert opened.session.decided() == {(opened.session.table.images[row], "red"): 0}
    assert opened.session.model.states(red)[row] == 1 and not client.get("/api/status").json()["gained"]
    assert "red" in client.post("/api/photo", json={"row": row}).json()["photo"]["known"]


def test_a_mixture_asks_six_likeliest_two_that_teach_and_two_at_random_of_ten(client):
    def ask(count, begin=0, exclude=()):
        asked = {"way": "mixed", "count": count, "begin": begin, "exclude": list(exclude)}
        return client.post("/api/questions", json=asked).json()

    ten = ask(10)["items"]
    ways = [item["way"] for item in ten]
    assert (ways.count("likeliest"), ways.count("teaching"), ways.count("audit")) == (6, 2, 2)
    assert "audit" in ways[:5] and "audit" in ways[5:]  # in between, not at the end
    pairs = [[item["row"], item["tag"]] for item in ten]
    assert len(set(map(tuple, pairs))) == 10
    drawn = client.post("/api/questions", json={"way": "audit", "count": 2}).json()["items"]
    assert [item for item in ten if item["way"] == "audit"] == drawn
    assert [item["way"] for item in ask(4, begin=13, exclude=pairs)["items"]] == (ways + ways)[3:7]
    for item, pair in zip(ten, pairs, strict=True):
        answer(client, [pair], 1, way=item["way"])
    assert sum(tag["judged"] for tag in client.get("/api/status").json()["tags"]) == 6  # suggestions, no checks
    assert ask(1, exclude=pairs)["answered"] == pairs  # what is on a screen and was answered elsewhere


def test_two_tabs_neither_double_nor_overrule(client, opened):
    row, other = (item["row"] for item in grid(client, "red")[:2])
    assert answer(client, [[row, "red"]], -1) == [[row, "red"]]
    assert answer(client, [[row, "red"]], -1) == []  # the second tab says the same
    # "Accept the rest" of a tab that does not know of the rejection yet.
    assert answer(client, [[row, "red"], [other, "red"]], 1, only_open=True) == [[other, "red"]]
    assert len(opened.store.actions()) == 2
    assert answer(client, [[row, "red"]], 1) == [[row, "red"]]  # a change of mind
    client.post("/api/undo", json={})
    assert grid(client, "red", rows=[row])[0]["state"] == -1


def test_mistaken_requests_are_sentences(client):
    told = client.post("/api/answer", json={"pairs": [[0, "purple"]], "state": 1, "way": "likeliest"})
    assert told.status_code == 400 and "'purple'" in told.json()["error"]
    told = client.post("/api/answer", json={"pairs": [[200, "red"]], "state": 1, "way": "likeliest"})
    assert told.status_code == 400 and "200" in told.json()["error"]
    for body in ({"pairs": [], "state": 1, "way": "likeliest"}, {"pairs": [[0, "red"]], "state": 2, "way": "audit"}):
        assert client.post("/api/answer", json=body).status_code == 422
    for path, body in (("/api/grid", {"tag": "red", "rows": [0, 10**30]}), ("/api/photo", {"row": 200})):
        told = client.post(path, json=body)
        assert told.status_code == 400 and "photo" in told.json()["error"]
    for name, rows, sentence in (
        ("", [1], "name"),
        ("a;b", [1], "separat"),
        ("a\0b", [1], "character"),
        ("nan", [1], "pandas"),
        ("RED", [1], "'red'"),
        ("new", [], "photos"),
        ("new", [200], "photos"),
    ):
        told = client.post("/api/tag", json={"name": name, "rows": rows})
        assert told.status_code == 400 and sentence in told.json()["error"]
    # Half a character, as no browser sends it, and accents in two ways.
    half = {"content": b'{"name": "\\ud800x", "rows": [1]}', "headers": {"content-type": "application/json"}}
    told = client.post("/api/tag", **half)
    assert told.status_code == 422 and "name" in told.json()["error"]
    assert client.post("/api/tag", json={"name": "caf\u00e9", "rows": [1]}).status_code == 200
    assert "'caf\u00e9'" in client.post("/api/tag", json={"name": "CAFE\u0301", "rows": [1]}).json()["error"]


def test_a_new_tag_from_three_photos_is_found_in_the_others(client, opened, tables, source, place):
    is_red = truth_of(tables[0], opened, "red")
    examples = np.flatnonzero(is_red)[:3].tolist()
    assert client.post("/api/tag", json={"name": "  crimson ", "rows": examples}).json()["name"] == "crimson"
    found = [item["row"] for item in grid(client, "crimson")]
    assert not set(found) & set(examples)
    assert is_red[found].mean() >= 2 * is_red.mean()
    answer(client, [[found[0], "crimson"]], 1)
    opened.close()
    again = Opened(source, place)
    assert again.session.model.classes[-1] == "crimson"
    assert again.session.model.states(4)[[*examples, found[0]]].tolist() == [1, 1, 1, 1]
    again.session.undo()
    assert again.session.undo()[0].endswith("crimson")
    assert sorted(again.session.model.classes) == sorted(tables[0].classes) and again.session.undo() is None
    again.close()


def test_a_restart_forgets_nothing_of_a_new_tag(tmp_path):
    table, features, truth = separable()
    path = tmp_path / "x.review.sqlite"
    session = session_of(path, table, features)
    session.add_tag("new", np.flatnonzero(truth[:, 2])[:3].tolist())
    session.add_tag("odd", [1, 2, 3])
    for way in ["likeliest"] * 30 + ["teaching"] * 30:
        (question,) = session.model.ask(way, 1, column=2)
        session.decide([(question.row, "new")], 1 if truth[question.row, 2] else -1, way)
    session.decide([(1, "odd"), (2, "odd"), (4, "odd")], -1, "hand")
    session.decide([(3, "odd")], 0, "hand")
    session.model.renew()
    before, likely = session.model.overview(), [session.model.probabilities(column) for column in range(4)]
    assert before[2].learned
    session.close()
    again = session_of(path, table, features)
    assert again.model.classes == ["Dog", "cat", "new", "odd"]
    assert again.model.states(3)[[1, 2, 3, 4]].tolist() == [-1, -1, 0, -1]
    for _ in range(2):  # at once, and renewed
        after = again.model.overview()
        assert [(tag.accepted, tag.rejected, tag.learned) for tag in after] == [
            (tag.accepted, tag.rejected, tag.learned) for tag in before
        ]
        # How much each rejection taught is found anew, by what is known now.
        for column in range(4):
            assert np.abs(again.model.probabilities(column) - likely[column]).mean() < 0.02
        again.model.renew()
    again.close()


def test_checks_go_on_after_a_restart_and_end_in_an_interval(client, opened, tables, source, place):
    truth = {tag: truth_of(tables[0], opened, tag) for tag in tables[0].classes}

    def ask(count=1, **more):
        return client.post("/api/questions", json={"way": "audit", "count": count, **more}).json()["items"]

    first, second = ask(2)
    assert ask(1, exclude=[[first["row"], first["tag"]]]) == [second]  # one that is on the screen already
    answer(client, [[first["row"], first["tag"]]], 0, way="audit")  # skipped: never asked again
    assert ask() == [second]
    for _ in range(40):
        (item,) = ask()
        answer(client, [[item["row"], item["tag"]]], 1 if truth[item["tag"]][item["row"]] else -1, way="audit")
    estimate = client.get("/api/status").json()["estimate"]
    assert estimate["answers"] >= 40 and estimate["low"] <= estimate["missing"] <= estimate["high"]
    for _ in range(20):
        for item in ask(20):
            answer(client, [[item["row"], item["tag"]]], 1 if truth[item["tag"]][item["row"]] else -1, way="audit")
        if (precision := client.get("/api/status").json()["precision"]) is not None:
            break
    assert 0 <= precision["low"] <= precision["right"] <= precision["high"] <= 1 and precision["answers"] >= 30
    estimate = client.get("/api/status").json()["estimate"]
    expected = ask(5)
    opened.close()
    again = Opened(source, place)
    client = again.client()
    assert client.get("/api/status").json()["estimate"]["answers"] == estimate["answers"]
    items = client.post("/api/questions", json={"way": "audit", "count": 5}).json()["items"]
    assert [(item["row"], item["tag"]) for item in items] == [(item["row"], item["tag"]) for item in expected]
    again.close()


def test_a_photo_shows_what_is_known_decided_and_likely(client, opened):
    shown = client.post("/api/photo", json={}).json()["photo"]
    row, tags = shown["row"], [candidate["tag"] for candidate in shown["candidates"]]
    assert sorted(tags + shown["known"]) == sorted(opened.session.table.classes)
    answer(client, [[row, tags[0]]], 1, way="photo")
    again = client.post("/api/photo", json={"row": row}).json()["photo"]
    assert again["decided"] == {tags[0]: 1} and tags[0] not in [c["tag"] for c in again["candidates"]]
    assert client.post("/api/photo", json={"exclude": [row]}).json()["photo"]["row"] != row
    everything = list(range(200))
    assert client.post("/api/photo", json={"exclude": everything}).json()["photo"] is None


def test_browsing_shows_every_photo_once(client):
    for order in ("diverse", "table"):
        pages = [
            client.post("/api/browse", json={"order": order, "begin": b, "count": 90}).json() for b in (0, 90, 180)
        ]
        assert sorted(item["row"] for page in pages for item in page["items"]) == list(range(200))


# Reopening and exporting


def test_a_class_spelled_in_another_way_stays_one(tmp_path):
    table, features, _ = separable()
    session = session_of(tmp_path / "x.review.sqlite", table, features)
    rows = session.model.ranking(0, 2).tolist()
    session.decide([(rows[0], "Dog")], 1, "likeliest")
    session.decide([(rows[1], "Dog")], -1, "likeliest")
    drawn = session.model.audit.rows
    session.close()
    again = session_of(tmp_path / "x.review.sqlite", replace(table, classes=("dog", "cat")), features)
    assert again.model.classes == ["dog", "cat"] and again.tally.by_tag["dog"].judged == 2
    assert again.model.states(0)[rows].tolist() == [1, -1]
    assert np.array_equal(again.model.audit.rows, drawn) and again.model.audit.classes.tolist() == ["dog", "cat"]
    again.close()


def test_reading_waits_until_an_answer_is_counted(tmp_path):
    table, features, _ = separable()
    session = session_of(tmp_path / "x.review.sqlite", table, features)
    inside = threading.Event()

    def hold():
        with session.lock:
            inside.set()
            time.sleep(0.2)
            told.append("answer")

    for read in (lambda: views.status(session), session.decided):
        told = []
        holding = threading.Thread(target=hold)
        holding.start()
        inside.wait()
        read()
        assert told == ["answer"]
        holding.join()
        inside.clear()
    session.close()


def test_what_is_taken_back_is_asked_again_and_what_was_skipped_is_not(tmp_path):
    table, features, _ = separable()
    session = session_of(tmp_path / "x.review.sqlite", table, features)
    first, second = views.questions(session, "audit", 2)
    session.decide([(first["row"], first["tag"])], 1, "likeliest")
    session.decide([(first["row"], first["tag"])], 0, "likeliest")  # Backspace in the grid
    assert session.left_open() == frozenset() and views.questions(session, "audit", 1) == [first]
    pair = (first["row"], first["tag"])
    assert session.decide([pair], 0, "likeliest") == []  # nothing to take back
    assert session.decide([pair], 0, "skip") == [pair] and session.decide([pair], 0, "skip") == []
    assert views.questions(session, "audit", 1) == [second]
    session.close()
    again = session_of(tmp_path / "x.review.sqlite", table, features)
    assert again.left_open() == {(pair[0], again.column(pair[1]))}
    assert views.questions(again, "audit", 1)[0]["row"] == second["row"]
    again.close()


def test_undoing_a_new_tag_leaves_the_check_of_the_others(tmp_path):
    table, features, _ = separable()
    session = session_of(tmp_path / "x.review.sqlite", table, features)
    session.add_tag("new", [1, 2, 3])
    session.start_audit()
    drawn, others = session.model.audit.rows, session.model.audit.columns < 2
    assert session.undo()[0].endswith("new")
    assert np.array_equal(session.model.audit.rows, drawn) and not session.unchecked
    rows = [row for _, row, _ in session.model.audit.pairs(session.model.columns)]
    assert rows == drawn[others].tolist()
    session.add_tag("new", [4, 5, 6])  # another of the same name: these draws are not about it
    assert session.unchecked == ["new"] and views.status(session)["unchecked"] == 1
    session.close()
    again = session_of(tmp_path / "x.review.sqlite", table, features)
    assert np.array_equal(again.model.audit.rows, drawn) and again.unchecked == ["new"]
    again.close()


def test_rejecting_what_another_session_gained_is_no_negative_gain(tmp_path):
    table, features, _ = separable()
    session = session_of(tmp_path / "x.review.sqlite", table, features)
    row = int(session.model.ranking(0, 1)[0])
    session.decide([(row, "Dog")], 1, "likeliest")
    session.close()
    again = session_of(tmp_path / "x.review.sqlite", table, features)
    again.decide([(row, "Dog")], -1, "hand")
    assert (again.tally.gained(again.store.session), again.tally.gained(1), again.tally.gained()) == (0, 0, 0)
    again.undo()
    assert (again.tally.gained(again.store.session), again.tally.gained(1), again.tally.gained()) == (0, 1, 1)
    again.close()


def test_advice_does_not_speak_for_a_tag_of_three_photos(tmp_path):
    table, features, _ = separable()
    session = session_of(tmp_path / "x.review.sqlite", table, features)
    assert "“new”" not in views.status(session)["advice"]
    session.add_tag("new", [1, 2, 3])
    assert "“new”" in views.status(session)["advice"]
    session.close()


def test_a_table_that_gained_rows_and_changed_their_order_goes_on(tmp_path, place, tables):
    source = write_tags(tmp_path, place, tables[0], rows=range(150))
    opened = Opened(source, place)
    image = opened.session.table.images[7]
    opened.session.decide([(7, "red")], -1, "likeliest")
    opened.close()
    write_tags(tmp_path, place, tables[0], rows=range(199, -1, -1))
    again = Opened(source, place)
    row = again.session.table.images.index(image)
    assert row != 7 and again.session.model.states(again.session.column("red"))[row] == -1
    assert int((again.session.model.states(again.session.column("red")) == -1).sum()) == 1
    again.close()


def test_a_review_goes_on_with_its_own_export_in_place_of_the_table(tmp_path, place, tables):
    source = write_tags(tmp_path, place, tables[0])
    opened = Opened(source, place)
    truth = {tag: truth_of(tables[0], opened, tag) for tag in tables[0].classes}
    session = opened.session
    for way, count in (("audit", 60), ("likeliest", 40)):
        for question in session.model.ask(way, count):
            tag = session.model.classes[question.column]
            session.decide([(question.row, tag)], 1 if truth[tag][question.row] else -1, way)
    session.model.renew()
    known, estimate = [part.known for part in session.model.overview()], session.model.estimate()
    path = opened.export()[0]
    opened.close()
    path.replace(source)
    again = Opened(source, place)
    assert [part.known for part in again.session.model.overview()] == known  # what was found is not known at random
    uncertain = estimate.high - estimate.low
    assert again.session.model.estimate().missing == pytest.approx(estimate.missing, abs=0.1 * uncertain)
    again.close()


def test_export_holds_the_decisions_and_never_touches_another_file(client, opened, source):
    original = source.read_bytes()
    rows = [item["row"] for item in grid(client, "red")]
    answer(client, [[rows[0], "red"]], 1)
    answer(client, [[rows[1], "red"]], -1)
    told = client.post("/api/export", json={}).json()
    assert told == {"path": str(source.with_name("tags.reviewed.csv")), "tags": 1, "absences": 1}
    table, _ = read_labels(told["path"], opened.options)
    column = table.classes.index("red")
    assert table.states([rows[0], rows[1]])[:, column].tolist() == [1, -1]
    with Path(told["path"]).open() as file:
        assert next(csv.DictReader(file))["note"] == "photo 0"
    answer(client, [[rows[2], "red"]], 1)
    again = client.post("/api/export", json={}).json()  # ours: written anew
    assert again == {"path": told["path"], "tags": 2, "absences": 1}
    Path(told["path"]).write_text("edited by hand\n")
    third = client.post("/api/export", json={}).json()
    assert third["path"].endswith("tags.reviewed-2.csv") and Path(told["path"]).read_text() == "edited by hand\n"
    assert source.read_bytes() == original


def test_a_bare_folder_begins_without_a_tag(tmp_path, place, tables):
    folder = tmp_path / "photos"
    (folder / "deep").mkdir(parents=True)
    for row, path in enumerate(tables[0].paths[:60]):
        (folder / ("deep" if row % 2 else "") / path.name).write_bytes(path.read_bytes())
    (folder / "broken.jpg").write_bytes(b"none")
    table, notes = open_reviewable(folder, ReadOptions())
    assert len(table) == 60 and table.classes == () and "broken.jpg" in " ".join(notes)
    assert Workspace.of(folder).decisions == tmp_path / "photos.positively" / "decisions.sqlite"
    table = with_hashes(table)
    opened = Opened(folder, place, embed_table(table, config(place)).X, table)
    client = opened.client()
    status = client.get("/api/status").json()
    assert status["tags"] == [] and status["photos"] == 60 and status["advice"]
    assert client.post("/api/questions", json={"way": "audit"}).json()["items"] == []
    assert client.post("/api/tag", json={"name": "a;b", "rows": [0]}).status_code == 400  # the export has ; between
    client.post("/api/tag", json={"name": "first", "rows": [0, 1, 2]})
    assert len(grid(client, "first")) == 12
    told = client.get("/api/status").json()
    assert not told["tags"][0]["learned"] and "photos" in told["advice"]
    assert client.post("/api/questions", json={"way": "audit"}).json()["items"]  # the check covers it now
    told = client.post("/api/export", json={}).json()
    assert Path(told["path"]) == tmp_path / "photos.reviewed.csv"
    with Path(told["path"]).open() as file:
        tags = {row["image"]: row["tags"] for row in csv.DictReader(file)}
    assert [image for image, listed in tags.items() if listed == "first"] == list(table.images[:3])
    opened.close()


# The command


def test_the_command_exports_without_a_page(source, place, opened, tmp_path, capsys):
    opened.session.decide([(0, "red")], -1, "likeliest")
    busy = main(["review", str(source), "--images", str(place), "--export", str(tmp_path / "new.csv")])
    assert busy == 2 and "another review" in capsys.readouterr().err
    opened.close()
    (tmp_path / "mine.csv").write_text("mine")
    for out, sentence in (("mine.csv", "mine.csv"), ("tags.csv", "tags.csv")):
        assert main(["review", str(source), "--images", str(place), "--export", str(tmp_path / out)]) == 2
        assert sentence in capsys.readouterr().err
    for _ in range(2):  # the second time over its own file
        assert main(["review", str(source), "--images", str(place), "--export", str(tmp_path / "new.csv")]) == 0
        shown = capsys.readouterr().out
        assert_names(
            shown, "1 ", "label", f"positively train {quoted(str(tmp_path / 'new.csv'), '--images', str(place))}"
        )
    with (tmp_path / "new.csv").open() as file:
        assert next(csv.DictReader(file))["absent"] == "red"


def test_the_command_serves_until_ctrl_c_and_sums_up(source, place, opened, capsys):
    opened.session.decide([(0, "red"), (1, "red")], 1, "likeliest")
    opened.close()
    free = listen("127.0.0.1", 0)
    port = free.getsockname()[1]
    free.close()

    def press_ctrl_c():
        # An answer, even a refusal, comes only once the server takes signals.
        for _ in range(600):
            with suppress(httpx.HTTPError):
                assert httpx.get(f"http://127.0.0.1:{port}/").status_code == 403
                os.kill(os.getpid(), signal.SIGINT)
                return
            time.sleep(0.05)

    pressing = threading.Thread(target=press_ctrl_c)
    pressing.start()
    assert main(["review", str(source), *words(place), "--no-open", "--port", str(port)]) == 0
    pressing.join()
    shown = capsys.readouterr().out
    assert_names(shown, Workspace.of(source).decisions, "2 tags", f"http://127.0.0.1:{port}/?token=")
    assert not Workspace.of(source).path.joinpath("decisions.sqlite-wal").exists()


def test_the_training_after_an_export_finds_the_photos(tmp_path):
    photos = tmp_path / "photos"
    table = LabelTable.from_positives(["a.jpg"], ("cat",), [[0]], UNKNOWN)
    values = review_command.parser().parse([str(photos), "--image-size", "64", "--port", "8000"])
    command = review_command._train(tmp_path / "photos.reviewed.csv", replace(table, root=photos), values)
    assert command.startswith("positively train ") and "--port" not in command
    trained = train_command.parser().parse(shlex.split(command)[2:])
    assert (trained.table, trained.images) == (str(tmp_path / "photos.reviewed.csv"), str(photos))
    assert trained.image_size == 64
    assert "--images" not in review_command._train(photos / "tags.reviewed.csv", replace(table, root=photos), values)


def test_no_process_list_shows_the_token(tmp_path, monkeypatch):
    told, address = [], "http://127.0.0.1:8517/?token=secret&more"
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(webbrowser, "open", told.append)
    with in_browser(address):
        (file,) = tmp_path.iterdir()
        assert file.stat().st_mode & 0o777 == 0o600 and address.replace("&", "&amp;") in file.read_text()
        for _ in range(200):
            if told:
                break
            time.sleep(0.05)
    assert told == [file.as_uri()] and not any(tmp_path.iterdir())
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "nowhere")
    with in_browser(address):  # the address is printed all the same
        pass


def test_ctrl_c_during_a_renewal_ends_the_process_in_peace():
    script = """
import time
import numpy as np
from positively.review.renewal import Renewal

def renew():
    end = time.monotonic() + 3
    while time.monotonic() < end:
        np.linalg.eigh(np.eye(600) + np.random.rand(600, 600))

renewal = Renewal(renew, lambda: None)
renewal.add(1000)
time.sleep(0.5)
renewal.stop()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")


def test_mistakes_at_the_command_are_sentences(source, place, tmp_path, capsys):
    taken = listen("127.0.0.1", 0)
    number = str(taken.getsockname()[1])
    empty = tmp_path / "empty"
    empty.mkdir()
    for arguments, sentence in (
        ([str(source), *words(place), "--export", str(tmp_path / "a.csv")], "no review"),
        ([str(source), *words(place), "--port", number], f"127.0.0.1:{number}"),
        ([str(source), *words(place), "--blank", "negative"], "review"),
        ([str(empty)], str(empty)),
    ):
        assert main(["review", *arguments]) == 2
        assert sentence in capsys.readouterr().err
    taken.close()


def test_the_page_counts_as_the_command_does(opened, place):
    found = missing(opened.session.table, config(place))
    told = views.status(opened.session)
    assert any(tag["learned"] for tag in told["tags"])
    for tag in told["tags"]:
        if tag["learned"]:
            column = found.classes.index(tag["name"])
            assert tag["missing"] == pytest.approx(found.counts.missing[column], abs=0.05)
    assert (found.caution or "") in told["advice"]


def test_the_page_gives_the_caution_of_the_command(opened, place, monkeypatch):
    monkeypatch.setattr("positively.missing.result._PROMISED", 0.0)
    monkeypatch.setattr("positively.missing.result._ENOUGH_PHOTOS", 10_000)
    found = missing(opened.session.table, config(place))
    assert found.caution and found.caution in views.status(opened.session)["advice"]
