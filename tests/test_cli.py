"""The command line as a person types it: good input, bad input, and what it leaves behind."""

import csv
import json

import pytest
import yaml

from conftest import TINY, options
from positively.cli import VERBS, main
from wording import assert_names

WORDS = options(TINY)


@pytest.fixture(scope="module")
def run(scenes, tmp_path_factory):
    out = tmp_path_factory.mktemp("cli") / "run"
    assert main(["train", str(scenes / "train.csv"), *WORDS, "--out", str(out)]) == 0
    return out


def test_every_verb_has_help(positively):
    for words in ([], *([verb] for verb in VERBS)):
        assert "usage: positively" in positively(*words, "--help").stdout


def test_training_says_what_it_understood_and_what_it_chose(scenes, tmp_path, capsys):
    assert main(["train", str(scenes / "train.csv"), *WORDS, "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().err
    assert_names(printed, "32 images", "10 classes", "unknown", tmp_path / "run")


def test_configuration_comes_from_yaml_and_words_override_it(scenes, tmp_path, capsys):
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump({**TINY, "epochs": 7, "method_options": {"gamma": 0.1}}))
    words = ["train", str(scenes / "train.csv"), "--config", str(tmp_path / "recipe.yaml"), "--epochs", "3"]
    with pytest.raises(SystemExit) as stopped:
        main([*words, "--method-options.alpha", "2", "--skip-broken", "--print-config"])
    assert stopped.value.code == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["epochs"] == 3 and printed["batch_size"] == 8
    assert printed["method_options"] == {"gamma": 0.1, "alpha": 2} and printed["skip_broken"] is True


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["trian"], ["'trian'"]),
        (["train"], ["table"]),
        (["train", "none.csv"], ["none.csv"]),
        (["train", "TABLE", "--epoch", "3"], ["--epoch", "--epochs?"]),
        (["train", "TABLE", "--skip-brokn"], ["--skip-broken?"]),
        (["train", "TABLE", "--zero", "maybe"], ["--zero", "'unknown'", "'negative'", "'maybe'"]),
        (["train", "TABLE", "--epochs", "many"], ["--epochs", "whole number", "'many'"]),
        (["train", "TABLE", "--config", "none.yaml"], ["none.yaml"]),
        (["train", "TABLE", "--devices", "0"], ["--devices", "'auto'", "0"]),
        (["train", "TABLE", "--backbone", "resnet5o", "--weights", "none", "--depth", "finetune"], ["resnet50"]),
        (["train", "TABLE", "--images", "none"], ["none"]),
        (["train", "TABLE", *WORDS, "--method", "bce"], ["--blank negative"]),
        (["evaluate", "none", "TABLE"], ["run folder", "none"]),
        (["predict", "none", "a.jpg"], ["run folder", "none"]),
        (["check", "--method", "pumlc"], ["'pumlc'", "pu-mlc"]),
    ],
)
def test_mistakes_are_one_sentence_and_exit_2(words, facts, scenes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([str(scenes / "train.csv") if word == "TABLE" else word for word in words]) == 2
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    assert_names(shown.strip().splitlines()[-1], *facts)


def test_weights_that_cannot_be_fetched_name_the_ways_out(scenes, positively, tmp_path):
    said = ("train", scenes / "train.csv", "--out", tmp_path / "run", "--backbone", "resnet18")
    failed = positively(*said, check=False)
    assert failed.returncode == 2 and "Traceback" not in failed.stderr
    for way in ("--weights FILE", "HF_HOME", "--weights none"):
        assert way in failed.stderr


def test_debug_shows_the_traceback(tmp_path):
    from positively.errors import PositivelyError

    with pytest.raises(PositivelyError):
        main(["train", str(tmp_path / "none.csv"), "--debug"])


def test_evaluation_is_printed_and_kept(run, scenes, capsys):
    assert main(["evaluate", str(run), str(scenes / "test.csv"), "--blank", "negative"]) == 0
    assert "mAP" in capsys.readouterr().out
    kept = json.loads((run / "evaluation.json").read_text())
    assert kept["images"] == 24 and 0 < kept["mean_average_precision"] < 1


def test_evaluation_of_a_bare_tag_list_is_refused_with_the_fix(run, scenes, capsys):
    assert main(["evaluate", str(run), str(scenes / "test.csv")]) == 2
    assert_names(capsys.readouterr().err, "test.csv", "--blank negative")


def test_evaluation_of_a_tag_the_run_does_not_know_names_the_line(run, scenes, tmp_path, capsys):
    (tmp_path / "test.csv").write_text(f"image,tags\n{scenes}/test/00000.png,one;thre\n")
    assert main(["evaluate", str(run), str(tmp_path / "test.csv"), "--blank", "negative"]) == 2
    shown = capsys.readouterr().err
    assert "line 2" in shown and "'thre'" in shown and "three" in shown


def test_evaluation_on_training_images_is_refused(run, scenes, capsys):
    assert main(["evaluate", str(run), str(scenes / "train.csv"), "--blank", "negative"]) == 2
    assert "content" in capsys.readouterr().err


def test_prediction_prints_or_writes_tags(run, scenes, tmp_path, capsys):
    folder = str(scenes / "test")
    assert main(["predict", str(run), folder, "--top", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 24 and all(line.count(",") == 1 for line in lines)
    for name in ("tags.csv", "tags.jsonl"):
        assert main(["predict", str(run), folder, "--top", "2", "--out", str(tmp_path / name)]) == 0
    with (tmp_path / "tags.csv").open() as file:
        rows = list(csv.DictReader(file))
    records = [json.loads(line) for line in (tmp_path / "tags.jsonl").read_text().splitlines()]
    assert [row["tags"].split(";") for row in rows] == [list(record["tags"]) for record in records]
    assert main(["predict", str(run), folder, "--out", str(tmp_path / "tags.xlsx")]) == 2
    assert not (tmp_path / "tags.xlsx").exists()


def test_what_predict_writes_can_be_trained_on(run, scenes, tmp_path):
    main(["predict", str(run), str(scenes / "test"), "--top", "2", "--out", str(tmp_path / "tags.csv")])
    words = ["train", str(tmp_path / "tags.csv"), *options(TINY | {"epochs": 1}), "--out", str(tmp_path / "run")]
    assert main(words) == 0


def test_check_looks_without_training(scenes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["check"]) == 0
    assert "torch" in capsys.readouterr().out
    assert main(["check", str(scenes / "train.csv"), "--test", str(scenes / "test.csv")]) == 0
    assert f"--test {scenes / 'test.csv'}" in capsys.readouterr().out
    assert main(["check", str(scenes / "train.csv"), "--test", str(scenes / "train.csv")]) == 2
    assert "32 images" in capsys.readouterr().err
    assert main(["check", "--method", "pu-mlc"]) == 0
    assert "gamma" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_the_default_run_folder_is_numbered(scenes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert main(["train", str(scenes / "train.csv"), *options(TINY | {"epochs": 1})]) == 0
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["train-pu-mlc", "train-pu-mlc-2"]
