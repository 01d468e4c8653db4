"""A bench cell and a resumable run are known by what differs from the defaults: a new option orphans neither."""

import dataclasses
from dataclasses import field, make_dataclass, replace

import pytest
import torch

import positively as po
from conftest import TINY
from positively.errors import RunError
from positively.training import auto
from positively.training import identity as module
from positively.training.auto import resolve
from positively.training.config import TrainConfig
from positively.training.identity import SCHEMA, identity

CPU = torch.device("cpu")


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
    settings = TINY | {"seed": 3, "options": {"gamma": 0.3}, "lr": 0.01}
    before = {
        **{"schema": SCHEMA, "method": "pu-mlc", "depth": "finetune", "backbone": "test_resnet", "weights": "none"},
        **{"image_size": 32, "seed": 3, "options": {"gamma": 0.3}, "lr": 0.01, "augment": "none", "epochs": 2},
        "batch_size": 8,
    }
    after = identity(resolve(later_version(**settings), tags, CPU))
    assert after == before
    assert identity(resolve(later_version(**settings, plain=0.7), tags, CPU)) == {**before, "plain": 0.7}
    assert identity(resolve(later_version(**settings, automatic=4), tags, CPU)) == {**before, "automatic": 4}


def test_a_run_resumes_after_an_option_was_added(tags, tmp_path, monkeypatch, request):
    unbroken = po.fit(tags, out=str(tmp_path / "whole"), **TINY)
    po.fit(tags, out=str(tmp_path / "run"), stop_epoch=1, **TINY)
    grown = request.getfixturevalue("later_version")
    resumed = po.fit(tags, out=str(tmp_path / "run"), resume="auto", config=grown(), **TINY)
    for one, other in zip(unbroken.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(RunError, match=r"other settings: plain left open \(now 0.7\)"):
        po.fit(tags, out=str(tmp_path / "run"), resume="auto", config=grown(plain=0.7), **TINY)


def test_what_is_typed_as_it_would_be_chosen_is_the_same_training(tags):
    plain = resolve(TrainConfig(**TINY), tags, CPU)
    assert identity(resolve(TrainConfig(**TINY, lr=plain.lr, ema=plain.ema), tags, CPU)) == identity(plain)


def test_the_schema_number_is_raised_with_what_is_chosen(tags):
    """If this fails, a default or an automatic choice changed: raise SCHEMA, and write the new values here."""
    chosen = {}
    for depth in ("probe", "tail", "finetune"):
        config = resolve(TrainConfig(depth=depth, workers=0), tags, CPU)
        values = dataclasses.asdict(config)
        chosen[depth] = {name: values[name] for name in ("epochs", "batch_size", "lr", "ema", "start", "options")}
    assert (SCHEMA, chosen) == (
        2,
        {
            "probe": {
                **{"epochs": 30, "batch_size": 256, "lr": 1e-3, "ema": 0.0, "start": "prior"},
                "options": {"gamma": 0.2, "tau": 1.0},
            },
            "tail": {**{"epochs": 6, "batch_size": 64, "lr": 3e-4, "ema": 0.0, "start": "default"}, "options": {}},
            "finetune": {
                **{"epochs": 20, "batch_size": 64, "lr": 1e-4, "ema": 0.9997, "start": "default"},
                "options": {},
            },
        },
    )
    plain = dataclasses.asdict(TrainConfig())
    assert {name: plain[name] for name in ("weight_decay", "optimizer", "schedule", "warmup", "holdout", "lgconv")} == {
        **{"weight_decay": 1e-4, "optimizer": "adamw", "schedule": "onecycle", "warmup": 0.2, "holdout": 0.1},
        "lgconv": False,
    }
