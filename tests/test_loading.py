"""Batches: every image has its turn, on any number of processes, whatever the size of the batch."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor

from positively.errors import ConfigError, ImageError, in_shell
from positively.finetune.loading import Batch, ImageDataset, SequentialBatchSampler, TrainBatchSampler, make_loader
from positively.images.transforms import ImageTransform
from positively.randomness import random_stream
from positively.tables.reading import read_labels
from wording import naming


def one_epoch(rows, batch_size, world, epoch=4):
    """Batches of an epoch, process by process."""
    samplers = [TrainBatchSampler(rows, batch_size, 1, rank, world) for rank in range(world)]
    for sampler in samplers:
        sampler.epoch = epoch
    return [list(sampler) for sampler in samplers]


@pytest.mark.parametrize("batch_size", [12, 13, 14, 45])
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_the_batches_of_all_processes_together_are_those_of_one(world, batch_size):
    (alone,) = one_epoch(50, batch_size, 1)
    assert all(len(batch) == batch_size for batch in alone)
    for whole, *pieces in zip(alone, *one_epoch(50, batch_size, world), strict=True):
        assert [key for piece in pieces for key in piece] == whole
        assert all(len(piece) % 2 == 0 for piece in pieces[:-1]), "a pair of mixup was torn"
        assert max(map(len, pieces)) - min(map(len, pieces)) <= 3


@pytest.mark.parametrize(("batch_size", "world"), [(70, 4), (70, 2), (45, 1), (45, 2)])
def test_a_batch_that_does_not_divide_is_trained_whole(batch_size, world):
    pieces = one_epoch(200, batch_size, world)
    assert TrainBatchSampler(200, batch_size, 1, 0, world).batch_size == batch_size
    assert [sum(map(len, step)) for step in zip(*pieces, strict=True)] == [batch_size] * (200 // batch_size)


def test_a_batch_too_small_for_the_processes_is_refused_with_the_fix():
    with pytest.raises(ConfigError, match=naming("3", "batch_size=6")) as refused:
        TrainBatchSampler(50, 5, 0, 0, 3)
    assert "--batch-size 6" in in_shell(refused.value.message)
    assert TrainBatchSampler(50, 6, 0, 0, 3).batch_size == 6


@pytest.mark.parametrize(("rows", "world"), [(1, 1), (2, 2), (3, 2), (5, 4)])
def test_a_table_smaller_than_a_batch_still_fills_every_process(rows, world):
    for rank in range(world):
        (batch,) = list(TrainBatchSampler(rows, 64, 0, rank, world))
        assert len(batch) >= 2


def test_a_table_smaller_than_a_batch_is_one_batch():
    (batch,) = list(TrainBatchSampler(45, 64, 0))
    assert sorted(row for _, row in batch) == list(range(45))


def test_the_order_of_an_epoch_is_a_stream_of_its_own():
    """Numpy pads a key with zeros: order and the augmentation of row 0 were one stream."""
    sampler = TrainBatchSampler(8, 4, seed=3)
    sampler.epoch = 2
    assert random_stream("order", 3, 2).random() != random_stream("augment", 3, 2, 0).random()
    expected = random_stream("order", 3, 2).permutation(8)
    assert [row for batch in sampler for _, row in batch] == expected.tolist()


@pytest.mark.parametrize("world", [1, 2, 3])
def test_scoring_meets_every_row_once(world):
    met = [row for rank in range(world) for batch in SequentialBatchSampler(11, 4, rank, world) for _, row in batch]
    assert sorted(met) == list(range(11))


SPAWNED = """
import multiprocessing, sys
from positively.finetune.loading import ImageDataset, SequentialBatchSampler, make_loader
from positively.tables.reading import read_labels
from positively.images.transforms import ImageTransform

if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[2])
    table, _ = read_labels(sys.argv[1])
    samples = ImageDataset(table, ImageTransform(16))
    batches = list(make_loader(samples, SequentialBatchSampler(len(table), 20), workers=1))
    print([tuple(batch.inputs.shape) for batch in batches])
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_that_do_not_fork_read_images_too(scenes, environment, tmp_path, method):
    (tmp_path / "script.py").write_text(SPAWNED)
    words = [sys.executable, str(tmp_path / "script.py"), str(scenes / "train.csv"), method]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[(20, 3, 16, 16), (12, 3, 16, 16)]"


def test_a_batch_is_pinned_and_moved_as_a_whole(monkeypatch):
    batch = Batch(torch.zeros(2, 3), torch.ones(2, 4), torch.arange(2))
    pinned = []
    monkeypatch.setattr(Tensor, "pin_memory", lambda part: pinned.append(part.shape) or part + 1)
    after = torch.utils.data._utils.pin_memory.pin_memory(batch)  # what the loader does
    assert isinstance(after, Batch) and pinned == [(2, 3), (2, 4), (2,)]
    assert after.rows.tolist() == [1, 2]
    moved = batch.to("meta", non_blocking=True)
    assert {part.device.type for part in (moved.inputs, moved.states, moved.rows)} == {"meta"}


def test_an_image_that_broke_after_it_was_read_is_named_with_its_line(tmp_path, scenes):
    for name in "ab":
        (tmp_path / f"{name}.png").write_bytes((scenes / "train" / "00000.png").read_bytes())
    (tmp_path / "tags.csv").write_text("image,tags\na.png,cat\nb.png,cat\n")
    table, _ = read_labels(tmp_path / "tags.csv")
    (tmp_path / "b.png").write_bytes(b"")
    samples = ImageDataset(table, ImageTransform(16))
    with pytest.raises(ImageError, match=naming("tags.csv line 3", "b.png", "zero bytes")):
        list(make_loader(samples, SequentialBatchSampler(2, 2)))
