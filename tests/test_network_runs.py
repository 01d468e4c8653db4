"""Runs of networks that learned: their reports, and predictions divided by torchrun."""

import csv
import os
import subprocess
import sys

import pytest

import positively as po
import shapes
from conftest import TINY
from pages import assert_stands_alone, headings, rows_of, text_of
from positively.cli import main
from positively.errors import RunError


def test_a_method_that_gives_scores_only_gets_what_can_be_said_of_it(scenes, tmp_path, capsys):
    words = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()]
    assert main(["train", str(scenes / "train.csv"), *words, "--out", str(tmp_path / "run")]) == 0
    assert str(tmp_path / "run" / "report.html") in capsys.readouterr().err
    made = po.Run(tmp_path / "run")
    page = text_of(made)
    assert "positively evaluate" in page
    assert "Missing tags" not in headings(page)
    quality = page.split("<h2>Quality</h2>")[1].split("</section>")[0]
    assert "'pu-mlc'" in quality.replace("&#39;", "'") and "xpected" not in quality
    assert_stands_alone(page)
    assert "epoch" in page
    # The run has no labels of its own: its table is read again, as long as it is there.
    known = po.read(scenes / "train.csv", quiet=True).counts(po.LabelState.POSITIVE)
    assert sorted(int(cells[1]) for cells in rows_of(page, "All tags")) == sorted(known.tolist())
    config = made.folder.config.read_text(encoding="utf-8")
    made.folder.config.write_text(config.replace(str(scenes), str(tmp_path / "gone")), encoding="utf-8")
    made.folder.record(made.folder.config)
    assert len(rows_of(po.write_report(made).read_text(encoding="utf-8"), "All tags")[0]) == 2
    made.folder.config.write_text("- no configuration", encoding="utf-8")
    with pytest.raises(RunError, match=r"config\.yaml"):
        po.write_report(made)


def test_torchrun_divides_the_work(place, tables, environment, tmp_path):
    path = place / "predicted-by-two"
    run = po.fit(tables[0], out=str(path), quiet=True, **shapes.pretrained(place)).path
    sources = sorted((place / "test").iterdir())[:50]
    (tmp_path / "many").mkdir()
    for number in range(1500):
        os.link(sources[number % 50], tmp_path / "many" / f"{number:05d}.png")
    words = ["-m", "positively", "predict", str(run), str(tmp_path / "many"), "--runtime", "torch"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words += ["--out", str(tmp_path / "tags.csv")]
    done = subprocess.run([*torchrun, *words], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("1,500 images tagged") == 1
    with (tmp_path / "tags.csv").open(encoding="utf-8", newline="") as file:
        assert len({row["image"] for row in csv.DictReader(file)}) == 1500
