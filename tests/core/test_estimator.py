"""PUClassifier: scikit-learn's contract, and what positive-unlabeled labels add to it."""

import pickle
import re
import subprocess
import sys

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import positively as po
from positively import probe
from positively.errors import PositivelyError
from positively.metrics import mean_average_precision, pu_average_precision

EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "a weight counts in the fit alone; ranks, by which the penalty "
    "and probabilities are found, count each row once, for copies of a row must not vouch for one another",
    "check_methods_subset_invariance": "scores are single precision: on some processors a row alone is off by 2e-7, "
    "where the check allows 1e-7",
    "check_supervised_y_2d": "a column is not a misshapen 1-D y, but a table of one class with three label states",
}


@parametrize_with_checks([po.PUClassifier()], expected_failed_checks=lambda _: EXPECTED_FAILURES)
def test_scikit_learns_contract_is_kept(estimator, check):
    check(estimator)


def made(rows=300, classes=4, width=12, known=0.5, seed=0):
    generator = np.random.default_rng(seed)
    truth = generator.random((rows, classes)) < np.linspace(0.2, 0.4, classes)
    X = generator.gamma(1.0, size=(rows, width)) + 2 * truth @ np.random.default_rng(9).random((classes, width))
    states = (truth & (generator.random(truth.shape) < known)).astype(np.int8)
    return X.astype(np.float32), states, truth


@pytest.fixture(scope="module")
def data():
    return made()


@pytest.fixture(scope="module")
def fitted(data):
    return po.PUClassifier().fit(*data[:2])


def test_it_is_the_probe(data, fitted):
    X, Y, _ = data
    plain, new = probe.fit(X, Y), made(seed=1)[0]
    np.testing.assert_array_equal(fitted.predict_proba(new), plain.probabilities(new))
    assert fitted.penalty_ == plain.kernel.penalty
    np.testing.assert_array_equal(fitted.label_frequency_, plain.calibration.label_frequency)
    np.testing.assert_array_equal(fitted.predict(new), plain.probabilities(new) >= fitted.thresholds_)


def test_shapes_are_rows_by_classes(data, fitted):
    X, Y, _ = data
    for method in ("decision_function", "predict_proba", "predict"):
        assert getattr(fitted, method)(X[:7]).shape == (7, 4)
    assert fitted.loo_scores_.shape == fitted.missing_.shape == Y.shape
    assert fitted.thresholds_.shape == (4,)
    assert set(np.unique(fitted.predict(X))) == {0, 1}
    assert fitted.n_features_in_ == 12


def test_cross_validation_gives_probabilities_of_every_row(data):
    X, Y, _ = data
    probabilities = cross_val_predict(po.PUClassifier(), X, Y, cv=3, method="predict_proba")
    assert probabilities.shape == Y.shape and len(po.find_missing(probabilities, Y)) > 0


def test_two_values_are_positive_and_unknown(data):
    X, Y, _ = data
    words = np.where(Y[:, 0] == 1, "yes", "no")
    one = po.PUClassifier().fit(X, words)
    column = po.PUClassifier().fit(X, Y[:, [0]])
    assert one.classes_.tolist() == ["no", "yes"]
    assert set(one.predict(X)) <= {"no", "yes"}
    assert one.predict_proba(X).shape == (300, 2)
    assert one.decision_function(X).shape == one.loo_scores_.shape == one.missing_.shape == (300,)
    np.testing.assert_array_equal(one.predict_proba(X)[:, 1], column.predict_proba(X)[:, 0])
    np.testing.assert_array_equal(one.missing_, column.missing_[:, 0])
    assert np.isnan(one.missing_[words == "yes"]).all()
    assert one.score(X, words) == column.score(X, Y[:, [0]])


@pytest.mark.parametrize("kind", [np.asarray, np.ndarray.tolist, sparse.csr_array, sparse.coo_matrix, sparse.lil_array])
def test_states_of_any_kind_are_read(data, kind):
    X, Y, truth = data
    states = np.where(~truth & (np.random.default_rng(3).random(truth.shape) < 0.1), -1, Y)
    found, plain = po.PUClassifier().fit(X, kind(states)), probe.fit(X, states)
    np.testing.assert_allclose(found.predict_proba(X), plain.probabilities(X), atol=1e-6)
    assert np.isnan(found.missing_[states != 0]).all()
    assert np.isfinite(found.missing_[states == 0]).all()


def test_missing_positives_are_found(data, fitted):
    _, Y, truth = data
    hidden = truth & (Y == 0)
    assert fitted.missing_[hidden].mean() > fitted.missing_[~truth].mean() + 0.2
    found = np.where(Y == 1, fitted.loo_scores_.min(), fitted.loo_scores_)
    assert mean_average_precision(found, np.where(Y == 1, 0, np.where(truth, 1, -1))) > hidden.mean() + 0.2


