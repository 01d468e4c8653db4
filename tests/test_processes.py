"""Two processes with half the batch each are one process with the whole."""

import csv
import subprocess
import sys

import pytest
import timm
import torch
import torch.distributed as dist
from safetensors.torch import load_file

from conftest import TINY, options
from positively import losses
from positively.finetune.runtime import synchronize_batchnorm
from positively.losses import LOSSES
from ranks import on_two_processes

ROWS, INPUTS, CLASSES = 7, 5, 3


def linear_problem():
    generator = torch.Generator().manual_seed(3)
    weights = torch.randn(INPUTS, CLASSES, generator=generator, dtype=torch.float64)
    inputs = torch.randn(ROWS, INPUTS, generator=generator, dtype=torch.float64)
    states = torch.randint(-1, 2, (ROWS, CLASSES), generator=generator)
    states[:, 2] = torch.tensor([0, 0, 0, 0, 0, 0, 1])  # a class whose only positive is on the last process
    return weights, inputs, states


def loss_and_gradient(name, rows, **chosen):
    weights, inputs, states = linear_problem()
    weights.requires_grad_()
    if name == "consistency":
        targets = losses.mixup_targets(inputs[rows] @ weights, states[rows])
        half = len(targets) // 2
        value = losses.mixup_consistency(
            (inputs[rows] @ weights)[:half] ** 2, targets[0 : 2 * half : 2], targets[1 : 2 * half : 2], 0.3, **chosen
        )
    else:
        value = LOSSES[name](**chosen)(inputs[rows] @ weights, states[rows])
    value.backward()
    return value.detach(), weights.grad


