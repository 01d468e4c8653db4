"""A run opens in other people's programs, and gives there what it gives here."""

import csv
import json
import shutil
from pathlib import Path

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
from positively.errors import FileError, ImageError, RunError
from positively.export import export_int8, export_onnx, export_tagger, graph, int8
from positively.export import tagger as tagger_room
from positively.export.loss import compare
from positively.models.padding import EvenlyPadded
from positively.models.predictor import load_network
from positively.models.transformers_export import export_transformers
from positively.runs import Run
from wording import naming


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
    options = {"backbone": "test_resnet", "weights": weights, "image_size": 32, "cache": str(place / "features")}
    return po.fit(tags, out=str(place / "solved"), quiet=True, **options)


@pytest.fixture(scope="module")
def exported(solved):
    return export_onnx(solved)


@pytest.fixture(scope="module")
def small(solved):
    return export_int8(solved)


def pixels(run, table):
    """Photos as an ONNX file takes them."""
    rows = [np.asarray(run.transform(path)) for path in table.paths]
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
    thresholds = [np.inf if value is None else value for value in json.loads(told["thresholds"])]
    np.testing.assert_allclose(thresholds, solved.thresholds)
    assert json.loads(told["image_size"]) == 32 and told["head"] == "kernel"


def test_other_sizes_go_through_it_in_steps_of_32(solved, exported):
    images = np.random.default_rng(0).random((3, 3, 96, 64)).astype(np.float32)
    (scores,) = session(exported.path).run(["scores"], {"images": images})
    with torch.inference_mode():
        expected = load_network(solved)(torch.from_numpy(images)).sigmoid()
    assert exported.any_size
    np.testing.assert_allclose(scores, expected, atol=1e-4)


@pytest.mark.parametrize("options", [{"backbone": "test_vit", "image_size": 64}, {"backbone": "test_resnet"}], ids=str)
def test_networks_that_learned_are_exported_too(options, place, tables):
    lgconv = options["backbone"] == "test_resnet"
    run = fitted(place, tables, f"learned-{options['backbone']}", lgconv=lgconv, **{"image_size": 32, **options})
    made = export_onnx(run, place / "other" / f"{options['backbone']}.onnx")
    (scores,) = session(made.path).run(["scores"], {"images": pixels(run, tables[1])})
    np.testing.assert_allclose(scores, Run(run.path, runtime="torch").scores(tables[1]), atol=1e-4)
    assert made.any_size == lgconv, "a ViT has the positions of one size"
    loss = export_int8(run).loss
    assert 0 < loss.mean_difference < 0.02
    assert np.isnan(loss.log_rank) and json.loads(loss.to_json())["log_rank"] is None, "its table is nowhere on disk"


@pytest.mark.parametrize("kernel, stride, dilation", [(3, 1, 1), (3, 2, 1), (5, 2, 1), (3, 1, 2), (1, 2, 1)])
def test_even_padding_is_tensorflows_where_the_stride_divides_the_map(kernel, stride, dilation):
    torch.manual_seed(0)
    conv = Conv2dSame(4, 6, kernel, stride=stride, dilation=dilation, groups=2)
    for height, width in [(8, 8), (4, 10)]:
        images = torch.randn(2, 4, height, width)
        torch.testing.assert_close(EvenlyPadded(conv)(images), conv(images))


def test_it_names_no_place_on_the_machine_it_was_made_on(exported):
    assert str(Path(po.__file__).parent).encode() not in exported.path.read_bytes()


def wrong_scores(run):
    return lambda images: np.full((len(images), len(run.classes)), 2.0)


def test_a_file_that_gives_something_else_is_never_left_behind(solved, place, monkeypatch):
    path = place / "wrong" / "model.onnx"
    export_onnx(solved, path)
    before = path.read_bytes()
    monkeypatch.setattr(graph, "RunScores", wrong_scores)
    with pytest.raises(RunError, match=r"differs? by [12]"):
        export_onnx(solved, path)
    assert path.read_bytes() == before and [one.name for one in path.parent.iterdir()] == ["model.onnx"]


