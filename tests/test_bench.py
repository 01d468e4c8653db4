"""A bench computes every cell once, whoever asks and however often it is killed, and keeps what its numbers rest on."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from safetensors.numpy import load_file
from sklearn.metrics import average_precision_score, f1_score, precision_score, recall_score

import positively as po
from positively.cli import main
from positively.config import TrainConfig
from positively.errors import ConfigError, TableError
from positively.finetune.methods import METHODS, create_method
from positively.models import create_classifier
from positively.research.bench.datasets import read_dataset
from positively.research.bench.results import read_result, read_results
from positively.research.bench.suite import read_suite, suite_names
from positively.research.recipes import read_recipe, recipe_names
from positively.research.scenes import CLASSES, write_scenes
from positively.tables.options import ReadOptions
from wording import naming

SUITE = {
    "title": "A small suite",
    "show": "table1",
    "ratios": [0.5, 0.9],
    "rows": {"PU-MLC": {"method": "pu-mlc"}, "BCE": {"method": "bce"}},
    "claims": [
        {
            "claim": "PU-MLC does better",
            "higher": {"row": "PU-MLC", "ratio": 0.5},
            "lower": {"row": "BCE", "ratio": 0.5},
        }
    ],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A benchmark of scenes with complete tags, weights for the tiny network, and a suite."""
    import torch
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("digits")
    write_scenes(folder, "train", 60)
    write_scenes(folder, "test", 40)
    (folder / "classes.txt").write_text("\n".join(CLASSES))
    torch.manual_seed(0)
    network = create_classifier("positively_tiny", 1, "none", 32).backbone.network
    save_file(network.state_dict(), folder / "tiny.safetensors")
    (folder / "small.yaml").write_text(yaml.safe_dump(SUITE, allow_unicode=True), encoding="utf-8")
    return folder


def words(place, out, *more, suite="small.yaml", depth="probe"):
    fixed = ["--backbone", "positively_tiny", "--weights", place / "tiny.safetensors", "--image-size", 32]
    said = ["bench", place / suite, "--data", place, "--depth", depth, *fixed, "--seeds", 2, "--epochs", 2]
    return [str(word) for word in [*said, "--out", out, *more]]


