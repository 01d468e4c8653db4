"""The folder beside a table: what is found in it, and what earlier versions wrote elsewhere."""

import os
from pathlib import Path

import numpy as np
import pytest

import positively as po
from positively.cli import main
from positively.errors import RunError
from positively.labels import LabelTable
from positively.runs.folder import RunFolder
from positively.runs.locking import default_place
from positively.tables.reading import read_labels
from positively.workspace import Workspace, latest_run
from reviewing import Opened, words, write_tags


@pytest.mark.parametrize(
    ("source", "folder"),
    [
        ("tags.csv", "tags.positively"),
        ("data/my tags.csv", "data/my tags.positively"),
        ("data/photos.2024", "data/photos.2024.positively"),
        ("data/photos.2024/", "data/photos.2024.positively"),
    ],
)
def test_a_workspace_lies_beside_its_table_or_folder(tmp_path, monkeypatch, source, folder):
    monkeypatch.chdir(tmp_path)
    if "photos" in source:
        Path(source).mkdir(parents=True)
    assert Workspace.of(source).path == Path(folder)
    assert Workspace.of(source).missing.parent == Workspace.of(source).runs.parent == Path(folder)


def test_decisions_of_earlier_versions_are_used_until_there_are_new_ones(tmp_path):
    workspace, old = Workspace.of(tmp_path / "tags.csv"), tmp_path / "tags.review.sqlite"
    new = workspace.decisions
    assert new.parent == workspace.path
    old.touch()
    assert workspace.decisions == old
    new.parent.mkdir()
    new.touch()
    assert workspace.decisions == new


def table_at(path):
    path.write_text("image,tags\na.jpg,cat\nb.jpg,dog\n")
    return read_labels(path, po.tables.ReadOptions(verify=False, skip_missing_images=True))[0]


def begin(place, resume=False):
    with RunFolder.open(None, place, resume) as folder:
        folder.write_config({"a": 1})
    return folder.path


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).touch()
    return table_at(tmp_path / "tags.csv")


def test_runs_go_beside_the_table_and_are_numbered(table, tmp_path):
    runs = Workspace.of(tmp_path / "tags.csv").runs
    for name in ("auto", "auto-2"):
        assert begin(default_place(table, "auto", resume=False)) == runs / name
    assert begin(default_place(table, "pu-mlc", resume=False)) == runs / "pu-mlc"
    assert begin(default_place(table, "auto", resume=True), resume=True) == runs / "auto-2"


def test_a_selection_of_a_table_still_knows_where_it_came_from(table, tmp_path):
    assert table.select([0]).with_classes(["dog"]).origin == tmp_path / "tags.csv"


def test_a_table_of_arrays_has_its_runs_in_the_working_folder():
    table = LabelTable.from_states(["a"], ["cat"], np.ones((1, 1)))
    assert default_place(table, "auto", resume=False).parent == Path("runs")


def test_a_run_of_an_earlier_version_is_resumed_where_it_is(table, tmp_path):
    runs = Workspace.of(tmp_path / "tags.csv").runs
    old = begin("runs/tags-auto")
    assert begin(default_place(table, "auto", resume=True), resume=True) == old
    assert begin(default_place(table, "auto", resume=False)) == runs / "auto"
    assert begin(default_place(table, "auto", resume=True), resume=True) == runs / "auto"


def test_two_tables_in_one_folder_have_a_workspace_each(table, tmp_path):
    other = table_at(tmp_path / "more.csv")
    places = [begin(default_place(one, "auto", resume=False)) for one in (table, other)]
    assert [place.parents[1].name for place in places] == ["tags.positively", "more.positively"]


def test_the_latest_run_is_the_one_that_finished_last(tmp_path, monkeypatch):
    assert latest_run(tmp_path) is None
    places = ["tags.positively/runs/auto", "runs/tags-auto", "more.positively/runs/pu-mlc", "tags.positively/runs/x"]
    for second, place in enumerate(places):
        (tmp_path / place).mkdir(parents=True)
        for name in ("config.yaml", "environment.json"):
            (tmp_path / place / name).touch()
        if not place.endswith("x"):  # which is not finished
            (tmp_path / place / "config.json").touch()
            os.utime(tmp_path / place / "config.json", (second, second))
    (tmp_path / "runs" / "of-another-program").mkdir()
    (tmp_path / "runs" / "of-another-program" / "config.json").touch()
    assert latest_run(tmp_path) == tmp_path / "more.positively/runs/pu-mlc"
    monkeypatch.chdir(tmp_path)
    assert latest_run() == Path("more.positively/runs/pu-mlc")


def test_the_latest_run_of_a_folder_that_is_the_table_itself_is_found(tmp_path):
    devkit = tmp_path / "VOCdevkit"
    devkit.mkdir()
    run = Workspace.of(devkit).runs / "auto"
    run.mkdir(parents=True)
    for name in ("config.yaml", "environment.json", "config.json"):
        (run / name).touch()
    assert latest_run(devkit) == latest_run(tmp_path) == run


def test_where_no_workspace_can_be_made_the_option_is_named(table, tmp_path):
    (tmp_path / "tags.positively").write_text("a file of that name")
    with pytest.raises(RunError, match="out="):
        RunFolder.open(None, default_place(table, "auto", resume=False), resume=False)


def test_all_commands_leave_one_new_folder_beside_the_table(place, tables, tmp_path, monkeypatch, capsys):
    train, test = tables
    source = write_tags(tmp_path, place, train)
    lines = [
        f"{image},{';'.join(name for name, state in zip(test.classes, states, strict=True) if state > 0)}\n"
        for image, states in zip(test.images, test.states(), strict=True)
    ]
    (tmp_path / "test.csv").write_text("image,tags\n" + "".join(lines))
    monkeypatch.chdir(tmp_path)
    before, options = set(tmp_path.iterdir()), words(place)
    assert main(["check", "tags.csv", "--images", str(place)]) == 0
    assert main(["missing", "tags.csv", *options]) == 0
    Opened(source, place).close()
    for _ in range(2):
        assert main(["train", "tags.csv", *options]) == 0
    assert main(["evaluate", "test.csv", "--images", str(place), "--blank", "negative"]) == 0
    assert main(["predict", str(place / "test")]) == 0
    assert main(["report"]) == 0
    assert main(["export"]) == 0
    assert set(tmp_path.iterdir()) - before == {tmp_path / "tags.positively"}
    workspace = Workspace.of(source)
    assert {path.name for path in workspace.path.iterdir()} == {"missing", "decisions.sqlite", "runs"}
    assert {path.name for path in workspace.runs.iterdir()} == {"auto", "auto-2"}
    assert (workspace.runs / "auto-2" / "evaluation.json").exists(), "the latest run was evaluated"
    assert not (workspace.runs / "auto" / "evaluation.json").exists()


@pytest.mark.parametrize("name", ["tags.reviewed.csv", "tags.reviewed-2.csv"])
def test_a_table_that_a_review_exported_shares_the_workspace(tmp_path, name):
    assert Workspace.of(tmp_path / name).runs == Workspace.of(tmp_path / "tags.csv").runs
