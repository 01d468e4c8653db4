"""A run folder belongs to one process, and what is loaded from it is what was saved."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import positively as po
from conftest import TINY
from positively.errors import ConfigError, FileError, RunError
from positively.finetune.loading import FeatureDataset
from positively.finetune.scoring import score
from positively.labels import LabelTable
from positively.models import create_classifier
from positively.models.saving import load_model, save_model
from positively.runs.folder import RunFolder
from positively.runs.locking import HOLDER, LOCK
from positively.runs.saving import load_model_config
from ranks import on_two_processes
from wording import naming

# The folder


def claim(folder, queue, start, stop):
    os.chdir(folder)
    start.wait()
    opened = RunFolder.open(None, "runs/tags", resume=False)
    queue.put(opened.path.name)
    stop.wait()


def test_processes_that_start_at_once_get_different_folders(tmp_path):
    context = multiprocessing.get_context("fork")
    queue, start, stop = context.Queue(), context.Event(), context.Event()
    processes = [context.Process(target=claim, args=(tmp_path, queue, start, stop)) for _ in range(4)]
    for process in processes:
        process.start()
    start.set()
    names = sorted(queue.get(timeout=30) for _ in processes)
    stop.set()
    for process in processes:
        process.join()
    assert names == ["tags", "tags-2", "tags-3", "tags-4"]


def test_a_folder_in_use_is_refused_and_free_again_when_its_process_died(tmp_path):
    out = tmp_path / "run"
    program = (
        "import sys, time; from positively.runs.folder import FORMAT, RunFolder\n"
        "folder = RunFolder.open(sys.argv[1], 'x', resume=False); folder.write_config({'a': 1})\n"
        "print('open', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(out)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "open\n"
    for resume in (False, True):
        with pytest.raises(RunError, match=naming("in use", process.pid, "out='DIR'")):
            RunFolder.open(str(out), "x", resume)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with RunFolder.open(str(out), "x", resume=True) as folder:
        assert folder.config.exists() and (out / LOCK).exists() and (out / HOLDER).exists()
    assert (out / LOCK).exists() and not (out / HOLDER).exists(), "a lock file that somebody may have opened stays"


def hold_lock_as_an_orphan(out, pid):
    """Take the lock in the name of a process that is dead, for a second: as a killed training's reader would."""
    folder = RunFolder.open(out, "x", resume=True)
    (folder.path / HOLDER).write_text((folder.path / HOLDER).read_text().replace(str(os.getpid()), str(pid)))
    print("open", flush=True)
    time.sleep(1.0)
    os._exit(0)


def test_a_killed_trainings_last_workers_are_waited_for(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    RunFolder(tmp_path).write_config({"a": 1})
    program = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_runs as t\n"
    program += f"t.hold_lock_as_an_orphan({str(tmp_path)!r}, {ended.pid})"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "open\n"
    RunFolder.open(str(tmp_path), "x", resume=True).close()
    process.wait()


def test_a_folder_with_somebody_elses_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    for resume in (False, True):
        with pytest.raises(FileError, match=naming("thesis.tex", "out='DIR'")):
            RunFolder.open(str(tmp_path), "x", resume)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunError, match="file"):
        RunFolder.open(str(tmp_path / "file"), "x", resume=False)


def test_an_empty_folder_or_what_a_kill_left_of_a_start_is_taken(tmp_path):
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / LOCK).touch()
    (tmp_path / HOLDER).write_text("1234 on a machine")
    (tmp_path / ".config.yaml.12ab34cd.tmp").write_text("half")
    with RunFolder.open(str(tmp_path), "x", resume=False) as folder:
        folder.write_config({"a": 1})
    with pytest.raises(RunError, match="resume='auto'"):
        RunFolder.open(str(tmp_path), "x", resume=False)


def test_a_failed_start_leaves_no_folder_behind(tmp_path, monkeypatch, scenes):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="resnet0"):
        po.fit(po.read(scenes / "train.csv", quiet=True), **TINY | {"backbone": "resnet0"})
    assert not list(tmp_path.iterdir())
    (tmp_path / "mine").mkdir()
    RunFolder.open("mine", "x", resume=False).close()
    assert (tmp_path / "mine").is_dir(), "a folder the user made stays"
    with RunFolder.open("deep/er/run", "x", resume=False) as folder:
        (tmp_path / "deep" / "note.txt").touch()
    assert not folder.path.parent.exists() and (tmp_path / "deep").is_dir()


