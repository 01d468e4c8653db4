"""The epoch is chosen by what a user knows of images held out, and the weights may then be learned from all images."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse

import positively as po
import shapes
from positively.config import TrainConfig
from positively.errors import ConfigError
from positively.finetune.auto import resolve
from positively.finetune.holdout import has_stalled
from positively.finetune.loop import Trainer
from positively.finetune.networks import Networks
from positively.finetune.training import Training
from positively.labels import LabelTable
from positively.models import LinearHead
from positively.models.predictor import load_network
from test_methods import Killed, Memory, make, measured, weights

CPU = torch.device("cpu")


def lowest(training):
    """The epoch with the lowest criterion of those that were measured."""
    return min(training.history, key=lambda epoch: epoch["holdout_pu"])["epoch"]


@pytest.mark.parametrize("depth", ["probe", "tail", "finetune"])
def test_the_weights_of_the_best_epoch_are_the_ones_used(depth, tables, fabric, place, monkeypatch):
    values = iter([3.0, 1.0, 2.0])
    monkeypatch.setattr("positively.finetune.loop.criteria", lambda *given: {"holdout_pu": next(values, 9.0)})
    changes = {"epochs": 3, "ema": 0.5, "refit": False}
    best = make(tables, fabric, place, "pu-mlc", depth, restore_best=True, **changes)
    best.run()
    assert best.epoch == 2
    stopped = make(tables, fabric, place, "pu-mlc", depth, restore_best=False, stop_epoch=2, **changes)
    stopped.run()
    network = stopped.classifier.state_dict()
    assert all(torch.equal(tensor, network[name]) for name, tensor in best.classifier.state_dict().items())


@pytest.mark.parametrize(("judged", "seen", "best"), [((3.0, 2.0, 1.0, 0.5), 4, 4), ((2.0, 1.0, 1.0, 0.5), 3, 2)])
def test_a_training_stops_when_what_is_held_out_is_judged_no_better(
    judged, seen, best, tables, fabric, place, monkeypatch
):
    values = iter(judged)
    monkeypatch.setattr("positively.finetune.loop.criteria", lambda *given: {"holdout_pu": next(values)})
    changes = {"epochs": 4, "patience": 1, "restore_best": None, "refit": False}
    training = make(tables, fabric, place, "pu-mlc", "tail", **changes)
    training.run()
    assert (len(training.history), training.epoch) == (seen, best)
    stored = Memory()
    values = iter(judged)
    make(tables, fabric, place, "pu-mlc", "tail", store=stored, **changes).run()
    again = make(tables, fabric, place, "pu-mlc", "tail", store=stored, **{**changes, "resume": "auto"})
    again.run()  # a training that stopped has not begun to learn again: there is nothing left to judge
    assert (len(again.history), again.epoch) == (seen, best)
    assert all(torch.equal(tensor, weights(training)[name]) for name, tensor in weights(again).items())


@pytest.mark.parametrize("patience", [0, 1])
def test_where_no_tag_is_held_out_the_last_epoch_is_used(patience, tables, fabric, place):
    """A split 'val' of photos without tags judges nothing: neither the best epoch nor when to stop."""
    states = tables[0].states()
    held = np.arange(len(states)) % 4 == 0
    states[held] = 0
    table = replace(tables[0], offsets=sparse.csr_array(states), blank=0)
    table = replace(table, splits=tuple(np.where(held, "val", "train")))
    changes = {"epochs": 3, "patience": patience, "restore_best": True, "refit": False}
    training = make((table, *tables[1:]), fabric, place, "pu-mlc", "tail", **changes)
    training.run()
    assert (len(training.history), training.epoch) == (3, 3)
    assert all("holdout_pu" not in epoch for epoch in training.history)


def test_complete_labels_of_an_experiment_draw_curves_and_choose_nothing(tables, fabric, place):
    config = resolve(shapes.settings("pu-mlc", "probe", place), tables[0], CPU)
    plain, shown = (
        Training(tables[0], config, fabric, Networks(fabric), complete=complete, verbose=False)
        for complete in (None, tables[0])
    )
    for training in (plain, shown):
        training.run()
    assert [epoch["holdout_pu"] for epoch in plain.history] == [epoch["holdout_pu"] for epoch in shown.history]
    assert "holdout_map" in shown.history[0] and "holdout_map" not in plain.history[0]
    assert all(torch.equal(tensor, weights(shown)[name]) for name, tensor in weights(plain).items())


@pytest.mark.parametrize("depth", ["probe", "finetune"])
def test_a_refit_learns_from_all_images_to_the_best_epoch_and_survives_a_kill(
    depth, tables, fabric, place, monkeypatch
):
    changes = {"epochs": 3, "checkpoint_minutes": 0.0, "restore_best": True, "refit": True}
    unbroken = make(tables, fabric, place, "prototype", depth, **changes)
    thresholds = unbroken.run()
    assert unbroken.epoch == unbroken.trainer.epoch == lowest(unbroken)
    assert len(unbroken.learned) == 200 and len(unbroken.train) == 180
    plain = make(tables, fabric, place, "prototype", depth, **changes | {"refit": False})
    assert np.array_equal(plain.run(), thresholds) and measured(plain) == measured(unbroken)
    store = Memory(dies_after=3 * 6 + 4)  # five steps and the end of each epoch, then four steps of the refit
    with pytest.raises(Killed):
        make(tables, fabric, place, "prototype", depth, store, **changes).run()
    resumed = make(tables, fabric, place, "prototype", depth, store, resume="auto", **changes)
    learn, steps = Trainer._learn, []
    monkeypatch.setattr(Trainer, "_learn", lambda self, batch: (steps.append(batch), learn(self, batch)))
    assert np.array_equal(resumed.run(), thresholds)
    assert len(steps) == 6 * unbroken.epoch - 4, "it goes on where it was killed"
    assert all(torch.equal(tensor, weights(resumed)[name]) for name, tensor in weights(unbroken).items())
    assert measured(resumed) == measured(unbroken)


def table_of(images, splits=None):
    names = [f"{number}.jpg" for number in range(images)]
    return replace(LabelTable.from_positives(names, ["a"], [[0]] * images), splits=splits)


def test_images_that_a_table_holds_out_itself_are_learned_from_only_if_asked():
    splits = ["train"] * 40 + ["val"] * 10
    config = TrainConfig(method="bce", depth="probe")
    assert resolve(config, table_of(50), CPU).refit
    assert not resolve(config, table_of(50, splits), CPU).refit
    assert resolve(replace(config, refit=True), table_of(50, splits), CPU).refit
    assert not resolve(replace(config, depth="tail"), table_of(50), CPU).refit


@pytest.mark.parametrize("images", [20, 300, 500, 560, 1000, 2000, 5000, 100_000])
def test_a_head_takes_enough_steps_on_a_small_table(images):
    """A table of 500 photos got 30 steps, and PU-MLC two thirds of what it can reach."""
    config = resolve(TrainConfig(method="bce", depth="probe"), table_of(images), CPU)
    learned = round(0.9 * images)
    steps = learned // config.batch_size
    assert steps * config.epochs >= 200 and learned - steps * config.batch_size < steps  # no image is left over
    assert images // config.batch_size <= steps * 1.2, "a refit takes about the same number"
    assert config.epochs == 30 or images < 2000
    assert config.batch_size > 150 or images < 200, "a PU loss takes its statistics over the batch"


def test_images_of_a_val_split_are_no_training_images():
    val = resolve(TrainConfig(method="bce", depth="probe"), table_of(1000, ["train"] * 500 + ["val"] * 500), CPU)
    assert (val.batch_size, val.epochs) == (250, 100)


def test_a_backbone_of_ones_own_is_not_refitted_from_weights_that_have_learned(fabric):
    with pytest.raises(ConfigError, match="refit"):
        resolve(TrainConfig(method="pu-mlc", depth="finetune", refit=True), table_of(50), CPU, own_backbone=True)


def test_a_head_that_normalises_takes_the_stored_features_as_they_are_and_is_saved_with_the_run(
    tables, place, tmp_path
):
    def settings(**head):
        return vars(shapes.settings("pu-mlc", "probe", place, cache=str(tmp_path / "features"), epochs=2, **head))

    plain = po.fit(tables[0], **settings() | {"out": str(tmp_path / "plain")})
    stored = sorted((tmp_path / "features").rglob("*.safetensors"))
    run = po.fit(
        tables[0], **settings(head_options={"pooling": "max", "normalize": True}) | {"out": str(tmp_path / "run")}
    )
    assert sorted((tmp_path / "features").rglob("*.safetensors")) == stored, "the features are the same ones"
    again = po.Run(run.path)
    assert load_network(again).head.normalize and not load_network(plain).head.normalize
    assert np.array_equal(again.scores(tables[0]), run.scores(tables[0]))
    assert not np.allclose(run.scores(tables[0]), plain.scores(tables[0]))


def test_normalised_features_have_entries_of_one_and_a_slope_everywhere():
    head = LinearHead(4, 2, normalize=True)
    features = torch.tensor([[9.0, 16.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]], requires_grad=True)
    torch.testing.assert_close(head.embed(features)[0], torch.tensor([1.2, 1.6, 0.0, 0.0]))
    torch.testing.assert_close(head.embed(100 * features), head.embed(features))
    head(features).sum().backward()
    assert features.grad.isfinite().all()


def test_patience_uses_the_best_epoch_or_is_refused():
    with pytest.raises(ConfigError, match="epoch"):
        resolve(TrainConfig(method="bce", depth="tail", patience=2, restore_best=False), table_of(50), CPU)
    assert resolve(TrainConfig(method="bce", depth="tail", patience=2), table_of(50), CPU).restore_best


@pytest.mark.parametrize(
    ("judged", "stalled"),
    [([np.nan, np.nan], False), ([np.nan, 3.0], False), ([3.0, np.nan], True), ([2.0, 3.0], True), ([3.0, 2.0], False)],
)
def test_what_cannot_be_judged_is_no_improvement_and_no_measure(judged, stalled):
    assert has_stalled([{"holdout_pu": value} for value in judged], patience=1) is stalled
