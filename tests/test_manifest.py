"""What a verb reads of a run is what was written: any file that was damaged or changed is refused, with its name."""

import hashlib
import json
import shutil

import numpy as np
import pytest
import torch

import positively as po
from positively.cli import main
from positively.errors import RunError
from positively.files import file_digest, write_json
from positively.manifest import Manifest
from positively.models import create_classifier
from positively.models.saving import load_model, save_model
from positively.runs.folder import FORMAT, RunFolder
from positively.runs.saving import load_model_config
from wording import naming

SETTINGS = {"method": "pu-mlc", "head": "linear", "lgconv": False, "depth": "finetune", "learn_stages": None}
CLASSES = ("cat", "dog", "bird")


@pytest.fixture(scope="module")
def trained(place, tables):
    """A probe with everything a run can hold, its test table beside it."""
    options = {"backbone": "positively_tiny", "weights": str(place / "tiny.safetensors"), "image_size": 24}
    run = po.fit(tables[0].positives_only(), out=str(place / "integrity"), quiet=True, **options)
    return run.path


@pytest.fixture
def run(trained, tmp_path):
    """A copy that may be damaged."""
    return RunFolder(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture
def network(tmp_path):
    """A run whose network learned."""
    folder = RunFolder(tmp_path / "network")
    torch.manual_seed(0)
    classifier = create_classifier("positively_tiny", 3, "none", 48)
    folder.write_thresholds(CLASSES, np.full(3, 0.5))
    save_model(folder, classifier, CLASSES, SETTINGS)
    return folder


def flip(path, place=-9):
    """Change one bit."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def swap_lines(path):
    first, *lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([first, *reversed(lines)]))


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def edit(path, **changes):
    write_json(path, json.loads(path.read_text()) | changes)


def evaluate(run, tables):
    return po.Run(run.path).evaluate(tables[1])


def predict(run, tables):
    return po.Run(run.path).predict(tables[1].paths[0])


def at_precision(run, tables):
    return po.Run(run.path, min_precision=0.5).predict(tables[1].paths[0])


def missing(run, tables):
    return po.find_missing(po.Run(run.path))


def report(run, tables):
    return po.write_report(run.path)


def push(run, tables):
    return po.Run(run.path).push_to_hub("me/run", dry_run=run.path.parent / "hub")


def test_a_run_lists_its_files_and_is_used_as_it_is(run, tables):
    listed = run.manifest.read()
    files = {file.relative_to(run.path).as_posix() for file in run.path.rglob("*") if file.is_file()}
    files = {name for name in files if not name.startswith(".")}
    assert set(listed) | {"manifest.json", "thresholds.json"} == files
    assert all(digest == file_digest(run.path / name) for name, digest in listed.items())
    for verb in (evaluate, predict, at_precision, missing, report, push):
        assert verb(run, tables)


@pytest.mark.parametrize(
    ("name", "damage", "verbs"),
    [
        ("probe.safetensors", flip, (predict, evaluate)),
        ("probe.safetensors", truncate, (predict, push)),
        ("model.onnx", flip, (predict, evaluate, push)),
        ("out-of-sample.safetensors", flip, (missing, report)),
        ("calibration.safetensors", flip, (at_precision, report, push)),
        ("images.csv", swap_lines, (missing, report, evaluate)),
        ("images.csv", truncate, (missing, evaluate)),
        ("config.json", lambda path: edit(path, classes=["blue", "red", "green"]), (predict, missing, report, push)),
        ("config.yaml", lambda path: path.write_text(path.read_text() + "seed: 1\n"), (report,)),
        ("metrics.csv", truncate, (report,)),
        ("environment.json", flip, (report,)),
    ],
)
def test_a_file_that_was_changed_is_refused_by_whoever_reads_it(run, tables, name, damage, verbs):
    damage(run.path / name)
    for verb in verbs:
        with pytest.raises(RunError, match=rf"{name} .*manifest\.json"):
            verb(run, tables)


@pytest.mark.parametrize("content", [None, "", "[]", "{", '{"files": {}}'])
def test_without_its_manifest_a_run_is_refused(run, tables, content):
    if content is None:
        run.manifest.path.unlink()
    else:
        run.manifest.path.write_text(content)
    for verb in (predict, evaluate, missing, report, push):
        with pytest.raises(RunError, match=r"manifest\.json .*resume='auto'"):
            verb(run, tables)


def test_a_file_that_the_manifest_does_not_list_is_refused(run, tables):
    listed = run.manifest.read()
    del listed["probe.safetensors"]
    run.manifest.write(listed)
    with pytest.raises(RunError, match=r"probe\.safetensors"):
        predict(run, tables)


@pytest.mark.parametrize("value", [-1, 1.5, 1e308, 10**400, float("nan"), float("inf"), [0.5], "0.5", True])
def test_a_threshold_that_is_no_probability_is_refused(run, tables, value):
    edit(run.thresholds, red=value)
    with pytest.raises(RunError, match=r"thresholds\.json.*'red'"):
        predict(run, tables)


def test_thresholds_may_be_edited(run, tables):
    given = {"red": np.inf, "blue": 0, "green": 1}
    edit(run.thresholds, red=None, blue=0, green=1)
    opened = po.Run(run.path)
    thresholds = dict(zip(opened.classes, opened.thresholds.tolist(), strict=True))
    assert given.items() <= thresholds.items()
    edit(run.thresholds, red=0.25)
    assert predict(run, tables)


def test_scores_that_are_no_probabilities_have_any_finite_threshold(network):
    edit(network.thresholds, cat=-1, dog=1e308)
    assert network.read_thresholds(list(CLASSES)).tolist() == [-1, 1e308, 0.5]
    for value in (float("nan"), float("-inf"), [1], 10**400):
        edit(network.thresholds, cat=value)
        with pytest.raises(RunError, match=r"thresholds\.json.*'cat'"):
            network.read_thresholds(list(CLASSES))


def test_what_verbs_write_into_a_run_is_listed_and_verified(run, tables, place):
    test = place / "integrity-test.csv"
    cells = np.where(tables[1].states() == 1, np.array(tables[1].classes), "")
    rows = [f"{name},{';'.join(filter(None, row))}\n" for name, row in zip(tables[1].images, cells, strict=True)]
    test.write_text("image,tags\n" + "".join(rows))
    assert main(["evaluate", str(run.path), str(test), "--images", str(tables[1].root), "--blank", "negative"]) == 0
    assert run.manifest.read()["evaluation.json"] == file_digest(run.evaluation)
    report(run, tables)
    assert run.manifest.read()["report.html"] == file_digest(run.report)
    truncate(run.evaluation)
    with pytest.raises(RunError, match=r"evaluation\.json"):
        report(run, tables)


def test_a_start_that_was_killed_before_the_manifest_is_resumed_to_the_same_files(run, tables, place):
    before = {name: digest for name, digest in run.manifest.read().items() if name.endswith((".safetensors", ".onnx"))}
    run.manifest.path.unlink()
    flip(run.probe)
    options = {"backbone": "positively_tiny", "weights": str(place / "tiny.safetensors"), "image_size": 24}
    po.fit(tables[0].positives_only(), out=str(run.path), resume="auto", quiet=True, **options)
    after = run.manifest.read()
    assert before.items() <= after.items() and predict(run, tables)


# The manifest itself


def test_processes_that_write_at_once_lose_no_entry(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    manifest = Manifest(tmp_path)
    files = [tmp_path / f"{number}.txt" for number in range(20)]
    for file in files:
        file.write_text(file.name)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda file: Manifest(tmp_path).record([file]), files))
    assert manifest.read() == {file.name: file_digest(file) for file in files}


def test_a_file_may_be_replaced_that_is_as_it_was_written_or_was_being_written(tmp_path):
    manifest, file = Manifest(tmp_path), tmp_path / "list.csv"
    file.write_text("a")
    assert not manifest.may_replace(file)
    manifest.record([file])
    assert manifest.may_replace(file)
    file.write_text("b")
    assert not manifest.may_replace(file)
    manifest.write({"list.csv": None})
    assert manifest.may_replace(file)


# Networks that learned, and runs of the earlier format


def test_weights_that_were_changed_are_refused(network):
    load_model(network, load_model_config(network))
    flip(network.weights)
    with pytest.raises(RunError, match=r"model\.safetensors"):
        load_model(network, load_model_config(network))


def as_format_2(folder, **changes):
    """Write a run as it was before there were manifests."""
    folder.manifest.path.unlink()
    content = json.loads(folder.model.read_text())
    classes = hashlib.blake2b(json.dumps(content["classes"]).encode()).hexdigest()
    digests = {"model.safetensors": file_digest(folder.weights), "classes": classes}
    write_json(folder.model, content | {"format": 2, "digests": digests} | changes)


def test_a_run_of_the_earlier_format_opens_and_its_weights_are_verified(network):
    as_format_2(network)
    load_model(network, load_model_config(network))
    network.record(network.weights)
    assert not network.manifest.path.exists(), "a manifest of some files would say that the others were changed"
    flip(network.weights)
    with pytest.raises(RunError, match=r"model\.safetensors"):
        load_model(network, load_model_config(network))


def test_classes_of_the_earlier_format_are_verified(network):
    as_format_2(network, classes=["dog", "cat", "bird"])
    with pytest.raises(RunError, match="resume='auto'"):
        load_model_config(network)


def test_a_run_saved_before_there_were_digests_is_read(network):
    as_format_2(network, format=1, digests={})
    load_model(network, load_model_config(network))


def listed_again(folder):
    folder.manifest.record([folder.model])


def test_entries_that_a_later_version_adds_are_passed_over(network):
    edit(network.model, calibration={"a": [1, 2]})
    listed_again(network)
    load_model(network, load_model_config(network))


def test_a_run_of_a_later_version_is_refused(network):
    edit(network.model, format=FORMAT + 1)
    listed_again(network)
    with pytest.raises(RunError, match="pip install"):
        load_model_config(network)


def test_a_model_config_that_lacks_an_entry_or_is_no_mapping_is_a_sentence(network):
    content = json.loads(network.model.read_text())
    del content["backbone"]
    write_json(network.model, content)
    listed_again(network)
    with pytest.raises(RunError, match=naming("config.json", "backbone")):
        load_model_config(network)
    network.model.write_text("[1]")
    listed_again(network)
    with pytest.raises(RunError, match=r"config\.json.*resume='auto'"):
        load_model_config(network)
