"""What a user of ``positively.metrics`` relies on."""

import json
import math
import warnings
from dataclasses import astuple

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score
from sklearn.metrics import precision_recall_curve as sklearn_curve

from positively import metrics
from positively.errors import LabelError, MetricError
from wording import naming


def random_case(seed, images=60, classes=7, levels=None, known=0.7):
    """Scores (continuous, or of a few levels so that many tie) and states with unknown labels among them."""
    generator = np.random.default_rng(seed)
    scores = generator.random((images, classes))
    if levels:
        scores = np.floor(scores * levels) / levels
    states = np.where(generator.random(scores.shape) < 0.3, 1, -1) * (generator.random(scores.shape) < known)
    return scores, states


def known_column(scores, states, index):
    known = states[:, index] != 0
    return (states[known, index] == 1).astype(int), scores[known, index]


@st.composite
def small_cases(draw):
    images, classes = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    cells = images * classes
    scores = draw(st.lists(st.integers(-3, 3), min_size=cells, max_size=cells))
    states = draw(st.lists(st.sampled_from([1, 0, -1]), min_size=cells, max_size=cells))
    shape = (images, classes)
    return np.array(scores, dtype=float).reshape(shape), np.array(states).reshape(shape)


# --- average precision


@pytest.mark.parametrize("levels", [None, 2, 5], ids=["distinct", "two levels", "five levels"])
@pytest.mark.parametrize("known", [1.0, 0.5], ids=["complete", "half known"])
def test_average_precision_is_that_of_scikit_learn_over_the_known_labels(levels, known):
    scores, states = random_case(1, levels=levels, known=known)
    expected = [average_precision_score(*known_column(scores, states, c)) for c in range(scores.shape[1])]
    np.testing.assert_allclose(metrics.average_precision(scores, states), expected, rtol=0, atol=1e-14)


@settings(max_examples=150, deadline=None)
@given(small_cases())
def test_average_precision_is_exact_for_any_pattern_of_ties(case):
    scores, states = case
    found = metrics.average_precision(scores, states)
    for index, value in enumerate(found):
        truth, column = known_column(scores, states, index)
        if len(set(truth)) < 2:
            assert math.isnan(value)
        else:
            assert value == pytest.approx(average_precision_score(truth, column), abs=1e-14)


def test_map_is_the_mean_over_the_classes_that_can_be_scored():
    scores = [[0.9, 0.1, 0.5], [0.2, 0.4, 0.6]]
    states = [[1, 1, -1], [-1, 1, -1]]
    assert np.isnan(metrics.average_precision(scores, states)).tolist() == [False, True, True]
    assert metrics.mean_average_precision(scores, states) == 1.0


def test_a_model_that_scores_everything_alike_gets_the_share_of_positives():
    assert metrics.mean_average_precision(np.zeros((4, 1)), [[1], [-1], [-1], [-1]]) == 0.25


def test_the_order_of_images_does_not_matter_and_that_of_classes_only_reorders():
    scores, states = random_case(3, levels=5)
    rows, columns = np.random.default_rng(0).permutation(60), np.random.default_rng(1).permutation(7)
    before = metrics.average_precision(scores, states)
    after = metrics.average_precision(scores[rows][:, columns], states[rows][:, columns])
    np.testing.assert_allclose(after, before[columns], atol=1e-15)
    before, after = (
        metrics.f1_scores(scores, states),
        metrics.f1_scores(scores[rows][:, columns], states[rows][:, columns]),
    )
    assert astuple(after) == pytest.approx(astuple(before))


def test_logits_and_probabilities_have_the_same_average_precision():
    scores, states = random_case(4, levels=30)
    expected = metrics.average_precision(scores, states)
    assert (metrics.average_precision(5 * scores - 2, states) == expected).all()
    assert (metrics.average_precision(1 / (1 + np.exp(-5 * scores)), states) == expected).all()


def test_scores_of_unknown_labels_never_matter():
    scores, states = random_case(5)
    other = np.where(states == 0, 1 - scores, scores)
    assert (metrics.average_precision(other, states) == metrics.average_precision(scores, states)).all()
    assert metrics.f1_scores(other, states) == metrics.f1_scores(scores, states)
    assert metrics.oracle_f1(other, states) == metrics.oracle_f1(scores, states)
    for ours, theirs in zip(
        metrics.precision_recall_curve(other, states), metrics.precision_recall_curve(scores, states), strict=True
    ):
        assert all((a == b).all() for a, b in zip(ours, theirs, strict=True))


# --- what may come in


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64, bool])
def test_arrays_of_any_kind_of_number_are_taken(dtype):
    scores, states = random_case(7)
    array = (scores * 3).astype(dtype)
    np.testing.assert_array_equal(
        metrics.average_precision(array, states), metrics.average_precision(array.astype(np.float64), states)
    )


