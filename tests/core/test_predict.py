"""Tags of any number of pictures, from anywhere, each exactly once: also after a kill, and by several processes."""

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet
import pytest
from PIL import Image

import positively as po
import shapes
from positively.cli import main
from positively.errors import FileError, ImageError, RunError
from positively.export import export_int8, export_onnx
from positively.runs import Picture, Run, find_pictures, predictions, write_predictions
from positively.runs.pictures import read_list
from wording import assert_names, naming

PART = 8


@pytest.fixture(scope="module")
def run(place, tables):
    """A run of the closed form on pictures of coloured squares."""
    path = place / "predict"
    return po.fit(tables[0], out=str(path), quiet=True, **shapes.frozen(place)).path


@pytest.fixture(scope="module")
def folder(place, tables):
    return place / "test"


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(predictions, "_PART_IMAGES", PART)


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def predict(run, *words):
    return main(["predict", str(run), *map(str, words)])


def tags_of(run, pictures, out, **options):
    """Write, and read again: image → tags."""
    write_predictions(Run(run), pictures, out, **options)
    assert not out.with_name(f"{out.name}.parts").exists()
    return {row["image"]: row["tags"] for row in rows_of(out)}


# sources


def test_a_picture_gives_the_same_tags_as_a_path_as_bytes_as_an_image_and_as_an_array(run, folder):
    path = sorted(folder.iterdir())[0]
    with Image.open(path) as image:
        sources = [path, str(path), path.read_bytes(), image.copy(), np.asarray(image)]
    first, *others = Run(run).predict(sources, top=3)
    assert first.image == str(path) and others[1].image == "image 3"
    for other in others:
        # Sums of single precision are taken in another order.
        assert other.tags == pytest.approx(first.tags, abs=1e-6)
    for source in sources:
        assert Run(run).predict(source, top=3)[0].tags == pytest.approx(first.tags, abs=1e-6)


def test_images_the_run_learned_from_get_a_note(run, place, folder, capsys):
    assert predict(run, place / "train") == 0
    assert "positively missing" in capsys.readouterr().err
    assert predict(run, folder) == 0
    assert "positively missing" not in capsys.readouterr().err


def test_a_run_looks_with_its_own_network_whatever_is_registered_under_its_name(run, folder, monkeypatch):
    expected = Run(run).predict(next(folder.iterdir()))
    monkeypatch.setattr("positively.runs.run.EMBEDDERS", {Run(run).model_config["backbone"]: pytest.fail})
    assert Run(run).predict(next(folder.iterdir())) == expected


def test_an_array_of_several_pictures_is_several(run, folder):
    pixels = np.stack([np.asarray(Image.open(path)) for path in sorted(folder.iterdir())[:3]])
    found = Run(run).predict(pixels, top=1)
    assert [one.image for one in found] == ["image 1", "image 2", "image 3"]
    assert found[2].tags == pytest.approx(Run(run).predict(pixels[2], top=1)[0].tags, abs=1e-4)


def test_one_that_is_no_picture_is_named_by_its_number(run, folder):
    path = sorted(folder.iterdir())[0]
    with pytest.raises(ImageError, match=naming("image 2", "JPEG", "skip_broken=True")):
        Run(run).predict([path, b"no picture"])
    with pytest.raises(ImageError, match=naming("image 1", "NoneType")):
        Run(run).predict(None)
    with pytest.raises(ImageError, match=naming("(3, 24, 24)", "H×W")):
        Run(run).predict(np.zeros((3, 24, 24), np.uint8))
    assert next(Run(run).stream(str(path))).image == str(path)
    assert "JPEG" in Run(run).predict([path, b"no picture"], skip_broken=True)[1].error


# places


