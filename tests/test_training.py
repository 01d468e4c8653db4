"""A run that is stopped in any way and resumed is the run that was never stopped."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

import positively as po
import shapes
from conftest import TINY, options
from positively.errors import ConfigError, ImageError, MetricError, RunError, TableError
from positively.finetune.methods import METHODS, create_method
from positively.finetune.runtime import Interruption
from positively.metrics import evaluate
from wording import naming

pytestmark = pytest.mark.usefixtures("bare_runs")

WORDS = options(TINY | {"ema": 0.9, "method_options.gamma": 0.3})


def same_weights(one, other):
    first, second = load_file(one / "model.safetensors"), load_file(other / "model.safetensors")
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def history(folder):
    with (folder / "metrics.csv").open() as file:
        return [{k: v for k, v in row.items() if k != "images_per_second"} for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def tags(scenes):
    return po.read(scenes / "train.csv", quiet=True)


@pytest.fixture(scope="module")
def complete(scenes):
    return po.read(scenes / "train.csv", blank="negative", quiet=True)


@pytest.fixture(scope="module")
def unbroken(scenes, environment, tmp_path_factory):
    out = tmp_path_factory.mktemp("unbroken") / "run"
    words = [sys.executable, "-m", "positively", "train", str(scenes / "train.csv"), *WORDS, "--out", str(out)]
    subprocess.run(words, check=True, env=environment, capture_output=True, timeout=300)
    return out


# A training that dies at a chosen step: the process kills itself, as a power cut would, or is asked to stop.
DYING = """
import os, signal, sys
from positively.finetune.loop import Trainer
from positively.cli import main
plain, when, how = Trainer._learn, int(sys.argv[1]), getattr(signal, sys.argv[2])
def learn(self, batch):
    plain(self, batch)
    if self.epoch * self.steps + self.step == when:
        os.kill(os.getpid(), how)
