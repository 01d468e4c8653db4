"""``auto`` as a user meets it: a run that is solved, its probabilities and cuts, its two heads, and how it is used."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import positively as po
import shapes
from positively.calibration import rescale_loo
from positively.cli import main
from positively.config import TrainConfig
from positively.errors import ConfigError, RunError, TableError, in_python
from positively.finetune.auto import resolve
from positively.metrics import mean_average_precision
from positively.models import create_backbone
from positively.models.heads import KernelHead, create_head
from positively.models.heads.fitted import fill_kernel
from positively.models.predictor import load_network
from positively.pipeline import embed_table
from positively.probe import KernelClassifier, fit, fit_table
from positively.tables.overlap import with_hashes
from wording import naming

pytestmark = pytest.mark.usefixtures("bare_runs")

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def complete(tables):
    return tables[0]


@pytest.fixture(scope="module")
def test(tables):
    return tables[1]


@pytest.fixture(scope="module")
def run(place, complete):
    """What ``po.fit`` gives with nothing but weights named: half of the positives known, no negative."""
    tags = complete.with_known_ratio(0.5, 0).positives_only()
    return po.fit(tags, out=str(place / "run"), **basics(place))


basics = shapes.pretrained


def test_the_default_is_a_probe_and_says_how_good_it_is(place, complete, caplog):
    table = complete.with_known_ratio(0.5, 0).positives_only()
    with caplog.at_level("INFO", logger="positively"):
        run = po.fit(table, out=str(place / "told"), **basics(place))
    told = "\n".join(record.message for record in caplog.records)
    assert run.model_config["method"] == "closed-form" and run.is_probe
    listed = table.counts(po.LabelState.POSITIVE).sum() / len(table)
    assert f"{listed:.1f} tags per photo" in told and told.count("%") == 3  # precision, recall, known share
    assert str(run.path) in told and "epoch" not in told and "held out" not in told


@pytest.mark.parametrize(
    ("changes", "method"),
    [
        ({}, "closed-form"),
        ({"depth": "probe"}, "closed-form"),
        ({"backbone": "lite0"}, "closed-form"),  # which timm does not have under this name
        ({"depth": "tail"}, "distill"),
        ({"lgconv": True}, "distill"),
        ({"weights": "none"}, "pu-mlc"),
        ({"head": "linear"}, "pu-mlc"),
        ({"method": "bce"}, "bce"),
    ],
)
def test_auto_is_the_closed_form_where_the_backbone_is_frozen(complete, changes, method):
    assert resolve(TrainConfig(**changes), complete, CPU).method == method


def test_the_closed_forms_head_is_for_the_closed_form(complete):
    with pytest.raises(ConfigError, match=naming("'kernel'", "'bce'")):
        resolve(TrainConfig(method="bce", head="kernel"), complete, CPU)


def test_a_run_predicts_the_same_in_a_fresh_process(run, test):
    scores = run.scores(test)
    program = (
        "import sys, numpy as np, shapes, positively as po; from pathlib import Path;"
        "np.save(sys.argv[3], po.Run(sys.argv[1]).scores(shapes.read_shapes(Path(sys.argv[2]), 'test')))"
    )
    out = run.path.parent / "scores.npy"
    words = [sys.executable, "-c", program, str(run.path), str(run.path.parent), str(out)]
    subprocess.run(words, check=True, cwd=str(Path(__file__).parent))
    np.testing.assert_allclose(np.load(out), scores, atol=1e-6)


def test_the_saved_classifier_gives_the_probes_probabilities(run, place, complete, test):
    config = TrainConfig(**basics(place))
    tags = with_hashes(complete.with_known_ratio(0.5, 0).positives_only())
    probe = fit_table(tags, embed_table(tags, config).X, linear=True)
    expected = probe.probabilities(embed_table(test, config).X)
    np.testing.assert_allclose(run.scores(test), expected, atol=1e-4)


def test_both_heads_learn(run, test):
    plain = po.Run(run.path, head="linear")
    for one in (run, plain):
        assert mean_average_precision(one.scores(test), test.states()) > shapes.LEARNED
    assert not np.allclose(run.scores(test), plain.scores(test))
    with pytest.raises(RunError, match=naming("'kernel'", "'linear'", "'semantic-graph'")):
        po.Run(run.path, head="semantic-graph").scores(test)


def test_probabilities_add_up_to_the_number_of_tags(run, test):
    true = (test.states() == 1).sum()
    assert 0.75 < run.scores(test).sum() / true < 1.25
    given = (run.scores(test) >= run.thresholds).sum()
    assert 0.75 < given / true < 1.25


def test_a_wished_precision_is_reached(run, test):
    truth = test.states() == 1
    careful = po.Run(run.path, min_precision=0.97)
    given, usual = careful.scores(test) >= careful.thresholds, run.scores(test) >= run.thresholds
    assert truth[given].mean() > 0.9
    assert given.sum() <= usual.sum()
    with pytest.raises(ConfigError, match="min_precision"):
        po.Run(run.path, min_precision=1.5)


def test_out_of_sample_scores_are_written_and_do_not_leak(run, complete):
    images, _, found = run.folder.read_out_of_sample()
    scores = found.scores
    assert images == list(complete.images)
    tags = complete.with_known_ratio(0.5, 0).positives_only().states()
    truth = complete.states() == 1
    levelled = rescale_loo(scores, tags)
    for known, hidden in ((levelled[tags == 1], levelled[truth & (tags == 0)]),):
        assert abs(known.mean() - hidden.mean()) < 3 * np.sqrt(known.var() / len(known) + hidden.var() / len(hidden))


def test_a_class_that_cannot_be_learned_is_named_and_never_predicted(place, complete, caplog):
    states = complete.with_known_ratio(0.5, 0).positives_only().states().copy()
    states[:, 2] = 0
    states[3, 2] = 1  # a single photo
    table = po.LabelTable.from_states(complete.images, complete.classes, states)
    from dataclasses import replace

    table = replace(table, root=complete.root, source="tags.csv")
    with caplog.at_level("INFO", logger="positively"):
        run = po.fit(table, out=str(place / "rare"), **basics(place))
    assert any("'blue' (1)" in record.message for record in caplog.records)
    assert json.loads((run.path / "thresholds.json").read_text())["blue"] is None
    predictions = run.predict([str(path) for path in complete.paths[:40]])
    assert not any("blue" in prediction.tags for prediction in predictions)
    assert any(prediction.tags for prediction in predictions)
    run.evaluate(shapes.read_shapes(place, "pretraining"))


def test_verified_negatives_are_learned_from(place, complete):
    found = []
    for negatives in (True, False):
        options = {"method_options": {"negatives": negatives}, "known_ratio": 0.5}
        run = po.fit(complete, out=str(place / f"negatives-{negatives}"), **basics(place), **options)
        found.append(run.folder.read_calibration("kernel").calibration.negative_frequency)
    np.testing.assert_allclose(found[0], 0.5, atol=0.1)
    assert not found[1].any()


class Own(torch.nn.Module):
    """The tiny network as a module of one's own; one whose code branches on pixels cannot be exported."""

    def __init__(self, weights, exportable=True):
        super().__init__()
        self.network = create_backbone("positively_tiny", str(weights), shapes.SIDE).network
        self.exportable = exportable

    def forward(self, images):
        if self.exportable or images.sum() > -1e30:
            return self.network.forward_features(images)
        return images


