"""The light installation: no step of everyday use loads torch, and what needs torch says so."""

import json
import subprocess
import sys

import numpy as np
import pytest

import shapes
from conftest import HAS_TORCH, options
from positively.cli import main

WINGS = {"torch", "torchvision", "timm", "lightning_fabric"}
WITHOUT_WINGS = (
    "import sys, json\n"
    "from positively.cli import main\n"
    "for words in json.loads(sys.argv[1]):\n"
    "    try: code = main(words)\n"
    "    except SystemExit as stopped: code = stopped.code\n"
    "    assert not code, (words, code)\n"
    "    loaded = set(json.loads(sys.argv[2])) & set(sys.modules)\n"
    "    assert not loaded, (words, loaded)\n"
)


def run_without(unwanted, *commands, **more):
    """Run command lines in one process, in which these modules must not be loaded."""
    told = json.dumps([[str(word) for word in words] for words in commands])
    words = [sys.executable, "-c", WITHOUT_WINGS, told, json.dumps(sorted(unwanted))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, **more)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("words", [["--help"], *([verb, "--help"] for verb in ("train", "demo", "check", "missing"))])
def test_help_loads_no_heavy_package(words):
    run_without(WINGS | {"numpy", "scipy", "sklearn", "matplotlib"}, words)


def test_everyday_use_loads_no_torch(place, tables, environment, tmp_path):
    known = np.arange(200)[:, None] % 3 > 0
    for name, table, shown in (("train", tables[0], known), ("test", tables[1], True)):
        states = table.states() * shown
        lines = [",".join(["image", *shapes.COLORS])]
        lines += [",".join([image, *map(str, row)]) for image, row in zip(table.images, states.tolist(), strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    backbone = options({"backbone": place / "colors.onnx", "cache": tmp_path / "features"})
    train, run = [tmp_path / "train.csv", "--images", place], tmp_path / "run"
    run_without(
        WINGS,
        ["check", *train],
        ["missing", *train, *backbone, "--out", tmp_path / "missing"],
        ["embed", *train, *backbone, "--out", tmp_path / "embeddings.npz"],
        ["missing", *train, "--embeddings", tmp_path / "embeddings.npz", "--out", tmp_path / "again"],
        ["train", *train, *backbone, "--out", run],
        ["evaluate", run, tmp_path / "test.csv", "--images", place],
        ["predict", run, place / "test", "--out", tmp_path / "tags.csv"],
        ["report", run],
        ["export", run, "--out", tmp_path / "model.onnx"],
        ["export", run, "--format", "tagger", "--out", tmp_path / "tagger"],
        env=environment,
    )
    assert json.loads((run / "evaluation.json").read_text())["mean_average_precision"] > shapes.LEARNED
    assert len((tmp_path / "tags.csv").read_text().splitlines()) == 101


@pytest.mark.skipif(HAS_TORCH, reason="torch is installed here")
@pytest.mark.parametrize(
    "words",
    [
        [
            "train",
            "TABLE",
            "--method",
            "pu-mlc",
            "--depth",
            "finetune",
            "--backbone",
            "test_resnet",
            "--weights",
            "none",
        ],
        ["train", "TABLE", "--backbone", "resnet101"],
        ["missing", "TABLE", "--backbone", "resnet101"],
        ["check", "--method", "pu-mlc"],
        ["check", "--head", "linear"],
        ["bench", "--data", "."],
        ["demo", "--paper"],
    ],
    ids=" ".join,
)
def test_what_needs_torch_says_how_to_get_it(words, scenes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([str(scenes / "train.csv") if word == "TABLE" else word for word in words]) == 2
    assert "pip install 'positively[torch]'" in capsys.readouterr().err
