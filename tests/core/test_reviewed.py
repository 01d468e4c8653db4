"""Labels that a review or --accept-above adds are told apart from labels that are known at random."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

import positively as po
from positively.missing import missing_in_table
from positively.review import DecisionStore, ReviewSession
from positively.tables.options import ReadOptions
from positively.tables.reading import read_labels
from positively.tables.write_back import write_table

OPTIONS = ReadOptions(find_images=False)
TABLES = {
    "tags.csv": "image,tags\na.jpg,cat\nb.jpg,cat;dog\nc.jpg,dog\nd.jpg,dog;cat\n",
    "deutsch.csv": "Datei;Schlagworte\na.jpg;cat\nb.jpg;cat, dog\nc.jpg;dog\nd.jpg;dog, cat\n",
    "classes.csv": "image,cat,dog\na.jpg,1,\nb.jpg,1,1\nc.jpg,,1\nd.jpg,1,1\n",
    "pairs.csv": "image,tag\na.jpg,cat\nb.jpg,cat\nb.jpg,dog\nc.jpg,dog\nd.jpg,dog\nd.jpg,cat\n",
    "lines.jsonl": "\n".join(
        f'{{"image": "{name}.jpg", "tags": {tags}}}'
        for name, tags in zip("abcd", ('["cat"]', '["cat", "dog"]', '["dog"]', '["dog", "cat"]'), strict=True)
    ),
}


def reviewed(table):
    return {(table.images[row], table.classes[column]) for row, column in zip(*table.reviewed.nonzero(), strict=True)}


@pytest.mark.parametrize("name", [*TABLES, "table.parquet", "table.xlsx"])
def test_reviewed_labels_are_written_and_read_in_every_shape(tmp_path, name):
    source = tmp_path / name
    if name in TABLES:
        source.write_text(TABLES[name], encoding="utf-8")
    else:
        (tmp_path / "tags.csv").write_text(TABLES["tags.csv"], encoding="utf-8")
        plain, _ = read_labels(tmp_path / "tags.csv", OPTIONS)
        write_table(source, plain, {}, source=tmp_path / "tags.csv", options=OPTIONS)
    table, _ = read_labels(source, OPTIONS)
    assert table.reviewed is None
    first, second = {("a.jpg", "dog"): 1, ("c.jpg", "cat"): -1}, {("c.jpg", "bird; small"): 1}
    out = source.with_stem("first")
    write_table(out, table, first, source=source, options=OPTIONS, reviewed=True)
    once, _ = read_labels(out, OPTIONS)
    assert reviewed(once) == set(first) and once.classes == table.classes
    assert reviewed(once.select([2])) == {("c.jpg", "cat")} and reviewed(once.with_classes(["dog"])) == {
        ("a.jpg", "dog")
    }
    if name in (
        "tags.csv",
        "pairs.csv",
        "table.parquet",
        "table.xlsx",
    ):  # where ';' separates the tags, none may contain it
        second = {("c.jpg", "bird"): 1}
    again = source.with_stem("again")
    write_table(again, once, second, source=out, options=OPTIONS, reviewed=True)
    assert reviewed(read_labels(again, OPTIONS)[0]) == {*first, *second}


def test_a_column_of_that_name_with_other_contents_changes_nothing(tmp_path):
    (tmp_path / "tags.csv").write_text("image,tags,reviewed\na.jpg,cat,2024-05-01\nb.jpg,dog,\n", encoding="utf-8")
    table, _ = read_labels(tmp_path / "tags.csv", OPTIONS)
    assert table.reviewed is None and table.classes == ("cat", "dog")


def answered_table(seed=0):
    """A table after truthful answers about the 25 first suggestions of each tag, with and without their marks."""
    generator = np.random.default_rng(seed)
    truth = generator.random((600, 3)) < 0.3
    X = generator.normal(size=(600, 12)) + 2.0 * truth @ generator.normal(size=(3, 12))
    states = (truth & (generator.random(truth.shape) < 0.3)).astype(np.int8)
    names, classes = [f"{number}.jpg" for number in range(600)], ("a", "b", "c")
    found = missing_in_table(po.LabelTable.from_states(names, classes, states), X)
    flags = np.zeros_like(states)
    for column in range(3):
        flags[found.rows[found.columns == column][:25], column] = 1
    answered = np.where(flags, np.where(truth, 1, -1), states)
    plain = po.LabelTable.from_states(names, classes, answered)
    return X, plain, replace(plain, reviewed=csr_array(flags)), (truth & (answered != 1)).sum()


def test_after_a_review_of_the_first_suggestions_the_rest_is_still_expected():
    X, plain, marked, left = answered_table()
    expected, naive = (missing_in_table(table, X).counts.missing.sum() for table in (marked, plain))
    assert abs(expected - left) < abs(naive - left) and expected > 0.5 * left > naive


def test_another_review_takes_the_marks_from_the_table_too(tmp_path):
    X, plain, marked, left = answered_table()
    expected = []
    for number, table in enumerate((marked, plain)):
        session = ReviewSession(table, X, DecisionStore(tmp_path / f"{number}.sqlite", table))
        expected.append(sum(column.progress.missing for column in session.model.columns))
        session.close()
    assert expected[0] > 0.5 * left > expected[1]