def test_a_table_that_only_names_images_is_enough(folder, tmp_path):
    names = sorted(path.name for path in folder.iterdir())[:3]
    (tmp_path / "list.csv").write_text("image\n" + "\n".join([*names, "gone.png", names[0]]))
    found = find_pictures([tmp_path / "list.csv"], folder)
    assert [picture.name for picture in found] == [*names, "gone.png"]
    assert found[0].source == folder / names[0]
    (tmp_path / "tags.csv").write_text(f"tags;photo\nred;{names[1]}\n")
    assert [picture.name for picture in find_pictures([tmp_path / "tags.csv"], folder)] == [names[1]]
    with pytest.raises(po.errors.TableError, match="'x', 'y'"):
        (tmp_path / "other.csv").write_text("x,y\n1,2\n")
        find_pictures([tmp_path / "other.csv"])


def test_a_coco_json_without_annotations_lists_its_images_those_that_are_gone_too(folder, tmp_path):
    names = [sorted(path.name for path in folder.iterdir())[0], "gone.png"]
    listed = {"images": [{"id": number, "file_name": name} for number, name in enumerate(names)]}
    (tmp_path / "test.json").write_text(json.dumps(listed))
    assert [picture.name for picture in find_pictures([tmp_path / "test.json"], folder)] == names
    with pytest.raises(po.errors.TableError, match=naming("other.json", "COCO")):
        (tmp_path / "other.json").write_text("{}")
        find_pictures([tmp_path / "other.json"])


def test_what_cannot_be_read_under_a_folder_is_named(tmp_path, monkeypatch, caplog):
    (tmp_path / "dangling.jpg").symlink_to(tmp_path / "nowhere.jpg")
    (tmp_path / "._a.jpg").write_bytes(b"left by another system")
    os.mkfifo(tmp_path / "pipe.jpg")
    scan = os.scandir

    def refuse(path):
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    (tmp_path / "locked").mkdir()
    monkeypatch.setattr(os, "scandir", refuse)
    assert [picture.name for picture in find_pictures([tmp_path])] == [(tmp_path / "dangling.jpg").as_posix()]
    assert_names(caplog.text, "locked", "Permission denied")
    with pytest.raises(ImageError, match=r"pipe\.jpg"):
        find_pictures([tmp_path / "pipe.jpg"])


