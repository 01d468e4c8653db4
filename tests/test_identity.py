"""A bench cell and a resumable run are known by what differs from the defaults: a new option orphans neither."""

import dataclasses
import json
import tempfile
from dataclasses import field, make_dataclass, replace
from pathlib import Path

import pytest
import torch

import positively as po
from conftest import TINY
from positively.config import TrainConfig
from positively.errors import RunError
from positively.finetune import auto
from positively.finetune import identity as module
from positively.finetune.auto import resolve
from positively.finetune.identity import SCHEMA, training_identity
from positively.finetune.methods import METHODS
from positively.models import HEADS, head_options
from positively.models.predictor import load_network
from positively.research.scenes import write_scenes
from wording import naming

pytestmark = pytest.mark.usefixtures("bare_runs")

CPU = torch.device("cpu")
RECORD = Path(__file__).with_name("defaults.json")


@pytest.fixture(scope="module")
def tags(scenes):
    return po.read(scenes / "train.csv", quiet=True)


def grown_config():
    """The configuration of a later version: one more plain option, and one more that 'auto' fills in."""
    entries = [("plain", float, field(default=0.5)), ("automatic", int | None, field(default=None))]
    return make_dataclass("TrainConfig", entries, bases=(TrainConfig,))


@pytest.fixture
def later_version(monkeypatch):
    grown, fill = grown_config(), auto._fill

    def fill_more(config, method, depth):
        filled = fill(config, method, depth)
        return replace(filled, automatic=3 if filled.automatic is None else filled.automatic)

    for place in (auto, module):
        monkeypatch.setattr(place, "TrainConfig", grown)
    monkeypatch.setattr(auto, "_fill", fill_more)
    return grown


def test_an_option_that_is_added_changes_no_identity(tags, later_version):
    settings = TINY | {"seed": 3, "method_options": {"gamma": 0.3}, "lr": 0.01}
    before = {
        **{"schema": SCHEMA, "method": "pu-mlc", "depth": "finetune", "backbone": "test_resnet", "weights": "none"},
        **{"image_size": 32, "seed": 3, "options": {"gamma": 0.3}, "lr": 0.01, "augment": "none", "epochs": 2},
        "batch_size": 8,
    }
    after = training_identity(resolve(later_version(**settings), tags, CPU))
    assert after == before
    assert training_identity(resolve(later_version(**settings, plain=0.7), tags, CPU)) == {**before, "plain": 0.7}
    assert training_identity(resolve(later_version(**settings, automatic=4), tags, CPU)) == {**before, "automatic": 4}


def test_a_run_resumes_after_an_option_was_added(tags, tmp_path, monkeypatch, request):
    unbroken = po.fit(tags, out=str(tmp_path / "whole"), **TINY)
    po.fit(tags, out=str(tmp_path / "run"), stop_epoch=1, **TINY)
    grown = request.getfixturevalue("later_version")
    resumed = po.fit(tags, out=str(tmp_path / "run"), resume="auto", config=grown(), **TINY)
    for one, other in zip(load_network(unbroken).parameters(), load_network(resumed).parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(RunError, match=naming("settings", "plain", "0.7")):
        po.fit(tags, out=str(tmp_path / "run"), resume="auto", config=grown(plain=0.7), **TINY)


def test_what_is_typed_as_it_would_be_chosen_is_the_same_training(tags):
    plain = resolve(TrainConfig(**TINY), tags, CPU)
    assert training_identity(resolve(TrainConfig(**TINY, lr=plain.lr, ema=plain.ema), tags, CPU)) == training_identity(
        plain
    )


def defaults(tags):
    """Everything an identity leaves out because it is as it would be if left open."""
    depths = {depth: resolve(TrainConfig(depth=depth, workers=0), tags, CPU) for depth in ("probe", "tail", "finetune")}
    random = resolve(TrainConfig(depth="finetune", weights="none", workers=0), tags, CPU)
    return {
        "schema": SCHEMA,
        "config": {name: dataclasses.asdict(config) for name, config in {**depths, "random weights": random}.items()},
        "methods": {name: dataclasses.asdict(METHODS[name].Options()) for name in METHODS},
        "heads": {name: dataclasses.asdict(head_options(name)()) for name in HEADS},
    }


def recorded_differs(recorded, now, place=""):
    """Places where what was recorded is another now; what is new is no difference."""
    if not isinstance(recorded, dict):
        return [] if recorded == now else [f"{place}: {recorded} (now {now})"]
    missing = [f"{place}.{name} is gone" for name in recorded if name not in now]
    return missing + [
        line
        for name in recorded
        if name in now
        for line in recorded_differs(recorded[name], now[name], f"{place}.{name}")
    ]


def test_the_schema_number_is_raised_with_what_is_chosen(tags):
    """If this fails, a default or an automatic choice changed its meaning: raise SCHEMA in finetune/identity.py.

    Then, and when something is added, record anew: ``python tests/test_identity.py``.
    """
    recorded = json.loads(RECORD.read_text())
    now = json.loads(json.dumps(defaults(tags)))
    assert recorded["schema"] == now["schema"], "record the new defaults"
    assert recorded_differs(recorded, now) == []
    for part in ("methods", "heads", "config"):
        assert {name: set(values) for name, values in recorded[part].items()} == {
            name: set(values) for name, values in now[part].items()
        }, "something was added: record it"


def test_a_table_is_known_by_what_is_in_its_images(tags):
    """Photos exported anew under the same names are other photos."""
    other = dataclasses.replace(tags, hashes=["0" * 32, *tags.hashes[1:]])
    assert tags.digest() != other.digest()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        write_scenes(Path(name), "train", 32)
        RECORD.write_text(json.dumps(defaults(po.read(Path(name) / "train.csv", quiet=True)), indent=1) + "\n")
