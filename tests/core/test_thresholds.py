"""What a user of ``positively.calibration`` thresholds relies on."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from positively.calibration import choose_thresholds, f1_thresholds, few_positives, pu_thresholds
from positively.errors import ConfigError, MetricError
from positively.metrics import f1_scores
from wording import naming

ALL_WAYS = [pu_thresholds, f1_thresholds, choose_thresholds]


def separable_case(images=80, classes=5, seed=0):
    generator = np.random.default_rng(seed)
    truth = generator.random((images, classes)) < 0.3
    return np.where(truth, 0.7, 0.1) + 0.2 * generator.random(truth.shape), np.where(truth, 1, -1)


@pytest.mark.parametrize("way", ALL_WAYS)
def test_separable_classes_are_told_apart_without_fault(way):
    scores, states = separable_case()
    assert f1_scores(scores, states, way(scores, states)).overall_f1 == 1.0


def test_separable_classes_are_told_apart_from_some_of_their_positives_alone():
    scores, states = separable_case(images=400)
    known = np.where((states == 1) & (np.random.default_rng(1).random(states.shape) < 0.5), 1, 0)
    fresh_scores, fresh_states = separable_case(seed=2)
    assert f1_scores(fresh_scores, fresh_states, pu_thresholds(scores, known)).overall_f1 > 0.97


@pytest.mark.parametrize("way", [pu_thresholds, f1_thresholds])
def test_each_class_keeps_its_own_scale_when_nothing_is_shrunk(way):
    scores, states = separable_case()
    scores = scores * np.array([1.0, 0.1, 10.0, 1e-6, 1e6])
    assert f1_scores(scores, states, way(scores, states, shrinkage=0.0)).class_f1 == 1.0


@st.composite
def columns(draw):
    size = draw(st.integers(2, 15))
    scores = draw(
        st.lists(st.floats(-5, 5) | st.sampled_from([0.0, 1.0, np.inf, -np.inf]), min_size=size, max_size=size)
    )
    states = draw(st.lists(st.sampled_from([1, 0, -1]), min_size=size, max_size=size))
    return np.array(scores)[:, None], np.array([1, -1, *states[2:]])[:, None]


@settings(max_examples=150, deadline=None)
@given(columns())
def test_no_other_threshold_does_better_on_the_held_out_images(case):
    scores, states = case
    positive, known = states == 1, states != 0

    def recall_squared(threshold):
        chosen = scores >= threshold
        return (chosen & positive).sum() ** 2 / max(chosen.sum(), 1)

    def f1(threshold):
        chosen = (scores >= threshold) & known
        return 2 * (chosen & positive).sum() / (chosen.sum() + positive.sum())

    # One class is its own median, so that shrinkage leaves it alone.
    for way, quality in ((pu_thresholds, recall_squared), (f1_thresholds, f1)):
        assert quality(way(scores, states)[0]) == max(quality(score) for score in scores.ravel())


def test_thresholds_from_positives_alone_do_not_read_negatives():
    scores, states = separable_case()
    np.testing.assert_array_equal(pu_thresholds(scores, states), pu_thresholds(scores, np.maximum(states, 0)))


def test_f1_thresholds_do_not_read_scores_of_unknown_labels():
    scores, states = separable_case()
    states = np.where(np.random.default_rng(3).random(states.shape) < 0.4, 0, states)
    other = np.where(states == 0, -scores, scores)
    np.testing.assert_array_equal(f1_thresholds(other, states), f1_thresholds(scores, states))


def test_the_cut_lies_half_way_to_the_next_lower_score():
    scores, states = np.array([[0.9], [0.8], [0.4], [0.1]]), np.array([[1], [1], [0], [-1]])
    assert pu_thresholds(scores, states)[0] == pytest.approx(0.6)
    assert f1_thresholds(scores, states)[0] == pytest.approx(0.45)


def test_a_class_without_a_positive_takes_the_median_of_the_others():
    scores = np.array([[0.9, 0.5, 0.3, 0.7], [0.1, 0.1, 0.1, 0.2]])
    states = np.array([[1, 1, 1, 0], [-1, -1, -1, 0]])
    for way in ALL_WAYS:
        assert way(scores, states)[3] == pytest.approx(0.3)


def test_without_any_positive_the_threshold_is_one_half():
    for way in ALL_WAYS:
        assert way([[3.0, 4.0]], [[0, -1]]).tolist() == [0.5, 0.5]
        assert way(np.zeros((0, 2)), np.zeros((0, 2))).tolist() == [0.5, 0.5]


def test_without_negatives_f1_cannot_choose_and_positives_alone_can():
    scores, states = [[0.9], [0.1]], [[1], [0]]
    assert f1_thresholds(scores, states).tolist() == [0.5]
    assert choose_thresholds(scores, states).tolist() == pu_thresholds(scores, states).tolist()


def test_choosing_uses_f1_where_negatives_are_known_and_positives_alone_elsewhere():
    scores, states = separable_case(classes=2)
    scores = np.round(scores + 0.4 * np.random.default_rng(4).random(scores.shape), 2)
    states[:, 1] = np.maximum(states[:, 1], 0)
    chosen, positives = choose_thresholds(scores, states), (states == 1).sum(axis=0)
    cuts = np.array([f1_thresholds(scores, states, 0.0)[0], pu_thresholds(scores, states, 0.0)[1]])
    weight = positives / (positives + np.array([1.0, 4.0]))
    np.testing.assert_allclose(chosen, weight * cuts + (1 - weight) * np.median(cuts))


def test_one_image_and_one_class_give_a_threshold_that_finds_it():
    assert pu_thresholds([[0.3]], [[1]]).tolist() == [0.3]
    assert choose_thresholds([[0.3]], [[1]]).tolist() == [0.3]


@pytest.mark.parametrize(
    ("low", "high"),
    [(-np.inf, 1.0), (np.nextafter(1.0, 0.0), 1.0), (5e-324, 1e-323), (1.6e308, 1.7e308)],
    ids=["-inf", "neighbours", "subnormal", "huge"],
)
def test_a_cut_never_lets_the_next_lower_score_in(low, high):
    for way in ALL_WAYS:
        (threshold,) = way([[high], [low], [low]], [[1], [-1], [-1]])
        assert low < threshold <= high


def test_infinite_scores_give_thresholds_without_nan_or_warning():
    scores = np.array([[np.inf, 0.8, -np.inf], [-np.inf, 0.2, -np.inf], [0.0, 0.1, np.inf]])
    states = np.array([[1, 1, 1], [-1, -1, 1], [-1, -1, -1]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for way in ALL_WAYS:
            assert not np.isnan(way(scores, states)).any()


def test_nan_scores_and_negative_shrinkage_are_refused_in_a_sentence():
    for way in ALL_WAYS:
        with pytest.raises(MetricError, match=naming("1 of 2", "NaN")):
            way([[np.nan], [0.1]], [[1], [-1]])
    with pytest.raises(ConfigError, match=naming("shrinkage", "-1")):
        pu_thresholds([[0.2]], [[1]], shrinkage=-1.0)


def draw_images(generator, images, frequency, distance, level):
    """True labels, and scores of a fair but imperfect model whose classes are not equally well calibrated."""
    truth = generator.random((images, len(frequency))) < frequency
    evidence = distance * truth + generator.normal(size=truth.shape)
    logits = distance * evidence - distance**2 / 2 + np.log(frequency / (1 - frequency)) + level
    return truth, 1 / (1 + np.exp(-logits))


@pytest.mark.parametrize(("way", "gain"), [(pu_thresholds, 0.05), (f1_thresholds, 0.02)])
def test_shrinkage_helps_where_few_positives_are_held_out(way, gain):
    generator = np.random.default_rng(5)
    frequency = np.clip(np.exp(generator.normal(np.log(0.02), 1.0, 60)), 0.003, 0.4)
    model = frequency, generator.uniform(1.0, 3.0, 60), generator.normal(0.0, 0.7, 60)
    truth, scores = draw_images(generator, 600, *model)
    known = generator.random(truth.shape) < 0.3
    states = np.where(truth, 1, 0 if way is pu_thresholds else -1) * known
    fresh_truth, fresh_scores = draw_images(generator, 4000, *model)
    with_and_without = [
        f1_scores(fresh_scores, np.where(fresh_truth, 1, -1), thresholds).overall_f1
        for thresholds in (way(scores, states), way(scores, states, shrinkage=0.0))
    ]
    assert with_and_without[0] > with_and_without[1] + gain


def test_classes_whose_threshold_is_mostly_that_of_others_are_named():
    scores, states = separable_case(images=40, classes=4)
    states = np.maximum(states, 0)
    states[np.flatnonzero(states[:, 1])[3:], 1] = 0  # three known positives
    states[np.flatnonzero(states[:, 2])[4:], 2] = 0  # four
    states[:, 3] = 0
    assert few_positives(states).tolist() == [1, 3]
    assert few_positives(states, least=5).tolist() == [1, 2, 3]
    scores[:, 1] += 10.0  # its own cut lies above 10, the median of all below 1: half-way is 5.5
    assert pu_thresholds(scores, states)[1] < 5.5 < pu_thresholds(scores, states, shrinkage=0.0)[1]


def test_a_few_marked_absences_beside_many_tags_do_not_lower_the_threshold():
    generator = np.random.default_rng(0)
    truth = generator.random((400, 3)) < 0.2
    scores = generator.normal(size=truth.shape) + 3 * truth
    states = np.where(truth, 1, 0)
    marked = states.copy()
    marked[np.argwhere(~truth[:, 0])[:2, 0], 0] = -1  # two absences are verified for the first class
    np.testing.assert_array_equal(choose_thresholds(scores, marked), choose_thresholds(scores, states))