def test_what_comes_in_is_left_as_it_was():
    scores, states = random_case(8)
    kept = scores.copy(), states.copy()
    metrics.evaluate(scores, states, [str(i) for i in range(7)])
    assert (scores == kept[0]).all()
    assert (states == kept[1]).all()


def test_infinite_scores_are_ranked_first_and_last():
    assert metrics.average_precision([[np.inf], [2.0], [-np.inf]], [[1], [-1], [1]])[0] == pytest.approx(
        (1 + 2 / 3) / 2
    )


def test_nan_scores_are_refused_and_counted():
    scores, states = random_case(9)
    scores[:3, 0] = np.nan
    for metric in (metrics.average_precision, metrics.f1_scores, metrics.top_k_f1, metrics.precision_recall_curve):
        with pytest.raises(MetricError, match=naming("3 of 420", "NaN")):
            metric(scores, states)


def test_labels_that_only_list_positives_are_refused_in_a_sentence():
    for metric in (metrics.mean_average_precision, metrics.f1_scores, metrics.top_k_f1, metrics.oracle_f1):
        with pytest.raises(MetricError, match="positives"):
            metric([[0.9], [0.1]], [[1], [0]])


@pytest.mark.parametrize("states", [[[0, 0], [0, 0]], [[1, -1], [1, -1]], [[-1, 0], [-1, -1]]])
def test_labels_of_which_no_class_can_be_scored_are_refused(states):
    scores = [[0.1, 0.2], [0.3, 0.4]]
    assert np.isnan(metrics.average_precision(scores, states)).all()
    for metric in (metrics.mean_average_precision, metrics.f1_scores):
        with pytest.raises(MetricError, match="class"):
            metric(scores, states)


def test_one_image_can_never_be_scored():
    with pytest.raises(MetricError, match="class"):
        metrics.mean_average_precision([[0.1, 0.9]], [[1, -1]])


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_empty_tables_are_refused_in_a_sentence(shape):
    with pytest.raises(MetricError, match="class"):
        metrics.mean_average_precision(np.zeros(shape), np.zeros(shape))


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(MetricError, match=naming("(2, 2)", "(2, 3)")):
        metrics.average_precision(np.zeros((2, 2)), np.zeros((2, 3)))
    with pytest.raises(MetricError, match=r"\(2,\)"):
        metrics.average_precision([0.1, 0.2], [1, -1])
    with pytest.raises(MetricError, match="threshold"):
        metrics.f1_scores(*random_case(0), thresholds=[0.5, 0.5])
    with pytest.raises(MetricError, match=naming("1 of 7", "thresholds", "NaN")):
        metrics.f1_scores(*random_case(0), thresholds=[0.5] * 6 + [np.nan])
    with pytest.raises(MetricError, match="3 class"):
        metrics.evaluate(*random_case(0), classes=["a", "b", "c"])
    with pytest.raises(LabelError, match="2"):
        metrics.average_precision([[0.1]], [[2]])


# --- F1


def plain_f1(predicted, states):
    """The definitions, label by label."""
    images, classes = states.shape
    correct_sum = predicted_sum = positive_sum = 0
    precisions, recalls = [], []
    for c in range(classes):
        column = [states[n, c] for n in range(images)]
        if 1 not in column or -1 not in column:
            continue
        chosen = [n for n in range(images) if predicted[n, c] and column[n] != 0]
        correct, positive = sum(column[n] == 1 for n in chosen), column.count(1)
        precisions.append(correct / len(chosen) if chosen else 0.0)
        recalls.append(correct / positive)
        correct_sum, predicted_sum, positive_sum = (
            correct_sum + correct,
            predicted_sum + len(chosen),
            positive_sum + positive,
        )
    overall = correct_sum / predicted_sum if predicted_sum else 0.0, correct_sum / positive_sum
    per_class = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    harmonic = [2 * p * r / (p + r) if p + r else 0.0 for p, r in (overall, per_class)]
    return (*overall, harmonic[0], *per_class, harmonic[1])


@pytest.mark.parametrize(
    "thresholds", [0.5, 0.95, 2.0, np.linspace(0, 1, 7)], ids=["half", "high", "none", "per class"]
)
def test_f1_is_what_the_definitions_say(thresholds):
    scores, states = random_case(10, images=25, levels=20)
    states[:, 2] = np.abs(states[:, 2])
    expected = plain_f1(scores >= np.broadcast_to(thresholds, (7,)), states)
    assert astuple(metrics.f1_scores(scores, states, thresholds)) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("k", [1, 3, 7, 20])