def test_a_run_that_goes_on_is_the_latest_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for expected in ("tags", "tags-2", "tags-3"):
        with RunFolder.open(None, "runs/tags", resume=False) as folder:
            folder.write_config({"a": 1})
        assert folder.path == Path("runs") / expected
    shutil.rmtree(tmp_path / "runs" / "tags-2")
    (tmp_path / "runs" / "tags-old").mkdir()  # not one of ours: no number
    with RunFolder.open(None, "runs/tags", resume=True) as folder:
        assert folder.path == Path("runs/tags-3")
    with RunFolder.open(None, "runs/tags", resume=False) as folder:
        assert folder.path == Path("runs/tags-4"), "a gap is not filled: the latest has the highest number"


# The model

SETTINGS = {
    "method": "pu-mlc",
    "head": "linear",
    "lgconv": False,
    "depth": "finetune",
    "learn_stages": None,
}
CLASSES = ("cat", "dog", "bird")


def test_options_of_the_head_are_written_where_there_are_any(tmp_path):
    folder = RunFolder(tmp_path)
    classifier = create_classifier("positively_tiny", 3, "none", 48, head_options={"pooling": "max"})
    settings = {name: value for name, value in SETTINGS.items() if name != "pooling"}
    save_model(folder, classifier, CLASSES, settings | {"head_options": {"pooling": "max"}})
    folder.write_thresholds(CLASSES, torch.full((3,), 0.5).double().numpy())
    model_config = load_model_config(folder)
    assert model_config["head_options"] == {"pooling": "max"}
    assert load_model(folder, model_config).head.feature_key == classifier.head.feature_key


class Tied(nn.Module):
    """Two layers that share a weight, and two buffers that are parts of one."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=4)
        self.one = nn.Conv2d(8, 8, 3, padding=1)
        self.two = nn.Conv2d(8, 8, 3, padding=1)
        self.two.weight = self.one.weight
        scales = torch.rand(2, 8, 1, 1)
        self.register_buffer("first_scale", scales[0])
        self.register_buffer("second_scale", scales[1])

    def forward(self, images):
        return self.two(self.one(self.stem(images)).relu() * self.first_scale) * self.second_scale


def test_a_backbone_that_shares_weights_is_saved_and_loaded(tmp_path):
    folder = RunFolder(tmp_path)
    classifier = create_classifier(Tied(), 3, "none", 32).eval()
    save_model(folder, classifier, CLASSES, SETTINGS)
    folder.write_thresholds(CLASSES, torch.full((3,), 0.5).double().numpy())
    loaded = load_model(folder, load_model_config(folder), Tied())
    network = loaded.backbone.network
    assert network.one.weight is network.two.weight
    assert classifier.backbone.network.one.weight is classifier.backbone.network.two.weight
    images = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(loaded(images), classifier(images))
    assert all(torch.equal(t, classifier.state_dict()[n]) for n, t in load_file(folder.weights).items())


def test_a_run_with_shared_weights_is_trained_and_used(tmp_path, scenes):
    tags = po.read(scenes / "train.csv", quiet=True)
    run = po.fit(tags, backbone=Tied(), out=str(tmp_path / "run"), epochs=1, image_size=32, depth="finetune")
    again = po.Run(run.path, backbone=Tied())
    assert (again.scores(tags) == run.scores(tags)).all()


# Scores


def seven_features():
    table = LabelTable.from_positives([str(row) for row in range(7)], CLASSES, [[0]] * 7)
    features = torch.rand(7, 5, generator=torch.Generator().manual_seed(0)).numpy()
    network = nn.Linear(5, 3)
    nn.init.constant_(network.weight, 0.5)
    nn.init.zeros_(network.bias)
    return network, FeatureDataset(table, features)


def one_of_two(rank, folder):
    network, features = seven_features()
    seen = []
    network.register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    logits = score(network, features, batch_size=2)
    torch.save((torch.from_numpy(logits), sum(seen)), folder / f"found.{rank}")


def test_two_processes_score_an_odd_number_of_images_as_one_would(tmp_path):
    on_two_processes(one_of_two, tmp_path)
    expected = torch.from_numpy(score(*seven_features()))
    for rank, share in enumerate((4, 3)):
        logits, seen = torch.load(tmp_path / f"found.{rank}", weights_only=True)
        assert torch.equal(logits, expected) and seen == share


def test_somebody_elses_config_yaml_makes_no_run(tmp_path):
    """A folder of another program was taken for a run, and resuming would have overwritten its files."""
    for name in ("config.yaml", "config.json", "README.md"):
        (tmp_path / name).write_text("theirs")
    for resume in (False, True):
        with pytest.raises(FileError, match=r"config\.(yaml|json)|README\.md"):
            RunFolder.open(tmp_path, "tags", resume=resume)
    assert (tmp_path / "config.yaml").read_text() == "theirs"
