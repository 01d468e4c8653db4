"""The list of missing tags: what a user relies on when they accept what stands at its top."""

import csv
import gc
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy
from scipy.special import expit

import positively as po
import shapes
from conftest import options
from positively.calibration import calibrate
from positively.cli import main
from positively.cli import missing as missing_command
from positively.cli import review as review_command
from positively.cli.parsing import next_command
from positively.errors import ConfigError, FileError, LabelError, MetricError, TableError
from positively.labels import LabelTable
from positively.missing import ClassCounts, MissingTags, Pairs, rank, rank_missing
from positively.missing.files import MissingFolder
from positively.probe import find_series, fit
from positively.tables.options import ReadOptions
from positively.tables.reading import read_labels
from wording import assert_names, naming

basics = shapes.frozen


@pytest.fixture(scope="module")
def complete(tables):
    return tables[0]


@pytest.fixture(scope="module")
def tags(complete):
    """Half of the positives known, no negative."""
    return complete.with_known_ratio(0.5, 0).positives_only()


@pytest.fixture(scope="module")
def found(place, tags):
    return po.find_missing(tags, quiet=True, **basics(place))


def made(images=3000, classes=5, known=0.4, seed=0):
    """Scores of a model that knows something, the truth, and the states that are known of it."""
    generator = np.random.default_rng(seed)
    truth = generator.random((images, classes)) < generator.uniform(0.1, 0.4, classes)
    states = (truth & (generator.random(truth.shape) < known)).astype(np.int8)
    return expit(generator.normal(5.0 * truth - 3.0)), truth, states


def right(found, truth):
    return truth[found.rows, found.columns]


# The list.


def test_every_unknown_pair_is_listed_once_likeliest_first():
    scores, _, states = made()
    found = po.find_missing(scores, states)
    pairs = set(zip(found.rows.tolist(), found.columns.tolist(), strict=True))
    assert pairs == set(zip(*np.nonzero(states == 0), strict=True)) and len(found) == len(pairs)
    assert (np.diff(found.values) <= 0).all()
    assert found[:2] == [found[0], found[1]]
    assert found[0].image == f"image {found.rows[0]}" and found[0].tag == f"class {found.columns[0]}"


def test_what_it_promises_is_what_is_true_at_every_depth():
    scores, truth, states = made()
    found = po.find_missing(scores, states)
    true = np.cumsum(right(found, truth)) / np.arange(1, len(found) + 1)
    for depth in (200, 500, 1000, 2000, 5000):
        assert abs(found.expected_precision[depth - 1] - true[depth - 1]) < 0.05
    hidden = (truth & (states == 0)).sum(axis=0)
    np.testing.assert_allclose(found.counts.missing, hidden, rtol=0.25)
    assert (found.counts.at_most >= hidden).mean() >= 0.8
    assert found.counts.missing.sum() == pytest.approx(found.values.sum(), rel=0.02)


def test_only_the_order_within_a_class_counts_so_that_a_model_that_calls_blanks_no_will_do():
    scores, _, states = made()
    low = po.find_missing(expit(np.log(scores / (1 - scores)) - 4.0), states)
    high = po.find_missing(scores, states)
    np.testing.assert_allclose(low.values, high.values, atol=0.02)


def test_what_cannot_be_judged_is_said_and_left_out(tmp_path):
    scores, _, states = made()
    states[:, 2] = 0
    states[:2, 2] = 1
    found = po.find_missing(scores, states, classes=["a", "b", "rare", "d", "e"])
    assert not found.counts.learned[2] and 2 not in found.columns and 2 not in found.wrong.columns
    assert "'rare' (2)" in str(found)
    found.write(tmp_path / "lists")
    with (tmp_path / "lists" / "classes.csv").open(newline="") as file:
        rare = list(csv.DictReader(file))[2]
    assert (rare["tag"], rare["missing"], rare["judged"]) == ("rare", "", "0")


def test_few_known_tags_give_a_bound_and_no_number():
    scores, _, states = made(known=0.05)
    unsure = str(po.find_missing(scores, states)).split()[0]
    scores, _, states = made(known=0.5)
    assert str(po.find_missing(scores, states)).split()[0] != unsure