def test_leave_one_out_scores_do_not_see_the_row_s_own_label():
    generator = np.random.default_rng(0)
    X, Y = generator.random((200, 6)), (generator.random((200, 3)) < 0.3).astype(int)  # features say nothing
    classifier = po.PUClassifier(penalty=1e-4).fit(X, Y)

    def gap(scores):
        return scores[Y == 1].mean() - scores[Y == 0].mean()

    assert gap(classifier.decision_function(X)) > 2 * abs(gap(classifier.loo_scores_))


def test_changed_labels_change_their_column_alone(data):
    X, Y, _ = data
    classifier = po.PUClassifier(self_training=False).fit(X, Y)
    before = classifier.decision_function(X)
    row = int(np.flatnonzero(Y[:, 1] == 0)[0])
    changed = Y[[row]].copy()
    changed[0, 1] = 1
    assert classifier.update([row], changed) is classifier
    after = classifier.decision_function(X)
    np.testing.assert_array_equal(after[:, [0, 2, 3]], before[:, [0, 2, 3]])
    assert after[row, 1] > before[row, 1]
    assert np.isnan(classifier.missing_[row, 1])
    one = po.PUClassifier().fit(X, Y[:, 1]).update([row], [1])
    assert np.isnan(one.missing_[row])


def test_inputs_are_left_as_they_are(data):
    X, Y, _ = (part.copy() for part in data)
    weights, groups = np.ones(len(X)), np.arange(len(X)) // 2
    given = [part.copy() for part in (X, Y, weights, groups)]
    classifier = po.PUClassifier().fit(X, Y, weights, groups)
    classifier.update([0], 1 - Y[[0]])
    classifier.predict(X)
    for now, then in zip((X, Y, weights, groups), given, strict=True):
        np.testing.assert_array_equal(now, then)


def test_copies_are_grouped_when_told_to(data):
    X, Y, _ = data
    twice, states = np.tile(X, (2, 1)), np.tile(Y, (2, 1))
    alone = po.PUClassifier(self_training=False, penalty=1e-2).fit(twice, states)
    assert alone.probe_.kernel.ridge.groups is None
    found = clone(alone).fit(twice, states, groups="auto")
    groups = found.probe_.kernel.ridge.groups
    np.testing.assert_array_equal(groups[: len(X)], groups[len(X) :])
    told = clone(alone).fit(twice, states, groups=groups)
    np.testing.assert_array_equal(found.loo_scores_, told.loo_scores_)
    assert np.abs(found.loo_scores_ - alone.loo_scores_).max() > 0.1


def test_parts_of_an_image_are_looked_at():
    generator = np.random.default_rng(0)
    truth = generator.random((300, 1)) < 0.3
    parts = generator.gamma(1.0, size=(300, 4, 10))
    parts[truth[:, 0], generator.integers(0, 4, 300)[truth[:, 0]], 0] += 8
    X = np.concatenate([parts.mean(axis=1, keepdims=True), parts], axis=1)
    Y = (truth & (generator.random(truth.shape) < 0.5)).astype(int)
    classifier = po.PUClassifier().fit(X, Y)
    assert classifier.n_features_in_ == 10
    assert classifier.predict_proba(X).shape == (300, 1)
    np.testing.assert_allclose(classifier.predict_proba(X), probe.fit(X, Y).probabilities(X), atol=1e-6)
    with pytest.raises(ValueError, match="parts"):
        classifier.predict(X[:, 0])


@pytest.mark.parametrize(
    "parameters",
    [
        {"kernel": "linear"},
        {"landmarks": 50, "width": 1.0},
        {"penalty": 0.1},
        {"criterion": "log_rank"},
        {"self_training": True},
        {"self_training": 0.25},
        {"self_training": False},
        {"unlabeled_includes_positives": False},
        {"random_state": None},
        {"random_state": np.random.RandomState(3)},
    ],
    ids=lambda parameters: re.sub(r" at 0x\w+", "", str(parameters)),  # the same name in every worker
)
def test_every_parameter_gives_a_classifier_that_learns(data, parameters):
    X, Y, truth = data
    new, _, new_truth = made(seed=1)
    classifier = po.PUClassifier(**parameters).fit(X, Y)
    assert mean_average_precision(classifier.decision_function(new), np.where(new_truth, 1, -1)) > truth.mean() + 0.2
    assert classifier.penalty_ == parameters.get("penalty", classifier.penalty_)


def test_parameters_are_those_of_the_probe(data):
    X, Y, _ = data
    linear = po.PUClassifier(kernel="linear").fit(X, Y)
    assert linear.probe_.kernel.ridge.basis.transform.shape[0] == X.shape[1]
    assert po.PUClassifier(self_training=False).fit(X, Y).probe_.step == probe.ONE_STEP
    assert po.PUClassifier(self_training=0.25).fit(X, Y).probe_.step == probe.SelfTraining(0.25)
    negative = po.PUClassifier(unlabeled_includes_positives=False).fit(X, Y)
    plain = po.PUClassifier().fit(X, Y)
    assert np.isnan(negative.missing_).all()
    assert negative.predict_proba(X).sum() < plain.predict_proba(X).sum()


