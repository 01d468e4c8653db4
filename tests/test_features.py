"""Kept features: never stale, safe to share, bounded."""

import multiprocessing

import numpy as np
import pytest
import torch

import positively as po
from positively.data.transforms import ImageTransform
from positively.errors import ConfigError
from positively.features import FeatureStore, extract, fingerprint
from positively.models import LgConv, create_classifier


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


def test_an_image_that_changed_is_computed_anew(classifier, table, scenes, tmp_path):
    copy = tmp_path / "photo.png"
    copy.write_bytes(table.paths[0].read_bytes())
    (tmp_path / "tags.csv").write_text("image,tags\nphoto.png,one\n")
    mine = po.read(tmp_path / "tags.csv", quiet=True)
    before = extract(classifier, mine, ImageTransform(48), store=tmp_path / "store")
    copy.write_bytes(table.paths[1].read_bytes())
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
        monkeypatch.setattr("positively.features.store._in_use", set())  # as if each were a process of its own
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
        monkeypatch.setattr("positively.features.store._in_use", set())
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
    with pytest.raises(ConfigError, match="not 'plenty'"):
        extract(classifier, table, ImageTransform(48), store=tmp_path)


def test_large_features_are_mapped_and_give_the_same_rows(tmp_path, monkeypatch):
    values = np.random.default_rng(0).normal(size=(30, 2, 3, 3)).astype(np.float16)
    for first in range(0, 30, 10):
        FeatureStore(tmp_path / KEY).add(codes(first, 10), values[first : first + 10])
    order = np.random.default_rng(1).permutation(30)
    names = [codes(i, 1)[0] for i in order]
    in_memory = FeatureStore(tmp_path / KEY).get(names)
    monkeypatch.setattr("positively.features.store._IN_MEMORY_BYTES", 0)
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
    kept = torch.from_numpy(extract(model, table.select(range(4)), ImageTransform(48), store=tmp_path)[:])
    assert kept.dtype == torch.float16
    torch.testing.assert_close(kept, features.half())
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