def one_of_two(rank, folder):
    found = {}
    for name in [*LOSSES, "consistency"]:
        rows = slice(0, 4) if rank == 0 else slice(4, ROWS)
        value, gradient = loss_and_gradient(name, rows)
        dist.all_reduce(gradient)  # what DistributedDataParallel does: the mean of the processes' gradients
        found[name] = (value, gradient / 2)
        found[name, "local"] = (loss_and_gradient(name, rows, statistics="local")[0], None)
    torch.save(found, folder / f"found.{rank}")


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    on_two_processes(one_of_two, folder)
    return [torch.load(folder / f"found.{rank}", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("name", LOSSES)
def test_loss_and_gradient_of_two_uneven_processes_are_those_of_one(two_processes, name):
    value, gradient = loss_and_gradient(name, slice(None))
    for found in two_processes:
        torch.testing.assert_close(found[name][0], value, atol=1e-12, rtol=0)
        torch.testing.assert_close(found[name][1], gradient, atol=1e-12, rtol=0)


def test_local_statistics_are_each_process_own(two_processes):
    for rank, rows in enumerate((slice(0, 4), slice(4, ROWS))):
        value, _ = loss_and_gradient("pu-mlc", rows)
        torch.testing.assert_close(two_processes[rank]["pu-mlc", "local"][0], value)
    assert two_processes[0]["pu-mlc", "local"][0] != two_processes[1]["pu-mlc", "local"][0]


def test_consistency_of_two_processes_is_the_mean_over_all_pairs(two_processes):
    parts = [loss_and_gradient("consistency", rows)[0] for rows in (slice(0, 4), slice(4, ROWS))]
    for found in two_processes:  # two pairs on the first, one on the second
        torch.testing.assert_close(found["consistency"][0], (2 * parts[0] + parts[1]) / 3)


def read_run(folder):
    with (folder / "metrics.csv").open() as file:
        rows = [{k: float(v) for k, v in row.items() if k != "images_per_second"} for row in csv.DictReader(file)]
    return rows, load_file(folder / "model.safetensors"), (folder / "thresholds.json").read_text()


def test_training_on_two_processes_equals_training_on_one(scenes, positively, environment, tmp_path):
    # Three steps of PU-MLC with mixup, in double precision; 7 images held out, an odd number to share for scoring.
    settings = TINY | {"epochs": 1, "dtype": "float64", "freeze_batchnorm": "true", "holdout": 0.2, "lr": 0.001}
    words = ["train", scenes / "train.csv", *options(settings)]
    positively(*words, "--out", tmp_path / "one")
    positively(*words, "--out", tmp_path / "two", "--devices", 2)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    torchrun = [*launcher, "-m", "positively", *map(str, words), "--out", str(tmp_path / "torchrun")]
    subprocess.run(torchrun, check=True, env=environment, capture_output=True, timeout=300)

    rows, weights, _ = read_run(tmp_path / "one")
    assert set(rows[0]) >= {"variational", "consistency", "holdout_pu"}
    for other in ("two", "torchrun"):
        other_rows, other_weights, _ = read_run(tmp_path / other)
        assert other_rows[0] == pytest.approx(rows[0], abs=1e-8)
        for name, tensor in weights.items():
            torch.testing.assert_close(other_weights[name], tensor, atol=1e-8, rtol=0)
    biases = weights["head.linear.bias"].abs()
    assert biases.max() > 1e-4  # steps were taken: the biases start at zero


def test_a_probe_is_fitted_by_one_process_while_the_others_wait(place, tables, environment, positively, tmp_path):
    names = ["image", "tags"]
    rows = [
        (image, ";".join(tables[0].classes[c] for c in (row == 1).nonzero()[0]))
        for image, row in zip(tables[0].images, tables[0].states(), strict=True)
    ]
    with (tmp_path / "tags.csv").open("w", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    settings = {"backbone": "positively_tiny", "weights": place / "tiny.safetensors", "image_size": 24}
    words = ["train", tmp_path / "tags.csv", "--images", place, "--method", "closed-form", *options(settings)]
    alone = positively(*words, "--out", tmp_path / "one")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    torchrun = [*launcher, "-m", "positively", *map(str, words), "--out", str(tmp_path / "two")]
    done = subprocess.run(torchrun, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(str(tmp_path / "two")) == alone.stderr.count(str(tmp_path / "one")) > 0
    one, two = (load_file(tmp_path / name / "probe.safetensors") for name in ("one", "two"))
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor)


def test_two_processes_whose_clocks_differ_save_together_and_do_not_hang(scenes, positively, tmp_path):
    """Each looked at its own clock, and saving waits for the other: they hung."""
    plugin = tmp_path / "clock.py"
    plugin.write_text(
        "import os, itertools\n"
        "import positively.finetune.loop as trainer\n"
        "rank, ticks = os.environ.get('LOCAL_RANK', '0'), itertools.count()\n"
        "step = {'0': 60.0, '1': 7.0}[rank]\n"  # a minute passes between two looks of the first, seconds of the second
        "trainer.clock = lambda: step * next(ticks)\n"
    )
    settings = TINY | {"freeze_batchnorm": "true", "checkpoint_minutes": 1.5, "epochs": 3}
    words = ["train", scenes / "train.csv", *options(settings), "--devices", 2, "--plugin", plugin]
    positively(*words, "--out", tmp_path / "run")
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_live_batchnorm_on_several_cpu_processes_is_refused_with_the_fix(scenes, positively, tmp_path):
    """Each process kept statistics of its own, and the saved ones were those of the first."""
    words = ["train", scenes / "train.csv", *options(TINY), "--devices", 2, "--out", tmp_path / "run"]
    done = positively(*words, check=False)
    assert done.returncode == 2
    assert "--freeze-batchnorm" in done.stderr
    assert not (tmp_path / "run").exists()


def test_live_batchnorm_is_synchronised_on_gpus():
    network = timm.create_model("test_resnet")
    synchronize_batchnorm(network, torch.device("cuda"))  # converts; it needs no GPU to do so
    norms = [module for module in network.modules() if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)]
    assert norms and all(isinstance(module, torch.nn.SyncBatchNorm) for module in norms)
    frozen = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1))
    synchronize_batchnorm(frozen, torch.device("cpu"))  # nothing to share, nothing to refuse


def test_an_image_that_the_second_process_cannot_read_is_told_by_the_first(scenes, positively, tmp_path):
    """The sentence was lost: the first process died of a broken connection."""
    rows = [f"{scenes}/train/{i:05d}.png,one\n" for i in range(24)]
    (tmp_path / "late.png").write_bytes(b"no image")
    (tmp_path / "tags.csv").write_text("image,tags\n" + "".join(rows) + "late.png,two\n")
    settings = TINY | {"freeze_batchnorm": "true", "holdout": 0, "batch_size": 24, "epochs": 50}
    words = ["train", tmp_path / "tags.csv", *options(settings), "--verify", "false", "--devices", 2]
    done = positively(*words, "--out", tmp_path / "run", check=False)
    assert done.returncode == 2 and "tags.csv line 26: " in done.stderr and "Traceback" not in done.stderr


def test_a_table_that_cannot_be_read_is_a_sentence_on_two_processes(scenes, positively, tmp_path):
    (tmp_path / "classes.txt").write_text("one\ntwo\n")
    words = ["train", scenes / "train.csv", *options(TINY), "--classes", tmp_path / "classes.txt", "--devices", 2]
    done = positively(*words, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr and "--unknown-tags" in done.stderr