def test_the_same_seed_gives_the_same_numbers(data):
    X, Y, _ = data
    small = po.PUClassifier(landmarks=40, random_state=5)
    first, again, other = (clone(small).set_params(random_state=seed).fit(X, Y).predict_proba(X) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-6


@pytest.mark.parametrize("keep", [pickle, joblib], ids=["pickle", "joblib"])
def test_a_kept_classifier_says_and_learns_the_same(data, fitted, keep, tmp_path):
    X, Y, _ = data
    file = tmp_path / "classifier"
    if keep is pickle:
        file.write_bytes(pickle.dumps(fitted))
        loaded = pickle.loads(file.read_bytes())
    else:
        joblib.dump(fitted, file)
        loaded = joblib.load(file)
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    assert loaded.update([0], 1 - Y[[0]]).probe_.labels.states(np.arange(4))[0].tolist() == (1 - Y[0]).tolist()
    np.testing.assert_array_equal(fitted.probe_.labels.states(np.arange(4)), Y)


def test_it_is_scored_in_a_pipeline_by_positives_alone(data):
    X, Y, _ = data
    scorer = make_scorer(po.metrics.pu_average_precision, response_method="decision_function")
    model = make_pipeline(MinMaxScaler(), po.PUClassifier())
    for labels in (Y, Y[:, 0]):
        together = cross_val_score(model, X, labels, scoring=scorer, cv=3, error_score="raise")
        spread = cross_val_score(model, X, labels, cv=3, n_jobs=2, error_score="raise")
        np.testing.assert_allclose(spread, together, rtol=1e-9)
        shuffled = np.random.default_rng(0).permutation(len(X))
        chance = cross_val_score(model, X[shuffled], labels, scoring=scorer, cv=3)
        assert together.mean() > 1.5 * chance.mean()


def test_a_grid_search_finds_the_width(data):
    X, Y, _ = data
    search = GridSearchCV(po.PUClassifier(self_training=False), {"width": [0.6, 1e5]}, cv=3, error_score="raise")
    search.fit(X, Y)
    assert search.best_params_["width"] == 0.6  # by the other one no row is like any other
    assert search.predict(X).shape == Y.shape


def test_names_of_features_are_kept(data):
    pandas = pytest.importorskip("pandas")
    X, Y, _ = data
    names = [f"f{index}" for index in range(X.shape[1])]
    classifier = po.PUClassifier().fit(pandas.DataFrame(X, columns=names), Y)
    assert classifier.feature_names_in_.tolist() == names


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.arange(300) % 3}, "3 classes"),
        ({"y": np.ones(300)}, "one class"),
        ({"y": np.full((300, 2), 3)}, "Label states"),
        ({"y": np.zeros((5, 2))}, "samples"),
        ({"y": np.zeros((300, 2))}, "positive"),
        ({"y": -(np.arange(300) % 2)}, "positive"),
        ({"y": np.full((300, 2), np.nan)}, "fillna"),
        ({"y": po.LabelTable.from_positives(["a.jpg"], ["cat"], [[0]])}, "states"),
        ({"X": np.ones((300, 2, 2, 3))}, "4 dimensions"),
        ({"groups": [1, 2]}, "groups"),
        ({"groups": "series"}, "'auto'"),
        ({"groups": np.zeros(300)}, "copies"),
        ({"sample_weight": np.full(300, -1.0)}, "[Nn]egative"),
    ],
)
def test_arrays_that_do_not_fit_are_value_errors(data, change, message):
    given = {"X": data[0], "y": data[1], **change}
    with pytest.raises(ValueError, match=message):
        po.PUClassifier().fit(**given)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kernel": "cubic"},
        {"landmarks": 0},
        {"width": 0.0},
        {"penalty": -1.0},
        {"criterion": "accuracy"},
        {"self_training": 2.0},
    ],
    ids=str,
)
def test_wrong_parameters_are_told(data, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        po.PUClassifier(**wrong).fit(*data[:2])


def test_errors_of_labels_are_those_of_the_package_too(data):
    with pytest.raises(PositivelyError):
        po.PUClassifier().fit(data[0], np.full((300, 2), 7))


def test_what_is_not_fitted_says_so(data):
    for use in (
        lambda one: one.predict(data[0]),
        lambda one: one.missing_,
        lambda one: one.loo_scores_,
        lambda one: one.update([0], [[0]]),
    ):
        with pytest.raises(NotFittedError):
            use(po.PUClassifier())


def test_scores_by_positives_alone_need_no_negatives(data, fitted):
    X, Y, _ = data
    assert fitted.score(X, Y) == pu_average_precision(Y, fitted.decision_function(X))


def test_scikit_learn_is_imported_by_the_classifier_alone():
    program = (
        "import sys, positively, positively.probe, positively.metrics\n"
        "positively.probe.fit\n"
        "assert not {'sklearn', 'torch'} & set(sys.modules)\n"
        "positively.PUClassifier\n"
        "assert 'sklearn' in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_class_without_a_positive_is_named(data):
    Y = data[1].copy()
    Y[:, 2] = 0
    with pytest.warns(UserWarning, match="2"):
        classifier = po.PUClassifier().fit(data[0], Y)
    assert not classifier.predict(data[0])[:, 2].any()