def test_another_head_or_other_thresholds_go_into_a_file_of_their_own(solved, tables):
    linear = Run(solved.path, head="linear", min_precision=0.9)
    made = export_onnx(linear)
    assert made.path == solved.path / "export.onnx"
    scores, tags = session(made.path).run(["scores", "tags"], {"images": pixels(solved, tables[1])})
    np.testing.assert_allclose(scores, linear.scores(tables[1]), atol=1e-4)
    np.testing.assert_array_equal(tags, scores >= linear.thresholds.astype(np.float32))
    with pytest.raises(FileError, match="network"):
        export_onnx(linear, solved.path / "model.onnx")


# int8


def test_an_int8_file_is_used_as_the_exact_one_and_gives_nearly_its_scores(solved, small, tables):
    assert small.path == solved.path / "model-int8.onnx"
    images = pixels(solved, tables[1])
    scores, tags = session(small.path).run(["scores", "tags"], {"images": images})
    exact = solved.scores(tables[1])
    assert np.abs(scores - exact).mean() < 0.02 and not np.allclose(scores, exact, atol=1e-4)
    alone = [session(small.path).run(["tags"], {"images": image[None]})[0][0] for image in images[:3]]
    np.testing.assert_array_equal(alone, tags[:3])


def test_its_backbone_is_of_integers_and_its_head_is_not(small):
    nodes = onnx.load(small.path).graph.node
    integers = {name for node in nodes if node.op_type == "DequantizeLinear" for name in node.output}
    weighted = [node for node in nodes if node.op_type in ("Conv", "Gemm", "MatMul")]
    kinds = [all(name in integers for name in node.input[:2]) for node in weighted]
    assert kinds[0] is False, "the first convolution sees the pixels"
    assert all(kind is (node.op_type == "Conv") for kind, node in zip(kinds[1:], weighted[1:], strict=True))
    assert sum(kinds) > 3


def test_what_int8_costs_is_told_and_stored_and_measured_on_other_photos(solved, small, capsys, place):
    assert main(["export", str(solved.path), "--int8", "--out", str(place / "told.onnx")]) == 0
    out = capsys.readouterr().out
    assert "ranges" not in out and f" {small.calibrated} photos" in out
    assert f" {small.loss.photos} photos" in out and small.loss.photos != small.calibrated
    told = {entry.key: entry.value for entry in onnx.load(small.path).metadata_props}
    stored = json.loads(told["int8"])
    assert stored["log_rank_after"] == small.loss.log_rank_after and told["int8_calibrated"] == str(small.calibrated)
    assert json.loads(told["classes"]) == solved.classes
    first, second = int8.draw_photos(solved, None, 128, 400)
    assert not set(first.paths) & set(second.paths) and len(first) + len(second) == 200
    assert small.loss.photos == len(second) and small.calibrated == len(first)


def test_an_int8_file_that_lost_what_it_is_for_is_not_written(solved, small, place, monkeypatch):
    monkeypatch.setattr(int8, "file_scores", lambda *given: lambda images: np.full((len(images), 4), 0.5))
    with pytest.raises(RunError, match="int8"):
        export_int8(solved, place / "lost.onnx")
    assert not list(place.glob("*lost.onnx*"))


def test_a_loss_counts_tags_and_ranks():
    exact = np.array([[0.9, 0.2], [0.6, 0.8], [0.1, 0.3], [0.2, 0.1]])
    states = np.array([[1, 0], [0, 1], [0, 0], [0, 0]], dtype=np.int8)
    cuts = np.array([0.5, np.inf])
    same = compare(exact, exact, cuts, states)
    assert (same.tags, same.tags_after, same.changed, same.pairs) == (2, 2, 0, 8) and same.is_usable
    assert same.log_rank == pytest.approx(np.log(4))
    turned = compare(exact, exact[::-1], cuts, states)
    assert turned.log_rank_after < 0.9 * same.log_rank and not turned.is_usable
    many = np.tile(exact, (20, 1))
    fewer = compare(many, many * [0.5, 1], cuts, np.tile(states, (20, 1)))
    assert fewer.log_rank_after == fewer.log_rank, "ranks alone do not tell"
    assert (fewer.tags, fewer.tags_after, fewer.changed) == (40, 0, 40) and not fewer.is_usable
    assert compare(exact, exact - 0.01, cuts, None).is_usable and "known" in str(compare(exact, exact, cuts, None))
    assert not compare(exact, np.full_like(exact, np.nan), cuts, None).is_usable