@pytest.fixture(scope="module")
def finished(place, environment, tmp_path_factory):
    out = tmp_path_factory.mktemp("bench")
    done = subprocess.run(
        [sys.executable, "-m", "positively", *words(place, out)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return out, done


def cells(out):
    return sorted((out / "cells").glob("*seed*.json"))


def test_every_cell_has_one_result_and_the_report_is_written(finished):
    out, done = finished
    assert len(cells(out)) == 2 * 2 * 2  # rows × ratios × seeds
    names = {path.name for path in out.iterdir()}
    assert {"report.md", "report.html", "cells", "choices"} <= names
    assert any(name.endswith(".csv") for name in names) and any(name.endswith(".png") for name in names)
    assert "PU-MLC does better" in done.stdout and "Table 1" in done.stdout
    assert "seconds" in json.loads(cells(out)[0].read_text())


def test_start_rate_and_epoch_are_chosen_on_a_part_of_train_and_written_down(finished):
    out, _ = finished
    choices = list((out / "choices").glob("*.json"))
    assert len(choices) == 2 * 2  # rows × ratios
    tried = json.loads(choices[0].read_text())
    assert len(tried) == 6 and {one["start"] for one in tried} == {"default", "prior"}
    for result in read_results(out / "cells"):
        best = max(result.chosen["tried"], key=lambda one: one["mAP"])
        assert all(result.chosen[name] == best[name] for name in ("start", "lr", "epoch"))


def test_a_method_without_use_for_negatives_never_sees_one(finished):
    for result in read_results(finished[0] / "cells"):
        assert (result.labels["negatives"] == 0) == (result.method == "pu-mlc")
        assert result.labels["positives"] > 0


def test_once_thresholds_are_found_a_row_learns_from_all_training_images_to_the_chosen_epoch(finished):
    for result in read_results(finished[0] / "cells"):
        assert result.settings["refit"] and result.labels["images"] == 60
        # What was measured on the images held out, up to that epoch of the schedule.
        assert len(result.history) == result.settings["stop_epoch"] == result.chosen["epoch"]
        assert result.settings["epochs"] == 2 and not result.settings["restore_best"]


def test_an_epoch_is_chosen_by_complete_labels_or_left_to_what_a_user_knows(place, tmp_path, monkeypatch):
    monkeypatch.setenv("POSITIVELY_CACHE", str(tmp_path / "cache"))
    found, before = {}, set()
    for choose, choices in (("yes", 2), ("rate", 4), ("no", 4)):
        said = words(place, tmp_path / "out", "--choose", choose, "--seeds", "1", "--ratios", "0.5", "--epochs", "6")
        assert main(said) == 0
        now = set(cells(tmp_path / "out"))
        assert len(now - before) == 2 and len(list((tmp_path / "out" / "choices").glob("*.json"))) == choices
        found[choose] = [read_result(path) for path in now - before]  # another choice is another cell
        before = now
    for result in found["rate"] + found["no"]:
        best = min(result.history, key=lambda epoch: epoch["holdout_pu"])
        assert result.chosen["epoch"] == best["epoch"] and len(result.history) == 6
    assert all(result.chosen["tried"] for result in found["rate"])
    assert not any(result.chosen["tried"] for result in found["no"])
    for result in found["yes"]:
        assert result.chosen["epoch"] == max(result.chosen["tried"], key=lambda one: one["mAP"])["epoch"]


def test_the_numbers_are_those_of_scikit_learn_on_the_kept_scores(finished):
    out, _ = finished
    (truth_file,) = (out / "cells").glob("truth-*.safetensors")
    truth = load_file(truth_file)["states"] == 1
    for result in read_results(out / "cells"):
        kept = load_file(out / "cells" / result.scores)
        scores = 1 / (1 + np.exp(-kept["logits"].astype(np.float64)))
        there = truth.any(axis=0) & ~truth.all(axis=0)
        expected = average_precision_score(truth[:, there], scores[:, there], average="macro")
        assert result.test["mAP"] == pytest.approx(expected, abs=1e-9)
        for names, cut in ((("OF1", "CF1"), kept["thresholds"]), (("OF1_half", "CF1_half"), 0.5)):
            found = (scores >= cut)[:, there]
            overall = f1_score(truth[:, there], found, average="micro", zero_division=0)
            parts = [
                f(truth[:, there], found, average="macro", zero_division=0) for f in (precision_score, recall_score)
            ]
            assert result.test[names[0]] == pytest.approx(overall, abs=1e-9)
            assert result.test[names[1]] == pytest.approx(2 * parts[0] * parts[1] / max(sum(parts), 1e-12), abs=1e-9)
        assert result.test["OF1_oracle"] == pytest.approx(
            max(f1_score(truth[:, there], (scores >= t / 100)[:, there], average="micro") for t in range(1, 100))
        )


def test_the_second_call_computes_nothing_and_writes_the_same_report(finished, place, environment):
    out, _ = finished
    before = {path: path.stat().st_mtime_ns for path in (out / "cells").iterdir()}
    page = (out / "report.html").read_bytes()
    again = subprocess.run(
        [sys.executable, "-m", "positively", *words(place, out)], env=environment, capture_output=True, text=True
    )
    assert again.returncode == 0 and "seed 0" not in again.stderr
    assert {path: path.stat().st_mtime_ns for path in (out / "cells").iterdir()} == before
    assert (out / "report.html").read_bytes() == page


def test_killed_and_started_again_it_computes_only_what_is_missing(finished, place, environment, tmp_path):
    command = [sys.executable, "-m", "positively", *words(place, tmp_path)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(cells(tmp_path)) < 3 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    there = {path: path.stat().st_mtime_ns for path in cells(tmp_path)}
    assert 3 <= len(there) < 8
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert {path: path.stat().st_mtime_ns for path in there} == there
    for mine, other in zip(read_results(tmp_path / "cells"), read_results(finished[0] / "cells"), strict=True):
        assert mine.test == other.test, "a killed bench ends with the numbers of an unbroken one"


def test_two_processes_share_a_grid(finished, place, environment, tmp_path):
    command = [sys.executable, "-m", "positively", *words(place, tmp_path)]
    both = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE) for _ in "12"]
    outputs = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert [path.name for path in cells(tmp_path)] == [path.name for path in cells(finished[0])]
    for mine, other in zip(read_results(tmp_path / "cells"), read_results(finished[0] / "cells"), strict=True):
        assert mine.test == other.test


def test_what_a_depth_cannot_measure_is_said_and_not_a_number(place, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("POSITIVELY_CACHE", str(tmp_path / "cache"))
    said = words(place, tmp_path)
    said[1] = "lgconv"
    assert main(said) == 0
    assert "not measurable" in capsys.readouterr().out
    assert not cells(tmp_path)


def test_the_tail_learns_and_goes_on_from_its_checkpoint(place, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("POSITIVELY_CACHE", str(tmp_path / "cache"))
    suite = {**SUITE, "show": "curves", "ratios": [0.5]}
    (tmp_path / "tail.yaml").write_text(yaml.safe_dump(suite, allow_unicode=True), encoding="utf-8")
    said = words(place, tmp_path / "out", "--seeds", "1", depth="tail")
    said[1] = str(tmp_path / "tail.yaml")
    assert main(said) == 0
    assert len(cells(tmp_path / "out")) == 2 and not list((tmp_path / "out").glob("work/*"))
    assert "epoch 2" in capsys.readouterr().out
    assert not (tmp_path / "out" / "choices").exists()


def test_a_rate_at_which_the_loss_is_no_number_is_not_chosen_and_stops_nothing(place, tmp_path, monkeypatch):
    from positively.errors import DivergedError
    from positively.research.bench.runner import DatasetRunner

    plain = DatasetRunner.train

    def diverging(self, config, **options):
        if config.lr == 3e-3 and not options.get("test", True):
            raise DivergedError("The loss is no longer a number.")
        return plain(self, config, **options)

    monkeypatch.setattr(DatasetRunner, "train", diverging)
    monkeypatch.setenv("POSITIVELY_CACHE", str(tmp_path / "cache"))
    assert main(words(place, tmp_path, "--ratios", "0.5", "--seeds", "1")) == 0
    for path in (tmp_path / "choices").glob("*.json"):
        assert [one["lr"] for one in json.loads(path.read_text()) if one["mAP"] is None] == [3e-3, 3e-3]
    assert all(result.chosen["lr"] < 3e-3 for result in read_results(tmp_path / "cells"))


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--seeds", "0"], "--seeds"),
        (["--train-images", "10"], "training images"),
        (["--ratios", "0.001"], "positive"),
    ],
)
def test_what_cannot_work_is_a_sentence(place, tmp_path, capsys, monkeypatch, more, sentence):
    monkeypatch.setenv("POSITIVELY_CACHE", str(tmp_path / "cache"))
    assert main(words(place, tmp_path, *more)) == 2
    assert sentence in capsys.readouterr().err


def test_a_bench_without_data_or_with_an_unknown_suite_says_what_there_is(place, tmp_path, capsys):
    assert main(["bench", "--out", str(tmp_path)]) == 2
    assert "--data" in capsys.readouterr().err
    assert main(["bench", "tabel1", "--data", str(place)]) == 2
    assert "table1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rows": {"A": {"method": "pu-mcl"}}}, "pu-mlc"),
        ({"rows": {"A": {"method": "bce", "train": {"lgcnov": True}}}}, "'lgcnov'"),
        ({"rows": {"A": {"method": "bce", "train": {"seed": 3}}}}, "'seed'"),
        ({"ratios": [0.0]}, "ratios"),
        ({"claims": [{"claim": "c", "higher": {"row": "X"}, "lower": {"row": "BCE"}}]}, "row"),
        ({"rows": None}, "suite"),
    ],
)
def test_a_suite_of_ones_own_is_checked_before_anything_runs(tmp_path, change, sentence):
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({**SUITE, **change}), encoding="utf-8")
    with pytest.raises(ConfigError, match=sentence):
        read_suite(str(tmp_path / "mine.yaml"))


