"""A run goes to the Hugging Face hub and comes back, and nothing that tells of the photos goes along."""

import errno
import json
import shutil
from unittest.mock import create_autospec

import huggingface_hub
import pytest
import timm
import torch
from safetensors.torch import save_file

import positively as po
from positively.cli import main
from positively.errors import FileError, RunError
from positively.registry import TORCH


@pytest.fixture(scope="module")
def run(place, tables):
    """A run of the closed form on a network that timm knows too."""
    torch.manual_seed(0)
    weights = place / "hub.safetensors"
    save_file(timm.create_model("test_resnet", num_classes=0).state_dict(), weights)
    options = {
        "backbone": "test_resnet",
        "weights": str(weights),
        "image_size": 32,
        "cache": str(place / "features"),
    }
    run = po.fit(tables[0].positives_only(), out=str(place / "hub-run"), quiet=True, **options)
    TORCH["transformers"](run)
    return run


@pytest.fixture(scope="module")
def pushed(run, tmp_path_factory):
    """What a dry run writes."""
    folder = tmp_path_factory.mktemp("hub") / "pushed"
    assert run.push_to_hub("me/tagger", dry_run=folder) == str(folder)
    return folder


def test_a_dry_run_writes_what_transformers_timm_and_we_open(run, pushed, tables):
    path = tables[1].paths[0]
    assert po.Run.from_pretrained(pushed).predict(path)[0].tags == run.predict(path)[0].tags
    linear = po.Run.from_pretrained(pushed, head="linear").scores(tables[1])[:1]
    from transformers import pipeline

    found = {one["label"]: one["score"] for one in pipeline("image-classification", model=str(pushed))(str(path))}
    assert [found[name] for name in run.classes] == pytest.approx(linear[0].tolist(), abs=1e-5)
    assert timm.create_model(f"local-dir:{pushed}", pretrained=True).num_classes == len(run.classes)
    card = (pushed / "README.md").read_text()
    assert 'po.Run.from_pretrained("me/tagger")' in card and 'timm.create_model("hf-hub:me/tagger"' in card
    assert huggingface_hub.ModelCard(card).data.library_name == "transformers"


def test_nothing_tells_of_the_photos(run, pushed, tables):
    files = sorted(path.relative_to(pushed).as_posix() for path in pushed.rglob("*") if path.is_file())
    assert files == [
        "README.md",
        "config.json",
        "model.safetensors",
        *(f"positively/{name}" for name in ("calibration.safetensors", "config.json", "manifest.json", "model.onnx")),
        *(f"positively/{name}" for name in ("probe.safetensors", "thresholds.json")),
    ]
    for name in files:
        content = (pushed / name).read_bytes()
        assert tables[0].images[0].encode() not in content and str(tables[0].root).encode() not in content, name


def test_it_comes_back_from_the_hubs_cache(run, pushed, tables, tmp_path, monkeypatch):
    cached = tmp_path / "models--me--tagger"
    shutil.copytree(pushed, cached / "snapshots" / "abc123")
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("abc123")
    again = po.Run.from_pretrained("me/tagger", cache_dir=tmp_path, local_files_only=True, min_precision=0.9)
    assert again.min_precision == 0.9 and again.classes == run.classes
    with pytest.raises(RunError, match="'me/other'"):
        po.Run.from_pretrained("me/other", cache_dir=tmp_path, local_files_only=True)


def test_a_run_from_the_hub_can_be_evaluated_and_says_what_it_cannot_know(run, pushed, tables, caplog):
    again = po.Run.from_pretrained(pushed)
    assert again.evaluate(tables[1]).mean_average_precision == run.evaluate(tables[1]).mean_average_precision
    assert "images" in caplog.text


def test_a_run_folder_is_taken_as_it_is(run, tmp_path):
    assert po.Run.from_pretrained(run.path).path == run.path
    with pytest.raises(RunError, match="run"):
        po.Run.from_pretrained(tmp_path)


def test_pushing_makes_the_repository_and_sends_the_folder(run, monkeypatch):
    sent = {}

    def upload(*, folder_path, **options):
        sent["files"] = {path.name for path in folder_path.rglob("*") if path.is_file()}
        sent["config"] = json.loads((folder_path / "positively" / "config.json").read_text())
        return "https://hub/me/tagger/commit/1"

    client = create_autospec(huggingface_hub.HfApi, instance=True)  # refuses what the real one would not take
    client.create_repo.return_value.repo_id = "me/tagger"
    client.upload_folder.side_effect = upload
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda **options: client)
    assert run.push_to_hub("tagger", private=True, branch="v2") == "https://hub/me/tagger/commit/1"
    client.create_repo.assert_called_once_with("tagger", private=True, exist_ok=True)
    client.create_branch.assert_called_once_with("me/tagger", branch="v2", exist_ok=True)
    assert client.upload_folder.call_args.kwargs["revision"] == "v2"
    assert sent["config"]["classes"] == run.classes and "images.csv" not in sent["files"]


def test_a_push_that_fails_says_why_and_what_can_be_done(run, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(RunError, match="'me/tagger'"):
        run.push_to_hub("me/tagger")


def test_the_command_writes_or_pushes(run, tmp_path, capsys):
    words = ["export", str(run.path), "--format", "hub"]
    assert main([*words, "--out", str(tmp_path / "hub")]) == 0
    assert "pushed" in capsys.readouterr().out and (tmp_path / "hub" / "positively").is_dir()
    assert main(words) == 2 and "--push-to me/tagger" in capsys.readouterr().err
    assert main([*words[:2], "--push-to", "me/tagger"]) == 2 and "--format hub" in capsys.readouterr().err


def test_a_dry_run_leaves_what_is_there(run, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileError, match="new folder"):
        run.push_to_hub("me/tagger", dry_run=tmp_path)
    with pytest.raises(po.errors.ConfigError, match="folder"):
        run.push_to_hub("me/tagger", dry_run=True)


def test_a_full_disk_leaves_no_half_folder(run, tmp_path, monkeypatch):
    def full(source, target):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(FileError, match="No space left"):
        run.push_to_hub("me/tagger", dry_run=tmp_path / "hub")
    assert not (tmp_path / "hub").exists()
