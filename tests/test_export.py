"""A run opens in other people's programs, and gives there what it gives here."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file
from timm.layers.conv2d_same import Conv2dSame
from torch import nn

import positively as po
import shapes
from positively.cli import main
from positively.data.transforms import ImageTransform
from positively.errors import ConfigError, FileError, RunError
from positively.export import export_onnx, export_transformers
from positively.export import onnx as onnx_room
from positively.models.padding import EvenlyPadded
from positively.predict import Run


def fitted(place, tables, name, **options):
    """A run of a timm network that is trained for a moment, in a folder of its own."""
    given = {"weights": "none", "depth": "finetune", "augment": "none", "batch_size": 32, "solve_head": False}
    tags = tables[0].with_known_ratio(0.5, 0).positives_only()
    return po.fit(tags, out=str(place / name), method="pu-mlc", epochs=1, quiet=True, **{**given, **options})


@pytest.fixture(scope="module")
def solved(place, tables):
    """What ``po.fit`` gives on a frozen network that timm knows too: a kernel's head, and a linear one beside it."""
    torch.manual_seed(0)
    network = timm.create_model("test_resnet", num_classes=0)
    save_file(network.state_dict(), place / "test_resnet.safetensors")
    tags = tables[0].with_known_ratio(0.5, 0).positives_only()
    weights = str(place / "test_resnet.safetensors")
    options = {"backbone": "test_resnet", "weights": weights, "image_size": 32, "features": str(place / "features")}
    return po.fit(tags, out=str(place / "solved"), quiet=True, **options)


@pytest.fixture(scope="module")
def exported(solved):
    return export_onnx(solved)


def pixels(run, table):
    """Photos as an ONNX file takes them."""
    body = run.model.backbone
    transform = ImageTransform(body.image_size, body.interpolation)
    rows = [np.asarray(transform(path)) for path in table.paths]
    return (np.stack(rows).transpose(0, 3, 1, 2) / 255).astype(np.float32)