@pytest.mark.parametrize("levels", [None, 3])
def test_top_k_f1_takes_the_first_classes_in_a_tie(k, levels):
    scores, states = random_case(11, images=25, levels=levels)
    predicted = np.zeros(states.shape, dtype=bool)
    for n, row in enumerate(scores):
        for c in sorted(range(len(row)), key=lambda c: (-row[c], c))[:k]:
            predicted[n, c] = True
    assert astuple(metrics.top_k_f1(scores, states, k)) == pytest.approx(plain_f1(predicted, states), abs=1e-15)


def test_top_k_needs_a_k():
    with pytest.raises(MetricError, match=r"\bk\b"):
        metrics.top_k_f1(*random_case(0), k=0)


def test_a_score_on_the_threshold_is_predicted():
    assert metrics.f1_scores([[0.5], [0.4]], [[1], [-1]], 0.5).overall_f1 == 1.0


def test_the_threshold_is_compared_in_double_precision():
    # float32(0.7) is a little less than 0.7; whether it is predicted must not depend on how the threshold was passed.
    scores, states = np.array([[0.7], [0.4]], dtype=np.float32), [[1], [-1]]
    assert metrics.f1_scores(scores, states, 0.7) == metrics.f1_scores(scores, states, [0.7])


def test_oracle_f1_is_the_best_of_99_thresholds():
    scores, states = random_case(12, levels=50)
    sweep = [metrics.f1_scores(scores, states, t / 100) for t in range(1, 100)]
    best = metrics.oracle_f1(scores, states)
    assert best.overall_f1 == max(point.overall_f1 for point in sweep)
    assert best.class_f1 == max(point.class_f1 for point in sweep)
    assert metrics.f1_scores(scores, states, best.overall_threshold).overall_f1 == best.overall_f1
    assert metrics.f1_scores(scores, states, best.class_threshold).class_f1 == best.class_f1


# --- curves


@pytest.mark.parametrize("levels", [None, 4])
def test_precision_recall_curves_are_those_of_scikit_learn(levels):
    scores, states = random_case(13, levels=levels)
    states[:, 1] = 0
    curves = metrics.precision_recall_curve(scores, states)
    assert curves[1] is None
    for index in (0, 2, 3, 4, 5, 6):
        for ours, theirs in zip(curves[index], sklearn_curve(*known_column(scores, states, index)), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-15)


# --- evaluation


@pytest.fixture
def evaluation():
    scores, states = random_case(14)
    states[:, 1], states[:, 4] = 0, np.abs(states[:, 4])
    return scores, states, metrics.evaluate(scores, states, list("abcdefg"), np.linspace(0.3, 0.6, 7))


def test_an_evaluation_agrees_with_the_single_metrics(evaluation):
    scores, states, result = evaluation
    assert result.mean_average_precision == metrics.mean_average_precision(scores, states)
    assert result.f1 == metrics.f1_scores(scores, states, np.linspace(0.3, 0.6, 7))
    assert result.f1_at_half == metrics.f1_scores(scores, states)
    assert result.f1_top_3 == metrics.top_k_f1(scores, states, 3)
    assert (result.images, result.scored_classes) == (60, 5)


def test_an_evaluation_names_the_classes_it_left_out(evaluation):
    result = evaluation[2]
    assert result.left_out == {"b": "no known positive", "e": "no known negative"}
    assert "left out, no known positive: b" in str(result)


def test_an_evaluation_goes_into_json(evaluation):
    plain = json.loads(json.dumps(evaluation[2].to_dict(), allow_nan=False))
    assert plain["average_precision"]["b"] is None
    assert plain["f1"]["overall_f1"] == evaluation[2].f1.overall_f1
    assert plain["scored_classes"] == 5


def test_an_evaluation_prints_percent(evaluation):
    result = evaluation[2]
    assert f"mAP {100 * result.mean_average_precision:.2f} % over 5 of 7 classes, 60 images" in str(result)
    assert f"{100 * result.f1_top_3.class_f1:.2f}" in result.lines()[4]


def test_nothing_warns_on_odd_input():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics.evaluate(np.full((3, 1), -np.inf), [[1], [-1], [0]], ["only"], 0.5)
        metrics.precision_recall_curve(np.full((2, 1), np.inf), [[1], [-1]])


def test_sparse_states_are_scored_and_one_dimension_is_refused():
    scores, states = random_case(0)
    sparse = scipy.sparse.csr_array(states)
    assert metrics.mean_average_precision(scores, sparse) == metrics.mean_average_precision(scores, states)
    assert metrics.f1_scores(scores, sparse) == metrics.f1_scores(scores, states)
    with pytest.raises(ValueError, match="2-D"):
        metrics.mean_average_precision(scores[:, 0], states[:, 0])
    with pytest.raises(LabelError, match="fillna"):
        metrics.average_precision(scores, np.full(scores.shape, np.nan))
