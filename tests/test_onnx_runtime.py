"""A frozen network runs through ONNX Runtime where that is quicker, and gives what torch gives."""

import sys
import threading

import numpy as np
import pytest
import torch
from torch import nn

from positively.errors import ConfigError, RunError
from positively.finetune.extract import extract
from positively.images.reading import read_ahead
from positively.images.transforms import ImageTransform
from positively.models import create_classifier
from positively.models import onnx as onnx_room
from positively.models.onnx import OnnxNetwork, run_frozen


@pytest.fixture(scope="module")
def classifier():
    torch.manual_seed(0)
    return create_classifier("test_efficientnet", 3, weights="none", image_size=64, depth="probe").eval()


@pytest.fixture(scope="module")
def graph(classifier, tmp_path_factory):
    """The classifier's graph, made once for all tests that only use it."""
    path = tmp_path_factory.mktemp("graph") / "key" / "network.onnx"
    OnnxNetwork(classifier, 64, path)
    return path


def images(count, size=64):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, size, size, 3), dtype=torch.uint8, generator=generator).permute(0, 3, 1, 2)


@pytest.mark.parametrize("count", [1, 16, 37])
def test_any_number_of_images_gives_what_torch_gives(count, classifier, graph):
    network = OnnxNetwork(classifier, 64, graph)
    with torch.inference_mode():
        torch.testing.assert_close(network(images(count)), classifier(images(count)), rtol=1e-4, atol=1e-5)


def test_a_graph_is_made_once(classifier, graph, monkeypatch):
    monkeypatch.setattr(onnx_room, "to_onnx", lambda *given: pytest.fail("made again"))
    OnnxNetwork(classifier, 64, graph)