def test_a_folder_without_a_test_table_is_refused(tmp_path):
    (tmp_path / "train.csv").write_text("image,tags\n")
    write_scenes(tmp_path, "train", 24)
    with pytest.raises(TableError, match=naming("test.csv", "val.csv")):
        read_dataset(tmp_path, ReadOptions())


@pytest.mark.parametrize("name", suite_names())
def test_every_suite_of_the_package_can_be_read_and_trained(name):
    suite = read_suite(name)
    for row, ratio, _ in suite.grid():
        for family in ("coco", "voc", ""):
            published = row.published_options(family, ratio)
            given = METHODS[row.method].benchmark_options(ratio, published)
            create_method(row.method, **{**given, **row.options})
        TrainConfig(**row.train)


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_is_understood_and_its_gamma_follows_the_stated_rule(name):
    recipe = read_recipe(name)
    TrainConfig(**recipe.train)
    create_method(recipe.train["method"], **recipe.options(0.1))
    published = {"coco": 0.55, "voc": 0.85}[name.partition("-")[0]]
    assert set(recipe.gamma) == {round(0.1 * step, 1) for step in range(1, 11)}
    for ratio, gamma in recipe.gamma.items():
        assert gamma == pytest.approx(published * (1 - ratio) / 0.9, abs=6e-4)


