"""Stored features: never stale, safe to share, bounded; computed once, by all processes together."""

import multiprocessing
from dataclasses import replace
from functools import partial
from importlib import import_module

import numpy as np
import pytest
import torch
from torch import nn

import positively as po
from positively.embedding import FeatureStore
from positively.errors import ConfigError, ImageError, RunError
from positively.finetune.extract import extract, feature_key
from positively.images.transforms import ImageTransform
from positively.models import LgConv, create_classifier
from positively.models.fingerprint import fingerprint
from ranks import on_two_processes

extraction = import_module("positively.finetune.extract")  # the function of that name hides the module


@pytest.fixture(scope="module")
def classifier():
    torch.manual_seed(0)
    return create_classifier("positively_tiny", 3, "none", 48, learn_stages=0)


@pytest.fixture
def table(scenes):
    return po.read(scenes / "train.csv", quiet=True)


def test_features_are_those_of_the_network_in_the_order_of_the_table(classifier, table, tmp_path):
    transform = ImageTransform(48, classifier.backbone.interpolation)
    features = extract(classifier, table, transform, store=tmp_path)
    with torch.inference_mode():
        pixels = torch.from_numpy(np.stack([transform(path) for path in table.paths])).permute(0, 3, 1, 2)
        expected = classifier.eval().features(pixels).numpy()
    np.testing.assert_allclose(features, expected, atol=1e-5)
    backwards = extract(classifier, table.select(np.arange(len(table))[::-1]), transform, store=tmp_path)
    np.testing.assert_array_equal(backwards, features[::-1])


def test_only_what_is_missing_is_computed(classifier, table, tmp_path):
    counted = []
    transform = ImageTransform(48)
    extract(classifier, table.select(range(10)), transform, store=tmp_path)
    extract(classifier, table, transform, store=tmp_path, progress=lambda done, todo: counted.append(todo))
    assert set(counted) == {len(table) - 10}
    extract(classifier, table, transform, store=tmp_path, progress=lambda done, todo: counted.append("again"))
    assert "again" not in counted


def counting(classifier, monkeypatch, stop_at=None, error=KeyboardInterrupt):
    """Count the images that go through the network; at the batch ``stop_at`` raise."""
    sizes, plain = [], classifier.features

    def features(images):
        if len(sizes) == stop_at:
            raise error
        sizes.append(len(images))
        return plain(images)

    monkeypatch.setattr(classifier, "features", features)
    return sizes


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_what_was_computed_before_ctrl_c_or_an_error_is_stored(classifier, table, tmp_path, monkeypatch, error):
    with monkeypatch.context() as patch, pytest.raises(error):
        counting(classifier, patch, stop_at=3, error=error)
        extract(classifier, table, ImageTransform(48), store=tmp_path, batch_size=4)
    with monkeypatch.context() as patch:
        sizes = counting(classifier, patch)
        features = extract(classifier, table, ImageTransform(48), store=tmp_path)
    assert sum(sizes) == len(table) - 12
    np.testing.assert_array_equal(features, extract(classifier, table, ImageTransform(48), store=tmp_path / "other"))


