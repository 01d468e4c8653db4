"""A method, a loss and a head from a file outside the package are trained, used and benched by their names."""

import json
import re
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

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    code, *_ = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    path = tmp_path_factory.mktemp("plugin") / "mine.py"
    path.write_text(code)
    return path


def test_the_page_trains_and_is_used_as_it_stands(plugin, scenes, positively, tmp_path):
    words = ["train", scenes / "train.csv", *options(TINY | {"epochs": 1}), "--plugin", plugin]
    positively(*words, "--method", "self-training", "--options.weight", 0.5, "--out", tmp_path / "method")
    settings = yaml.safe_load((tmp_path / "method" / "config.yaml").read_text())
    assert settings["head"] == "two-layers" and settings["options"] == {"weight": 0.5}
    positively(
        *words, "--method", "hinge", "--head", "two-layers", "--head-options.width", 8, "--out", tmp_path / "loss"
    )
    assert load_file(tmp_path / "loss" / "model.safetensors")["head.layers.0.weight"].shape[0] == 8
    photo = scenes / "test" / "00000.png"
    assert "00000.png" in positively("predict", tmp_path / "loss", photo, "--plugin", plugin).stdout
    without = positively("predict", tmp_path / "loss", photo, check=False)
    assert without.returncode == 2 and "There is no head 'two-layers'" in without.stderr
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
    assert "none.py: there is no such Python file" in capsys.readouterr().err
    (tmp_path / "broken.py").write_text("import positively as po\n1 / 0\n")
    assert main([*words, str(tmp_path / "broken.py")]) == 2
    assert "cannot be loaded: ZeroDivisionError: division by zero" in capsys.readouterr().err


def test_a_name_that_is_taken_is_refused_and_the_same_file_may_be_loaded_twice(plugin):
    try:
        load_plugin(str(plugin))
        load_plugin(str(plugin))
        with pytest.raises(ConfigError, match="There is a method 'self-training' already"):
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


def test_a_registry_lists_what_it_has():
    registry: Registry[type] = Registry("thing")
    registry.register("one")(int)
    assert list(registry) == ["one"] and len(registry) == 1 and "two" not in registry