@pytest.mark.parametrize("pooling", [{"pooling": "max"}, {"pooling": "max", "window": 1}])
def test_a_frozen_module_of_ones_own_is_embedded_and_fitted_like_any_backbone(place, complete, test, tmp_path, pooling):
    tags, named = complete.with_known_ratio(0.5, 0).positives_only(), basics(place) | {"head_options": pooling}
    options = {name: named[name] for name in ("image_size", "cache", "head_options")}
    options |= {"method": "closed-form", "depth": "probe"}
    expected = po.fit(tags, out=str(tmp_path / "named"), **named).scores(test)
    run = po.fit(tags, out=str(tmp_path / "own"), backbone=Own(place / "tiny.safetensors"), **options)
    assert run.is_probe and run.model_config["backbone"] == "Own"
    np.testing.assert_allclose(run.scores(test), expected, atol=1e-4)
    np.testing.assert_allclose(po.Run(run.path).scores(test), expected, atol=1e-4)  # by its ONNX file


def test_where_torch_embeds_on_a_gpu_the_run_has_its_onnx_file_too(run, place, complete, test, tmp_path, monkeypatch):
    monkeypatch.setattr("positively.embedding.backbones.trains_on_gpu", lambda: True)
    tags = complete.with_known_ratio(0.5, 0).positives_only()
    other = po.fit(tags, out=str(tmp_path / "run"), **basics(place))
    assert other.folder.network.exists()
    np.testing.assert_allclose(other.scores(test), run.scores(test), atol=1e-3)


