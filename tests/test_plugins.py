"""Methods, losses, heads and embedders from a file outside the package are trained, used and benched by name."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file

from conftest import TINY, options
from positively.cli import main
from positively.errors import ConfigError
from positively.finetune.methods import METHODS
from positively.losses import LOSSES
from positively.models import HEADS
from positively.registry import Registry, load_plugin
from positively.research.scenes import CLASSES, write_scenes
from reviewing import write_tags
from wording import assert_names

PAGE = (Path(__file__).parents[1] / "docs" / "development" / "extending.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    code, *_ = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    path = tmp_path_factory.mktemp("plugin") / "mine.py"
    path.write_text(code)
    return path


def test_the_page_trains_and_is_used_as_it_stands(plugin, scenes, positively, tmp_path):
    words = ["train", scenes / "train.csv", *options(TINY | {"epochs": 1}), "--plugin", plugin]
    positively(*words, "--method", "self-training", "--method-options.weight", 0.5, "--out", tmp_path / "method")
    settings = yaml.safe_load((tmp_path / "method" / "config.yaml").read_text())
    assert settings["head"] == "two-layers" and settings["method_options"] == {"weight": 0.5}
    positively(
        *words, "--method", "hinge", "--head", "two-layers", "--head-options.width", 8, "--out", tmp_path / "loss"
    )
    assert load_file(tmp_path / "loss" / "model.safetensors")["head.layers.0.weight"].shape[0] == 8
    photo = scenes / "test" / "00000.png"
    assert "00000.png" in positively("predict", tmp_path / "loss", photo, "--plugin", plugin).stdout
    assert "00000.png" in positively("predict", tmp_path / "loss", photo).stdout  # by its ONNX file
    without = positively("predict", tmp_path / "loss", photo, "--runtime", "torch", check=False)
    assert without.returncode == 2 and "'two-layers'" in without.stderr
    assert "--plugin FILE" in without.stderr
    listed = positively("check", "--plugin", plugin, "--method", "self-training", "--head", "two-layers").stdout
    assert "weight" in listed and "came to believe in" in listed and "width" in listed


def test_they_are_benched_by_name(plugin, tmp_path, positively):
    write_scenes(tmp_path, "train", 40)
    write_scenes(tmp_path, "test", 30)
    (tmp_path / "classes.txt").write_text("\n".join(CLASSES))
    rows = {"Mine": {"method": "self-training"}, "My loss": {"method": "hinge", "train": {"head": "two-layers"}}}
    suite = {"title": "Mine", "show": "table3", "ratios": [1.0], "rows": rows}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(suite))
    network = options({"backbone": "positively_tiny", "weights": "none", "image_size": 32, "depth": "finetune"})
    words = ["--data", tmp_path, "--out", tmp_path / "bench", "--seeds", 1, "--epochs", 1, "--batch-size", 8, *network]
    done = positively("bench", tmp_path / "mine.yaml", *words, "--augment", "none", "--plugin", plugin)
    assert "My loss" in done.stdout
    results = [json.loads(path.read_text()) for path in (tmp_path / "bench" / "cells").glob("*seed*.json")]
    assert {result["method"] for result in results} == {"self-training", "hinge"}
    assert all(0 < result["test"]["mAP"] < 1 for result in results)


def test_a_plugin_that_is_not_there_or_broken_is_a_sentence(tmp_path, scenes, capsys):
    words = ["train", str(scenes / "train.csv"), "--method", "mine", "--plugin"]
    assert main([*words, str(tmp_path / "none.py")]) == 2
    assert "none.py" in capsys.readouterr().err
    (tmp_path / "broken.py").write_text("import positively as po\n1 / 0\n")
    assert main([*words, str(tmp_path / "broken.py")]) == 2
    assert_names(capsys.readouterr().err, "broken.py", "ZeroDivisionError")


def test_a_name_that_is_taken_is_refused_and_the_same_file_may_be_loaded_twice(plugin):
    try:
        load_plugin(str(plugin))
        load_plugin(str(plugin))
        with pytest.raises(ConfigError, match="'self-training'"):
            METHODS.register("self-training")(type("Other", (), {}))
    finally:
        load_plugin.cache_clear()
        for registry, name in ((METHODS, "self-training"), (LOSSES, "hinge"), (HEADS, "two-layers")):
            registry._entries.pop(name)


def test_an_installed_package_offers_its_own_by_an_entry_point(tmp_path, monkeypatch):
    package = tmp_path / "theirs"
    (tmp_path / "theirs-1.dist-info").mkdir()
    (tmp_path / "theirs-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (tmp_path / "theirs-1.dist-info" / "entry_points.txt").write_text("[positively.plugins]\ntheirs = theirs\n")
    package.with_suffix(".py").write_text(
        "from positively.models import Head, register_head\n@register_head('theirs')\nclass Theirs(Head): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from positively.registry import load_entry_points

    load_entry_points.cache_clear()
    try:
        assert "theirs" in HEADS
    finally:
        HEADS._entries.pop("theirs", None)


@pytest.fixture(scope="module")
def embedder_code():
    return next(code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "register_embedder" in code)


@pytest.fixture
def without_torch(tmp_path):
    """A folder that makes the import of torch an error in every process that has it on its path."""
    folder = tmp_path / "without-torch"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['torch'] = None\n")
    return folder


@pytest.mark.parametrize("source", ["plugin", "entry point"])
def test_an_embedder_trains_and_predicts_without_torch(
    source, embedder_code, without_torch, place, tables, environment, tmp_path
):
    write_tags(tmp_path, place, tables[0])
    (without_torch / "colours.py").write_text(embedder_code)
    more = ["--plugin", without_torch / "colours.py"] if source == "plugin" else []
    if source == "entry point":
        info = without_torch / "colours-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: colours\nVersion: 1\n")
        (info / "entry_points.txt").write_text("[positively.plugins]\ncolours = colours\n")
    path = os.pathsep.join([str(without_torch), environment.get("PYTHONPATH", "")])
    run = tmp_path / "run"

    def positively(*words, check=True):
        command = [sys.executable, "-m", "positively", *map(str, words)]
        done = subprocess.run(command, env=environment | {"PYTHONPATH": path}, capture_output=True, text=True)
        assert not check or done.returncode == 0, done.stderr
        return done

    positively("train", tmp_path / "tags.csv", "--images", place, "--backbone", "colour-grid", *more, "--out", run)
    photos = [path for path, row in zip(tables[1].paths, tables[1].states(), strict=True) if row[0] == 1][:20]
    found = positively("predict", run, *photos, "--top", 1, *more).stdout
    assert sum("red" in line for line in found.splitlines()) > 10
    if more:
        without = positively("predict", run, photos[0], check=False)
        assert without.returncode == 2 and "colour-grid" in without.stderr and "--plugin FILE" in without.stderr
    refused = positively("train", tmp_path / "tags.csv", "--images", place, "--depth", "tail", check=False)
    assert refused.returncode == 2 and "pip install 'positively[torch]'" in refused.stderr


NEEDING_TORCH = """
import sys
import positively as po
from positively.cli import main
from positively.errors import ConfigError
from positively.registry import HEADS, LOSSES, METHODS, TORCH

asked = [lambda name=name, of=registry: of[name] for registry in (HEADS, LOSSES, METHODS, TORCH) for name in registry]
asked += [lambda name=name: getattr(po, name) for name in ("losses", "models", "register_loss", "register_method")]
for ask in asked:
    try:
        ask()
    except ConfigError as error:
        assert "pip install 'positively[torch]'" in error.message
    else:
        raise AssertionError
for words in (["--method", "auto"], ["--head", "kernel"], ["--method", "closed-form"]):
    assert main(["check", *words]) == 0
for words in (["check", "--method", "pu-mlc"], ["check", "--head", "cadm"], ["bench", "--data", "."]):
    assert main(words) == 2
"""


def test_without_torch_whatever_needs_it_names_the_pip_command(without_torch, environment, tmp_path):
    path = os.pathsep.join([str(without_torch), environment.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", NEEDING_TORCH]
    done = subprocess.run(command, env=environment | {"PYTHONPATH": path}, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("pip install 'positively[torch]'") == 3 and "Traceback" not in done.stderr


def test_a_registry_lists_what_it_has():
    registry: Registry[type] = Registry("thing")
    registry.register("one")(int)
    assert list(registry) == ["one"] and len(registry) == 1 and "two" not in registry
