"""A checkpoint is written whole or not at all."""

from types import SimpleNamespace

import pytest
import torch

from positively.files import write_with
from positively.finetune.checkpoints import CheckpointFolder
from small_disk import in_a_child_with_a_small_disk


def write_by_torch(path):
    write_with(path, lambda temporary: torch.save({"a": torch.zeros(100_000)}, temporary))


def write_as_a_run_does(path):
    folder = SimpleNamespace(path=path.parent, checkpoint=path)
    CheckpointFolder(folder).save_checkpoint({"a": torch.zeros(100_000)})


@pytest.mark.parametrize("write", [write_by_torch, write_as_a_run_does])
def test_a_full_disk_is_a_sentence_and_leaves_the_old_file(write, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"the old one")
    message = in_a_child_with_a_small_disk(write, path)
    assert message.startswith(f"{path} cannot be written: ") and "space" in message
    assert path.read_bytes() == b"the old one" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [write_by_torch, write_as_a_run_does])
def test_a_full_disk_leaves_nothing_where_nothing_was(write, tmp_path):
    path = tmp_path / "file"
    message = in_a_child_with_a_small_disk(write, path)
    assert message.startswith(f"{path} cannot be written: ") and "space" in message
    assert not list(tmp_path.iterdir())
