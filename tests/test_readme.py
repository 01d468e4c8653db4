"""What the README shows works as it is shown."""

import importlib
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^(positively .*?)(?:\s+#.*)?$", README, flags=re.MULTILINE)
SNIPPETS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_readme_is_understood(command):
    _, verb, *words = shlex.split(command)
    importlib.import_module(f"positively.cli.{verb}").parser().parse(words)


def test_the_readme_shows_commands_and_snippets():
    assert len(COMMANDS) >= 4 and len(SNIPPETS) == 2


def test_the_parts_work_inside_a_loop_of_ones_own():
    import timm

    import positively as po

    logits, states = torch.randn(4, 3), torch.tensor([[1, 0, -1]] * 2 + [[-1, 1, 0]] * 2)
    names = {"po": po, "timm": timm, "logits": logits, "states": states, "scores": logits.sigmoid()}
    names["features"] = torch.rand(4, 5).numpy()
    exec(SNIPPETS[1], names)
    assert torch.isfinite(names["loss"])
    assert any("global_branch" in name for name, _ in names["network"].named_parameters())


def test_a_few_lines_of_python_find_train_and_predict(scenes, place, tmp_path, monkeypatch):
    # As printed, but for the names of the files and a network that needs no download.
    monkeypatch.chdir(tmp_path)
    tiny = {"backbone": "positively_tiny", "weights": "none", "image_size": 32, "depth": "finetune", "epochs": 1}
    code = SNIPPETS[0].replace('"tags.csv", images="photos/"', f'"{scenes}/train.csv", images="{scenes}"')
    code = code.replace('"a.jpg", "b.jpg"', f'"{scenes}/test/00000.png"')
    frozen = {"backbone": "positively_tiny", "weights": str(place / "tiny.safetensors"), "image_size": 32}
    code = code.replace("po.find_missing(table", f"po.find_missing(table, **{frozen}")
    code = code.replace("po.fit(table", f"po.fit(table, **{tiny}")
    names: dict[str, object] = {}
    exec(code, names)
    assert (tmp_path / "runs" / "train-auto" / "model.safetensors").exists()
    assert len(names["found"]) > 0


def test_linked_files_exist():
    for link in re.findall(r"\]\(([^)h][^)]*)\)", README):
        assert (Path(__file__).parents[1] / link).exists(), link


def test_the_paper_demo_prints_draws_and_does_nothing_twice(tmp_path, monkeypatch, capsys):
    from positively.cli import main
    from positively.research import demo, paper_demo

    monkeypatch.setattr(demo, "TRAIN_SCENES", 64)
    monkeypatch.setattr(demo, "TEST_SCENES", 32)
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
    known, complete = (sum(text.count(digit) for digit in demo.CLASSES) for text in tags)
    assert np.isclose(known / complete, 0.3, atol=0.12)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model.safetensors")}
    assert main(["demo", "--paper", "--out", str(tmp_path)]) == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model.safetensors")} == before