def test_features_are_stored_on_the_way(classifier, table, tmp_path, monkeypatch):
    stored = []

    def look(done, todo):
        stored.append((done, len(list(tmp_path.rglob("*.safetensors")))))

    monkeypatch.setattr(extraction, "_SEGMENT_IMAGES", 8)
    extract(classifier, table, ImageTransform(48), store=tmp_path, batch_size=4, progress=look)
    assert stored == [(done, done // 8) for done in range(4, 33, 4)]


def test_large_features_are_stored_after_fewer_images(classifier, table, tmp_path, monkeypatch):
    monkeypatch.setattr(extraction, "_SEGMENT_BYTES", 1)
    extract(classifier, table, ImageTransform(48), store=tmp_path, batch_size=8)
    assert len(list(tmp_path.rglob("*.safetensors"))) == 4


def test_an_image_that_stands_twice_is_computed_once(classifier, table, tmp_path, monkeypatch):
    sizes = counting(classifier, monkeypatch)
    twice = table.select([3, 4, 3, 5, 4])
    features = extract(classifier, twice, ImageTransform(48), store=tmp_path)
    assert sum(sizes) == 3
    np.testing.assert_array_equal(features[[0, 1]], features[[2, 4]])


def test_an_image_that_changed_is_computed_anew(classifier, table, scenes, tmp_path):
    copy = tmp_path / "photo.png"
    copy.write_bytes(table.paths[0].read_bytes())
    (tmp_path / "tags.csv").write_text("image,tags\nphoto.png,one\n")
    mine = po.read(tmp_path / "tags.csv", quiet=True)
    before = extract(classifier, mine, ImageTransform(48), store=tmp_path / "store")
    copy.write_bytes(table.paths[1].read_bytes())
    mine = po.read(tmp_path / "tags.csv", quiet=True)
    after = extract(classifier, mine, ImageTransform(48), store=tmp_path / "store")
    assert not np.array_equal(before, after)


def test_other_weights_size_or_pooling_never_share_features(classifier):
    other = create_classifier("positively_tiny", 3, "none", 48)
    names = {
        fingerprint(classifier.backbone, 48, "bicubic", "average"),
        fingerprint(other.backbone, 48, "bicubic", "average"),
        fingerprint(classifier.backbone, 32, "bicubic", "average"),
        fingerprint(classifier.backbone, 48, "bicubic", "max"),
    }
    assert len(names) == 4
    assert fingerprint(classifier.backbone, 48) == fingerprint(classifier.backbone, 48)


KEY = "0" * 24


def codes(first, count):
    return [f"{i:032x}" for i in range(first, first + count)]


def add_many(folder, first):
    for start in range(first, first + 50, 10):
        FeatureStore(folder).add(codes(start, 10), np.full((10, 4), start, dtype=np.float32))


def test_several_processes_may_add_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=add_many, args=(tmp_path, first)) for first in (0, 25, 50)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    store = FeatureStore(tmp_path)
    assert not store.missing(codes(0, 100))
    assert store.get(codes(99, 1)).tolist() == [[90.0] * 4]


def test_a_half_written_or_foreign_file_is_passed_over(tmp_path):
    store = FeatureStore(tmp_path)
    store.add(codes(0, 3), np.ones((3, 2), dtype=np.float32))
    (tmp_path / "broken.safetensors").write_bytes(b"not features")
    assert FeatureStore(tmp_path).missing(codes(0, 4)) == set(codes(3, 1))


def test_the_store_is_bounded_and_drops_the_oldest(tmp_path, monkeypatch):
    for first in range(0, 50, 10):
        monkeypatch.setattr("positively.embedding.cache._in_use", set())  # as if each were a process of its own
        FeatureStore(tmp_path / KEY, max_bytes=3000).add(codes(first, 10), np.ones((10, 20), dtype=np.float32))
    assert sum(path.stat().st_size for path in (tmp_path / KEY).iterdir()) <= 3000
    fresh = FeatureStore(tmp_path / KEY)
    assert not fresh.missing(codes(40, 10)) and fresh.missing(codes(0, 10)) == set(codes(0, 10))


def test_a_full_store_removes_nothing_but_its_own_files(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    mine = [tmp_path / "run" / "model.safetensors", tmp_path / "mine.safetensors"]
    for path in mine:
        path.write_bytes(b"x" * 5000)
    for first in range(0, 30, 10):
        monkeypatch.setattr("positively.embedding.cache._in_use", set())
        FeatureStore(tmp_path / KEY, max_bytes=1000).add(codes(first, 10), np.ones((10, 20), dtype=np.float32))
    assert all(path.exists() for path in mine)
    assert len(list((tmp_path / KEY).iterdir())) == 1


def test_a_segment_that_another_process_removed_is_missing_and_not_an_error(tmp_path):
    store = FeatureStore(tmp_path / KEY)
    store.add(codes(0, 10), np.ones((10, 20), dtype=np.float32))
    assert not store.missing(codes(0, 10))
    next((tmp_path / KEY).iterdir()).unlink()
    assert store.missing(codes(0, 10)) == set(codes(0, 10))
    assert not list((tmp_path / KEY).iterdir())


def test_a_store_that_may_only_be_read_is_used(tmp_path, monkeypatch):
    FeatureStore(tmp_path / KEY).add(codes(0, 10), np.ones((10, 20), dtype=np.float32))

    def refuse(path):
        raise PermissionError

    monkeypatch.setattr("os.utime", refuse)
    store = FeatureStore(tmp_path / KEY)
    assert not store.missing(codes(0, 10))
    assert store.get(codes(0, 10))[:].sum() == 200


def test_networks_whose_tensors_look_alike_do_not_share_features(table, tmp_path):
    # The same names and shapes, the stride elsewhere: the features differ, and so do their keys.
    one = create_classifier("resnet50", 3, "none", 64, depth="probe")
    other = create_classifier("resnet50_v1", 3, "none", 64, depth="probe")
    other.backbone.network.load_state_dict(one.backbone.network.state_dict())
    few = table.select(range(2))
    for network in (one, other):
        extract(network, few, ImageTransform(64), store=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_what_a_process_uses_is_not_dropped_under_it(tmp_path):
    FeatureStore(tmp_path / KEY).add(codes(0, 10), np.ones((10, 20), dtype=np.float32))
    store = FeatureStore(tmp_path / KEY, max_bytes=1000)
    assert store.missing(codes(0, 20)) == set(codes(10, 10))
    store.add(codes(10, 10), np.zeros((10, 20), dtype=np.float32))
    assert store.get(codes(5, 10))[:].sum() == 100


def test_features_that_cannot_be_kept_are_refused_before_the_work(classifier, table, tmp_path, monkeypatch):
    monkeypatch.setenv("POSITIVELY_CACHE_GB", "1e-6")
    with pytest.raises(ConfigError, match="POSITIVELY_CACHE_GB"):
        extract(classifier, table, ImageTransform(48), store=tmp_path)
    monkeypatch.setenv("POSITIVELY_CACHE_GB", "plenty")
    with pytest.raises(ConfigError, match="plenty"):
        extract(classifier, table, ImageTransform(48), store=tmp_path)


def test_large_features_are_mapped_and_give_the_same_rows(tmp_path, monkeypatch):
    values = np.random.default_rng(0).normal(size=(30, 2, 3, 3)).astype(np.float16)
    for first in range(0, 30, 10):
        FeatureStore(tmp_path / KEY).add(codes(first, 10), values[first : first + 10])
    order = np.random.default_rng(1).permutation(30)
    names = [codes(i, 1)[0] for i in order]
    in_memory = FeatureStore(tmp_path / KEY).get(names)
    monkeypatch.setattr("positively.embedding.cache._IN_MEMORY_BYTES", 0)
    mapped = FeatureStore(tmp_path / KEY).get(names)
    assert not isinstance(mapped, np.ndarray) and mapped[[3]].dtype == np.float16
    np.testing.assert_array_equal(mapped[[7, 7, 0, 29]], values[order[[7, 7, 0, 29]]])
    np.testing.assert_array_equal(mapped[:], in_memory)


@pytest.mark.parametrize(
    "backbone", ["positively_tiny", "test_resnet", "test_efficientnet", "test_convnext", "test_byobnet"]
)
def test_kept_maps_and_the_part_that_learns_give_the_networks_logits(backbone, table, tmp_path):
    torch.manual_seed(0)
    model = create_classifier(backbone, 3, "none", 48, depth="tail").eval()
    pixels = torch.from_numpy(np.stack([ImageTransform(48)(path) for path in table.paths[:4]])).permute(0, 3, 1, 2)
    with torch.inference_mode():
        expected = model(pixels)
        features = model.features(pixels)
        torch.testing.assert_close(model.trainable(features), expected, rtol=1e-4, atol=1e-5)
    stored = torch.from_numpy(extract(model, table.select(range(4)), ImageTransform(48), store=tmp_path)[:])
    assert stored.dtype == torch.float16
    torch.testing.assert_close(stored, features.half())
    model.trainable.train()
    learning = {id(p) for p in model.parameters() if p.requires_grad}
    assert learning == {id(p) for p in model.trainable.parameters() if p.requires_grad}, "what learns is in the learner"


def test_a_network_that_is_no_chain_is_a_sentence():
    with pytest.raises(ConfigError, match="depth 'tail'"):
        create_classifier("test_vit", 3, "none", 160, depth="tail")
    for stages in (0, 9):
        with pytest.raises(ConfigError, match="5 stages"):
            create_classifier("test_resnet", 3, "none", 48, depth="tail", learn_stages=stages)


def test_at_the_tail_only_stages_that_learn_get_global_branches_and_the_kept_maps_stay_the_same(table, tmp_path):
    plain = create_classifier("resnet18", 3, "none", 64, depth="tail")
    torch.manual_seed(0)
    branched = create_classifier("resnet18", 3, "none", 64, depth="tail", lgconv=True)
    names = [name for name, module in branched.backbone.network.named_modules() if isinstance(module, LgConv)]
    assert len(names) == 4 and all(name.startswith("layer4") for name in names)
    assert fingerprint(*plain.feature_source) != fingerprint(*branched.feature_source), "other random weights"
    branched.backbone.network.load_state_dict(plain.backbone.network.state_dict(), strict=False)
    assert fingerprint(*plain.feature_source) == fingerprint(*branched.feature_source)


# Keys of own modules


class Strided(nn.Module):
    def __init__(self, stride=2):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, stride=stride)

    def forward(self, images):
        return self.convolution(images)


class Rectified(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, stride=2)

    def forward(self, images):
        return self.convolution(images).relu()


class Scaled(Strided):
    def __init__(self, scale, activation=torch.relu):
        super().__init__()
        self.scale, self.activation = scale, activation

    def forward(self, images):
        return self.activation(self.convolution(images)) * self.scale


def key_of(module, name=None):
    torch.manual_seed(0)
    with torch.no_grad():
        for tensor in module.state_dict().values():
            tensor.copy_(torch.rand(tensor.shape))
    classifier = create_classifier(module, 3, "none", 32, depth="probe")
    classifier.backbone.name = name or "mine"
    return feature_key(classifier, ImageTransform(32))


def test_own_modules_that_differ_in_a_stride_alone_do_not_share_features():
    assert key_of(Strided(2)) == key_of(Strided(2))
    assert key_of(Strided(2)) != key_of(Strided(1))


def test_own_modules_that_differ_in_their_forward_code_alone_do_not_share_features():
    renamed = type("Strided", (Rectified,), {})
    renamed.__qualname__, renamed.__module__ = Strided.__qualname__, Strided.__module__
    assert repr(renamed()) == repr(Strided())
    assert key_of(renamed()) != key_of(Strided())


def test_own_modules_without_source_are_known_by_their_compiled_code():
    def module(operation):
        body = (
            f"class Own(Strided):\n    def forward(self, images):\n        return self.convolution(images){operation}"
        )
        namespace = {"Strided": Strided, "__name__": "notebook"}
        exec(body, namespace)
        return namespace["Own"]()

    assert key_of(module(".relu()")) == key_of(module(".relu()"))
    assert len({key_of(module(operation)) for operation in (".relu()", ".abs()", " * 2", " * 3")}) == 4


def test_own_modules_that_differ_in_a_plain_attribute_alone_do_not_share_features():
    assert key_of(Scaled(1.0)) == key_of(Scaled(1.0))
    assert key_of(Scaled(1.0)) != key_of(Scaled(2.0))
    leaky, leakier = (partial(nn.functional.leaky_relu, negative_slope=slope) for slope in (0.1, 0.2))
    ways = [torch.relu, torch.abs, lambda x: x.abs(), lambda x: x.relu(), leaky, leakier]
    assert len({key_of(Scaled(1.0, way)) for way in ways}) == len(ways)


def test_another_way_of_decoding_makes_features_stale(classifier, monkeypatch):
    before = feature_key(classifier, ImageTransform(48))
    monkeypatch.setattr(extraction, "PIXELS_VERSION", 2)
    changed = feature_key(classifier, ImageTransform(48))
    monkeypatch.setattr(extraction, "_VECTOR_TYPE", torch.float16)
    assert len({before, changed, feature_key(classifier, ImageTransform(48))}) == 3


def test_a_network_in_bfloat16_has_a_key_of_its_own():
    assert key_of(Strided().bfloat16()) != key_of(Strided())


# Several processes


def one_of_two(rank, folder, scenes):
    """Extract on two processes in all the ways that the tests below ask about."""
    torch.manual_seed(0)
    classifier = create_classifier("positively_tiny", 3, "none", 48, learn_stages=0)
    transform = ImageTransform(48)
    table = po.read(scenes / "train.csv", quiet=True)
    found = {"key": feature_key(classifier, transform)}

    def run(name, table, **options):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(extraction, "_SEGMENT_IMAGES", 4)
            sizes = counting(classifier, patch)
            try:
                features = extract(classifier, table, transform, batch_size=2, **options)
                found[name] = torch.from_numpy(features)
            except (ImageError, RunError) as error:
                found[name] = f"{type(error).__name__}: {error}"
        found[name, "computed"] = sum(sizes)

    run("shared", table, store=folder / "shared")
    run("again", table, store=folder / "shared")
    run("own disks", table, store=folder / f"disk-{rank}")
    broken = list(table.images)
    broken[7] = str(folder / "broken.png")
    run("broken", replace(table, images=broken), store=folder / "broken")
    run("after", table, store=folder / "broken")
    torch.save(found, folder / f"found.{rank}")


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory, scenes, classifier):
    folder = tmp_path_factory.mktemp("two")
    # Row 0 is there already: the first has less to do, and fewer rounds, than the second.
    first = po.read(scenes / "train.csv", quiet=True).select([0])
    extract(classifier, first, ImageTransform(48), store=folder / "shared")
    (folder / "broken.png").write_bytes(b"no image")
    on_two_processes(one_of_two, folder, scenes)
    results = [torch.load(folder / f"found.{rank}", weights_only=True) for rank in range(2)]
    return folder, results


def test_two_processes_share_the_work_and_both_get_all_features(two_processes, classifier, table, tmp_path):
    folder, results = two_processes
    expected = extract(classifier, table, ImageTransform(48), store=tmp_path)
    for found in results:
        np.testing.assert_allclose(found["shared"], expected, atol=1e-5)
        np.testing.assert_array_equal(found["again"], found["shared"])
        assert found["again", "computed"] == 0
        assert found["key"] == feature_key(classifier, ImageTransform(48)), "a key is the same in every process"
    assert [found["shared", "computed"] for found in results] == [15, 16]
    assert not [path for path in folder.rglob(".*") if path.is_file()], "marks were left behind"


def test_processes_with_a_disk_each_compute_all_they_need(two_processes):
    for found in two_processes[1]:
        assert found["own disks", "computed"] == 32
        torch.testing.assert_close(found["own disks"], found["shared"])


def test_a_broken_image_on_one_process_makes_all_raise_and_none_wait(two_processes):
    first, second = two_processes[1]
    assert "broken.png" in second["broken"] and second["broken"].startswith("ImageError: train.csv line 9")
    assert first["broken"].startswith("RunError: Process 1 of 2 failed: train.csv line 9")
    assert first["broken", "computed"] and second["broken", "computed"], "both were at work"
    for found in (first, second):
        torch.testing.assert_close(found["after"], found["shared"])
    # What both had computed before was stored; the broken one stood in for one image.
    before = first["broken", "computed"] + second["broken", "computed"]
    assert first["after", "computed"] + second["after", "computed"] == 32 - before