def test_lgconv_is_folded_on_the_way(tmp_path):
    torch.manual_seed(0)
    network = create_classifier("test_resnet", 3, weights="none", image_size=64, lgconv=True).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "global_branch.norm" in name:
                nn.init.uniform_(parameter, -0.5, 0.5)
        torch.testing.assert_close(OnnxNetwork(network, 64)(images(2)), network(images(2)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "count, runtime, expected",
    [(999, "auto", "torch"), (1000, "auto", "onnx"), (1, "onnx", "onnx"), (9999, "torch", "torch")],
)
def test_it_is_taken_for_many_images_or_when_asked_for(count, runtime, expected, classifier, graph):
    taken = run_frozen(classifier, 64, count, runtime=runtime, path=graph)
    assert ("onnx" if isinstance(taken, OnnxNetwork) else "torch") == expected


def test_without_the_extra_torch_runs_and_asking_for_it_names_the_extra(classifier, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert torch.equal(run_frozen(classifier, 64, 5000)(images(2)), classifier(images(2)))
    with pytest.raises(ConfigError, match=r"pip install 'positively\[onnx\]'"):
        run_frozen(classifier, 64, 5000, runtime="onnx")


class Branching(nn.Module):
    """What no graph can hold: how it computes depends on what it sees."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, pixels):
        means = pixels.float().mean((1, 2, 3))
        return self.weight * (means if float(means.max()) > 100 else -means)[:, None]


def test_a_network_that_no_graph_can_hold_is_run_by_torch():
    network = Branching().eval()
    assert torch.equal(run_frozen(network, 64, 5000)(images(2)), network(images(2)))
    with pytest.raises(RunError, match="ONNX"):
        run_frozen(network, 64, 5000, runtime="onnx")


def test_a_graph_that_gives_something_else_is_made_anew(graph, tmp_path):
    torch.manual_seed(1)
    other = create_classifier("test_efficientnet", 3, weights="none", image_size=64).eval()
    path = tmp_path / "network.onnx"
    path.write_bytes(graph.read_bytes())  # as if it stood under the name of another network
    taken = run_frozen(other, 64, 5000, path=path)
    assert isinstance(taken, OnnxNetwork) and path.read_bytes() != graph.read_bytes()
    with torch.inference_mode():
        torch.testing.assert_close(taken(images(2)), other(images(2)), rtol=1e-4, atol=1e-5)


def test_a_damaged_graph_is_made_anew(classifier, graph, tmp_path):
    (tmp_path / "network.onnx").write_bytes(b"no graph")
    assert isinstance(run_frozen(classifier, 64, 5000, path=tmp_path / "network.onnx"), OnnxNetwork)
    assert len((tmp_path / "network.onnx").read_bytes()) == len(graph.read_bytes())


def test_a_graph_that_never_fits_is_made_once_and_not_stored(classifier, tmp_path, monkeypatch):
    made = []
    make = OnnxNetwork._graph
    monkeypatch.setattr(OnnxNetwork, "_graph", staticmethod(lambda *given: made.append(1) or make(*given)))
    monkeypatch.setattr(OnnxNetwork, "difference_to", lambda *given: 0.5)
    assert not isinstance(run_frozen(classifier, 64, 5000, path=tmp_path / "network.onnx"), OnnxNetwork)
    assert len(made) == 1 and not (tmp_path / "network.onnx").exists()


def test_a_cache_that_cannot_be_written_to_is_no_hindrance(classifier, tmp_path):
    (tmp_path / "cache").write_text("a file, where a folder should be")
    assert isinstance(run_frozen(classifier, 64, 5000, path=tmp_path / "cache" / "network.onnx"), OnnxNetwork)


def test_a_network_that_cannot_be_copied_is_run_by_torch():
    network = nn.Sequential(nn.Conv2d(3, 4, 3)).eval()
    network.lock = threading.Lock()
    assert not isinstance(run_frozen(network, 64, 5000), OnnxNetwork)
    with pytest.raises(RunError, match="pickle"):
        run_frozen(network, 64, 5000, runtime="onnx")


def test_stored_features_are_those_of_torch(classifier, tables, tmp_path):
    transform = ImageTransform(64)
    by_onnx = extract(classifier, tables[1], transform, store=tmp_path / "onnx", runtime="onnx")
    by_torch = extract(classifier, tables[1], transform, store=tmp_path / "torch", runtime="torch")
    assert list((tmp_path / "onnx").rglob("network.onnx")) and not list((tmp_path / "torch").rglob("network.onnx"))
    np.testing.assert_allclose(np.asarray(by_onnx), np.asarray(by_torch), rtol=1e-3, atol=1e-5)


def test_maps_of_the_early_stages_go_the_same_way(tables, tmp_path):
    """Rounded to half precision before they were compared, they never passed."""
    torch.manual_seed(0)
    tail = create_classifier("test_resnet", 3, weights="none", image_size=64, depth="tail").eval()
    maps = extract(tail, tables[1], ImageTransform(64), store=tmp_path, runtime="onnx")
    with torch.inference_mode():
        pixels = torch.from_numpy(np.stack([ImageTransform(64)(path) for path in tables[1].paths[:4]]))
        expected = tail.features(pixels.permute(0, 3, 1, 2))
    assert maps[:4].dtype == np.float16
    np.testing.assert_allclose(maps[:4], expected, atol=2e-3 * float(expected.abs().max()))


# images that are read ahead


def test_what_is_read_ahead_comes_in_order_and_no_further_than_needed(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    asked = []
    given = read_ahead(lambda item: (asked.append(item), 10 * item)[1], iter(range(1000)))
    assert [next(given) for _ in range(5)] == [0, 10, 20, 30, 40]
    given.close()
    assert len(asked) <= 5 + 4, "a few items ahead, not the whole table"
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]


def test_an_error_of_a_reader_comes_where_its_item_stands():
    given = read_ahead(lambda item: 1 // item, [1, 1, 0, 1])
    assert [next(given), next(given)] == [1, 1]
    with pytest.raises(ZeroDivisionError):
        next(given)
