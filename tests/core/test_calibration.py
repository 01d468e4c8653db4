"""What a user of ``positively.calibration`` relies on: counts, probabilities and cuts from positive labels alone."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from positively.calibration import (
    calibrate,
    calibrate_summary,
    expected,
    expected_f1_thresholds,
    join,
    precision_thresholds,
    rescale_loo,
    summarize,
    summarized_pu_average_precision,
)
from positively.errors import MetricError
from positively.metrics import average_precision, f1_scores, pair_average_precision, pu_average_precision

# Normal scores of equal spread: the true logit is straight, so that there is a known answer.
STRAIGHT = {"leave_one_out": False, "frequency_asinh_scale": np.inf}


def table(frequency=0.5, images=3000, classes=20, seed=0, distance=3.0, negatives=0.0):
    generator = np.random.default_rng(seed)
    share = generator.uniform(0.02, 0.15, classes)
    truth = generator.random((images, classes)) < share
    scores = generator.normal(distance * truth)
    chance = generator.random(truth.shape)
    states = np.where(truth, np.where(chance < frequency, 1, 0), np.where(chance < negatives, -1, 0))
    return scores, states, truth


def relative_error(calibration, truth):
    return np.median(np.abs(calibration.positives / truth.sum(axis=0) - 1))


@pytest.mark.parametrize(("frequency", "tolerance"), [(0.1, 0.35), (0.3, 0.2), (0.5, 0.12), (0.9, 0.08)])
def test_positives_are_counted_though_most_are_unknown(frequency, tolerance):
    scores, states, truth = table(frequency)
    calibration = calibrate(scores, states, **STRAIGHT)
    assert relative_error(calibration, truth) < tolerance
    assert abs(calibration.positives.sum() / truth.sum() - 1) < tolerance
    assert abs(calibration.probabilities(scores).sum() / truth.sum() - 1) < tolerance
    assert abs(calibration.common_label_frequency / frequency - 1) < tolerance


def test_classes_may_differ_in_what_share_is_missing():
    frequency = np.linspace(0.2, 0.9, 20)
    scores, states, truth = table(frequency, images=8000)
    calibration = calibrate(scores, states, **STRAIGHT)
    one_ratio = (states == 1).sum(axis=0) / calibration.common_label_frequency
    assert relative_error(calibration, truth) < 0.5 * np.median(np.abs(one_ratio / truth.sum(axis=0) - 1))
    assert np.corrcoef(calibration.label_frequency, frequency)[0, 1] > 0.9


@pytest.mark.parametrize("frequency", [0.1, 0.3, 0.9])
def test_at_most_holds_for_nine_classes_of_ten(frequency):
    held = []
    for seed in range(3):
        scores, states, truth = table(frequency, seed=seed)
        held.append(calibrate(scores, states, **STRAIGHT).at_most >= truth.sum(axis=0))
    assert np.mean(held) >= 0.9


def test_at_most_is_wider_where_less_is_known():
    def width(frequency):
        scores, states, truth = table(frequency)
        return np.median(calibrate(scores, states, **STRAIGHT).at_most / truth.sum(axis=0))

    assert width(0.1) > width(0.3) > width(0.9)


def test_known_negatives_identify_the_label_frequency_even_under_a_wrong_shape():
    scores, states, truth = table(0.3, distance=2.0, negatives=0.4)
    wrong_shape = {"leave_one_out": False, "frequency_asinh_scale": 0.6}
    alone = calibrate(scores, np.maximum(states, 0), **wrong_shape)
    both = calibrate(scores, states, **wrong_shape)
    assert relative_error(both, truth) < 0.5 * relative_error(alone, truth)
    assert abs(both.common_label_frequency - 0.3) < 0.05
    np.testing.assert_allclose(both.negative_frequency, 0.4, atol=0.05)


def test_probabilities_are_those_of_the_truth():
    scores, states, truth = table(0.3, images=10000)
    probabilities = calibrate(scores, states, **STRAIGHT).probabilities(scores)
    for low, high in [(0.05, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1.0)]:
        chosen = (probabilities >= low) & (probabilities < high)
        assert abs(truth[chosen].mean() - probabilities[chosen].mean()) < 0.08


def test_soft_targets_are_certain_where_labels_are_known_and_add_up_to_what_is_hidden():
    scores, states, truth = table(0.4, negatives=0.3)
    targets = calibrate(scores, states, **STRAIGHT).soft_targets(scores, states)
    assert (targets[states == 1] == 1).all() and (targets[states == -1] == 0).all()
    hidden = states == 0
    assert abs(targets[hidden].sum() / truth[hidden].sum() - 1) < 0.15


def test_reviewed_pairs_do_not_pass_for_labels_at_random():
    scores, states, truth = table(0.3, images=6000)
    top = (states == 0) & (scores > np.quantile(scores, 0.97, axis=0))
    reviewed_states = np.where(top, np.where(truth, 1, -1), states)
    told = calibrate(scores, reviewed_states, top, **STRAIGHT)
    untold = calibrate(scores, reviewed_states, **STRAIGHT)
    assert relative_error(told, truth) < 0.06
    assert relative_error(told, truth) < relative_error(untold, truth)
    assert abs(told.common_label_frequency - 0.3) < 0.06


def test_a_rare_class_leans_on_the_others():
    scores, states, _ = table(0.3, images=6000)
    states[:, 0] = 0  # a class without a positive says nothing
    states[np.argsort(-scores[:, 0])[[2, 9, 30, 80]], 0] = 1
    calibration = calibrate(scores, states, **STRAIGHT)
    others = calibration.slope[1:] * scores.std(axis=0)[1:]
    assert calibration.learned[0]
    assert abs(calibration.label_frequency[0] - calibration.common_label_frequency) < 0.15
    assert others.min() * 0.5 < calibration.slope[0] * scores.std(axis=0)[0] < others.max() * 1.2


def test_a_class_that_cannot_be_learned_is_marked():
    scores, states, _ = table()
    generator = np.random.default_rng(1)
    scores[:, 0] = generator.normal(size=len(scores))
    states[:, 1] = 0
    states[np.argsort(-scores[:, 1])[:2], 1] = 1
    scores[:, 2] = 7.0
    learned = calibrate(scores, states, **STRAIGHT).learned
    assert not learned[:3].any() and learned[3:].all()


def test_neither_the_order_of_images_nor_that_of_classes_matters():
    scores, states, _ = table(images=500, classes=6)
    scores = scores.round(1)  # with ties
    reference = calibrate(scores, states)
    generator = np.random.default_rng(2)
    images, classes = generator.permutation(len(scores)), generator.permutation(6)
    permuted = calibrate(scores[images][:, classes], states[images][:, classes])
    for name in ("slope", "offset", "label_frequency", "positives", "at_most", "learned"):
        np.testing.assert_allclose(getattr(permuted, name), getattr(reference, name)[classes], rtol=1e-6)


def test_the_scale_of_the_scores_does_not_matter():
    scores, states, _ = table(images=800, classes=5)
    plain, scaled = calibrate(scores, states, **STRAIGHT), calibrate(40.0 * scores - 3.0, states, **STRAIGHT)
    np.testing.assert_allclose(plain.probabilities(scores), scaled.probabilities(40.0 * scores - 3.0), atol=1e-6)


@pytest.mark.parametrize("asinh_scale", [np.inf, 2.0])
def test_the_logit_is_what_slope_and_offset_say(asinh_scale):
    scores, states, _ = table(images=800, classes=5)
    calibration = calibrate(scores, states, asinh_scale=asinh_scale)
    if np.isinf(asinh_scale):
        logits = calibration.slope * scores + calibration.offset
    else:
        scaled = calibration.width * np.arcsinh((scores - calibration.center) / calibration.width)
        logits = calibration.slope * scaled + calibration.offset
    np.testing.assert_allclose(calibration.probabilities(scores), 1 / (1 + np.exp(-logits)), atol=1e-12)


def test_a_table_too_large_for_memory_is_calibrated_by_blocks_of_classes():
    scores, states, _ = table(images=600, classes=7)
    blocks = join([summarize(scores[:, part], states[:, part]) for part in (slice(0, 3), slice(3, 7))])
    np.testing.assert_array_equal(calibrate_summary(blocks).offset, calibrate(scores, states).offset)


def test_known_positives_scored_without_their_own_label_are_lifted():
    scores = np.array([[0.3, 0.3], [0.6, 0.1], [0.2, 0.2], [0.9, 0.4]])
    states = np.array([[1, 1], [1, 0], [1, 0], [0, 0]])
    lifted = rescale_loo(scores, states)
    np.testing.assert_allclose(lifted[:, 0], [0.45, 0.9, 0.3, 0.9])
    np.testing.assert_array_equal(lifted[:, 1], scores[:, 1])  # one positive has no others to compare with


def test_average_precision_of_some_positives_is_that_of_all_up_to_their_share():
    scores, _, truth = table(images=600, classes=1, distance=1.5)
    generator, (positives,) = np.random.default_rng(1), truth.T.nonzero()[1:]
    found, plain = [], []
    for _ in range(400):
        known = np.zeros_like(truth)
        known[generator.permutation(positives)[: len(positives) // 5]] = True
        found.append(pair_average_precision(scores, known) / known.sum())
        plain.append(float(average_precision(scores, np.where(known, 1, -1))[0]) / known.sum())
    whole = pair_average_precision(scores, truth) / truth.sum()
    assert np.mean(found) == pytest.approx(whole, rel=0.03)
    assert np.mean(plain) > 1.3 * float(average_precision(scores, np.where(truth, 1, -1))[0]) / truth.sum()


def test_average_precision_of_a_summary_is_close_to_that_of_the_scores():
    scores, states, _ = table(0.3)
    states[:, 0] = 0  # a class without a positive says nothing
    exact = pair_average_precision(scores, states == 1)
    assert summarized_pu_average_precision(summarize(scores, states, leave_one_out=False)) == pytest.approx(
        exact, rel=0.03
    )
    assert np.isnan(pair_average_precision(scores, np.zeros_like(states, dtype=bool)))
    tied = pair_average_precision(np.zeros((10, 1)), np.arange(10)[:, None] < 4)
    assert tied == pytest.approx(4 * 0.5 / (5.5 + 20))
    sample = np.arange(len(scores)) % 2 == 0  # ranked among half of the images, half as many are known
    halved = pair_average_precision(scores, states == 1, sample, share=0.5)
    assert halved == pytest.approx(exact, rel=0.1)


def test_average_precision_of_positives_reads_states_of_any_kind():
    scores, states, _ = table(0.3, images=200, classes=4, negatives=0.2)
    expected_value = pair_average_precision(scores, states == 1)
    for kind in (np.asarray, np.ndarray.tolist, sparse.csr_array):
        assert pu_average_precision(kind(states), scores) == expected_value
    assert pu_average_precision(states[:, 0], scores[:, 0]) == pair_average_precision(scores[:, :1], states[:, :1] == 1)
    with pytest.raises(MetricError, match="shape"):
        pu_average_precision(states, scores[:, :2])
    with pytest.raises(MetricError, match="NaN"):
        pu_average_precision(states, np.where(states == 1, np.nan, scores))


def test_cuts_by_expected_f1_do_as_well_as_cuts_that_saw_the_truth():
    scores, states, truth = table(0.3, images=6000)
    fresh, _, fresh_truth = table(images=6000, seed=0)
    summary = summarize(scores, states, leave_one_out=False)
    calibration = calibrate_summary(summary, frequency_asinh_scale=np.inf)
    cuts = expected_f1_thresholds(calibration, summary)
    complete = np.where(truth, 1, -1)
    grid = np.quantile(scores, np.linspace(0.8, 0.999, 60), axis=0)
    best = [
        grid[max(range(60), key=lambda i: f1_scores(scores[:, [c]], complete[:, [c]], grid[i, c]).overall_f1), c]
        for c in range(scores.shape[1])
    ]
    ours = f1_scores(calibration.probabilities(fresh), np.where(fresh_truth, 1, -1), cuts)
    theirs = f1_scores(fresh, np.where(fresh_truth, 1, -1), best)
    assert ours.overall_f1 > theirs.overall_f1 - 0.02
    assert ours.class_f1 > theirs.class_f1 - 0.02
    tags = (calibration.probabilities(scores) >= cuts).sum() / len(scores)
    assert abs(expected(calibration, summary, cuts).tags.sum() / tags - 1) < 0.1
    assert abs(tags / truth.sum(axis=1).mean() - 1) < 0.2


def test_a_wished_precision_is_reached_or_refused():
    scores, states, truth = table(0.5, images=6000, distance=2.0)
    scores[:, 0] = np.random.default_rng(3).normal(size=6000)
    summary = summarize(scores, states, leave_one_out=False)
    calibration = calibrate_summary(summary, frequency_asinh_scale=np.inf)
    cuts = precision_thresholds(calibration, summary, 0.8)
    assert np.isinf(cuts[0])
    given = calibration.probabilities(scores) >= cuts
    assert abs(truth[given].mean() - 0.8) < 0.06
    assert (precision_thresholds(calibration, summary, 0.95) >= cuts).all()
    promised = expected(calibration, summary, cuts).precision
    assert np.isnan(promised[0]) and (promised[np.isfinite(cuts)] > 0.78).all()


def odd_tables():
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(50, 3))
    some = (generator.random((50, 3)) < 0.2).astype(int)
    return {
        "one class": (scores[:, :1], some[:, :1]),
        "no positives": (scores, np.zeros_like(some)),
        "all positive": (scores, np.ones_like(some)),
        "all negative": (scores, -np.ones_like(some)),
        "everything known": (scores, np.where(some, 1, -1)),
        "constant scores": (np.zeros_like(scores), some),
        "a single image": (scores[:1], some[:1]),
        "a single positive image": (scores[:1], np.ones((1, 3), int)),
        "two images": (scores[:2], some[:2]),
        "huge scores": (1e200 * scores, some),
        "tiny scores": (1e-200 * scores, some),
        "infinite scores": (np.where(scores > 1.5, np.inf, np.where(scores < -1.5, -np.inf, scores)), some),
        "one outlier": (np.concatenate([scores, np.full((1, 3), 1e12)]), np.concatenate([some, np.ones((1, 3), int)])),
        "separable": (np.where(some, 1.0, 0.0) + 1e-3 * scores, some),
        "upside down": (np.where(some, -1.0, 0.0) + 1e-3 * scores, some),
        "half floats": (scores.astype(np.float16), some.astype(np.int8)),
    }


@pytest.mark.parametrize("name", odd_tables())
@pytest.mark.parametrize("asinh_scale", [np.inf, 2.0])
@pytest.mark.parametrize("leave_one_out", [True, False])
def test_odd_tables_give_numbers(name, asinh_scale, leave_one_out):
    scores, states = odd_tables()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        summary = summarize(scores, states, leave_one_out=leave_one_out)
        calibration = calibrate_summary(summary, asinh_scale=asinh_scale)
        probabilities = calibration.probabilities(scores)
        targets = calibration.soft_targets(scores, states)
        cuts = expected_f1_thresholds(calibration, summary)
        outcome = expected(calibration, summary, cuts)
        precision_thresholds(calibration, summary, 0.9)
    for values in (probabilities, targets, cuts, calibration.label_frequency, outcome.recall, outcome.f1):
        assert ((values >= 0) & (values <= 1)).all()
    known = (states == 1).sum(axis=0)
    assert (calibration.positives >= known).all() and (calibration.at_most >= known).all()
    assert (calibration.at_most <= len(scores)).all() and (calibration.positives <= len(scores) + 1e-9).all()
    assert np.isfinite(calibration.offset).all() and np.isfinite(calibration.slope).all()
    assert (calibration.slope >= 0).all()


def test_what_cannot_be_calibrated_is_refused_in_a_sentence():
    with pytest.raises(MetricError, match="NaN"):
        calibrate([[np.nan]], [[1]])
    with pytest.raises(MetricError, match="reviewed"):
        calibrate([[0.1]], [[1]], [[True, False]])
    with pytest.raises(MetricError, match="class"):
        calibrate(np.zeros((0, 2)), np.zeros((0, 2), int))
