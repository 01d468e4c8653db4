"""The embedded data set: real handwriting, the same every time, nothing shared between train and test."""

import numpy as np

from positively.labels import NEGATIVE, POSITIVE
from positively.research.scenes import CLASSES, _digits, _handwriting, make_scene, write_scenes


def test_scenes_are_the_same_every_time_and_differ_from_one_another():
    first, labels = make_scene("train", 7)
    again, same_labels = make_scene("train", 7)
    assert np.array_equal(first, again) and labels == same_labels
    for other in (make_scene("train", 8), make_scene("test", 7), make_scene("train", 7, seed=1)):
        assert not np.array_equal(first, other[0])


def test_train_and_test_are_made_of_different_handwriting():
    train, test = _handwriting("train"), _handwriting("test")
    assert not set(train) & set(test)
    _, targets = _digits()
    assert set(targets[train]) == set(targets[test]) == set(range(10))


def test_a_scene_shows_one_to_four_different_digits_unevenly():
    labels = [make_scene("train", i)[1] for i in range(400)]
    assert {len(row) for row in labels} == {1, 2, 3, 4}
    assert all(len(set(row)) == len(row) for row in labels)
    counts = np.zeros((10, 10), dtype=int)
    for row in labels:
        counts[np.ix_(row, row)] += 1
    assert counts.diagonal().max() > 1.5 * counts.diagonal().min() > 0
    assert counts[0, 1] > 2 * counts[0, 5]  # neighbours keep company


def test_written_scenes_carry_their_labels(tmp_path):
    table = write_scenes(tmp_path, "test", 5)
    assert table.blank == NEGATIVE and table.classes == CLASSES
    assert all(path.exists() for path in table.paths)
    lines = (tmp_path / "test.csv").read_text().splitlines()
    assert lines[0] == "image,tags" and len(lines) == 6
    assert table.total(POSITIVE) == sum(len(line.split(",")[1].split(";")) for line in lines[1:])
