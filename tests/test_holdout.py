"""What a user relies on when a part of the table is held out."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from positively.finetune.holdout import holdout_rows, split_rows
from positively.labels import NEGATIVE, POSITIVE, LabelTable


@dataclass(frozen=True, eq=False)
class HashedTable(LabelTable):
    """A table that knows the content of its images."""

    hashes: list[str] | None = None


def random_table(images, classes, labels_an_image, seed=0, hashes=None):
    """A long tail of classes, as in photos."""
    generator = np.random.default_rng(seed)
    frequency = np.exp(generator.normal(0.0, 1.3, classes))
    frequency = np.minimum(frequency / frequency.sum() * labels_an_image, 0.6)
    states = (generator.random((images, classes)) < frequency).astype(np.int8)
    return make_table(states, hashes)


def make_table(states, hashes=None):
    names, classes = [f"{i}.jpg" for i in range(len(states))], [f"c{i}" for i in range(np.shape(states)[1])]
    table = LabelTable.from_states(names, classes, states)
    return HashedTable(names, table.classes, table.offsets, hashes=hashes)


@pytest.mark.parametrize(("images", "classes", "labels"), [(2000, 80, 2.9), (500, 20, 1.5), (3000, 300, 3.0)])
@pytest.mark.parametrize("share", [0.1, 0.25])
def test_every_class_has_its_share_held_out_within_one(images, classes, labels, share):
    # By lot alone, a class of 40 images had anything between none and nine of them held out.
    table = random_table(images, classes, labels)
    counts = table.counts(POSITIVE)
    for seed in range(5):
        train, holdout = holdout_rows(table, share, seed)
        held = table.select(holdout).counts(POSITIVE)
        judged = counts >= 2 / share
        assert judged.sum() > 10
        assert (np.abs(held - share * counts)[judged] < 1 + 1e-9).all()
        assert len(holdout) == round(share * images)
        np.testing.assert_array_equal(np.sort(np.concatenate([train, holdout])), np.arange(images))
        assert (np.diff(train) > 0).all() and (np.diff(holdout) > 0).all()


def test_many_rare_classes_still_have_images_held_out():
    # Four images a class, a tenth of which rounds to none.
    table = make_table(np.repeat(np.eye(200, dtype=np.int8), 4, axis=0))
    _, holdout = holdout_rows(table, 0.1, seed=0)
    assert len(holdout) == 80
    assert table.select(holdout).counts(POSITIVE).max() == 1


def test_images_without_a_tag_are_held_out_in_their_share():
    states = np.zeros((200, 3), dtype=np.int8)
    states[:50, 0] = 1
    _, holdout = holdout_rows(make_table(states), 0.2, seed=3)
    assert ((holdout < 50).sum(), (holdout >= 50).sum()) == (10, 30)


@st.composite
def small_tables(draw):
    images, classes = draw(st.integers(20, 60)), draw(st.integers(1, 8))
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    states = generator.random((images, classes)) < draw(st.sampled_from([0.0, 0.02, 0.1, 0.5, 0.9, 1.0]))
    contents = draw(st.integers(1, images))
    return make_table(states.astype(np.int8), [f"{number:x}" for number in generator.integers(0, contents, images)])


@settings(max_examples=150, deadline=None)
@given(small_tables(), st.sampled_from([0.0, 0.1, 0.3, 0.6, 0.9]), st.integers(0, 5))
def test_copies_stay_together_and_every_class_keeps_an_image_to_train_on(table, share, seed):
    train, holdout = holdout_rows(table, share, seed)
    contents = np.array(table.hashes)
    assert not set(contents[train]) & set(contents[holdout])
    assert len(train) + len(holdout) == len(table) and len(train)
    assert ((table.select(train).counts(POSITIVE) > 0) == (table.counts(POSITIVE) > 0)).all()
    if len(set(table.hashes)) < 20 or not share:
        assert not len(holdout)


def test_the_only_image_of_a_class_is_never_held_out():
    states = np.zeros((60, 4), dtype=np.int8)
    states[::2, 0], states[1::2, 1] = 1, 1
    states[7, 2] = states[7, 3] = 1
    states[8, 3] = 1
    for seed in range(30):
        train, _ = holdout_rows(make_table(states), 0.5, seed)
        assert 7 in train


def test_classes_that_share_all_their_images_with_rarer_ones_keep_one():
    # Each of the pairs may lose one image, and together they would lose both images of the last class.
    states = np.zeros((40, 3), dtype=np.int8)
    states[[0, 1], 0] = states[[2, 3], 1] = states[[0, 2], 2] = 1
    for seed in range(30):
        train, _ = holdout_rows(make_table(states), 0.5, seed)
        assert (make_table(states).select(train).counts(POSITIVE) > 0).all()


def test_images_that_were_not_hashed_are_images_of_their_own():
    table = random_table(100, 5, 1.0, hashes=[""] * 100)
    assert len(holdout_rows(table, 0.2, 0)[1]) == 20


def test_the_seed_decides_what_is_held_out_and_negatives_do_not():
    table = random_table(300, 10, 2.0)
    complete = LabelTable.from_states(table.images, table.classes, np.where(table.states() == 1, 1, -1), NEGATIVE)
    first, again, other = (holdout_rows(table, 0.2, seed)[1] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, holdout_rows(complete, 0.2, 1)[1])
    assert len(np.intersect1d(first, other)) < 30  # 12 of 60 by chance


def test_nothing_is_held_out_of_a_few_images():
    table = random_table(19, 3, 1.0)
    train, holdout = split_rows(table, 0.5, 0)
    assert train.tolist() == list(range(19)) and not len(holdout)


def test_a_split_column_is_obeyed():
    table = random_table(60, 3, 1.0)
    splits = ["train", "val", "test", ""] * 15
    named = HashedTable(table.images, table.classes, table.offsets, splits=splits)
    train, holdout = (named.select(rows) for rows in split_rows(named, 0.5, 0))
    assert set(train.splits) == {"train", ""} and set(holdout.splits) == {"val"}
    without_val = named.select(np.array([split != "val" for split in splits]))
    train, holdout = (without_val.select(rows) for rows in split_rows(without_val, 0.2, 0))
    assert set(train.splits) | set(holdout.splits) == {"train", ""}
    assert len(train) + len(holdout) == 30 and len(holdout)
