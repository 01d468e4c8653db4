"""Missing tags by networks that learn: each photo is scored by one that has not seen its labels."""

import numpy as np
import pytest

import positively as po
import shapes
from positively import api
from positively.config import TrainConfig
from positively.errors import ConfigError, RunError
from positively.finetune import crossfit
from positively.finetune.auto import resolve


@pytest.fixture(scope="module")
def complete(tables):
    return tables[0]


@pytest.fixture(scope="module")
def tags(complete):
    """Half of the positives known, no negative."""
    return complete.with_known_ratio(0.5, 0).positives_only()


def right(found, truth):
    return truth[found.rows, found.columns]


@pytest.fixture(scope="module")
def tail(place, tags):
    config = shapes.settings("pu-mlc", "tail", place, known_ratio=1.0, epochs=3)
    return {name: value for name, value in vars(config).items() if name not in ("options",)} | {"solve_head": False}


def test_a_network_that_learns_is_cross_fitted_and_goes_on(place, tags, complete, tail, tmp_path, monkeypatch, caplog):
    trained = []
    train_fold = crossfit._train_fold

    def counted(table, learned, held, *rest):
        if len(trained) == 2:
            trained.append("stopped")
            raise KeyboardInterrupt
        assert not set(np.flatnonzero(learned)) & set(held)
        trained.append(len(held))
        return train_fold(table, learned, held, *rest)

    monkeypatch.setattr(crossfit, "_train_fold", counted)
    config = TrainConfig(**tail)
    find = {"folds": 4, "store": tmp_path / "folds"}
    with pytest.raises(KeyboardInterrupt):
        api.missing(tags, config, **find)
    with caplog.at_level("INFO", logger="positively"):
        found = api.missing(tags, config, **find)
    assert trained[2] == "stopped" and len(trained) == 5  # what was done before it was stopped is not done again
    assert sum(size for size in trained if size != "stopped") == len(tags)
    assert "4 trainings" in caplog.text and "3 times" in caplog.text
    assert right(found, complete.states() == 1)[:30].mean() > 0.6  # a third of them would be by chance


def test_copies_are_in_one_fold_and_few_photos_are_refused(tags, place, tail, fabric):
    folds = crossfit._deal(tags, np.arange(len(tags)) // 2, 5, seed=0)
    assert (folds[::2] == folds[1::2]).all() and set(np.bincount(folds)) == {40}
    few = tags.select(np.arange(6))
    config = resolve(TrainConfig(**tail), few, fabric.device)
    with pytest.raises(ConfigError, match="5 trainings"):
        crossfit.cross_fit(few, config, fabric)


def test_a_run_whose_network_saw_the_labels_is_refused(place, tags, tail, tmp_path):
    run = po.fit(tags, quiet=True, **{**tail, "out": str(tmp_path / "run"), "epochs": 1})
    with pytest.raises(RunError, match="labels"):
        po.find_missing(run)
    run = po.fit(
        tags,
        quiet=True,
        out=str(tmp_path / "bce"),
        method="assume-negative",
        depth="probe",
        epochs=1,
        **shapes.pretrained(place, head="linear"),
    )
    with pytest.raises(RunError, match="scores"):
        po.find_missing(run)