def test_a_recipe_stands_in_for_the_defaults_and_words_win_over_it():
    from positively.cli.train import parser

    values = parser().parse(["COCO", "--recipe", "coco", "--lr", "3e-5", "--known-ratio", "0.1"])
    assert (values.backbone, values.image_size, values.stop_epoch, values.lr) == ("resnet101.tv_in1k", 448, 41, 3e-5)
    assert values.lgconv is True and values.positives_only is True and read_recipe("coco").options(0.1)["gamma"] == 0.55
    assert values.method_options == {"alpha": 1.0, "mixup": 1.0, "mixup_beta": 0.3, "statistics": "local"}
    with pytest.raises(ConfigError, match="coco-clip"):
        parser().parse(["COCO", "--recipe", "cocoa"])


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        ({"title": "t", "train": {"method": "pu-mlc"}}, "recipe"),
        ({"title": "t", "train": {}, "gamma": {0.1: 0.5}}, "method"),
        (
            {"title": "t", "train": {"method": "pu-mlc", "learning_rate": 1}, "gamma": {0.1: 0.5}},
            "'learning_rate'",
        ),
        ({"title": "t", "train": {"method": "pu-mlc", "depth": "deep"}, "gamma": {0.1: 0.5}}, "depth"),
    ],
)
def test_a_recipe_of_ones_own_is_checked(tmp_path, recipe, sentence):
    from positively.cli.train import parser

    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(recipe))
    with pytest.raises(ConfigError, match=sentence):
        parser().parse(["tags.csv", "--recipe", str(tmp_path / "mine.yaml")])


def test_a_benchmark_whose_parts_share_an_image_is_refused(tmp_path):
    write_scenes(tmp_path, "train", 24)
    (tmp_path / "test.csv").write_text((tmp_path / "train.csv").read_text())
    with pytest.raises(TableError, match="content"):
        read_dataset(tmp_path, ReadOptions())


