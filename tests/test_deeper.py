"""What ``auto`` does where more than a head learns: the closed form first, and what was learned only if it helps."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import positively as po
import shapes
from positively.config import TrainConfig
from positively.errors import ConfigError, RunError
from positively.export import export_onnx
from positively.finetune.auto import resolve
from positively.finetune.networks import Networks
from positively.finetune.solving import _best_penalty, _half_ranks, _is_ahead, _window
from positively.finetune.training import Training
from positively.labels import NEGATIVE, POSITIVE, LabelTable
from positively.metrics import mean_average_precision
from positively.metrics.logits import sigmoid
from positively.models import KernelHead
from positively.models.heads import pool_windows
from positively.models.predictor import load_network
from positively.probe.choice import PENALTIES

CPU = torch.device("cpu")
DEPTHS = ("tail", "finetune")


def settings(place, depth, **changes):
    chosen = {"depth": depth, "augment": "none", "workers": 0, "batch_size": 20, "holdout": 0.3}
    return shapes.pretrained(place, **{**chosen, **changes})


def trained(place, table, fabric, depth, **changes):
    config = resolve(TrainConfig(**settings(place, depth, **changes)), table, CPU)
    training = Training(table, config, fabric, Networks(fabric))
    training.run()
    return training


def network(training):
    state = training.classifier.state_dict()
    return {name: tensor for name, tensor in state.items() if not name.startswith("head.")}


def quality(training, test):
    return mean_average_precision(sigmoid(training.score(test)), test.states())


@pytest.fixture(scope="module")
def known(tables):
    """Half of the positive tags, and no negative."""
    return tables[0].with_known_ratio(0.5, 0).positives_only()


@pytest.fixture(scope="module")
def colour_blind(place):
    """A file of weights that see no colour, and the classes are colours."""
    state = load_file(place / "tiny.safetensors")
    first = next(name for name, tensor in state.items() if tensor.ndim == 4)
    state[first] = state[first].mean(1, keepdim=True).repeat(1, 3, 1, 1)
    save_file(state, place / "blind.safetensors")
    return str(place / "blind.safetensors")


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_network_stays_as_it_began_where_learning_does_not_help(place, known, tables, fabric, depth):
    training = trained(place, known, fabric, depth, lr=1e-12, epochs=1)
    began = Training(known, training.config, fabric, Networks(fabric), verbose=False)
    assert all(torch.equal(tensor, network(training)[name]) for name, tensor in network(began).items())
    assert training.config.method == "distill" and training.config.head == "kernel"
    assert quality(training, tables[1]) > shapes.LEARNED
    assert len(training.out_of_sample.scores) == len(known)  # those held out are solved for as well


def write_squares(folder, count, seed):
    """One square a picture, in one of four colours that are equally bright: without colours there is nothing to see."""
    generator, folder = np.random.default_rng(seed), Path(folder)
    folder.mkdir()
    colors = np.array([(220, 40, 40), (40, 220, 40), (40, 40, 220), (150, 150, 0)])
    classes = generator.integers(0, len(colors), count)
    for index, column in enumerate(classes):
        pixels = generator.integers(60, 140, (shapes.SIDE, shapes.SIDE, 3))
        top, left = generator.integers(0, shapes.SIDE - 9, 2)
        pixels[top : top + 9, left : left + 9] = colors[column]
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{index:03d}.png")
    states = np.where(classes[:, None] == np.arange(len(colors)), POSITIVE, NEGATIVE).astype(np.int8)
    names = [f"{index:03d}.png" for index in range(count)]
    return replace(LabelTable.from_states(names, tuple(shapes.COLORS), states, NEGATIVE), root=folder)


def test_what_was_learned_is_used_where_tags_held_out_rank_higher(place, tmp_path, fabric, colour_blind):
    """Where the network begins without an eye for the classes, all is to be learned."""
    complete, test = write_squares(tmp_path / "train", 300, seed=1), write_squares(tmp_path / "test", 100, seed=2)
    table = complete.with_known_ratio(0.9, 0)
    changes = {"weights": colour_blind, "lr": 5e-3, "epochs": 12, "holdout": 0.5}
    training = trained(place, table, fabric, "finetune", **changes)  # better by about twelve standard errors
    assert quality(training, test) > shapes.LEARNED
    assert len(training.out_of_sample.scores) == len(table)


def test_a_teacher_gives_known_labels_as_they_are_and_unknown_ones_by_scores(place, tables, fabric):
    table = tables[0].with_known_ratio(0.5, 0)
    config = resolve(TrainConfig(**settings(place, "tail", epochs=1)), table, CPU)
    training = Training(table, config, fabric, Networks(fabric), verbose=False)
    targets, states = training.trainer.method.targets.float().numpy(), training.train.states()
    assert (targets[states == POSITIVE] == 1).all() and (targets[states == NEGATIVE] == 0).all()
    truth = tables[0].select([tables[0].images.index(name) for name in training.train.images]).states()
    hidden = targets[states == 0]
    assert hidden[truth[states == 0] == 1].mean() > hidden[truth[states == 0] == -1].mean() + 0.3
    # The head starts as the teacher's own: the network is worth something before it learns.
    assert quality(training, tables[1]) > shapes.LEARNED


@pytest.mark.parametrize("depth", ["probe", *DEPTHS])
@pytest.mark.parametrize("method", ["bce", "pu-mlc"])
def test_any_method_may_start_with_a_solved_head(place, tables, fabric, depth, method):
    """Before the first step the head is what the closed form finds; a random one knows nothing."""
    found = {}
    for start in ("solved", "default"):
        chosen = settings(place, depth, method=method, start=start, epochs=1)
        config = resolve(TrainConfig(**chosen), tables[0], CPU)
        found[start] = quality(Training(tables[0], config, fabric, Networks(fabric), verbose=False), tables[1])
    assert found["solved"] > shapes.LEARNED > found["default"]


@pytest.mark.parametrize(
    "change", [{"head": "semantic-graph", "head_options": {}}, {"head_options": {"normalize": True}}]
)
def test_only_a_plain_head_can_start_solved(place, known, change):
    config = TrainConfig(**settings(place, "tail", method="pu-mlc", start="solved", **change))
    with pytest.raises(ConfigError, match="linear"):
        resolve(config, known, CPU)


@pytest.mark.parametrize("change", [{"blend": "logic"}, {"blend": "none"}])
def test_every_way_to_be_taught_learns(place, known, tables, fabric, change):
    training = trained(
        place, known, fabric, "tail", method="distill", method_options=change, epochs=2, solve_head=False
    )
    assert quality(training, tables[1]) > shapes.LEARNED


def test_nothing_learned_seldom_looks_like_something_learned():
    """The learned side has its λ chosen by tags held out; those must not be the ones that judge it."""
    generator, ahead = np.random.default_rng(0), 0
    for _ in range(200):
        truth = generator.random((100, 6)) < 0.2
        scores = [generator.normal(1.5 * truth + shift * truth) for shift in (0.0, 0.0)]
        ranks = [_half_ranks([one, one], truth) for one in scores]
        ahead += _is_ahead(*ranks, truth)
        assert not _is_ahead(ranks[0], ranks[0], truth)
    assert ahead < 24  # one in twenty is expected
    better = _half_ranks([scores[0] + truth] * 2, truth)
    assert _is_ahead(better, ranks[0], truth)


def test_images_that_the_table_calls_val_are_not_solved_for(place, known, fabric, caplog):
    splits = np.where(np.arange(len(known)) % 4 == 0, "val", "train").tolist()
    table = replace(known, splits=tuple(splits))
    with caplog.at_level("INFO", logger="positively"):
        training = trained(place, table, fabric, "tail", lr=1e-12, epochs=1)
    assert len(training.learned) == splits.count("train") == len(training.out_of_sample.scores)


def test_lambda_by_images_held_out_that_cannot_tell_is_that_of_small_tables():
    states = np.eye(6, dtype=np.int8)  # one positive a class: no pair to compare
    found = {penalty: np.random.default_rng(0).normal(size=states.shape) for penalty in PENALTIES}
    assert _best_penalty(found, states, np.ones(6, bool)) == pytest.approx(1e-2)


def test_too_few_tags_held_out_leave_the_network_as_it_began(place, tables, fabric, caplog):
    table = tables[0].with_known_ratio(0.1, 0).positives_only()
    with caplog.at_level("INFO", logger="positively"):
        training = trained(place, table, fabric, "tail", epochs=1, holdout=0.1)
    assert "20" in caplog.text
    assert isinstance(training.classifier.head, KernelHead)


@pytest.mark.parametrize("side", range(4, 40))
def test_parts_leave_no_border_out(side):
    window = _window(torch.empty(1, 1, side, side))
    seen = pool_windows(torch.eye(side).reshape(side, 1, 1, side).expand(-1, -1, side, -1), "max", window)[:, 1:]
    assert (seen.amax((1, 2)) == 1).all() and 4 <= seen.shape[1] <= 25


def test_windows_are_pooled_as_the_whole_map_is():
    maps = torch.rand(2, 3, 5, 5)
    for pooling, expected in (("average", maps[:, :, :3, :3].mean((2, 3))), ("max", maps[:, :, :3, :3].amax((2, 3)))):
        pooled = pool_windows(maps, pooling, 3)
        assert pooled.shape == (2, 5, 3)
        torch.testing.assert_close(pooled[:, 1], expected)


def test_a_run_that_went_deeper_is_used_as_any_other(place, known, tables, tmp_path):
    run = po.fit(known, out=str(tmp_path / "run"), quiet=True, **settings(place, "tail", epochs=1))
    assert run.evaluate(tables[1]).mean_average_precision > shapes.LEARNED
    again = po.Run(run.path)
    np.testing.assert_allclose(again.scores(tables[1]), run.scores(tables[1]), atol=1e-6)
    assert load_file(run.path / "model.safetensors")["head.landmarks"].shape[0] == len(known)
    assert load_network(run).head.window == 3
    assert f"{len(known)} images" in (run.path / "README.md").read_text()
    export_onnx(run, tmp_path / "model.onnx")  # compared with torch, at several sizes, before it is left there
    assert (tmp_path / "model.onnx").exists()


@pytest.mark.parametrize("helps", [False, True])
def test_a_run_that_went_deeper_tells_what_its_table_lacks(place, known, tables, tmp_path, monkeypatch, helps):
    """By the network as it began, whose scores are exact leave-one-out as at depth probe."""
    monkeypatch.setattr("positively.finetune.solving._is_ahead", lambda *given: helps)
    run = po.fit(known, out=str(tmp_path / "deeper"), quiet=True, **settings(place, "tail", epochs=1))
    truth, found = tables[0].states(), po.find_missing(run)
    rows = [known.images.index(found.images[row]) for row in found.rows[:20]]
    assert (truth[rows, found.columns[:20]] == POSITIVE).mean() > 0.8
    assert "network did learn from them" not in (run.path / "report.html").read_text()
    exact = po.find_missing(po.fit(known, out=str(tmp_path / "probe"), quiet=True, **settings(place, "probe")))
    both = min(len(found), len(exact), 200)
    assert abs(found.probabilities[:both].mean() - exact.probabilities[:both].mean()) < 0.15


def test_a_network_that_has_seen_the_labels_does_not_tell_what_its_table_lacks(place, known, tmp_path):
    learned = po.fit(known, out=str(tmp_path / "learned"), quiet=True, **settings(place, "tail", method="pu-mlc"))
    with pytest.raises(RunError, match="labels"):
        po.find_missing(learned)


@pytest.mark.parametrize(
    ("change", "deeper"),
    [
        ({}, True),
        ({"depth": "probe"}, False),
        ({"head": "kernel"}, False),
        ({"method_options": {"width": 1.5}}, False),
        ({"head_options": {"landmarks": 50}}, False),
        ({"method": "closed-form"}, False),
        ({"holdout": 0.01}, False),  # nothing to judge by
    ],
)
def test_auto_goes_deeper_by_itself_where_a_gpu_is_and_what_it_learns_can_be_judged(place, tables, change, deeper):
    asked = TrainConfig(**{**shapes.pretrained(place), "head_options": {}, **change})
    config = resolve(asked, tables[0], torch.device("cuda"))
    assert (config.method, config.depth) == (("distill", "finetune") if deeper else ("closed-form", "probe"))
    assert config.solve_head is deeper and (config.patience > 0) is deeper
    for device in ("cpu", "mps"):
        assert resolve(asked, tables[0], torch.device(device)).depth == "probe"