def test_a_frozen_module_that_cannot_be_exported_is_given_again(place, complete, test, tmp_path):
    tags, weights = complete.with_known_ratio(0.5, 0).positives_only(), place / "tiny.safetensors"
    options = {"image_size": shapes.SIDE, "method": "closed-form", "depth": "probe"}
    run = po.fit(tags, out=str(tmp_path / "run"), backbone=Own(weights, exportable=False), **options)
    assert not run.folder.network.exists()
    again = po.Run(run.path, backbone=Own(weights, exportable=False)).scores(test)
    np.testing.assert_allclose(again, run.scores(test), atol=1e-6)
    with pytest.raises(RunError, match=r"po\.Run\(.*backbone=module\)"):
        po.Run(run.path).scores(test)
    other = Own(weights, exportable=False)
    next(other.parameters()).data.add_(1.0)
    with pytest.raises(RunError, match="other weights"):
        po.Run(run.path, backbone=other).scores(test)


def test_a_solved_run_is_solved_again_when_resumed(run, complete, test):
    tags = complete.with_known_ratio(0.5, 0).positives_only()
    before = run.scores(test)
    again = po.fit(tags, out=str(run.path), resume="auto", **basics(run.path.parent))
    np.testing.assert_array_equal(again.scores(test), before)


def test_copies_are_left_out_together(place, complete, tmp_path):
    """A photo that is there twice, with a tag no other photo of its looks has, is not taken as its own proof."""
    import shutil
    from dataclasses import replace

    for path in complete.paths:
        (tmp_path / path.parent.name).mkdir(exist_ok=True)
        shutil.copy(path, tmp_path / path.parent.name)
    names = list(complete.images)
    copies = [name.replace(".png", "-copy.png") for name in names[:4]]
    for name, copy in zip(names, copies, strict=False):
        shutil.copy(tmp_path / name, tmp_path / copy)
    states = np.concatenate([complete.states(), complete.states()[:4]])
    states[:, 3] = 0
    states[[0, 1, 2, 3, 200, 201, 202, 203], 3] = 1
    table = po.LabelTable.from_states([*names, *copies], complete.classes, np.where(states == 1, 1, 0).astype(np.int8))
    run = po.fit(replace(table, root=tmp_path, source="tags.csv"), out=str(tmp_path / "run"), **basics(place))
    scores = run.folder.read_out_of_sample()[2].scores
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(scores[:4], scores[200:], atol=1e-4)


def test_where_the_network_learns_its_head_is_solved_if_that_helps(place, complete, test, caplog):
    settings = shapes.settings("auto", "finetune", place, method_options={"gamma": 0.2, "tau": 1.0}, holdout=0.3)
    with caplog.at_level("INFO", logger="positively"):
        run = po.fit(complete, config=settings, out=str(place / "deep"))
    told = "\n".join(record.message for record in caplog.records)
    assert ("solved head" if run.head == "kernel" else "trained head") in told
    assert mean_average_precision(run.scores(test), test.states()) > 0.8
    if run.head == "kernel":
        own = po.Run(run.path, head="linear")
        assert mean_average_precision(own.scores(test), test.states()) > 0.5
        with (run.path / "images.csv").open() as file:
            images = [row["image"] for row in csv.DictReader(file)]
        assert run.folder.read_out_of_sample()[0] == images


def test_the_command_line_takes_precision_and_head(run, complete, capsys):
    photo = str(complete.paths[0])
    assert main(["predict", str(run.path), photo, "--min-precision", "0.9", "--head", "linear"]) == 0
    assert capsys.readouterr().out.startswith(photo)
    table = str(run.path.parent / "pretraining.csv")
    truth = shapes.read_shapes(run.path.parent, "pretraining")
    rows = [
        f"{name},{';'.join(truth.classes[c] for c in np.flatnonzero(row == 1))}"
        for name, row in zip(truth.images, truth.states(), strict=True)
    ]
    Path(table).write_text("image,tags\n" + "\n".join(rows) + "\n")
    words = ["evaluate", str(run.path), table, "--images", str(run.path.parent), "--blank", "negative"]
    assert main([*words, "--min-precision", "0.9"]) == 0
    assert "mAP" in capsys.readouterr().out
    assert main(["check", "--method", "auto"]) == 0
    assert "closed-form" in capsys.readouterr().out