def test_a_cell_equals_a_training_with_the_same_configuration_and_seed(finished, place, tmp_path, monkeypatch):
    """A bench was a second copy of a training: now both are the same code."""
    monkeypatch.setenv("POSITIVELY_CACHE", str(tmp_path / "cache"))
    out, _ = finished
    result = next(r for r in read_results(out / "cells") if r.cell.row == "BCE" and r.cell.seed == 1)
    dataset = read_dataset(place, ReadOptions())
    settings = {**result.settings, "out": str(tmp_path / "run"), "resume": "never"}
    run = po.fit(dataset.train, config=TrainConfig(**settings))
    cell = load_file(out / "cells" / result.scores)
    np.testing.assert_allclose(
        run.scores(dataset.test), 1 / (1 + np.exp(-cell["logits"].astype(np.float64))), atol=1e-6
    )
    np.testing.assert_allclose(run.thresholds, cell["thresholds"], atol=1e-6)


def test_a_cell_of_the_closed_form_is_a_probe_with_the_same_numbers_as_a_run(place, tmp_path, monkeypatch):
    monkeypatch.setenv("POSITIVELY_CACHE", str(tmp_path / "cache"))
    rows = {
        "auto": {"method": "closed-form"},
        "parts": {"method": "closed-form", "train": {"head_options": {"window": 1, "landmarks": 30}}},
        "alone": {"method": "closed-form", "options": {"negatives": False, "width": 1.0}},
    }
    (tmp_path / "solved.yaml").write_text(yaml.safe_dump({"title": "Solved", "ratios": [0.5], "rows": rows}))
    assert main(words(place, tmp_path / "out", "--seeds", "1", suite=tmp_path / "solved.yaml")) == 0
    dataset = read_dataset(place, ReadOptions())
    found = read_results(tmp_path / "out" / "cells")
    assert len(found) == len(rows) and not (tmp_path / "out" / "choices").exists()
    for result in found:
        cell = load_file(tmp_path / "out" / "cells" / result.scores)
        settings = {**result.settings, "out": str(tmp_path / result.cell.row), "resume": "never"}
        run = po.fit(dataset.train, config=TrainConfig(**settings))
        scores = 1 / (1 + np.exp(-cell["logits"].astype(np.float64)))
        # Features of random weights are nearly equal, so that ONNX Runtime and torch differ by more than rounding.
        np.testing.assert_allclose(run.scores(dataset.test), scores, atol=5e-3)
        np.testing.assert_allclose(run.thresholds, cell["thresholds"], atol=5e-3)
        assert result.labels["images"] == 60 and (result.labels["negatives"] > 0) == (result.cell.row != "alone")


def test_one_diverging_cell_does_not_stop_a_grid(place, tmp_path, monkeypatch, capsys):
    from positively.errors import DivergedError
    from positively.research.bench.runner import DatasetRunner

    plain, tried = DatasetRunner.train, []

    def diverging(self, config, **given):
        tried.append(config.method)
        if config.method == "pu-mlc":
            raise DivergedError("The loss is no longer a number.")
        return plain(self, config, **given)

    monkeypatch.setattr(DatasetRunner, "train", diverging)
    monkeypatch.setenv("POSITIVELY_CACHE", str(tmp_path / "cache"))
    said = words(place, tmp_path, "--ratios", "0.5", "--seeds", "1", "--lr", "0.01", "--start", "prior")
    assert main(said) == 0
    results = {result.method: result for result in read_results(tmp_path / "cells")}
    failure = results["pu-mlc"].failure
    assert "loss" in failure and "lr" in failure and results["bce"].test["mAP"] > 0
    shown = capsys.readouterr()
    assert "loss" in shown.err and "| PU-MLC | – |" in shown.out
    assert main(said) == 0 and tried.count("pu-mlc") == 1  # what diverges once diverges again


