"""The README is short, starts with the reader's own photos, and prints figures of the other pages."""

import re
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_is_short():
    text = re.sub(r"```.*?```|<!--.*?-->|\]\(.*?\)", " ", README, flags=re.DOTALL)
    assert len(text.split()) < 800


def test_the_first_code_block_is_about_the_photos_of_the_reader():
    first, second, *_ = re.findall(r"```\w*\n(.*?)```", README, flags=re.DOTALL)
    assert "positively missing tags.csv --images photos/" in first
    assert "positively demo" in second and "demo" not in first


def test_linked_files_exist():
    for link in re.findall(r"\]\(([^)h][^)#]*)", README):
        assert (ROOT / link).exists(), link


def test_every_figure_of_the_results_is_printed_on_a_page_of_the_research():
    def figures(line):
        return re.findall(r"(?<=\| )\*{0,2}(\d+\.\d+)", line)

    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "research").glob("*.md")]
    printed = [figures(line) for page in pages for line in page.splitlines() if line.startswith("|")]
    table = README.partition("<!-- results -->")[2].partition("<!-- /results -->")[0]
    rows = [figures(line) for line in table.splitlines() if figures(line)]
    assert len(rows) >= 4
    for row in rows:
        assert any(row == line[: len(row)] for line in printed), row


def test_the_paper_demo_prints_draws_and_does_nothing_twice(tmp_path, monkeypatch, capsys):
    from positively.cli import main
    from positively.research import paper_demo

    monkeypatch.setattr(paper_demo, "TRAIN_SCENES", 64)
    monkeypatch.setattr(paper_demo, "TEST_SCENES", 32)
    monkeypatch.setitem(paper_demo.NETWORK, "epochs", 1)
    monkeypatch.setitem(paper_demo.NETWORK, "batch_size", 16)
    assert main(["demo", "--paper", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert all(
        word in printed for word in ("auto", "PU-MLC", "unknown as negative", "complete labels", "mAP", "first 500")
    )
    assert (tmp_path / "demo.png").stat().st_size > 10_000
    runs = sorted(path.name for path in tmp_path.glob("*-seed*"))
    assert len(runs) == 8
    tags = [(tmp_path / "scenes" / name).read_text() for name in ("train-30-percent-seed0.csv", "train.csv")]
    known, complete = (sum(text.count(digit) for digit in paper_demo.CLASSES) for text in tags)
    assert np.isclose(known / complete, 0.3, atol=0.12)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model.safetensors")}
    assert main(["demo", "--paper", "--out", str(tmp_path)]) == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model.safetensors")} == before