def session(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def test_an_onnx_file_gives_the_scores_and_tags_of_the_run(solved, exported, tables):
    assert exported.path == solved.path / "model.onnx" and exported.difference <= 1e-4
    scores, tags = session(exported.path).run(["scores", "tags"], {"images": pixels(solved, tables[1])})
    np.testing.assert_allclose(scores, solved.scores(tables[1]), atol=1e-4)
    predicted = [set(one.tags) for one in solved.predict(tables[1].paths)]
    given = [{name for name, is_given in zip(solved.classes, row, strict=True) if is_given} for row in tags]
    assert sum(a != b for a, b in zip(predicted, given, strict=True)) <= 1, "a score may lie on its cut"


def test_it_carries_what_a_program_needs_to_know(solved, exported):
    told = {entry.key: entry.value for entry in onnx.load(exported.path).metadata_props}
    assert json.loads(told["classes"]) == solved.classes and told["resize"] == "squash"
    cuts = [np.inf if cut is None else cut for cut in json.loads(told["cuts"])]
    np.testing.assert_allclose(cuts, solved.thresholds)
    assert json.loads(told["image_size"]) == 32 and told["head"] == "kernel"


def test_other_sizes_go_through_it_in_steps_of_32(solved, exported):
    images = np.random.default_rng(0).random((3, 3, 96, 64)).astype(np.float32)
    (scores,) = session(exported.path).run(["scores"], {"images": images})
    with torch.inference_mode():
        expected = solved.model(torch.from_numpy(images)).sigmoid()
    assert exported.any_size
    np.testing.assert_allclose(scores, expected, atol=1e-4)


@pytest.mark.parametrize("options", [{"backbone": "test_vit", "image_size": 64}, {"backbone": "test_resnet"}], ids=str)
def test_networks_that_learned_are_exported_too(options, place, tables):
    lgconv = options["backbone"] == "test_resnet"
    run = fitted(place, tables, f"learned-{options['backbone']}", lgconv=lgconv, **{"image_size": 32, **options})
    made = export_onnx(run, place / "other" / f"{options['backbone']}.onnx")
    scores, _ = session(made.path).run(None, {"images": pixels(run, tables[1])})
    np.testing.assert_allclose(scores, run.scores(tables[1]), atol=1e-4)
    assert made.any_size == lgconv, "a ViT has the positions of one size"


@pytest.mark.parametrize("kernel, stride, dilation", [(3, 1, 1), (3, 2, 1), (5, 2, 1), (3, 1, 2), (1, 2, 1)])
def test_even_padding_is_tensorflows_where_the_stride_divides_the_map(kernel, stride, dilation):
    torch.manual_seed(0)
    conv = Conv2dSame(4, 6, kernel, stride=stride, dilation=dilation, groups=2)
    for height, width in [(8, 8), (4, 10)]:
        images = torch.randn(2, 4, height, width)
        torch.testing.assert_close(EvenlyPadded(conv)(images), conv(images))


def test_a_file_that_gives_something_else_is_never_left_behind(solved, exported, monkeypatch):
    before = exported.path.read_bytes()
    monkeypatch.setattr(onnx_room, "_largest_difference", lambda *given: 0.3)
    monkeypatch.setattr(onnx_room, "onnx_program", lambda *given: program_of(exported.path))
    with pytest.raises(RunError, match=r"differs by 0\.3\. Nothing was written"):
        export_onnx(solved)
    assert exported.path.read_bytes() == before and not list(solved.path.glob(".model.onnx*"))


def program_of(path):
    """What the exporter returns, of a file that is there: quick."""
    return SimpleNamespace(
        model=SimpleNamespace(metadata_props={}), save=lambda place: Path(place).write_bytes(path.read_bytes())
    )


def test_somebody_elses_file_stays(solved, place):
    (place / "mine.onnx").write_text("mine")
    with pytest.raises(FileError, match="is no export of positively"):
        export_onnx(solved, place / "mine.onnx")
    (place / "mine").mkdir()
    (place / "mine" / "config.json").write_text('{"architecture": "resnet18"}')
    with pytest.raises(FileError, match="is no export of positively"):
        export_transformers(solved, place / "mine")
    with pytest.raises(FileError, match="is a folder"):
        export_onnx(solved, place / "mine")


def test_without_the_extra_its_name_is_told(solved, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigError, match=r"pip install 'positively\[onnx\]'"):
        export_onnx(solved)


def test_the_command_says_what_it_wrote(solved, place, capsys, monkeypatch, exported):
    monkeypatch.setattr(onnx_room, "onnx_program", lambda *given: program_of(exported.path))
    assert main(["export", str(solved.path), "--out", str(place / "said.onnx")]) == 0
    assert "any number of images, sides in steps of 32, best at 32" in capsys.readouterr().out
    assert main(["export", str(solved.path), "--format", "transformers", "--out", str(place / "said")]) == 0
    assert (place / "said" / "config.json").exists() and "for transformers and timm" in capsys.readouterr().out
    assert main(["export", str(solved.path), "--fold-cuts"]) == 2
    assert "--format transformers" in capsys.readouterr().err


# transformers and timm


def test_a_finished_run_opens_in_timm_as_it_is(solved, tables):
    network = timm.create_model(f"local-dir:{solved.path / 'transformers'}", pretrained=True).eval()
    linear = Run(solved.path, head="linear")
    config = timm.data.resolve_data_config(model=network)
    transform = timm.data.create_transform(**config)
    images = torch.stack([transform(Image.open(path)) for path in tables[1].paths[:8]])
    with torch.inference_mode():
        scores = network(images).sigmoid()
    np.testing.assert_allclose(scores, linear.scores(tables[1])[:8], atol=1e-5)


@pytest.mark.parametrize("fold_cuts", [False, True])
def test_the_pipeline_of_transformers_gives_the_scores_of_the_linear_head(fold_cuts, solved, tables, place):
    from transformers import pipeline

    folder = export_transformers(solved, place / f"folded-{fold_cuts}", fold_cuts=fold_cuts)
    classify = pipeline("image-classification", model=str(folder))
    linear = Run(solved.path, head="linear")
    for path, scores in zip(tables[1].paths[:5], linear.scores(tables[1]), strict=False):
        found = {one["label"]: one["score"] for one in classify(str(path), top_k=1000)}
        given = np.array([found[name] for name in linear.classes])
        if fold_cuts:
            assert ((given >= 0.5) == (scores >= linear.thresholds)).all()
        else:
            np.testing.assert_allclose(given, scores, atol=1e-5)


def test_a_vit_pools_its_tokens_there_too(place, tables):
    run = fitted(place, tables, "vit", backbone="test_vit", image_size=64)
    network = timm.create_model(f"local-dir:{run.path / 'transformers'}", pretrained=True).eval()
    images = torch.rand(2, 3, 64, 64)
    mean, std = run.model.mean, run.model.std
    with torch.inference_mode():
        torch.testing.assert_close(network((images - mean) / std), run.model(images), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options, why",
    [
        ({"backbone": "test_resnet", "lgconv": True}, "has LgConv, which timm does not know"),
        ({"backbone": "test_resnet", "head": "cadm"}, "no linear layer on pooled features"),
        ({"backbone": "positively_tiny", "image_size": shapes.SIDE}, "is none that timm itself has"),
    ],
    ids=["lgconv", "head", "backbone"],
)
def test_what_timm_cannot_be_says_so_and_what_can(options, why, place, tables, caplog):
    with caplog.at_level("INFO", logger="positively"):
        run = fitted(place, tables, f"not-{why[:8]}", **{"image_size": 32, **options})
    assert not (run.path / "transformers").exists() and why in caplog.text
    with pytest.raises(RunError, match=r"Write .*onnx.* in its place"):
        export_transformers(run)


def test_a_linear_layer_with_a_module_of_ones_own_is_said_not_to_fit(place, tables):
    module = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU())
    run = fitted(place, tables, "own", backbone=module, image_size=32)
    assert not (run.path / "transformers").exists()
    with pytest.raises(RunError, match="is none that timm itself has"):
        export_transformers(run)