def test_the_kernel_head_is_never_in_half_precision(run, test):
    pixels = torch.rand(8, 3, shapes.SIDE, shapes.SIDE)
    model = load_network(run)
    with torch.inference_mode():
        features = model.features(pixels)
        expected = model.head(features)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.testing.assert_close(model.head(features), expected)


def test_a_table_without_a_class_of_three_photos_is_refused_and_gives_no_tags(place, complete, caplog, monkeypatch):
    from dataclasses import replace

    positives = [[row] if row < 4 else [] for row in range(len(complete))]
    table = po.LabelTable.from_positives(complete.images, complete.classes, positives)
    table = replace(table, root=complete.root, source="tags.csv")
    with pytest.raises(TableError, match=f"tags.csv.*'{complete.classes[0]}'.* 1 photo of {len(table)}"):
        po.fit(table, out=str(place / "single"), **basics(place))
    assert not (place / "single").exists()
    monkeypatch.setattr("positively.api.require_learnable", lambda table: None)  # a part of a table is not refused
    with caplog.at_level("INFO", logger="positively"):
        run = po.fit(table, out=str(place / "single"), **basics(place))
    assert any("learned" in record.message for record in caplog.records)
    assert not np.isfinite(run.thresholds).any()
    assert not any(prediction.tags for prediction in run.predict([str(complete.paths[0])], top=3))


def test_double_precision_and_many_epochs_change_nothing(place, complete, run, test, caplog):
    tags = complete.with_known_ratio(0.5, 0).positives_only()
    with caplog.at_level("INFO", logger="positively"):
        other = po.fit(tags, out=str(place / "double"), **basics(place), dtype="float64", epochs=3)
    assert any("epochs" in in_python(record.message) for record in caplog.records)
    np.testing.assert_allclose(other.scores(test), run.scores(test), atol=1e-4)
    assert len((other.path / "metrics.csv").read_text().splitlines()) == 2


def test_a_head_is_solved_or_a_training_repeated(complete):
    with pytest.raises(ConfigError, match=naming("solve_head", "refit")):
        resolve(TrainConfig(weights="none", refit=True), complete, CPU)


def test_a_head_with_a_window_gives_what_was_solved_for():
    generator = np.random.default_rng(0)
    maps = torch.from_numpy(generator.gamma(0.5, size=(80, 24, 7, 7))).float()
    states = (generator.random((80, 3)) < 0.3).astype(np.int8)
    head = KernelHead(24, 3, landmarks=40, window=3)
    pooled = head.pool(maps).numpy()
    solved = fit(pooled, states, landmarks=40)
    classifier = KernelClassifier.of(solved)
    fill_kernel(head, classifier)
    np.testing.assert_allclose(head(maps).sigmoid().detach().numpy(), solved.probabilities(pooled), atol=2e-4)
    np.testing.assert_allclose(head(maps).detach().numpy(), classifier.logits(pooled), atol=1e-3)
    assert head.pool(maps[..., :2, :2]).shape == (80, 2, 24)  # smaller than the window


def test_a_kernel_head_is_built_again_from_its_options():
    head = create_head("kernel", 8, 3, landmarks=50)
    table = po.LabelTable.from_positives([f"{i}.jpg" for i in range(20)], ["a", "b", "c"], [[i % 3] for i in range(20)])
    head.setup(table)
    assert len(head.landmarks) == 20
    other = create_head("kernel", 8, 3, **head.saved_options)
    other.load_state_dict(head.state_dict())
    features = torch.rand(4, 8, 3, 3)
    assert torch.equal(head(features), other(features))
    assert torch.equal(head(head.pool(features)), head(features))
    assert isinstance(head, KernelHead)
    assert head.as_linear()(features).shape == (4, 3)
    with pytest.raises(ConfigError, match="landmark"):
        create_head("kernel", 8, 3, landmarks=0)