def test_folders_files_and_tables_together_name_each_image_once(folder, tmp_path):
    files = sorted(folder.iterdir())
    (tmp_path / "list.csv").write_text(f"image\n{files[1].name}\n")
    found = find_pictures([files[1], folder, tmp_path / "list.csv"], folder)
    assert len(found) == len(files) and found[0].source == files[1]
    with pytest.raises(ImageError, match="nowhere"):
        find_pictures([tmp_path / "nowhere"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ImageError, match="empty"):
        find_pictures([tmp_path / "empty"])


def test_a_list_on_standard_input_has_a_path_a_line_or_between_two_nul_bytes():
    assert [one.name for one in read_list("a.jpg\nb c.jpg\r\n\na.jpg\n")] == ["a.jpg", "b c.jpg"]
    assert [one.name for one in read_list("a\nb.jpg\0c.jpg\0")] == ["a\nb.jpg", "c.jpg"]
    assert [one.name for one in read_list("a\u2028b.jpg\n")] == ["a\u2028b.jpg"]


def test_the_shell_pipes_a_list_in(run, folder, positively, tmp_path):
    names = [str(path) for path in sorted(folder.iterdir())[:4]]
    done = positively("predict", run, "-", "--out", tmp_path / "tags.csv", input="\n".join(names))
    assert "4 images" in done.stdout and [row["image"] for row in rows_of(tmp_path / "tags.csv")] == names


def test_a_list_that_is_empty_or_not_alone_is_refused(run, folder, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    assert predict(run, "-") == 2 and "image" in capsys.readouterr().err
    assert predict(run, "-", folder) == 2 and "-" in capsys.readouterr().err


# formats


def test_the_three_formats_hold_the_same(run, folder, tmp_path):
    (tmp_path / "bad.jpg").write_bytes(b"")
    pictures = [*find_pictures([folder])[:20], Picture("bad.jpg", tmp_path / "bad.jpg")]
    for ending in ("csv", "jsonl", "parquet"):
        written = write_predictions(Run(run), pictures, tmp_path / f"tags.{ending}")
        assert written.images == 21 and written.broken == {"bad.jpg": "zero bytes"}
    table = pyarrow.parquet.read_table(tmp_path / "tags.parquet").to_pylist()
    records = [json.loads(line) for line in (tmp_path / "tags.jsonl").read_text().splitlines()]
    assert len(table) == 21 and any(row["tags"] for row in table)
    for row, record, cells in zip(table, records, rows_of(tmp_path / "tags.csv"), strict=True):
        assert row["image"] == record["image"] == cells["image"] and row["error"] == record["error"]
        assert ";".join(row["tags"]) == ";".join(record["tags"]) == cells["tags"]
        assert row["scores"] == pytest.approx(list(record["tags"].values()), abs=1e-6)
    assert cells["error"] == record["error"] == "zero bytes"


def test_a_file_name_that_is_no_text_is_escaped_and_spoils_no_other(run, folder, tmp_path):
    odd = os.fsencode(tmp_path) + b"/caf\xe9.png"
    try:
        with open(odd, "wb") as file:  # noqa: PTH123 (a path of bytes)
            file.write(sorted(folder.iterdir())[0].read_bytes())
    except OSError:
        pytest.skip("this disk has no such names")
    for ending in ("csv", "jsonl", "parquet"):
        assert predict(run, tmp_path, "--out", tmp_path / f"tags.{ending}") == 0
    assert rows_of(tmp_path / "tags.csv")[0]["image"].endswith("caf\\udce9.png")
    assert pyarrow.parquet.read_table(tmp_path / "tags.parquet")["image"][0].as_py().endswith("caf\\udce9.png")
    assert json.loads((tmp_path / "tags.jsonl").read_text())["image"].endswith("caf\udce9.png")


# what is broken


def test_broken_pictures_are_named_and_do_not_stop_it(run, folder, tmp_path, capsys):
    bad, good = tmp_path / "bad.png", sorted(folder.iterdir())[0]
    bad.write_bytes(b"\x89PNG")
    assert predict(run, good, bad, "--out", tmp_path / "tags.csv") == 0
    shown = capsys.readouterr()
    assert "1 image" in shown.out
    assert str(bad) in shown.err and "truncated" in shown.err
    assert predict(run, good, bad) == 0
    shown = capsys.readouterr()
    assert str(bad) in shown.err and "truncated" in shown.err and str(good) in shown.out
    assert predict(run, bad) == 2
    assert predict(run, bad, "--out", tmp_path / "none.csv") == 2


# killed, resumed, shared


def test_what_was_done_before_a_stop_is_not_done_again(run, folder, tmp_path, small_parts, monkeypatch):
    pictures, out = find_pictures([folder])[:30], tmp_path / "tags.csv"
    whole = tags_of(run, pictures, tmp_path / "whole.csv")

    def stop(more):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_predictions(Run(run), pictures, out, progress=stop)
    assert not out.exists() and len(list((tmp_path / "tags.csv.parts").glob("*.jsonl"))) == 1
    seen = counted(monkeypatch)
    assert tags_of(run, pictures, out) == whole
    assert seen == [picture.name for picture in pictures[PART:]]


def counted(monkeypatch):
    """Names of the pictures that are computed from here on."""
    seen = []
    compute = predictions.Tagger.__call__

    def counting(self, pictures):
        seen.extend(picture.name for picture in pictures)
        return compute(self, pictures)

    monkeypatch.setattr(predictions.Tagger, "__call__", counting)
    return seen


def test_photos_added_meanwhile_are_tagged_too_and_a_changed_one_again(run, folder, tmp_path, small_parts, monkeypatch):
    photos = tmp_path / "photos"
    photos.mkdir()
    for path in sorted(folder.iterdir())[:20]:
        (photos / path.name).write_bytes(path.read_bytes())
    progress = iter([None, None])
    with pytest.raises(StopIteration):
        write_predictions(
            Run(run), find_pictures([photos]), tmp_path / "tags.csv", progress=lambda more: next(progress)
        )
    names = sorted(path.name for path in photos.iterdir())
    (photos / "z.png").write_bytes((photos / names[0]).read_bytes())
    (photos / names[9]).write_bytes((photos / names[0]).read_bytes())
    seen = counted(monkeypatch)
    found = tags_of(run, find_pictures([photos]), tmp_path / "tags.csv")
    assert len(seen) == 21 - PART and (photos / names[9]).as_posix() in seen
    first, changed, added = (found[(photos / name).as_posix()] for name in (names[0], names[9], "z.png"))
    assert first == changed == added


def test_a_file_is_never_overwritten_unasked(run, folder, tmp_path):
    pictures = find_pictures([folder])[:3]
    (tmp_path / "mine.csv").write_text("mine")
    with pytest.raises(FileError, match=naming("mine.csv", "overwrite=True")):
        write_predictions(Run(run), pictures, tmp_path / "mine.csv")
    assert (tmp_path / "mine.csv").read_text() == "mine"
    assert len(tags_of(run, pictures, tmp_path / "mine.csv", overwrite=True)) == 3
    (tmp_path / "dir.csv").mkdir()
    with pytest.raises(FileError, match=r"dir\.csv"):
        write_predictions(Run(run), pictures, tmp_path / "dir.csv")
    (tmp_path / "tags.csv.parts").mkdir()
    (tmp_path / "tags.csv.parts" / "thesis.docx").write_text("mine")
    with pytest.raises(FileError, match=r"thesis\.docx"):
        write_predictions(Run(run), pictures, tmp_path / "tags.csv")
    assert [path.name for path in (tmp_path / "tags.csv.parts").iterdir()] == ["thesis.docx"]
    (tmp_path / "tags.csv.parts" / "thesis.docx").rename(tmp_path / "tags.csv.parts" / ".DS_Store")
    write_predictions(Run(run), pictures, tmp_path / "tags.csv")
    assert [path.name for path in (tmp_path / "tags.csv.parts").iterdir()] == [".DS_Store"]


def test_what_another_run_or_other_options_began_is_not_mixed_in(run, folder, tmp_path, small_parts):
    pictures, out = find_pictures([folder])[:20], tmp_path / "tags.csv"
    with pytest.raises(StopIteration):
        write_predictions(Run(run), pictures, out, top=1, progress=lambda more: next(iter(())))
    with pytest.raises(RunError, match="options"):
        write_predictions(Run(run), pictures, out, top=2)
    assert all(tags.count(";") == 1 for tags in tags_of(run, pictures, out, top=2, overwrite=True).values())


def test_who_comes_with_other_pictures_waits_for_those_at_work(run, folder, tmp_path, small_parts):
    pictures, out = find_pictures([folder])[:20], tmp_path / "tags.csv"
    job, others = (predictions.Job(Run(run), some, out, top=None) for some in (pictures, pictures[:9]))
    with job.begin(overwrite=False):
        job.take_one(lambda more: None)
        for overwrite in (False, True):
            with pytest.raises(RunError, match="nother process"):
                others.begin(overwrite)
    with others.begin(overwrite=False), pytest.raises(RunError, match="nother process"):
        job.take_one(lambda more: None)  # as one that came back from sleep without its lock


def test_who_may_not_overwrite_disturbs_nobody_who_may(run, folder, tmp_path, small_parts):
    pictures, out = find_pictures([folder])[:20], tmp_path / "tags.csv"
    out.write_text("old")
    job = predictions.Job(Run(run), pictures, out, top=None)
    with job.begin(overwrite=True):
        job.take_one(lambda more: None)
        with pytest.raises(FileError, match="overwrite=True"):
            write_predictions(Run(run), pictures, out)
        assert job.parts[0].exists() and not job.is_over()


def test_a_folder_that_is_taken_away_is_told(run, folder, tmp_path, small_parts):
    job = predictions.Job(Run(run), find_pictures([folder])[:20], tmp_path / "tags.csv", top=None)
    with job.begin(overwrite=False):
        job.take_one(lambda more: None)
        job.folder.clear()
        with pytest.raises(FileError, match="removed"):
            job.is_over()


def test_what_a_kill_left_after_the_last_line_goes(run, folder, tmp_path, small_parts):
    pictures, out = find_pictures([folder])[:3], tmp_path / "tags.csv"
    job = predictions.Job(Run(run), pictures, out, top=None)
    with job.begin(overwrite=False):
        job.take_one(lambda more: None)
    out.write_text("whole")
    with pytest.raises(FileError, match="overwrite=True"):
        write_predictions(Run(run), pictures, out)
    assert not job.folder.path.exists() and out.read_text() == "whole"


def test_two_that_share_the_work_compute_each_picture_once(run, folder, tmp_path, small_parts, monkeypatch):
    """In turns, as two processes: one of them holds a part while the other goes on with the next."""
    pictures, out, seen = find_pictures([folder])[:30], tmp_path / "tags.csv", counted(monkeypatch)
    first, second = (predictions.Job(Run(run), pictures, out, top=None) for _ in range(2))
    with first.begin(overwrite=False), second.begin(overwrite=False):
        share(first, second)
    assert sorted(seen) == sorted(picture.name for picture in pictures)
    assert [row["image"] for row in rows_of(out)] == [picture.name for picture in pictures]
    assert not (tmp_path / "tags.csv.parts").exists()


def share(first, second):
    """One of them holds a part while the other goes on with the next; both end, and one puts the parts together."""
    with first.folder.claimed(first.parts[0]) as is_ours:
        assert is_ours and second.take_one(lambda more: None)
    while not (first.is_over() and second.is_over()):
        first.take_one(lambda more: None)
        second.take_one(lambda more: None)
    assert first.finish().is_ours and not second.finish().is_ours


@pytest.fixture(scope="module")
def many(folder, tmp_path_factory):
    """A folder of 1,500 files: copies of some pictures."""
    place = tmp_path_factory.mktemp("many")
    sources = [path.read_bytes() for path in sorted(folder.iterdir())[:50]]
    for number in range(1500):
        (place / f"{number:05d}.png").write_bytes(sources[number % 50])
    return place


def test_processes_that_are_killed_and_started_again_lose_and_double_nothing(
    run, many, environment, positively, tmp_path
):
    words = [sys.executable, "-m", "positively", "predict", str(run), str(many), "--runtime", "torch", "--out"]
    parts = tmp_path / "shared.csv.parts"

    def start():
        return subprocess.Popen([*words, str(tmp_path / "shared.csv")], env=environment, stdout=subprocess.DEVNULL)

    def wait_for(count):
        deadline = time.monotonic() + 120
        while len(list(parts.glob("*.jsonl"))) < count:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    both = [start(), start()]
    wait_for(2)
    both[0].send_signal(signal.SIGKILL)
    both[0].wait()
    both[0] = start()
    wait_for(3)
    for process in both:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not (tmp_path / "shared.csv").exists()
    positively(*words[3:], tmp_path / "shared.csv")
    positively(*words[3:], tmp_path / "alone.csv")
    assert (tmp_path / "shared.csv").read_bytes() == (tmp_path / "alone.csv").read_bytes()
    assert len(rows_of(tmp_path / "alone.csv")) == 1500 and not parts.exists()


def test_several_processes_share_neither_standard_input_nor_output(run, folder, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert predict(run, "-", "--out", "list.csv") == 2
    assert "standard input" in capsys.readouterr().err
    assert predict(run, folder) == 2 and "--out FILE" in capsys.readouterr().err


def test_an_export_does_not_replace_the_network_of_a_run(run, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(run, other)
    before = (other / "model.onnx").read_bytes()
    for _ in range(2):
        export_onnx(Run(run), tmp_path / "export.onnx")
    with pytest.raises(FileError):
        export_onnx(Run(run), other / "model.onnx")
    with pytest.raises(FileError):
        export_int8(Run(run), Run(run).folder.network)
    assert (other / "model.onnx").read_bytes() == before
