"""The label table: three states, small at any size, and masks that are the published ones."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import sparse

from positively.errors import LabelError
from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, LabelState, LabelTable, check_states, class_ratios
from wording import naming

STATES = arrays.arrays(np.int8, st.tuples(st.integers(1, 12), st.integers(1, 6)), elements=st.sampled_from([-1, 0, 1]))


def table_of(states, blank=UNKNOWN):
    return LabelTable.from_states(
        [f"{i}.jpg" for i in range(len(states))], [f"class {c}" for c in range(states.shape[1])], states, blank
    )


@settings(deadline=None)
@given(STATES, st.sampled_from([UNKNOWN, NEGATIVE]))
def test_states_come_back_as_they_went_in_whatever_the_blank(states, blank):
    table = table_of(states, blank)
    assert np.array_equal(table.states(), states)
    assert table.offsets.nnz == (states != blank).sum()
    for state in LabelState:
        assert table.counts(state).tolist() == (states == state).sum(axis=0).tolist()
    assert np.array_equal(table.positives_only().states(), np.where(states == 1, 1, 0))
    assert table.has_negatives == (states == -1).any() and table.is_complete == (states != 0).all()
    positive = (states == 1).astype(int)
    assert np.array_equal(table.cooccurrence().toarray(), positive.T @ positive)


@settings(deadline=None)
@given(STATES, st.sampled_from([UNKNOWN, NEGATIVE]), st.integers(0, 5), st.floats(0, 1), st.floats(0, 1))
def test_masks_are_nested_and_only_hide(states, blank, seed, one, other):
    table = table_of(states, blank)
    small, large = sorted((one, other))
    few, many = table.with_known_ratio(small, seed).states(), table.with_known_ratio(large, seed).states()
    assert np.array_equal(few[few != 0], many[few != 0])
    assert np.array_equal(many[many != 0], states[many != 0])


@pytest.mark.parametrize("ratio", [0.1, 0.3, 0.5, 0.8])
def test_the_mask_is_the_published_one(ratio):
    states = np.where(np.random.default_rng(1).random((500, 20)) < 0.2, 1, -1).astype(np.int8)
    np.random.seed(0)
    drawn = np.random.uniform(0, 1, (500, 20))
    hidden = table_of(states, NEGATIVE).with_known_ratio(ratio)
    assert np.array_equal(hidden.states(), np.where(drawn < ratio, states, 0))
    assert hidden.offsets.nnz <= 0.65 * states.size  # the smaller part is the one that is listed


def test_a_mask_does_not_depend_on_how_the_rows_are_walked(monkeypatch):
    states = np.where(np.random.default_rng(1).random((100, 7)) < 0.2, 1, -1).astype(np.int8)
    whole = table_of(states, NEGATIVE).with_known_ratio(0.4).states()
    monkeypatch.setattr("positively.labels._CHUNK_ENTRIES", 30)
    assert np.array_equal(table_of(states, NEGATIVE).with_known_ratio(0.4).states(), whole)


@pytest.mark.parametrize("blank", [UNKNOWN, NEGATIVE])
def test_a_million_images_with_ten_thousand_classes_fit_in_200_megabytes(blank):
    images, classes, labels = 1_000_000, 10_000, 5
    tracemalloc.start()
    columns = (np.arange(images * labels, dtype=np.int64) * 7919 % classes).astype(np.int32)
    starts = np.arange(0, images * labels + 1, labels, dtype=np.int32)
    values = np.full(images * labels, POSITIVE - blank, dtype=np.int8)
    table = LabelTable(
        [f"photos/{i:07d}.jpg" for i in range(images)],
        tuple(f"class {c}" for c in range(classes)),
        sparse.csr_array((values, columns, starts), shape=(images, classes)),
        blank,
    )
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 200e6
    assert table.total(POSITIVE) == images * labels
    assert table.total(blank) == images * (classes - labels)


def test_rows_and_classes_are_chosen_by_name_and_number():
    table = table_of(np.array([[1, 0, -1], [0, 1, 1], [-1, 1, 0]]), NEGATIVE)
    assert table.select([2, 0]).images == ["2.jpg", "0.jpg"]
    assert table.select(np.array([False, True, False])).states().tolist() == [[0, 1, 1]]
    assert table.with_classes(["class 2", "new"]).states().tolist() == [[-1, -1], [1, -1], [0, -1]]
    with pytest.raises(LabelError, match="split"):
        table.split("test")


def test_wrong_states_and_shapes_are_sentences():
    with pytest.raises(LabelError, match=naming("2", "1 of 4")):
        check_states([[1, 2], [0, -1]])
    with pytest.raises(LabelError, match="1 × 2"):
        LabelTable(["a", "b"], ("x", "y"), sparse.csr_array((1, 2), dtype=np.int8))
    with pytest.raises(LabelError, match="differ"):
        LabelTable(["a"], ("x", "x"), sparse.csr_array((1, 2), dtype=np.int8))
    with pytest.raises(LabelError, match="between 0 and 1"):
        table_of(np.ones((2, 2))).with_known_ratio(30)


@pytest.fixture
def complete_table():
    states = np.where(np.random.default_rng(0).random((400, 6)) < 0.3, 1, -1)
    return LabelTable.from_states([str(i) for i in range(400)], list("abcdef"), states, NEGATIVE)


def test_flipped_positives_become_negative_and_smaller_shares_are_nested_in_larger_ones(complete_table):
    before = complete_table.states()
    flipped = {share: complete_table.with_flipped_positives(share, seed=3).states() for share in (0.0, 0.1, 0.5)}
    assert np.array_equal(flipped[0.0], before)
    for share, states in flipped.items():
        changed = states != before
        assert np.all(before[changed] == 1) and np.all(states[changed] == -1)
        assert changed.sum() / (before == 1).sum() == pytest.approx(share, abs=0.04)
    assert np.all(flipped[0.5][flipped[0.1] != before] == -1)
    assert not np.array_equal(complete_table.with_flipped_positives(0.5, seed=4).states(), flipped[0.5])


def test_positives_are_flipped_before_labels_are_hidden_without_a_trace(complete_table):
    noisy = complete_table.with_flipped_positives(0.3).with_known_ratio(0.5)
    assert 0 < noisy.total(POSITIVE) < complete_table.with_known_ratio(0.5).total(POSITIVE)
    assert noisy.total(UNKNOWN) == complete_table.with_known_ratio(0.5).total(UNKNOWN)


def test_a_table_that_only_lists_tags_cannot_be_flipped():
    with pytest.raises(LabelError, match="negative"):
        LabelTable.from_positives(["a"], ["x"], [[0]]).with_flipped_positives(0.5)
    with pytest.raises(LabelError, match="between 0 and 1"):
        LabelTable.from_positives(["a"], ["x"], [[0]], NEGATIVE).with_flipped_positives(1.5)


def test_one_positive_an_image_is_kept_at_random_and_nothing_else(complete_table):
    before, single = complete_table.states(), complete_table.with_single_positive(seed=1)
    states = single.states()
    assert np.all(before[states == 1] == 1) and not (states == -1).any()
    assert np.array_equal((states == 1).sum(axis=1), (before == 1).any(axis=1).astype(int))
    several = (before == 1).sum(axis=1) > 1
    other = complete_table.with_single_positive(seed=2).states()
    assert 0.2 < (states != other)[several].any(axis=1).mean() < 0.9


def test_the_share_known_may_differ_by_class_while_the_draws_stay_nested():
    states = np.ones((4000, 6), dtype=np.int8)
    table = LabelTable.from_states([f"{row}.jpg" for row in range(4000)], list("abcdef"), states, NEGATIVE)
    shares = class_ratios(6, 0.3, 0.8, seed=5)
    assert shares.std() > 0.05 and (shares > 0).all() and (shares < 1).all()
    known = table.with_known_ratio(0.3, 5, spread=0.8).states() == 1
    np.testing.assert_allclose(known.mean(0), shares, atol=0.03)
    more = table.with_known_ratio(0.6, 5, spread=0.8).states() == 1
    assert not (known & ~more).any(), "what is known at a smaller ratio is known at a larger one"
    np.testing.assert_array_equal(table.with_known_ratio(0.3, 5).states(), table.with_known_ratio(0.3, 5, 0.0).states())