def test_photos_that_have_moved_are_asked_for(solved, place, tables, tmp_path, capsys):
    shutil.copytree(solved.path, tmp_path / "run")
    config = (tmp_path / "run" / "config.yaml").read_text().replace(str(place), str(tmp_path / "gone"))
    (tmp_path / "run" / "config.yaml").write_text(config)
    moved = Run(tmp_path / "run", device="cpu")
    moved.folder.record(moved.folder.config)
    with pytest.raises(ImageError, match="images='DIR'"):
        export_int8(moved)
    with pytest.raises(ImageError, match="images"):
        export_int8(moved, images=tmp_path)
    assert export_int8(moved, images=tables[0].root).loss.is_usable
    assert main(["export", str(solved.path), "--images", str(place)]) == 2
    assert "--int8" in capsys.readouterr().err


def test_a_network_without_layers_for_integers_is_told_so(solved, place, monkeypatch):
    monkeypatch.setattr(int8, "is_backbone_node", lambda name: False)
    with pytest.raises(RunError, match="layers"):
        export_int8(solved, place / "none.onnx")


def test_somebody_elses_file_stays(solved, place):
    (place / "mine.onnx").write_text("mine")
    with pytest.raises(FileError, match=r"mine\.onnx"):
        export_onnx(solved, place / "mine.onnx")
    (place / "mine").mkdir()
    (place / "mine" / "config.json").write_text('{"architecture": "resnet18"}')
    with pytest.raises(FileError, match=r"config\.json"):
        export_transformers(solved, place / "mine")
    with pytest.raises(FileError, match="folder"):
        export_onnx(solved, place / "mine")


def test_the_command_says_what_it_wrote(solved, place, capsys):
    assert main(["export", str(solved.path), "--out", str(place / "said.onnx")]) == 0
    assert "32" in capsys.readouterr().out
    assert main(["export", str(solved.path), "--format", "transformers", "--out", str(place / "said")]) == 0
    assert (place / "said" / "config.json").exists() and "transformers" in capsys.readouterr().out
    assert main(["export", str(solved.path), "--fold-thresholds"]) == 2
    assert "--format transformers" in capsys.readouterr().err


# the convention of taggers


@pytest.fixture(scope="module")
def tagger(solved, place):
    return export_tagger(solved, place / "tagger").path


def preprocessed(path, stages):
    """A photo as a tagger's program makes it, stage by stage (dghs-imgutils: create_pillow_transforms)."""
    made = Image.open(path).convert("RGB")
    for stage in stages:
        given = dict(stage)
        match given.pop("type"):
            case "resize":
                height, width = given["size"]
                made = made.resize((width, height), Image.Resampling[given["interpolation"].upper()])
            case "maybe_to_tensor":
                made = np.asarray(made, np.float32).transpose(2, 0, 1) / 255
            case "normalize":
                mean, std = (np.array(given[name], np.float32)[:, None, None] for name in ("mean", "std"))
                made = (made - mean) / std
    return made