@pytest.mark.parametrize(
    ("known", "probability", "warned"),
    [(8, 0.9, True), (200, 0.9, False), (8, 0.1, False)],
)
def test_a_promise_is_doubted_where_the_suggested_tags_have_few_photos(known, probability, warned):
    count = 600
    counts = ClassCounts(*(np.full(1, value) for value in (known, 500.0, 900.0)), np.ones(1, bool))
    nothing = np.zeros(0, np.int64)
    pairs = ([str(row) for row in range(count)], ("cat",))
    wrong = Pairs(*pairs, nothing, nothing, np.zeros(0, np.float32))
    rows, columns = np.arange(count), np.zeros(count, np.int64)
    found = MissingTags(*pairs, rows, columns, np.full(count, probability, np.float32), counts, wrong)
    assert (found.caution is not None) == warned == (str(found.caution) in str(found))
    assert (found[:0] == []) and found.above(0.99).caution is None


def test_blocks_of_classes_make_no_difference(monkeypatch):
    scores, _, states = made(images=500)
    calibration = calibrate(scores, states, leave_one_out=False)
    names = [str(row) for row in range(500)], list("abcde")
    whole = rank_missing(scores, states, calibration, *names)
    monkeypatch.setattr(rank, "_BLOCK_ENTRIES", 1000)
    parts = rank_missing(lambda c: scores[:, c], lambda c: states[:, c], calibration, *names)
    for name in ("rows", "columns", "values"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
        np.testing.assert_array_equal(getattr(whole.wrong, name), getattr(parts.wrong, name))
    short = rank_missing(scores, states, calibration, *names, min_probability=0.3)
    assert len(short) == (whole.values >= 0.3).sum() and short.counts.missing.sum() == whole.counts.missing.sum()


def test_false_tags_lead_the_list_of_wrong_ones():
    scores, truth, states = made()
    generator = np.random.default_rng(1)
    false = np.zeros_like(truth)
    for column in range(truth.shape[1]):
        false[generator.choice(np.flatnonzero(~truth[:, column]), 20, replace=False), column] = True
    states[false] = 1
    found = po.find_missing(scores, states)
    is_false = false[found.wrong.rows, found.wrong.columns]
    assert (np.diff(found.wrong.values) <= 0).all()
    assert is_false[:50].mean() > 0.8 and is_false.sum() > 80  # of 100, among some 1,500 known tags


def test_arrays_that_make_no_sense_are_refused():
    scores, _, states = made(images=20)
    with pytest.raises(MetricError, match="between 0 and 1"):
        po.find_missing(scores * 8 - 4, states)
    with pytest.raises(MetricError):
        po.find_missing(scores[:, :2], states)
    with pytest.raises(ConfigError, match="states"):
        po.find_missing(scores)
    with pytest.raises(ConfigError, match="loo_scores_"):
        po.find_missing(po.PUClassifier(), states)
    with pytest.raises(LabelError, match=r"table\.states"):
        po.find_missing(scores, LabelTable.from_states([str(row) for row in range(20)], "abcde", states))
    with pytest.raises(ConfigError, match="from_states"):
        po.read(states)


def test_sparse_states_give_the_same_list():
    scores, _, states = made(images=200)
    found = po.find_missing(scores, states)
    again = po.find_missing(scores, scipy.sparse.csr_array(states))
    assert found[:20] == again[:20] and len(repr(found.wrong)) < 80


# Tables and runs.


def test_hidden_tags_lead_the_list_of_a_table(found, complete):
    truth = complete.states() == 1
    assert right(found, truth)[:40].mean() > 0.95
    hidden = truth.sum() - found.counts.known.sum()
    assert found.counts.missing.sum() == pytest.approx(hidden, rel=0.3)


def test_a_run_lists_what_its_table_would(place, tags, found, tmp_path):
    run = po.fit(tags, out=str(tmp_path / "run"), quiet=True, **basics(place))
    again = po.find_missing(run)
    assert list(again.images) == list(found.images)
    np.testing.assert_allclose(np.sort(again.values), np.sort(found.values), atol=1e-4)
    assert {(s.image, s.tag) for _, s in zip(range(50), again, strict=False)} == {
        (s.image, s.tag) for _, s in zip(range(50), found, strict=False)
    }
    assert len(po.find_missing(str(run.path), min_probability=0.5)) == (again.values >= 0.5).sum()
    assert "data:image/jpeg" in again._repr_html_() and tags.classes[0] in run._repr_html_()
    assert tags.classes[0] in tags._repr_html_()


def test_python_takes_a_path_as_the_command_does(place, tags, found, table):
    again = po.find_missing(table, images=tags.root, separator=";", quiet=True, **basics(place))
    np.testing.assert_allclose(again.values, found.values, atol=1e-6)
    with pytest.raises(TableError, match="nowhere"):
        po.find_missing("nowhere.csv")
    with pytest.raises(ConfigError, match="classes"):
        po.find_missing(table, images=tags.root, classes=["cat"], **basics(place))


def test_python_takes_options_of_an_earlier_version(tags, table):
    with pytest.warns(FutureWarning, match="skip_missing_images"):
        assert len(po.read(table, images=tags.root, quiet=True, skip_missing=True)) == len(tags)


def test_a_run_without_a_folder_leaves_nothing_behind(place, tags, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = po.TrainConfig(out=str(tmp_path / "unused"))
    run = po.fit(tags, out=None, config=config, quiet=True, **basics(place))
    folder = run.path
    assert run.predict(tags.paths[0])[0].error is None and folder.is_dir() and not list(tmp_path.iterdir())
    del run
    gc.collect()
    assert not folder.exists()


def test_a_list_becomes_a_data_frame(found):
    pandas = pytest.importorskip("pandas")
    frame = found.to_pandas()
    assert list(frame.columns) == ["image", "tag", "probability", "expected_precision"] and len(frame) == len(found)
    assert frame["image"][0] == found[0].image and isinstance(found.wrong.to_pandas(), pandas.DataFrame)


def test_a_notebook_shows_thumbnails_and_escapes_names(found, tags):
    page = found._repr_html_()
    assert page.count("data:image/jpeg;base64,") == 12 and found[0].image in page
    strange = replace(found, images=[f"<i>{image}" for image in found.images], root=tags.root)._repr_html_()
    assert "<i>" not in strange and "data:" not in strange


def test_without_pandas_a_data_frame_is_out_of_reach(found, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match="pandas"):
        found.to_pandas()


def test_no_label_is_judged_by_itself_or_by_a_copy(place, tags, complete, tmp_path):
    """A wrong tag on a photo and its copies does not lend them the tag."""
    truth = complete.states() == 1
    row = int(np.flatnonzero(~truth[:, 0] & (truth.sum(axis=1) > 0))[0])
    for name in (*tags.images, "copy-1.png", "copy-2.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        source = tags.images[row] if name.startswith("copy") else name
        shutil.copy(tags.root / source, tmp_path / name)
    states = np.concatenate([tags.states(), np.zeros((2, 4), dtype=np.int8)])
    states[[row, len(tags)], 0] = 1  # the tag, which is wrong, on the photo and one copy; the other copy is asked
    table = LabelTable.from_states([*tags.images, "copy-1.png", "copy-2.png"], tags.classes, states)
    table = replace(table, root=tmp_path, source="tags.csv")
    found = po.find_missing(table, quiet=True, **basics(place))
    place_of = {(r, c): value for r, c, value in zip(found.rows, found.columns, found.values, strict=True)}
    assert place_of[len(tags) + 1, 0] < 0.1
    doubted = set(zip(found.wrong.rows.tolist(), found.wrong.columns.tolist(), strict=True))
    assert {(row, 0), (len(tags), 0)} <= doubted


def test_series_are_found_and_kinds_of_things_are_not():
    generator = np.random.default_rng(0)
    photos = generator.random((300, 64)).astype(np.float32)
    photos[10:13] = photos[9] * (1 + 0.02 * generator.standard_normal((3, 64)).astype(np.float32))
    groups = find_series(photos)
    assert len(set(groups[9:13])) == 1 and len(set(groups)) == 297
    copies = np.arange(300)
    copies[50] = 9
    united = find_series(photos, np.unique(copies, return_inverse=True)[1])
    assert len({united[9], united[12], united[50]}) == 1
    coins = photos[0] * (1 + 0.02 * generator.standard_normal((300, 64)).astype(np.float32))
    assert find_series(coins) is None
    assert find_series(photos[20:]) is None
    bursts = np.repeat(photos[20:80], 5, axis=0) * (1 + 0.01 * generator.standard_normal((300, 64)).astype(np.float32))
    assert np.array_equal(find_series(bursts), np.repeat(np.arange(60), 5))  # also where every photo is of one


def test_a_series_does_not_vouch_for_itself():
    ranks = []
    for seed in range(7):
        generator = np.random.default_rng(seed)
        features = generator.random((400, 32)).astype(np.float32)
        series = np.arange(20, 26)
        features[series] = features[20] * (1 + 0.01 * generator.standard_normal((6, 32)).astype(np.float32))
        states = np.zeros((400, 1), dtype=np.int8)
        states[series[:5]] = 1  # five of six are tagged, and nothing else tells what the tag is
        states[np.arange(100, 110)] = 1
        probes = [fit(features, states, groups=groups) for groups in (None, find_series(features))]
        ranks.append([int((probe.loo_scores[:, 0] > probe.loo_scores[25, 0]).sum()) for probe in probes])
    assert np.median(ranks, axis=0)[0] < 10 < 100 < np.median(ranks, axis=0)[1]


def test_a_tagged_series_is_not_held_against_its_tags():
    """Known positives of a series are scored by the few others; they stand where a hidden one would."""
    generator = np.random.default_rng(0)
    features = generator.random((400, 32)).astype(np.float32)
    states = np.zeros((400, 1), dtype=np.int8)
    states[[0, 1, 2, 10, 11]] = 1
    probe = fit(features, states, groups=np.maximum(np.arange(400) - 2, 0))
    levelled, raw = probe.first_scores(np.arange(1))[:, 0], probe.loo_scores[:, 0]
    np.testing.assert_allclose(levelled[:3], raw[:3] * 5 / 2, rtol=1e-5)
    np.testing.assert_allclose(levelled[[10, 11]], raw[[10, 11]] * 5 / 4, rtol=1e-5)
    assert np.array_equal(levelled[states[:, 0] == 0], raw[states[:, 0] == 0])


def test_names_and_options_that_do_not_fit_are_refused(tags):
    scores, states = np.random.default_rng(0).random((50, 2)), np.zeros((50, 2), dtype=np.int8)
    states[:20] = 1
    with pytest.raises(LabelError, match=naming("2 classes", "1")):
        po.find_missing(scores, states, classes=["cat"])
    with pytest.raises(LabelError, match=naming("50 images", "1")):
        po.find_missing(scores, states, images=["a.jpg"])
    with pytest.raises(ConfigError, match="at_leest"):
        po.find_missing(scores, states, at_leest=0.9)
    with pytest.raises(ConfigError, match="names"):
        po.find_missing(tags, classes=["cat"])


def test_tables_without_a_question_are_refused(place, complete, tags):
    with pytest.raises(ConfigError, match="known"):
        po.find_missing(complete, quiet=True, **basics(place))
    nothing = LabelTable.from_positives(tags.images, tags.classes, [[] for _ in tags.images])
    with pytest.raises(TableError, match="learn"):
        po.find_missing(replace(nothing, root=tags.root), quiet=True, **basics(place))


# Networks that learn.


# The command.


@pytest.fixture
def table(tags, tmp_path):
    file = tmp_path / "tags.csv"
    rows = [
        f"{image},{';'.join(tags.classes[c] for c in np.flatnonzero(states == 1))},{number}\n"
        for number, (image, states) in enumerate(zip(tags.images, tags.states(), strict=True))
    ]
    file.write_text("image,tags,number\n" + "".join(rows))
    return file


def words(place, tags, *more):
    named = {name: value for name, value in basics(place).items() if name != "head_options"}
    return ["--images", str(tags.root), *options(named), "--head-options.pooling", "max", *more]


def test_the_command_writes_lists_counts_and_the_table(place, tags, complete, table, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = table.read_text()
    assert main(["missing", "tags.csv", *words(place, tags)]) == 0
    told = capsys.readouterr().out
    out = tmp_path / "tags.positively" / "missing"
    assert table.read_text() == before
    with (out / "missing.csv").open(newline="") as file:
        listed = list(csv.DictReader(file))
    assert list(listed[0]) == ["image", "tag", "probability", "expected_precision"]
    probabilities = [float(row["probability"]) for row in listed]
    assert probabilities == sorted(probabilities, reverse=True) and probabilities[-1] >= 0.05
    with (out / "classes.csv").open(newline="") as file:
        counts = {row["tag"]: row for row in csv.DictReader(file)}
    assert set(counts) == set(tags.classes) and all(float(row["at_most"]) > 0 for row in counts.values())
    # The table reads as before, with the likely ones in a column of their own.
    again, _ = read_labels(out / "tags.csv", ReadOptions(images=str(tags.root)))
    np.testing.assert_array_equal(again.states(), read_labels(table, ReadOptions(images=str(tags.root)))[0].states())
    with (out / "tags.csv").open(newline="") as file:
        added = [(row["image"], tag) for row in csv.DictReader(file) for tag in row["missing"].split(";") if tag]
    assert len(added) == sum(p >= 0.5 for p in probabilities)
    assert f"positively review tags.csv --images {tags.root} --backbone" in told
    # Again, accepting: the same folder is ours, and the tags stand among the others.
    assert main(["missing", "tags.csv", *words(place, tags, "--accept-above", "0.9", "--format", "parquet")]) == 0
    accepted, _ = read_labels(out / "tags.csv", ReadOptions(images=str(tags.root)))
    new = (accepted.states() == 1).sum() - (tags.states() == 1).sum()
    assert new == sum(p >= 0.9 for p in probabilities) > 10
    assert pq.read_table(out / "missing.parquet").num_rows == len(listed) and not (out / "missing.csv").exists()


def test_a_folder_with_other_files_is_refused_before_anything_is_computed(table, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    assert main(["missing", str(table), "--images", "nowhere", "--out", str(tmp_path / "mine")]) == 2
    assert "letter.txt" in capsys.readouterr().err
    with pytest.raises(FileError, match=r"letter\.txt"):
        MissingFolder(tmp_path / "mine" / "letter.txt")
    with pytest.raises(FileError, match=r"letter\.txt"):
        MissingFolder(tmp_path / "mine" / "letter.txt" / "lists")


def found_by_anybody():
    rng = np.random.default_rng(0)
    truth = rng.random((300, 3)) < 0.2
    states = (truth & (rng.random(truth.shape) < 0.5)).astype(int)
    return po.find_missing(np.clip(truth * 0.6 + rng.random(truth.shape) * 0.4, 0, 1), states)


@pytest.mark.parametrize("summary", ['{"mine": 1}', "[]", "not json"])
def test_a_summary_of_somebody_else_does_not_make_a_folder_ours(tmp_path, summary):
    (tmp_path / "summary.json").write_text(summary)
    with pytest.raises(FileError, match=r"summary\.json"):
        MissingFolder(tmp_path)


def test_in_a_folder_of_ours_the_files_of_others_stay(tmp_path):
    found = found_by_anybody()
    MissingFolder(tmp_path).write(found, "parquet", {})
    (tmp_path / "letter.txt").write_text("dear")
    MissingFolder(tmp_path).write(found, "csv", {})
    assert {file.name for file in tmp_path.iterdir()} == {
        *("classes.csv", "missing.csv", "wrong.csv", "summary.json", "manifest.json", "letter.txt")
    }
    (tmp_path / "missing.parquet").write_text("precious")
    with pytest.raises(FileError, match=r"missing\.parquet"):
        MissingFolder(tmp_path)
    assert (tmp_path / "missing.parquet").read_text() == "precious"


@pytest.mark.parametrize("name", ["classes.csv", "missing.csv", "tags.csv"])
def test_the_table_takes_no_place_of_another_file(found, tags, table, tmp_path, name):
    source, out = table.with_name(name), tmp_path / "out"
    table.rename(source)
    read, _ = read_labels(source, ReadOptions(images=str(tags.root), verify=False))
    MissingFolder(out).write(found, "csv", {})
    (out / "tags.csv").write_text("somebody else's")
    before = (out / "classes.csv").read_text()
    options = ReadOptions(images=str(tags.root))
    for _ in range(2):  # the second time the file is ours
        written, count = MissingFolder(out).write_tags(found, read, source, options, 0.9, accept=False)
        assert written == out / f"{source.stem}.tagged.csv" and count == (np.round(found.values, 4) >= 0.9).sum()
    assert (out / "classes.csv").read_text() == before and (out / "tags.csv").read_text() == "somebody else's"


def test_accepting_from_zero_on_accepts_everything(place, tags, table, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["missing", "tags.csv", *words(place, tags, "--accept-above", "0")]) == 0
    assert_names(capsys.readouterr().out, f"{(tags.states() == 0).sum():,}")


def test_what_is_accepted_does_not_depend_on_what_is_listed(place, tags, found, table, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["missing", "tags.csv", *words(place, tags, "--min-probability", "0.9", "--accept-above", "0.3")]) == 0
    shown = np.round(found.values.astype(float), 4)
    told, listed = (
        capsys.readouterr().out,
        (tmp_path / "tags.positively" / "missing" / "missing.csv").read_text().count("\n") - 1,
    )
    assert listed == (shown >= 0.9).sum()
    assert_names(told, listed, (shown >= 0.3).sum(), "0.3")
    accepted, _ = read_labels("tags.positively/missing/tags.csv", ReadOptions(images=str(tags.root)))
    assert (accepted.states() == 1).sum() - (tags.states() == 1).sum() == (shown >= 0.3).sum()


def test_what_was_edited_since_is_not_written_over(place, tags, table, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["missing", "tags.csv", *words(place, tags)]
    assert main(command) == 0
    mine = tmp_path / "tags.positively" / "missing" / "tags.csv"
    mine.write_text(mine.read_text().replace("image,tags", "image,hours of work"))
    edited = mine.read_text()
    for _ in range(2):  # the second time over the other one
        assert main(command) == 0
        assert mine.read_text() == edited
        assert "tags.positively/missing/tags.tagged.csv" in capsys.readouterr().out
    assert not (tmp_path / "tags.positively" / "missing" / "tags.tagged-2.csv").exists()
    assert main([*command, "--accept-above", "1"]) == 0
    assert "tagged.csv" in capsys.readouterr().out
    assert "image,hours of work" not in (tmp_path / "tags.positively" / "missing" / "tags.tagged.csv").read_text()
    # A list has no second name: nothing is computed, and nothing is written.
    with (tmp_path / "tags.positively" / "missing" / "wrong.csv").open("a") as file:
        file.write("checked,by,me\n")
    before = {file.name: file.read_bytes() for file in (tmp_path / "tags.positively" / "missing").iterdir()}
    assert main(command) == 2
    assert "wrong.csv" in capsys.readouterr().err
    assert {file.name: file.read_bytes() for file in (tmp_path / "tags.positively" / "missing").iterdir()} == before


def test_what_was_written_can_be_read_again_and_stays(place, tags, table, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["missing", "tags.csv", *words(place, tags)]) == 0
    before = {file: file.read_bytes() for file in (tmp_path / "tags.positively" / "missing").iterdir()}
    assert main(["missing", "tags.positively/missing/tags.csv", *words(place, tags)]) == 0
    assert "tags.positively/missing/tags.positively/missing/tags.csv" in capsys.readouterr().out
    assert all(file.read_bytes() == contents for file, contents in before.items())
    assert (
        main(["missing", "tags.positively/missing/tags.csv", *words(place, tags, "--out", "tags.positively/missing")])
        == 0
    )
    assert "tags.positively/missing/tags.tagged.csv" in capsys.readouterr().out
    table_out = tmp_path / "tags.positively" / "missing" / "tags.csv"
    assert table_out.read_bytes() == before[table_out]
    assert main(["missing", "tags.positively/missing/missing.csv", "--out", "tags.positively/missing"]) == 2
    assert "missing.csv" in capsys.readouterr().err


@pytest.mark.parametrize("marked", [True, False])
def test_lists_open_in_the_program_that_wrote_the_table(found, tmp_path, marked):
    source = tmp_path / "Inventar.csv"
    source.write_text("Bild;Schlagwörter\na.jpg;Gemälde, Öl\n", encoding="utf-8-sig" if marked else "cp1252")
    for file in MissingFolder(tmp_path / "lists", source).write(found, "csv", {}):
        assert file.read_bytes().startswith("\ufeff".encode())
        assert ";" in file.read_text(encoding="utf-8-sig").splitlines()[0]
    source.write_text("image,tags\na.jpg,cat\n")
    for file in MissingFolder(tmp_path / "lists", source).write(found, "csv", {}):
        assert file.read_bytes().isascii() and "," in file.read_text().splitlines()[0]


def test_the_copy_of_a_table_before_its_review_is_removed(found, tags, table, tmp_path):
    reviewed, out = tmp_path / "tags.reviewed.csv", tmp_path / "lists"
    shutil.copy(table, reviewed)
    options = ReadOptions(images=str(tags.root))
    for source in (table, reviewed):
        folder = MissingFolder(out, source)
        folder.write(found, "csv", {})
        folder.write_tags(found, tags, source, options, 0.9, accept=False)
    assert not (out / "tags.csv").exists() and (out / "tags.reviewed.csv").exists()
    (out / "tags.reviewed.csv").write_text("edited")
    MissingFolder(out, table).write_tags(found, tags, table, options, 0.9, accept=False)
    assert (out / "tags.reviewed.csv").read_text() == "edited" and (out / "tags.csv").exists()


def test_tables_of_one_name_in_two_folders_have_two_lists(place, tags, table, tmp_path, monkeypatch):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        shutil.copy(table, tmp_path / folder / "tags.csv")
    monkeypatch.chdir(tmp_path / "one")
    assert main(["missing", "../two/tags.csv", *words(place, tags)]) == 0
    assert (tmp_path / "two" / "tags.positively" / "missing" / "missing.csv").exists() and not Path(
        "tags.positively"
    ).exists()


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ("coco --images coco --image-size 64", "coco --images coco --image-size 64"),
        ("--images photos photos --out lists --min-probability 0.5", "photos --images photos"),
        (
            "tags.csv --skip-missing-images --verify=false --min_count 3",
            "tags.csv --min-count 3 --skip-missing-images --no-verify",
        ),
        ("'my tags.csv' --separator ';'", "'my tags.csv' --separator ';'"),
        ("tags.csv --head-options.pooling max", "tags.csv --head-options.pooling max"),
    ],
)
def test_the_next_command_opens_the_same_table(given, printed):
    values = missing_command.parser().parse(shlex.split(given))
    assert next_command("review", values.table, values) == f"positively review {printed}"
    review_command.parser().parse(shlex.split(printed))


def test_the_command_takes_a_run(place, tags, table, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "tags.csv", *words(place, tags, "--out", "run")]) == 0
    assert main(["missing", "run", "--accept-above", "0.9"]) == 0
    assert (tmp_path / "run" / "missing" / "tags.csv").exists()
    assert main(["missing", "tags.csv", *words(place, tags)]) == 0
    one, other = (tmp_path / folder / "missing.csv" for folder in ("run/missing", "tags.positively/missing"))
    assert len(one.read_text().splitlines()) == len(other.read_text().splitlines())
    assert main(["missing", "run", "--backbone", "resnet50"]) == 2
    assert "--backbone" in capsys.readouterr().err
    table.unlink()
    assert main(["missing", "run"]) == 0
    assert "tags.csv" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "fact"),
    [
        (["--accept-above", "95"], "--accept-above"),
        (["--min-probability", "-1"], "--min-probability"),
        (["--folds", "1"], "folds"),
        (["--blank", "negative"], "known"),
    ],
)
def test_options_that_make_no_sense_are_sentences(place, tags, table, tmp_path, capsys, monkeypatch, more, fact):
    monkeypatch.chdir(tmp_path)
    assert main(["missing", "tags.csv", *words(place, tags, *more)]) == 2
    assert fact in capsys.readouterr().err


def test_a_thousand_blank_scans_cost_no_memory():
    generator = np.random.default_rng(0)
    photos = generator.random((1500, 32)).astype(np.float32)
    photos[500:] = photos[0]
    photos[3] = photos[2] * 1.0001
    groups = find_series(photos)  # without their contents, a thousand alike are a kind
    assert groups[2] == groups[3] and len(set(groups)) == 1499
    copies = np.concatenate([np.arange(500), np.zeros(1000, dtype=np.int64)])
    assert len(set(find_series(photos, copies))) == 499
