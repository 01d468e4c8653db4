"""The closed form against an independent dense solution, and what its users rely on."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from positively import probe
from positively.calibration import rescale_loo
from positively.errors import ConfigError, LabelError, PositivelyError
from positively.metrics import mean_average_precision, pair_average_precision
from positively.probe import ONE_STEP, SOFT_STEPS, SelfTraining
from positively.probe.choice import PENALTIES
from positively.probe.fitting import decompose
from positively.probe.linalg import gaussian_kernel
from positively.probe.ridge import Ridge
from wording import naming

SOFT = SOFT_STEPS[0]
FILLED = SelfTraining(0.0, 0.2, imputes=True)


def made_table(images=160, classes=5, width=12, known=0.5, seed=0):
    """Features that carry their tags, and states of which a share is known; negatives are unknown."""
    generator = np.random.default_rng(seed)
    truth = generator.random((images, classes)) < np.linspace(0.15, 0.4, classes)
    directions = generator.random((classes, width))
    features = generator.gamma(1.0, size=(images, width)) + 1.5 * truth @ directions
    states = (truth & (generator.random(truth.shape) < known)).astype(np.int8)
    return features.astype(np.float32), states, truth


def dense_solution(features, landmarks, targets, penalty, weights=None, width=0.6):
    """Ridge over Nyström features with a free intercept, by NumPy alone: a function from features to scores."""

    def unit(rows):
        rooted = np.sign(rows) * np.sqrt(np.abs(rows.astype(np.float64)))
        return rooted / np.linalg.norm(rooted, axis=1, keepdims=True)

    points = unit(landmarks)
    spread = 2 * ((points - points.mean(0)) ** 2).sum(1).mean()

    def kernel(rows):
        squared = ((unit(rows)[:, None, :] - points[None]) ** 2).sum(-1)
        return np.exp(-width * squared / spread)

    values, vectors = np.linalg.eigh(kernel(landmarks))
    large = values > 1e-6 * values[-1]
    whitening = vectors[:, large] / np.sqrt(values[large])
    share = np.full(len(features), 1 / len(features)) if weights is None else weights
    z = kernel(features) @ whitening
    design = np.hstack([z, np.ones((len(z), 1))])
    ridge = penalty * np.eye(design.shape[1])
    ridge[-1, -1] = 0
    solved = np.linalg.solve(design.T @ (share[:, None] * design) + ridge, design.T @ (share[:, None] * targets))
    return lambda rows: np.hstack([kernel(rows) @ whitening, np.ones((len(rows), 1))]) @ solved


@pytest.fixture(scope="module")
def table():
    return made_table()


@pytest.fixture(scope="module")
def fitted(table):
    features, states, _ = table
    return probe.fit(features, states, landmarks=60, step=ONE_STEP)


def landmarks_of(features, count, seed=0):
    from positively.randomness import random_stream

    return features[np.sort(random_stream("landmarks", seed).permutation(len(features))[:count])]


def test_scores_are_those_of_a_dense_solution(table, fitted):
    features, states, _ = table
    new = made_table(seed=1)[0]
    dense = dense_solution(features, landmarks_of(features, 60), states == 1, fitted.kernel.penalty)
    np.testing.assert_allclose(fitted.scores(new), dense(new), atol=1e-5)


@pytest.mark.parametrize("penalty", PENALTIES[::2])
def test_leave_one_out_is_really_leaving_out(table, fitted, penalty):
    features, states, _ = table
    points, targets = landmarks_of(features, 60), (states == 1).astype(np.float64)
    hard = targets.astype(np.float32)
    ridge = fitted.kernel.ridge
    found = ridge.held_out_scores(ridge.moments(hard), hard, penalty)
    for row in range(0, len(features), 23):
        weights = np.full(len(features), 1 / len(features))
        weights[row] = 0  # the penalty on the sum stays
        dense = dense_solution(features, points, targets, penalty, weights)
        np.testing.assert_allclose(found[row], dense(features[[row]])[0], atol=1e-5)


def test_groups_are_left_out_together(table):
    features, states, _ = table
    groups = np.arange(len(features))
    groups[:6] = [0, 0, 0, 1, 1, 2]
    groups[40:44] = 7
    fitted = probe.fit(features, states, groups=groups, landmarks=60, step=ONE_STEP)
    points, targets = landmarks_of(features, 60), (states == 1).astype(np.float64)
    for group in (0, 1, 2, 7, 100):
        rows = np.flatnonzero(groups == group)
        weights = np.where(groups == group, 0, 1 / len(features))
        dense = dense_solution(features, points, targets, fitted.kernel.penalty, weights)
        np.testing.assert_allclose(fitted.loo_scores[rows], dense(features[rows]), atol=1e-5)


def test_copies_do_not_vouch_for_one_another():
    features, states, _ = made_table(images=100, known=0.4)
    states[:, 0] = 0
    states[:6, 0] = 1  # a tag that means nothing, on three images and their copies
    features[3:6] = features[:3]
    groups = np.arange(100)
    groups[3:6] = groups[:3]
    fitted = probe.fit(features, states, groups=groups, step=ONE_STEP)
    ridge, hard = fitted.kernel.ridge, (states == 1).astype(np.float32)
    one_by_one = Ridge(ridge.basis, features, ridge.weights)
    apart, naive = (r.held_out_scores(r.moments(hard), hard, 1e-3)[:6, 0] for r in (ridge, one_by_one))
    assert naive.min() > apart.max() + 0.05


@pytest.mark.parametrize("width", [3, 64], ids=["singular kernel", "regular kernel"])
def test_coordinates_have_the_covariance_and_the_kernel_norm_they_promise(width):
    """Also where landmarks stand there twice, so that their kernel has no Cholesky factor."""
    generator = np.random.default_rng(0)
    features = generator.random((300, width)).astype(np.float32)
    features[100:150] = features[:50]
    ridge = probe.decompose(features, landmarks=300)[0]
    basis, points = ridge.basis, ridge.basis.embed.landmarks.astype(np.float64)
    places = basis.coordinates(features).astype(np.float64)
    np.testing.assert_allclose(places.T @ places / 300, np.diag(basis.eigenvalues), atol=1e-6)
    gram = gaussian_kernel(points, points, basis.embed.precision)
    np.testing.assert_allclose(basis.transform.T @ gram @ basis.transform, np.eye(places.shape[1]), atol=1e-6)
    assert places.shape[1] <= 250


def test_sample_weights_are_those_of_repeated_images(table):
    features, states, _ = table
    weights = np.ones(len(features))
    weights[:20] = 3
    weighted = probe.fit(features, states, sample_weight=weights, landmarks=60, step=ONE_STEP)
    dense = dense_solution(
        features, landmarks_of(features, 60), states == 1, weighted.kernel.penalty, weights / weights.sum()
    )
    np.testing.assert_allclose(weighted.scores(features), dense(features), atol=1e-5)


def test_images_of_no_weight_do_not_count():
    features, states, _ = made_table(images=300)
    noise = np.random.default_rng(8).permutation(states)
    weights = np.repeat([1.0, 0.0], 300)
    weighted = probe.fit(
        np.tile(features, (2, 1)), np.concatenate([states, noise]), sample_weight=weights, step=ONE_STEP
    )
    alone = probe.fit(features, states, step=ONE_STEP, landmarks=300)
    assert weighted.kernel.penalty == pytest.approx(alone.kernel.penalty, rel=0.05)
    np.testing.assert_allclose(weighted.calibration.positives, alone.calibration.positives, rtol=0.05)
    np.testing.assert_allclose(weighted.scores(features), alone.scores(features), atol=1e-3)


def test_copies_do_not_change_the_label_frequency():
    features, states, _ = made_table(images=400, known=0.3)
    groups = np.tile(np.arange(400), 3)
    copied = probe.fit(np.tile(features, (3, 1)), np.tile(states, (3, 1)), groups=groups, step=ONE_STEP)
    once = probe.fit(features, states, step=ONE_STEP)
    ratio = copied.calibration.common_label_frequency / once.calibration.common_label_frequency
    assert 0.75 < ratio < 1.33


def test_the_penalty_is_the_best_of_the_grid_by_dense_leave_one_out(table, fitted):
    features, states, _ = table
    points, targets = landmarks_of(features, 60), (states == 1).astype(np.float64)
    quality = []
    for penalty in PENALTIES:
        scores = np.empty(states.shape)
        for row in range(len(features)):
            weights = np.full(len(features), 1 / len(features))
            weights[row] = 0
            scores[row] = dense_solution(features, points, targets, penalty, weights)(features[[row]])[0]
        quality.append(pair_average_precision(rescale_loo(scores, states), states == 1))
    best = PENALTIES[int(np.argmax(quality))]
    assert best / 10**0.26 < fitted.kernel.penalty < best * 10**0.26  # between the grid's points


def test_large_tables_are_streamed_to_the_same_result(table, fitted, monkeypatch):
    features, states, _ = table
    for room in ("basis", "ridge"):
        monkeypatch.setattr(f"positively.probe.{room}.IN_MEMORY_BYTES", 0)
    monkeypatch.setattr("positively.probe.linalg.BLOCK_ROWS", 37)
    monkeypatch.setattr("positively.probe.labels._BLOCK_ENTRIES", 2 * len(features))
    streamed = probe.fit(features, sparse.csr_array(states), landmarks=60, step=ONE_STEP)
    assert streamed.kernel.penalty == pytest.approx(fitted.kernel.penalty, rel=1e-3)
    np.testing.assert_allclose(streamed.loo_scores, fitted.loo_scores, atol=1e-5)
    soft = probe.fit(features, states, landmarks=60, step=SOFT)
    monkeypatch.undo()
    np.testing.assert_allclose(
        soft.loo_scores, probe.fit(features, states, landmarks=60, step=SOFT).loo_scores, atol=1e-5
    )


def test_a_sample_judges_tables_that_are_large(monkeypatch):
    features, states, truth = made_table(images=2400, known=0.5)
    states[:, 0] = 0
    states[:4, 0] = 1  # so few that a sample of the images would have none

    def quality():
        scores = probe.fit(features, states, landmarks=60, step=ONE_STEP).loo_scores
        return mean_average_precision(scores, np.where(truth, 1, -1))

    everything = quality()
    monkeypatch.setattr("positively.probe.probe._JUDGED_IMAGES", 600)
    assert quality() == pytest.approx(everything, abs=0.002)
    monkeypatch.setattr("positively.probe.choice.PENALTIES", (1.0, 2.0))
    assert quality() < everything - 0.01  # λ matters here


@pytest.mark.parametrize("step", [ONE_STEP, SOFT, FILLED])
def test_changed_labels_give_what_a_fresh_fit_gives(table, step):
    features, states, _ = table
    changed = probe.fit(features, states, landmarks=60, step=step, linear=True)
    rows, new = np.array([3, 50, 90]), states[[3, 50, 90]].copy()
    new[0, 1], new[1, 1], new[2, 3] = 1, -1, 1 - new[2, 3]
    untouched = changed.kernel.moments[:, [0, 2, 4]].copy()
    assert changed.update(rows, new).tolist() == [1, 3]
    assert np.array_equal(changed.kernel.moments[:, [0, 2, 4]], untouched)

    all_new = states.copy()
    all_new[rows] = new
    fresh = probe.fit(features, states, landmarks=60, step=step, linear=True)
    fresh.labels.change(np.arange(len(states)), all_new, reviewed=True)
    fresh._stale = set(range(states.shape[1]))
    fresh._solve(
        np.arange(states.shape[1])
    )  # every class from nothing, with λ, frequencies and calibration as they are
    np.testing.assert_allclose(changed.scores(features), fresh.scores(features), atol=1e-6)
    np.testing.assert_allclose(changed.loo_scores, fresh.loo_scores, atol=1e-6)
    changed.renew()
    again = probe.fit(features, all_new, reviewed=all_new != states, landmarks=60, step=step, linear=True)
    np.testing.assert_allclose(changed.probabilities(features), again.probabilities(features), atol=1e-5)


@pytest.mark.parametrize("step", [ONE_STEP, *SOFT_STEPS])
def test_scores_of_known_and_hidden_positives_do_not_differ(step):
    """The leak test: a score that has seen its own label ranks known positives above hidden ones."""
    found = {"known": 0, "hidden": 0, "n known": 0, "n hidden": 0}
    for seed in range(4):
        features, states, truth = made_table(images=500, classes=6, known=0.3, seed=seed)
        fitted = probe.fit(features, states, step=step)
        scores = fitted.loo_scores if step != ONE_STEP else rescale_loo(fitted.loo_scores, states)
        top = np.argsort(np.argsort(-scores, axis=0), axis=0) < 100
        for name, which in (("known", states == 1), ("hidden", truth & (states == 0))):
            found[name] += (top & which).sum()
            found["n " + name] += which.sum()
    known, hidden = found["known"] / found["n known"], found["hidden"] / found["n hidden"]
    noise = np.sqrt(known * (1 - known) / found["n known"] + hidden * (1 - hidden) / found["n hidden"])
    assert abs(known - hidden) < 2.5 * noise
    assert hidden > 0.3  # of 500 images, 100: a score that knew nothing would find 0.2


def test_leave_one_out_after_the_soft_step_would_leak():
    """What label folds are for."""
    features, states, truth = made_table(images=500, classes=6, known=0.15)
    step = probe.SelfTraining(1.0, 1.0)
    fitted = probe.fit(features, states, step=step)
    fitted.set_penalty(1e-3)
    fitted.first = replace(fitted.first, label_frequency=np.full(6, 0.15))
    classes = np.arange(6)
    hard = fitted._hard(classes)
    targets = hard + fitted._soft(classes, hard)
    ridge = fitted.kernel.ridge
    leaky = ridge.held_out_scores(ridge.moments(targets), targets, fitted.kernel.penalty)
    honest = fitted._fold_scores(fitted.kernel, classes, (step,))[0]

    def advantage(scores):
        rank = np.argsort(np.argsort(scores, axis=0), axis=0)
        return rank[states == 1].mean() - rank[truth & (states == 0)].mean()

    assert advantage(leaky) > advantage(honest) + 10


def test_it_learns_more_than_the_known_labels(table):
    features, states, truth = made_table(images=600, classes=6, known=0.3)
    test_features, _, test_truth = made_table(images=600, classes=6, known=1.0, seed=0)
    fitted = probe.fit(features[:300], states[:300])
    found = mean_average_precision(fitted.scores(test_features[300:]), np.where(test_truth[300:], 1, -1))
    complete = probe.fit(features[:300], np.where(truth[:300], 1, -1))
    ceiling = mean_average_precision(complete.scores(test_features[300:]), np.where(test_truth[300:], 1, -1))
    assert ceiling > found > truth.mean() + 0.3


def test_verified_negatives_are_used():
    features, states, truth = made_table(images=400, known=0.3)
    generator = np.random.default_rng(5)
    both = np.where(~truth & (generator.random(truth.shape) < 0.3), -1, states).astype(np.int8)
    alone, told = probe.fit(features, states, step=SOFT), probe.fit(features, both, step=SOFT)
    np.testing.assert_allclose(told.calibration.negative_frequency, 0.3, atol=0.1)
    error = [np.abs(p.calibration.positives / truth.sum(0) - 1).mean() for p in (alone, told)]
    assert error[1] < error[0]


def masked_table(known, negatives, seed=0, images=400):
    """A share of the positives is known, and another of the negatives."""
    features, states, truth = made_table(images=images, known=known, seed=seed)
    drawn = np.random.default_rng(seed + 5).random(truth.shape) < negatives
    return features, np.where(~truth & drawn, -1, states).astype(np.int8), truth


def test_a_filled_step_is_least_squares_over_the_known_labels_alone(monkeypatch):
    monkeypatch.setattr("positively.probe.soft._ROUNDS", 300)
    features, states, _ = masked_table(0.4, 0.4, images=160)
    states[:, 4] = states[:, 4].clip(0)  # no negatives: what is unknown counts as it does in the first step
    fitted = probe.fit(features, states, landmarks=60, step=FILLED)
    penalty = 0.2 * fitted.kernel.penalty
    for column in range(5):
        counts = states[:, column] != 0 if column < 4 else np.ones(len(states), np.bool_)
        target = (states[:, [column]] == 1).astype(np.float64)
        shares = counts / len(states)  # of all images, so that λ is that of the whole table
        dense = dense_solution(features, landmarks_of(features, 60), target, penalty, shares)(features)
        np.testing.assert_allclose(fitted.scores(features)[:, column], dense[:, 0], atol=2e-4)


@pytest.mark.parametrize(
    ("known", "negatives", "fills"), [(0.4, 0.4, True), (0.4, 0.0, False), (0.6, 0.1, False), (1.0, 1.0, False)]
)
def test_known_labels_are_fitted_alone_where_negatives_are_known_as_often(known, negatives, fills):
    features, states, _ = masked_table(known, negatives)
    assert probe.fit(features, states).step.imputes is fills


def test_negatives_known_as_often_help():
    """Other photos of five tables rank better than by the positives alone."""
    for seed in range(5):
        features, states, truth = masked_table(0.25, 0.25, seed, images=2100)
        learned, test = slice(0, 600), slice(600, None)
        told, alone = (
            mean_average_precision(
                probe.fit(features[learned], shown[learned]).scores(features[test]), np.where(truth[test], 1, -1)
            )
            for shown in (states, states.clip(0))
        )
        assert told > alone


def test_one_class_without_negatives_is_not_fitted_to_its_known_labels():
    features, states, _ = masked_table(0.4, 0.4)
    absent = np.flatnonzero(states[:, 0] == -1)
    states[absent[1:], 0] = 0  # one negative is left
    assert not probe.fit(features, states).step.imputes


def test_images_of_no_weight_do_not_count_in_a_filled_step():
    features, states, _ = masked_table(0.4, 0.4, images=300)
    weights = np.r_[np.ones(200), np.zeros(100)]
    alone = probe.fit(features[:200], states[:200], landmarks=400)
    states[200:] = 0
    beside = probe.fit(features, states, sample_weight=weights, landmarks=400)
    assert beside.step == alone.step and beside.step.imputes
    np.testing.assert_allclose(beside.scores(features), alone.scores(features), atol=1e-4)


def test_probabilities_of_a_filled_step_add_up_on_other_photos():
    """Folds know fewer labels: at the same λ their scores would stand closer together than those of new photos."""
    found, true = 0.0, 0
    for seed in range(3):
        generator = np.random.default_rng(seed)
        truth = generator.random((2400, 8)) < np.linspace(0.03, 0.1, 8)
        features = generator.gamma(1.0, size=(2400, 32)) + 3 * truth @ generator.random((8, 32))
        known = generator.random(truth.shape) < 0.6
        fitted = probe.fit(features[:900], np.where(known, np.where(truth, 1, -1), 0)[:900].astype(np.int8))
        assert fitted.step.imputes
        found += fitted.probabilities(features[900:]).sum()
        true += truth[900:].sum()
    assert found == pytest.approx(true, rel=0.1)  # 1.3 times as many with λ of the whole table


def test_scores_of_a_filled_step_are_out_of_sample():
    """Neither known positives nor known negatives rank elsewhere than unknown ones of their kind."""
    places = {name: [] for name in ("known +", "hidden +", "known -", "hidden -")}
    for seed in range(4):
        features, states, truth = masked_table(0.4, 0.4, seed, images=500)
        fitted = probe.fit(features, states)
        assert fitted.step.imputes
        rank = np.argsort(np.argsort(fitted.loo_scores, axis=0), axis=0)
        for sign, which in (("+", truth), ("-", ~truth)):
            places[f"known {sign}"].extend(rank[which & (states != 0)])
            places[f"hidden {sign}"].extend(rank[which & (states == 0)])
    for sign in "+-":
        known, hidden = places[f"known {sign}"], places[f"hidden {sign}"]
        noise = np.hypot(np.std(known) / np.sqrt(len(known)), np.std(hidden) / np.sqrt(len(hidden)))
        assert abs(np.mean(known) - np.mean(hidden)) < 3 * noise
    assert np.mean(places["hidden +"]) > np.mean(places["hidden -"]) + 50


@pytest.mark.parametrize(
    "states",
    [np.zeros((30, 2)), np.ones((30, 2)), -np.ones((30, 2)), np.eye(30, 2)],
    ids=["nothing known", "all positive", "all negative", "one positive a class"],
)
@pytest.mark.parametrize("step", [None, SOFT, FILLED])
def test_any_labels_give_finite_numbers(states, step):
    features = made_table(images=30)[0]
    fitted = probe.fit(features, states.astype(np.int8), step=step, linear=True)
    assert np.isfinite(fitted.scores(features)).all()
    assert np.isfinite(fitted.loo_scores).all()
    probabilities = fitted.probabilities(features)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()


@pytest.mark.parametrize("features", [np.zeros((30, 4)), np.ones((30, 4)), np.full((30, 4), 1e30)])
def test_features_that_say_nothing_give_finite_numbers(features):
    states = (np.random.default_rng(0).random((30, 3)) < 0.3).astype(np.int8)
    assert np.isfinite(probe.fit(features, states, linear=True).loo_scores).all()


def test_signed_features_serve_as_well():
    features, states, truth = made_table(images=500, known=0.5)
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(features.shape[1],) * 2))[0]
    signed = (features - features.mean(0)) @ rotation
    plain, turned = (
        mean_average_precision(probe.fit(x, states).loo_scores, np.where(truth, 1, -1)) for x in (features, signed)
    )
    assert turned > plain - 0.05


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"states": np.zeros((4, 2))}, ["160", "4", "states"]),
        ({"groups": [1, 2]}, ["160", "2 groups"]),
        ({"sample_weight": [-1.0] * 160}, ["weight", "0"]),
        ({"features": np.zeros((160, 1, 2), np.float32)}, ["N×D"]),
        ({"features": np.zeros((160, 3, 2, 2), np.float32)}, ["N×D"]),
        ({"features": np.full((160, 3), np.nan, np.float32)}, ["row 0", "finite"]),
        ({"groups": np.zeros(160)}, ["copies", "group"]),
        ({"landmarks": 0}, ["landmark"]),
        ({"width": 0.0}, ["width", "0"]),
        ({"states": np.zeros((160, 0))}, ["class"]),
        ({"reviewed": np.ones((2, 2))}, ["states"]),
        ({"states": np.full((160, 2), 3)}, ["3"]),
    ],
)
def test_arrays_that_do_not_fit_are_told(table, change, facts):
    features, states, _ = table
    given = {"features": features, "states": states, **change}
    with pytest.raises(PositivelyError, match=naming(*facts)):
        probe.fit(**given)


def test_a_row_that_is_no_number_is_named(table):
    features, states, _ = table
    broken = features.copy()
    broken[97, 3] = np.inf
    with pytest.raises(ConfigError, match="row 97"):
        probe.fit(broken, states, landmarks=5)


@pytest.mark.parametrize("kind", [sparse.lil_array, sparse.dok_array, sparse.coo_array])
def test_sparse_states_of_any_kind_are_read(table, fitted, kind):
    features, states, _ = table
    found = probe.fit(features, kind(states), reviewed=kind(states == 9), landmarks=60, step=ONE_STEP)
    np.testing.assert_allclose(found.loo_scores, fitted.loo_scores, atol=1e-6)


def test_the_last_change_of_a_row_counts(table):
    features, states, _ = table
    fitted = probe.fit(features, states, landmarks=60, step=ONE_STEP)
    first, second = np.full(5, 1), np.zeros(5)
    fitted.update([3, 3], np.stack([first, second]))
    assert not fitted.labels.states(np.arange(5))[3].any()
    with pytest.raises(LabelError, match=naming("159", "160")):
        fitted.update([160], [first])


def test_lists_are_read(table, fitted):
    features, states, _ = table
    found = probe.fit(features.tolist(), states.tolist(), landmarks=60, step=ONE_STEP)
    np.testing.assert_allclose(found.scores(features.tolist()), fitted.scores(features), atol=1e-5)


@pytest.mark.parametrize("new", [np.zeros((3, 5)), np.zeros(12), np.zeros((2, 12, 2))])
def test_new_features_have_to_fit(fitted, new):
    with pytest.raises(ConfigError, match="× 12"):
        fitted.scores(new)


def test_new_states_have_to_fit(table, fitted):
    with pytest.raises(LabelError, match="1×5"):
        fitted.update([0], [[1, 0]])


def test_scores_of_images_with_parts_are_by_fits_that_really_leave_them_out():
    generator = np.random.default_rng(0)
    features = generator.random((60, 4, 8)).astype(np.float32)
    targets = (generator.random((60, 2)) < 0.3).astype(np.float32)
    groups = np.arange(60)
    groups[[10, 11]], groups[20] = 9, 21  # three copies, and two
    ridge, _ = decompose(features, groups=groups, landmarks=30)
    penalty, labels = 1e-2, targets
    found = ridge.held_out_scores(ridge.moments(labels), labels, penalty)
    places = ridge.basis.coordinates(features).astype(np.float64)
    for image in (0, 9, 10, 20, 21, 33):
        kept = groups != groups[image]
        known = np.concatenate([places[kept, 0], np.ones((kept.sum(), 1))], axis=1)
        shrinkage = 60 * penalty * np.diag([1.0] * places.shape[-1] + [0.0])
        weights = np.linalg.solve(known.T @ known + shrinkage, known.T @ targets[kept])
        scores = places[image] @ weights[:-1] + weights[-1]
        np.testing.assert_allclose(found[image], scores[0] + scores[1:].max(axis=0), atol=1e-6)


def test_a_thing_in_a_part_is_found_where_the_mean_hides_it():
    generator = np.random.default_rng(0)
    truth = generator.random((400, 1)) < 0.3
    size = np.where(generator.random((400, 1)) < 0.5, 1.0, 0.15)  # it fills the image, or a part of it or two
    is_there = (generator.random((400, 9)) < size) & truth
    looks = generator.gamma(2.0, size=(400, 1, 12)) + 0.3 * generator.random((400, 9, 12))
    parts = looks + 5 * is_there[..., None] * np.eye(12)[0]
    features = np.concatenate([parts.mean(axis=1, keepdims=True), parts], axis=1).astype(np.float32)
    known = (truth & (generator.random(truth.shape) < 0.5)).astype(np.int8)
    complete = np.where(truth, 1, -1)
    whole = mean_average_precision(probe.fit(features[:, 0], known).loo_scores, complete)
    fitted = probe.fit(features, known)
    assert mean_average_precision(fitted.loo_scores, complete) > whole + 0.03
    assert mean_average_precision(fitted.scores(features), complete) > whole + 0.03
    with pytest.raises(PositivelyError, match="parts × 12"):
        fitted.scores(features[:, 0])