Trainer._learn = learn
sys.exit(main(sys.argv[3:]))
"""


@pytest.mark.parametrize(("how", "when"), [("SIGKILL", 2), ("SIGKILL", 4), ("SIGINT", 4), ("SIGTERM", 2)])
def test_a_stopped_and_resumed_run_equals_an_unbroken_one_bit_for_bit(
    scenes, positively, environment, unbroken, tmp_path, how, when
):
    # Three steps an epoch: the steps are in the middle of the first and the second epoch.
    out = tmp_path / "run"
    words = ["train", str(scenes / "train.csv"), *WORDS, "--out", str(out)]
    died = subprocess.run(
        [sys.executable, "-c", DYING, str(when), how, *words], env=environment, capture_output=True, text=True
    )
    assert died.returncode == (-signal.SIGKILL if how == "SIGKILL" else 130), died.stderr
    assert not (out / "model.safetensors").exists()
    if how != "SIGKILL":
        assert "--resume auto" in died.stderr
    resumed = positively(*words, "--resume", "auto")
    assert same_weights(out, unbroken)
    assert history(out) == history(unbroken)
    assert (out / "thresholds.json").read_text() == (unbroken / "thresholds.json").read_text()
    if how == "SIGINT":  # a whole checkpoint was left in the middle of the second epoch
        assert "epoch 2, step 2" in resumed.stderr


def test_a_run_folder_holds_everything(unbroken):
    names = {str(path.relative_to(unbroken)) for path in unbroken.rglob("[!.]*") if path.is_file()}
    assert names == {
        "config.yaml",
        "environment.json",
        "metrics.csv",
        "checkpoint/last",
        "model.onnx",
        "model.safetensors",
        "config.json",
        "manifest.json",
        "thresholds.json",
        "images.csv",
        "README.md",
        "report.html",
    }
    settings = yaml.safe_load((unbroken / "config.yaml").read_text())
    assert settings["method_options"] == {"gamma": 0.3} and settings["method"] == "pu-mlc"
    assert None not in (settings["lr"], settings["epochs"], settings["workers"], settings["batch_size"])
    assert len(history(unbroken)) == 2
    assert json.loads((unbroken / "environment.json").read_text())["packages"]["torch"] in torch.__version__


def test_the_written_configuration_repeats_the_run(unbroken, positively, tmp_path):
    positively("train", "--config", unbroken / "config.yaml", "--out", tmp_path / "again")
    assert same_weights(tmp_path / "again", unbroken)


def test_a_folder_with_a_run_is_not_overwritten(unbroken, tags):
    before = (unbroken / "model.safetensors").stat().st_mtime_ns
    with pytest.raises(RunError, match="resume='auto'"):
        po.fit(tags, out=str(unbroken), **TINY)
    with pytest.raises(RunError, match=naming("settings", "seed", "5")):
        po.fit(tags, out=str(unbroken), resume="auto", seed=5, method_options={"gamma": 0.3}, **TINY | {"ema": 0.9})
    assert (unbroken / "model.safetensors").stat().st_mtime_ns == before


def test_the_saved_model_is_the_averaged_one_and_the_raw_weights_stay_in_the_checkpoint(unbroken):
    checkpoint = torch.load(unbroken / "checkpoint" / "last", weights_only=True)
    saved = load_file(unbroken / "model.safetensors")
    name = "head.linear.weight"
    assert torch.equal(saved[name], checkpoint["ema"][name])
    assert not torch.equal(saved[name], checkpoint["trainable"][name])


@pytest.mark.parametrize("method", sorted(name for name in METHODS if "finetune" in METHODS[name].depths))
def test_every_method_trains_and_is_deterministic(method, tags, complete, tmp_path):
    table = complete if create_method(method).needs_negatives else tags
    head_options = shapes.HEAD_OPTIONS.get(METHODS[method].head, {})
    settings = TINY | {"epochs": 1, "method": method, "head_options": head_options}
    first, second = (po.fit(table, out=str(tmp_path / name), **settings) for name in ("a", "b"))
    assert same_weights(first.path, second.path)
    other = po.fit(table, out=str(tmp_path / "c"), **settings, seed=1)
    assert not same_weights(first.path, other.path)
    assert np.isfinite(first.thresholds).all()


def test_a_run_can_be_used(tags, scenes, tmp_path):
    run = po.fit(tags, out=str(tmp_path / "run"), **TINY)
    test = po.read(scenes / "test.csv", blank="negative", quiet=True)
    evaluation = run.evaluate(test)
    assert 0 < evaluation.mean_average_precision < 1 and evaluation.images == 24
    again = po.Run(run.path)
    assert again.evaluate(test) == evaluation
    (best,) = again.predict([test.paths[0]], top=1)
    assert list(best.tags) == [again.classes[int(again.scores(test)[0].argmax())]]
    predicted = again.predict(test.paths)
    chosen = again.scores(test) >= again.thresholds
    assert [sorted(p.tags) for p in predicted] == [sorted(np.array(again.classes)[row]) for row in chosen]


def test_testing_on_training_images_is_refused_even_under_another_name(complete, scenes, unbroken, tmp_path):
    (tmp_path / "copy.png").write_bytes((scenes / "train" / "00003.png").read_bytes())
    (tmp_path / "test.csv").write_text("image,tags\ncopy.png,one\n")
    table = po.read(tmp_path / "test.csv", blank="negative", quiet=True)
    with pytest.raises(TableError, match=naming("copy.png", "train/00003.png")):
        po.Run(unbroken).evaluate(table)


def test_without_its_list_of_images_a_run_is_not_evaluated(unbroken, scenes, tmp_path):
    shutil.copytree(unbroken, tmp_path / "run")
    (tmp_path / "run" / "images.csv").unlink()
    with pytest.raises(RunError, match=r"images\.csv"):
        po.Run(tmp_path / "run").evaluate(po.read(scenes / "test.csv", blank="negative", quiet=True))


def test_a_test_table_without_negatives_is_refused(unbroken, scenes):
    with pytest.raises(MetricError, match=naming("test.csv", "blank='negative'")):
        po.Run(unbroken).evaluate(po.read(scenes / "test.csv", quiet=True))


def test_an_unfinished_or_absent_run_says_so(tmp_path):
    with pytest.raises(RunError, match="none"):
        po.Run(tmp_path / "none").predict(["a.jpg"])
    (tmp_path / "begun" / "checkpoint").mkdir(parents=True)
    (tmp_path / "begun" / "checkpoint" / "last").touch()
    with pytest.raises(RunError, match="resume='auto'"):
        po.Run(tmp_path / "begun").predict(["a.jpg"])


def test_a_broken_image_in_prediction_is_named_or_skipped(unbroken, scenes, tmp_path):
    bad, good = tmp_path / "bad.jpg", scenes / "test" / "00000.png"
    bad.write_bytes(b"")
    with pytest.raises(ImageError, match=naming("bad.jpg", "zero bytes", "skip_broken=True")):
        po.Run(unbroken).predict([good, bad])
    predictions = po.Run(unbroken).predict([bad, good], skip_broken=True)
    assert predictions[0].error == "zero bytes" and predictions[1].error is None


def test_an_image_that_breaks_during_training_is_named_with_its_line(complete, scenes, tmp_path):
    rows = [f"{scenes}/train/{i:05d}.png,one\n" for i in range(8)]
    (tmp_path / "tags.csv").write_text("image,tags\n" + "".join(rows) + "late.png,two\n")
    (tmp_path / "late.png").write_bytes((scenes / "train" / "00009.png").read_bytes())
    table = po.read(tmp_path / "tags.csv", quiet=True)
    (tmp_path / "late.png").write_bytes(b"no longer an image")
    with pytest.raises(ImageError, match=naming("tags.csv line 10", "late.png")):
        po.fit(table, out=str(tmp_path / "run"), **TINY | {"workers": 1})


def test_probe_keeps_features_and_gives_the_weights_of_the_whole_network(tags, scenes, tmp_path):
    # With the backbone frozen, a head on kept features is the head of the whole network.
    weights = tmp_path / "backbone.safetensors"
    from safetensors.torch import save_file

    from positively.models import create_backbone

    torch.manual_seed(0)
    save_file(create_backbone("test_resnet", "none", 32).network.state_dict(), weights)
    settings = TINY | {"weights": str(weights), "depth": "probe", "cache": str(tmp_path / "features")}
    settings |= {"method": "assume-negative", "lr": 0.01}  # mixup of features is not mixup of images
    run = po.fit(tags, out=str(tmp_path / "probe"), **settings)
    segments = sorted((tmp_path / "features").rglob("*.safetensors"))
    assert segments
    again = po.fit(tags, out=str(tmp_path / "again"), **settings)
    assert sorted((tmp_path / "features").rglob("*.safetensors")) == segments  # nothing was computed again
    assert same_weights(run.path, again.path)
    test = po.read(scenes / "test.csv", blank="negative", quiet=True)
    states, classes = test.with_classes(run.classes).states(), run.classes
    assert run.evaluate(test) == evaluate(run.scores(test), states, classes, run.thresholds)
    whole = po.fit(
        tags, out=str(tmp_path / "whole"), **settings | {"depth": "finetune", "learn_stages": 0, "ema": 0.0},
        start="prior", restore_best=True, refit=True,
    )  # fmt: skip
    first, second = load_file(run.path / "model.safetensors"), load_file(whole.path / "model.safetensors")
    for name in first:
        torch.testing.assert_close(first[name], second[name], atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_mixed_precision_trains(tags, tmp_path, dtype):
    if dtype == "float16" and not torch.cuda.is_available():
        pytest.skip("half precision needs a GPU to train; the losses' own test covers float16 autocast")
    run = po.fit(tags, out=str(tmp_path / "run"), dtype=dtype, clip_norm=1.0, **TINY)
    assert all(np.isfinite(float(row["variational"])) for row in history(run.path))


def test_a_run_may_stop_before_its_schedule_ends(tags, tmp_path):
    whole = po.fit(tags, out=str(tmp_path / "whole"), **TINY)
    short = po.fit(tags, out=str(tmp_path / "short"), stop_epoch=1, **TINY)
    assert history(short.path) == history(whole.path)[:1]
    longer = po.fit(tags, out=str(tmp_path / "short"), resume="auto", **TINY)
    assert same_weights(longer.path, whole.path)


@pytest.mark.parametrize("schedule", ["onecycle", "cosine", "constant"])
@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_schedules_and_optimizers_run_to_their_end(tags, tmp_path, schedule, optimizer):
    po.fit(tags, out=str(tmp_path / "run"), schedule=schedule, optimizer=optimizer, **TINY)
    rates = [float(row["lr"]) for row in history(tmp_path / "run")]
    assert rates[-1] == pytest.approx(1e-3) if schedule == "constant" else rates[-1] < 1e-4


def test_a_backbone_from_python_is_used_as_it_is(tags, scenes, tmp_path):
    backbone = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 5, stride=4), torch.nn.ReLU())
    run = po.fit(tags, backbone=backbone, out=str(tmp_path / "run"), epochs=1, image_size=32, depth="finetune")
    assert len(run.predict([scenes / "test" / "00000.png"])) == 1
    other = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 5, stride=4), torch.nn.ReLU())
    test = po.read(scenes / "test.csv", blank="negative", quiet=True)
    assert np.array_equal(po.Run(run.path, backbone=other).scores(test), run.scores(test))


def test_a_split_column_is_obeyed(scenes, tmp_path):
    lines = (scenes / "train.csv").read_text().splitlines()[1:]
    parts = ["train"] * 20 + ["val"] * 8 + ["test"] * 4
    rows = [f"{scenes}/{line},{part}\n" for line, part in zip(lines, parts, strict=True)]
    (tmp_path / "tags.csv").write_text("image,tags,split\n" + "".join(rows))
    run = po.fit(po.read(tmp_path / "tags.csv", quiet=True), out=str(tmp_path / "run"), **TINY)
    with (run.path / "images.csv").open() as file:
        seen = {row["image"]: row["part"] for row in csv.DictReader(file)}
    assert sorted(seen.values()) == ["holdout"] * 8 + ["train"] * 20
    run.evaluate(po.read(tmp_path / "tags.csv", blank="negative", split="test", quiet=True))


def test_mistakes_are_sentences(tags, tmp_path):
    with pytest.raises(ConfigError, match=naming("'pumlc'", "closed-form", "distill", "'pu-mlc'")):
        po.fit(tags, **TINY | {"method": "pumlc"})
    with pytest.raises(ConfigError, match=naming("'pu-mlc'", "'gama'")):
        po.fit(tags, method_options={"gama": 1}, **TINY)
    with pytest.raises(ConfigError, match="'epoch'"):
        po.fit(tags, epoch=3)
    with pytest.raises(ConfigError, match=naming("negative", "train.csv")):
        po.fit(tags, out=str(tmp_path / "a"), **TINY | {"method": "bce"})
    with pytest.raises(ConfigError, match="weights='none'"):
        po.fit(tags, out=str(tmp_path / "b"), **TINY | {"depth": "probe"})
    with pytest.raises(RunError, match="/proc/none"):
        po.fit(tags, out="/proc/none/run", **TINY)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("stop_epoch", 0),
        ("batch_size", 1),
        ("lr", -1.0),
        ("lr", 0.0),
        ("known_ratio", 0.0),
        ("known_ratio", 2.0),
        ("holdout", 1.0),
        ("warmup", 1.0),
        ("ema", 1.0),
        ("seed", -1),
        ("workers", -1),
        ("image_size", 0),
        ("learn_stages", -1),
    ],
)
def test_a_number_that_cannot_work_is_a_sentence(name, value, tags, tmp_path):
    with pytest.raises(ConfigError, match=naming(name, value)):
        po.fit(tags, out=str(tmp_path / "run"), **TINY | {name: value})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("epochs", range(1, 8))
def test_a_schedule_may_be_as_short_as_a_step(epochs, tags, tmp_path):
    po.fit(tags.select(range(8)), out=str(tmp_path / "run"), **TINY | {"epochs": epochs})
    assert len(history(tmp_path / "run")) == epochs


def test_a_run_is_not_resumed_with_another_table(unbroken, tags):
    settings = TINY | {"ema": 0.9, "method_options": {"gamma": 0.3}}
    with pytest.raises(RunError, match=naming("settings", "29 images")):
        po.fit(tags.select(range(1, 32)), out=str(unbroken), resume="auto", **settings)


@pytest.mark.parametrize("name", ["config.json", "thresholds.json", "model.safetensors", "checkpoint/last"])
def test_a_damaged_file_of_a_run_is_named(name, unbroken, scenes, tags, tmp_path):
    shutil.copytree(unbroken, tmp_path / "run")
    (tmp_path / "run" / name).write_text("{damaged")
    with pytest.raises(RunError, match=name):
        po.Run(tmp_path / "run", runtime="torch").predict([scenes / "test" / "00000.png"])
        po.fit(tags, out=str(tmp_path / "run"), resume="auto", **TINY | {"ema": 0.9, "method_options": {"gamma": 0.3}})


def test_a_damaged_network_is_refused_and_written_again_by_a_resumed_training(unbroken, scenes, positively, tmp_path):
    shutil.copytree(unbroken, tmp_path / "run")
    network = tmp_path / "run" / "model.onnx"
    network.write_bytes(network.read_bytes()[:-1] + b"?")
    photo = scenes / "test" / "00000.png"
    with pytest.raises(RunError, match=r"model\.onnx"):
        po.Run(tmp_path / "run").predict(photo)
    positively("train", scenes / "train.csv", *WORDS, "--out", tmp_path / "run", "--resume", "auto")
    assert po.Run(tmp_path / "run").predict(photo)[0].tags == po.Run(unbroken).predict(photo)[0].tags


def test_a_loss_that_is_no_number_stops_with_advice(tags, tmp_path):
    with pytest.raises(RunError, match=r"\blr\b"):
        po.fit(tags, out=str(tmp_path / "run"), **TINY | {"lr": 1e30, "epochs": 3})


def test_progress_is_plain_lines_without_a_terminal(scenes, positively, tmp_path):
    errors = positively("train", scenes / "train.csv", *options(TINY), "--out", tmp_path / "run").stderr
    assert "epoch 2/2" in errors and "\x1b" not in errors


def test_time_between_checkpoints_is_kept(tags, tmp_path, monkeypatch):
    from positively.finetune.checkpoints import CheckpointFolder

    saves = []

    def note(self, state):
        saves.append((state["epoch"], state["step"]))

    monkeypatch.setattr(CheckpointFolder, "save_checkpoint", note)
    po.fit(tags, out=str(tmp_path / "run"), checkpoint_minutes=0.0, **TINY)
    assert saves == [(0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0)]


def test_ctrl_c_in_a_real_terminal_session_leaves_a_checkpoint(scenes, environment, tmp_path):
    out = tmp_path / "run"
    settings = options(TINY | {"epochs": 5000})
    words = [sys.executable, "-m", "positively", "train", str(scenes / "train.csv"), *settings, "--out", str(out)]
    process = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for _ in range(3000):
        if (out / "metrics.csv").exists():
            break
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130 and "epoch" in errors and "Traceback" not in errors
    assert (out / "checkpoint" / "last").exists()


def test_the_second_ctrl_c_stops_at_once():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # of a job in the background it is another
    try:
        with pytest.raises(KeyboardInterrupt), Interruption() as interruption:
            signal.raise_signal(signal.SIGINT)
            assert interruption.asked
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_run_folder_under_two_trainings_refuses_one(scenes, environment, tmp_path):
    """Two trainings in one folder overwrote each other's checkpoints."""
    out = tmp_path / "run"
    settings = options(TINY | {"epochs": 5000})
    words = [sys.executable, "-m", "positively", "train", str(scenes / "train.csv"), *settings, "--out", str(out)]
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    first = subprocess.Popen(words, env=environment, **pipes)
    try:
        for _ in range(3000):
            if (out / "metrics.csv").exists():
                break
            time.sleep(0.1)
        second = subprocess.run([*words, "--resume", "auto"], env=environment, **pipes)
        assert second.returncode == 2 and "in use" in second.stderr
    finally:
        os.kill(first.pid, signal.SIGINT)
        first.communicate(timeout=300)
    assert first.returncode == 130


def test_a_failed_start_leaves_no_folder_behind(tags, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=naming("5 stages", "99")):
        po.fit(tags, **TINY, learn_stages=99)
    assert not (tmp_path / "runs").exists()