def test_an_option_that_is_added_orphans_no_cell(finished, place, environment, monkeypatch):
    """Every cell was known by all options: one more, and all were computed again."""
    from dataclasses import field, make_dataclass

    from positively.finetune import auto, identity
    from positively.finetune.auto import resolve
    from positively.research.bench.grid import Bench, Job
    from positively.research.bench.results import Cell

    dataset = read_dataset(place, ReadOptions())
    result = read_results(finished[0] / "cells")[0]
    grown = make_dataclass("TrainConfig", [("later", float, field(default=0.5))], bases=(TrainConfig,))
    names = []
    for kind in (TrainConfig, grown):
        for module in (auto, identity):
            monkeypatch.setattr(module, "TrainConfig", kind)
        config = resolve(kind(**result.settings), dataset.train, torch.device("cpu"))
        bench = Bench(finished[0], [dataset], config, None, choose="no")
        names.append(bench._name(Job(Cell(**vars(result.cell)), config, config, (("prior", 0.01),))))
    assert names[0] == names[1]


def test_risks_get_the_prior_of_the_ratio_the_bench_knows(place, tmp_path, monkeypatch):
    """PU-MLC got its γ of the ratio, uPU and nnPU the prior of complete labels."""
    monkeypatch.setenv("POSITIVELY_CACHE", str(tmp_path / "cache"))
    rows = {"uPU": {"method": "upu"}, "given": {"method": "nnpu", "options": {"label_frequency": 0.9}}}
    (tmp_path / "risk.yaml").write_text(yaml.safe_dump({"title": "Risks", "ratios": [0.5], "rows": rows}))
    said = words(place, tmp_path / "out", "--seeds", "1", "--lr", "0.01", "--start", "prior")
    said[1] = str(tmp_path / "risk.yaml")
    assert main(said) == 0
    found = {result.cell.row: result.options for result in read_results(tmp_path / "out" / "cells")}
    assert found == {"uPU": {"label_frequency": 0.5}, "given": {"label_frequency": 0.9}}


def test_every_row_is_compared_with_one_and_a_row_whose_weights_are_out_of_reach_says_so(place, tmp_path, capsys):
    """positively_tiny has no weights to be fetched anywhere."""
    rows = {
        "AN": {"method": "assume-negative"},
        "BCE": {"method": "bce"},
        "Elsewhere": {"method": "asl", "train": {"backbone": "positively_tiny", "weights": "pretrained"}},
    }
    suite = {"title": "Rivals", "show": "rivals", "against": "AN", "ratios": [0.5, 0.9], "rows": rows}
    (tmp_path / "rivals.yaml").write_text(yaml.safe_dump({**suite, "train": {"known_ratio_spread": 0.8}}))
    assert main(words(place, tmp_path / "out", "--choose", "no", suite=tmp_path / "rivals.yaml")) == 0
    lines = {line.split("|")[1].strip(): line for line in capsys.readouterr().out.splitlines() if line.startswith("|")}
    assert "| positives |" in lines["AN"] and "| positives, negatives |" in lines["BCE"]
    assert "not measurable here" in lines["Elsewhere"] and not any(
        digit in lines["Elsewhere"] for digit in "0123456789"
    )
    cells = [json.loads(path.read_text()) for path in (tmp_path / "out" / "cells").glob("*.json")]
    assert len(cells) == 8 and all(cell["settings"]["known_ratio_spread"] == 0.8 for cell in cells)
    with pytest.raises(ConfigError, match=naming("'against'", "'PU-MLC'")):
        (tmp_path / "wrong.yaml").write_text(yaml.safe_dump({**suite, "against": "PU-MLC"}))
        read_suite(str(tmp_path / "wrong.yaml"))