def test_a_tagger_program_gives_the_scores_and_tags_of_the_run(solved, tagger, tables):
    stages = json.loads((tagger / "preprocess.json").read_text())
    images = np.stack([preprocessed(path, stages["test"]) for path in tables[1].paths])
    found = session(tagger / "model.onnx")
    embedding, logits, prediction = found.run(["embedding", "logits", "prediction"], {"input": images})
    scores = solved.scores(tables[1])
    np.testing.assert_allclose(prediction, scores, atol=1e-4)
    np.testing.assert_allclose(1 / (1 + np.exp(-logits)), prediction, atol=1e-5)
    assert embedding.shape == (len(images), solved.model_config["width"]) and stages["val"] == stages["test"]
    with (tagger / "selected_tags.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == solved.classes
    cuts = np.array([float(row["best_threshold"]) for row in rows])
    assert ((prediction >= cuts) != (scores >= solved.thresholds)).sum() <= 1, "a score may lie on its cut"
    categories = {one["category"]: one["name"] for one in json.loads((tagger / "categories.json").read_text())}
    assert {int(row["category"]) for row in rows} == set(categories) == {0}


def test_tags_are_listed_with_how_often_they_were_known(solved, tagger, tables):
    known = tables[0].with_known_ratio(0.5, 0).positives_only().with_classes(solved.classes).counts(1)
    with (tagger / "selected_tags.csv").open(newline="") as file:
        assert [int(row["count"]) for row in csv.DictReader(file)] == known.tolist()


def test_a_class_that_is_never_given_has_a_threshold_no_score_reaches(solved):
    run = Run(solved.path, device="cpu")
    run.thresholds = np.array([np.inf, *solved.thresholds[1:]])
    first = tagger_room._selected_tags(run).splitlines()[1]
    assert float(first.split(",")[-1]) > 1, "programs read the whole column as numbers"


def test_a_taggers_folder_is_written_whole_and_never_over_other_files(solved, tagger, tmp_path, monkeypatch, capsys):
    assert main(["export", str(solved.path), "--format", "tagger", "--out", str(tagger)]) == 0, "our own, written again"
    assert "selected_tags.csv" in capsys.readouterr().out
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "selected_tags.csv").write_text("mine")
    with pytest.raises(FileError, match=naming("selected_tags.csv", "out='DIR'")):
        export_tagger(solved, tmp_path / "mine")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "model.onnx").write_bytes((tagger / "model.onnx").read_bytes())
    export_tagger(solved, tmp_path / "half")  # as a kill left it
    (tmp_path / "half" / "notes.txt").write_text("mine")
    with pytest.raises(FileError, match=r"notes\.txt"):
        export_tagger(solved, tmp_path / "half")
    monkeypatch.setattr(graph, "RunScores", wrong_scores)
    with pytest.raises(RunError, match="Nothing was written"):
        export_tagger(solved, tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()


# transformers and timm


def test_an_exported_run_opens_in_timm(solved, tables):
    network = timm.create_model(f"local-dir:{export_transformers(solved)}", pretrained=True).eval()
    linear = Run(solved.path, head="linear")
    config = timm.data.resolve_data_config(model=network)
    transform = timm.data.create_transform(**config)
    images = torch.stack([transform(Image.open(path)) for path in tables[1].paths[:8]])
    with torch.inference_mode():
        scores = network(images).sigmoid()
    np.testing.assert_allclose(scores, linear.scores(tables[1])[:8], atol=1e-5)


@pytest.mark.parametrize("fold_thresholds", [False, True])
def test_the_pipeline_of_transformers_gives_the_scores_of_the_linear_head(fold_thresholds, solved, tables, place):
    from transformers import pipeline

    folder = export_transformers(solved, place / f"folded-{fold_thresholds}", fold_thresholds=fold_thresholds)
    classify = pipeline("image-classification", model=str(folder))
    linear = Run(solved.path, head="linear")
    for path, scores in zip(tables[1].paths[:5], linear.scores(tables[1]), strict=False):
        found = {one["label"]: one["score"] for one in classify(str(path), top_k=1000)}
        given = np.array([found[name] for name in linear.classes])
        if fold_thresholds:
            assert ((given >= 0.5) == (scores >= linear.thresholds)).all()
        else:
            np.testing.assert_allclose(given, scores, atol=1e-5)


def test_a_vit_pools_its_tokens_there_too(place, tables):
    run = fitted(place, tables, "vit", backbone="test_vit", image_size=64)
    network = timm.create_model(f"local-dir:{export_transformers(run)}", pretrained=True).eval()
    images, model = torch.rand(2, 3, 64, 64), load_network(run)
    with torch.inference_mode():
        expected = model(images)
        torch.testing.assert_close(network((images - model.mean) / model.std), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options, why",
    [
        ({"backbone": "test_resnet", "lgconv": True}, "LgConv"),
        ({"backbone": "test_resnet", "head": "cadm"}, "linear layer"),
        ({"backbone": "positively_tiny", "image_size": shapes.SIDE}, "timm"),
    ],
    ids=["lgconv", "head", "backbone"],
)
def test_what_timm_cannot_be_says_so_and_what_can(options, why, place, tables):
    run = fitted(place, tables, f"not-{why[:8]}", **{"image_size": 32, **options})
    with pytest.raises(RunError, match=rf"(?s){why}.*onnx"):
        export_transformers(run)
    assert not (run.path / "transformers").exists()


def test_a_linear_layer_with_a_module_of_ones_own_is_said_not_to_fit(place, tables):
    module = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU())
    run = fitted(place, tables, "own", backbone=module, image_size=32)
    assert not (run.path / "transformers").exists()
    with pytest.raises(RunError, match="timm"):
        export_transformers(run)