def test_one_choice_serves_all_seeds_also_where_a_mask_tells_each_another_share(place, tmp_path, monkeypatch):
    monkeypatch.setenv("POSITIVELY_CACHE", str(tmp_path / "cache"))
    suite = {
        "title": "Uneven",
        "ratios": [0.5],
        "rows": {"uPU": {"method": "upu"}},
        "train": {"known_ratio_spread": 0.8},
    }
    (tmp_path / "uneven.yaml").write_text(yaml.safe_dump(suite))
    assert main(words(place, tmp_path / "out", suite=tmp_path / "uneven.yaml")) == 0
    told = {result.options["label_frequency"] for result in read_results(tmp_path / "out" / "cells")}
    assert len(told) == 2 and len(list((tmp_path / "out" / "choices").glob("*.json"))) == 1


def test_heads_that_know_class_names_get_the_word_vectors_of_each_benchmark(place, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("POSITIVELY_CACHE", str(tmp_path / "cache"))
    np.save(tmp_path / "words.npy", np.random.default_rng(0).normal(size=(len(CLASSES), 7)))
    rows = {"ML-GCN": {"method": "ml-gcn"}, "BCE": {"method": "bce"}}
    (tmp_path / "words.yaml").write_text(yaml.safe_dump({"title": "Words", "ratios": [0.5], "rows": rows}))
    said = words(place, tmp_path / "out", "--seeds", "1", "--choose", "no", suite=tmp_path / "words.yaml")
    assert main([*said, "--word-vectors", str(tmp_path / "words.npy")]) == 0
    given = {result.cell.row: result.settings["head_options"] for result in read_results(tmp_path / "out" / "cells")}
    assert given == {"ML-GCN": {"word_vectors": str(tmp_path / "words.npy")}, "BCE": {}}
    assert main([*said, "--word-vectors", "one.npy", "two.npy"]) == 2
    assert "--word-vectors" in capsys.readouterr().err


@pytest.mark.parametrize("wrong, said", [({"show": "rivls"}, "not 'rivls'"), ({"depths": "probe"}, "not 'p'")])
def test_a_word_that_a_suite_does_not_know_is_an_error(wrong, said, tmp_path):
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump({**SUITE, **wrong}, allow_unicode=True), encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        read_suite(str(tmp_path / "wrong.yaml"))


@pytest.mark.parametrize("ratio", [1.0, 0.5])
def test_a_risk_is_told_the_share_that_one_positive_an_image_leaves(ratio, place):
    from positively.finetune.runtime import launch
    from positively.labels import POSITIVE
    from positively.research.bench.runner import DatasetRunner
    from positively.runs.hiding import hide_labels

    settings = TrainConfig(known_ratio=ratio, single_positive=True, accelerator="cpu", devices=1)
    runner = DatasetRunner(read_dataset(place, ReadOptions()), settings, launch(settings))
    table = runner.dataset.train
    left = hide_labels(table, settings).total(POSITIVE) / table.total(POSITIVE)
    assert runner.benchmark_options("upu", settings, {})["label_frequency"] == pytest.approx(left)


def test_a_risk_is_told_the_share_of_positives_that_a_mask_by_class_leaves(place):
    from positively.finetune.runtime import launch
    from positively.labels import POSITIVE
    from positively.research.bench.runner import DatasetRunner
    from positively.runs.hiding import hide_labels

    settings = TrainConfig(known_ratio=0.3, known_ratio_spread=0.8, seed=3, accelerator="cpu", devices=1)
    runner = DatasetRunner(read_dataset(place, ReadOptions()), settings, launch(settings))
    told = runner.benchmark_options("upu", settings, {})["label_frequency"]
    counts = [
        hide_labels(runner.dataset.train, replace(settings, mask_seed=None, seed=3)).total(POSITIVE),
        runner.dataset.train.total(POSITIVE),
    ]
    assert told == pytest.approx(counts[0] / counts[1], abs=0.1) and told != pytest.approx(0.3, abs=1e-3)
