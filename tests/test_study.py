"""The study on stored features: masks do what they say, rows differ in one thing, nothing is computed twice."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from benchmarks.study import (
    budget,
    closed,
    criteria,
    logistic,
    masks,
    parts,
    settings,
    teaching,
    unlabeled,
    variants,
)
from benchmarks.study.__main__ import main
from benchmarks.study.archive import pack, unpack
from benchmarks.study.closed import Labels
from benchmarks.study.data import Photos
from benchmarks.study.problem import Problem
from benchmarks.study.reading import read_found
from benchmarks.study.report import MARKS, write_report
from benchmarks.study.running import Study
from benchmarks.study.spaces import kernel_space
from benchmarks.study.sweep import agreement, sweep
from positively import probe
from positively.errors import ConfigError, RunError
from positively.finetune.methods import StepContext
from positively.finetune.methods.pu_mlc import PUMLCMethod
from positively.models import create_classifier
from positively.probe.linalg import root_normalize
from wording import naming

CLASSES, LANDMARKS = 5, 50
FOLDER = Path(__file__).parents[1] / "benchmarks" / "study"


def make_photos(train=200, test=160, seed=0):
    generator = np.random.default_rng(seed)
    frequency = np.linspace(0.45, 0.12, CLASSES)
    truth = generator.random((train + test, CLASSES)) < frequency
    looks = generator.gamma(0.5, size=(CLASSES, 20))
    features = generator.gamma(1.0, size=(len(truth), 20)) + 1.5 * truth @ looks
    states, features = np.where(truth, 1, -1).astype(np.int8), features.astype(np.float32)
    return Photos("made-up", "none", "key", features[:train], states[:train], features[train:], states[train:])


@pytest.fixture(scope="module")
def photos():
    return make_photos()


@pytest.fixture(scope="module")
def problem(photos):
    return Problem(photos, landmarks=LANDMARKS)


@pytest.fixture(scope="module")
def labels(problem):
    return Labels(masks.uniform(problem.truth, 0, 0.5))


@pytest.fixture(scope="module")
def large():
    """Complete states of many photos, a few of them unknown, and scores that say how easily each is seen."""
    generator = np.random.default_rng(1)
    truth = np.where(generator.random((4000, CLASSES)) < np.linspace(0.6, 0.1, CLASSES), 1, -1).astype(np.int8)
    truth[:50, 0] = 0
    return truth, generator.random(truth.shape)


MASKS = {
    "uniform": masks.uniform,
    "by class": partial(masks.uniform, spread=0.8),
    "crowded": masks.crowded,
    "salient": masks.salient,
    "sure": masks.sure,
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_keep_a_share_are_nested_and_follow_the_seed(name, large):
    truth, sureness = large
    mask = partial(MASKS[name], sureness=sureness) if name == "sure" else MASKS[name]
    few, more = mask(truth, 0, 0.1), mask(truth, 0, 0.3)
    positive = truth == 1
    for states, share in ((few, 0.1), (more, 0.3)):
        assert (states[states != 0] == truth[states != 0]).all()
        tolerance = 0.1 if name == "by class" else 0.02
        assert abs((states[positive] == 1).mean() - share) < tolerance
    assert (more[few != 0] == few[few != 0]).all()
    assert np.array_equal(few, mask(truth, 0, 0.1))
    assert not np.array_equal(few, mask(truth, 1, 0.1))
    assert (few == -1).any() == (name in ("uniform", "by class"))


def test_each_mask_hides_what_it_says(large):
    truth, sureness = large
    positive, tags = truth == 1, (truth == 1).sum(axis=1)
    known = masks.crowded(truth, 0, 0.3) == 1
    assert known[tags == 1].sum() / tags[tags == 1].sum() > 2 * known[tags >= 4].sum() / tags[tags >= 4].sum()
    known = masks.salient(truth, 0, 0.3) == 1
    alone = positive & (tags == 1)[:, None]
    last = positive[:, -1] & (tags > 1)
    assert known[alone].mean() == pytest.approx(known[last, -1].mean() / masks.OTHER_TAGS, rel=0.25)
    known = masks.sure(truth, 0, 0.3, sureness) == 1
    assert np.median(sureness[known]) > np.median(sureness[positive]) + 0.2
    shares = known.sum(axis=0) / positive.sum(axis=0)
    assert np.ptp(shares) < 0.1  # every class alike
    single = masks.single_positive(truth, 0)
    assert ((single == 1).sum(axis=1) == (tags > 0)).all() and not (single == -1).any()
    flipped = masks.flipped(truth, 0, 0.3, 1.0)
    assert abs((flipped[positive] == -1).mean() - 0.3) < 0.02 and (flipped[truth == -1] == -1).all()
    assert np.array_equal(masks.known_positives(flipped) == 1, flipped == 1)


def test_a_budget_is_spent_to_the_last_answer(large):
    truth, _ = large
    total = int((truth == 1).sum())
    all_of_it = budget.positives(truth, 0, total)
    assert np.array_equal(all_of_it == 1, truth == 1) and not (all_of_it == -1).any()
    few, more = budget.pairs(truth, 0, total // 2), budget.pairs(truth, 0, total)
    assert ((few != 0).sum(), (more != 0).sum()) == (total // 2, total)
    assert (more[few != 0] == few[few != 0]).all()
    whole = budget.photos(truth, 0, total)
    chosen = (whole != 0).any(axis=1)
    cost = (whole == 1).sum() + chosen.sum()
    assert total - 10 < cost <= total and np.array_equal(whole[chosen], truth[chosen])


def test_a_simulated_review_counts_its_start_and_is_done_once(photos, tmp_path, monkeypatch):
    problem = Problem(photos, landmarks=LANDMARKS, folder=tmp_path)
    found = budget.asked(problem)
    total = int((problem.truth == 1).sum())
    for share, told in found.items():
        answered = told.states != 0
        assert answered.sum() == round(share * total)
        assert np.array_equal(told.states[answered], problem.truth[answered])
    assert (found[1.0].states == 1).sum() > (budget.pairs(problem.truth, 0, total) == 1).sum()
    assert 0 < (found[1.0].reviewed > 0).sum() < total
    monkeypatch.setattr(budget, "_review", None)
    again = budget.asked(Problem(photos, landmarks=LANDMARKS, folder=tmp_path))
    assert np.array_equal(again[0.5].states, found[0.5].states)
    assert np.array_equal(again[0.5].reviewed, found[0.5].reviewed)


def test_smaller_tables_are_parts_of_larger_ones_and_know_the_same(photos):
    small, large = (Problem(photos, size, seed=3, landmarks=LANDMARKS) for size in (80, 160))
    assert set(small.rows) < set(large.rows)
    both = np.isin(large.rows, small.rows)
    told = [settings.AT_SIZES.labels(problem).states for problem in (small, large)]
    assert np.array_equal(told[0], told[1][both])
    assert set(small.rows) != set(Problem(photos, 80, seed=4, landmarks=LANDMARKS).rows)


def test_auto_is_the_closed_form_as_it_is(problem, labels):
    known = masks.known_positives(labels.states)
    fitted = probe.fit(problem.features, known, landmarks=LANDMARKS)
    expected = fitted.scores(problem.photos.test)
    assert np.allclose(closed.auto(problem, labels).scores, expected, atol=1e-5)
    same = kernel_space(root_normalize, problem.features, problem.photos.test, LANDMARKS, 0)
    assert np.allclose(same.ridge.basis.eigenvalues, problem.space("kernel").ridge.basis.eigenvalues, rtol=1e-4)
    told = closed.auto(problem, labels, rule=closed.by_criterion(criteria.pu_ap))
    assert told.chosen["penalty"] == pytest.approx(fitted.kernel.penalty)


def test_every_row_differs_in_one_thing():
    of_auto = [row for row in variants.ABLATION if getattr(row.learn, "func", row.learn) is closed.auto]
    changes = [getattr(row.learn, "keywords", {}) for row in of_auto]
    assert changes[0] == {} and all(len(change) == 1 for change in changes[1:])
    assert len({row.name for row in variants.ABLATION}) == len(variants.ABLATION)
    names = {row.name for row in (*variants.ABLATION, *budget.VARIANTS)}
    assert {row.against for row in (*variants.ABLATION, *budget.VARIANTS)} <= names


@pytest.mark.parametrize("row", variants.ABLATION, ids=lambda row: row.name)
def test_every_row_learns(row, problem, labels):
    frequency = (problem.photos.test_truth == 1).mean()
    assert problem.quality(row.learn(problem, labels).scores) > frequency + 0.15


def weighted_least_squares(coordinates, positive, others, penalty):
    """½ (1/N) Σ_others f² − (1/N) Σ_P f + ½ λ‖w‖², solved as it stands."""
    rows = np.c_[coordinates, np.ones(len(coordinates))]
    shrink = np.diag([penalty] * coordinates.shape[1] + [0.0])
    system = rows[others].T @ rows[others] / len(rows) + shrink
    return np.linalg.solve(system, rows[positive].sum(axis=0) / len(rows))


def test_least_squares_without_positives_among_the_unlabeled(problem, labels):
    space, penalty = problem.space("kernel"), 3e-3
    coordinates = space.train.astype(np.float64)
    solved = unlabeled.solve(space, labels.states, penalty)
    left_out = unlabeled.held_out(space, labels.states, penalty)
    for column in (0, 4):
        positive = labels.states[:, column] == 1
        direct = weighted_least_squares(coordinates, positive, ~positive, penalty)
        assert np.allclose(solved[:, column], direct, rtol=1e-3, atol=1e-4 * np.abs(direct).max())
        count = positive.sum()
        for row in (np.flatnonzero(positive)[0], np.flatnonzero(~positive)[0]):
            others = np.arange(len(positive)) != row
            fit = weighted_least_squares(coordinates, positive & others, ~positive & others, penalty)
            level = count / (count - 1) if positive[row] else 1.0
            assert left_out[row, column] == pytest.approx(level * (fit[:-1] @ coordinates[row] + fit[-1]), rel=2e-3)


def test_logistic_regression_finds_the_optimum_of_scikit_learn(problem, labels):
    space, l2 = problem.space("kernel"), 1e-4
    inputs, eigenvalues = torch.from_numpy(space.train), torch.from_numpy(space.ridge.basis.eigenvalues).float()
    options = {"eigenvalues": eigenvalues, "iterations": 60}
    weight, bias = logistic.solve(inputs, torch.from_numpy(labels.states), l2, **options)
    for column in (0, 3):
        known = labels.states[:, column] != 0
        peer = LogisticRegression(C=1 / (2 * l2 * len(known)), tol=1e-8, max_iter=5000)
        peer.fit(space.train[known], labels.states[known, column])
        assert np.allclose(weight[:, column], peer.coef_[0], atol=0.02 * np.abs(peer.coef_).max())
        assert bias[column] == pytest.approx(peer.intercept_[0], abs=0.02)


def test_criteria_prefer_scores_that_rank_positives_high(problem, labels):
    generator = np.random.default_rng(0)
    noise = generator.normal(size=problem.truth.shape)
    for criterion in criteria.CRITERIA.values():
        assert criterion(problem.truth + noise, labels.states) > criterion(noise, labels.states)


@pytest.mark.parametrize("step", (probe.ONE_STEP, probe.SelfTraining(0.5)))
def test_a_sweep_judges_every_penalty(step, problem, labels):
    history = sweep(problem, labels, step)
    assert len(history) == 11 and {*criteria.CRITERIA, "mAP", "penalty"} == history[0].keys()
    for criterion in criteria.CRITERIA:
        found = agreement(history, criterion)
        assert 0 <= found.regret < 0.1 and -1 <= found.correlation <= 1
    assert agreement(history, "mAP").regret == 0


def make_maps(train=120, test=80):
    """Photos whose features are what the last stage of a small network sees."""
    flat = make_photos(train, test)
    generator = np.random.default_rng(3)
    spots = generator.random((1, 1, 6, 6)) > 0.5

    def maps(features):
        noise = generator.random((len(features), 64, 6, 6))
        return (noise + spots * np.tile(features, 4)[:, :64, None, None]).astype(np.float32)

    network = partial(create_classifier, "positively_tiny", CLASSES, "none", depth="tail", freeze_batchnorm=True)
    found = {"features": maps(flat.features), "test": maps(flat.test), "depth": "tail", "make_network": network}
    return replace(flat, backbone="positively_tiny", **found)


@pytest.fixture(scope="module")
def taught():
    photos = make_maps()
    problem = Problem(photos, landmarks=30)
    labels = Labels(masks.uniform(problem.truth, 0, 0.5))
    return problem, labels, {row.name: row.learn(problem, labels) for row in teaching.VARIANTS}


def test_every_way_of_teaching_is_judged_in_every_way(taught):
    problem, _, learned = taught
    for name, found in learned.items():
        assert found.scores.shape == problem.photos.test_truth.shape and np.isfinite(found.scores).all()
        if name not in ("teach-began", "teach-control"):
            no_targets = {teaching.ON_TARGETS} if name == "teach-pu-mlc" else set()
            assert {"mAP", *found.others} | no_targets == set(teaching.WAYS)
    assert len({problem.quality(found.scores) for found in learned.values()}) > 5  # they differ
    assert learned["teach-mixup"].measures == learned["teach-began"].measures  # the same targets
    mixup = next(row for row in teaching.VARIANTS if row.name == "teach-mixup")
    assert np.array_equal(mixup.learn(*taught[:2]).scores, learned["teach-mixup"].scores)


def test_a_network_that_did_not_learn_is_its_control(taught):
    """Not learning at all, a row is the control: they differ in what was learned and in nothing else."""
    problem, labels, learned = taught
    found = teaching.learn(problem, labels, teaching=teaching.Teaching(lr=1e-12))
    control = learned["teach-control"]
    assert np.allclose(found.scores, control.scores, atol=1e-4)
    assert np.allclose(found.others[teaching.HELD], control.others[teaching.HELD], atol=1e-4)


def test_networks_of_label_folds_do_not_see_the_labels_they_score(taught, monkeypatch):
    problem, labels, learned = taught
    assert learned["teach-average"].measures["leak"] > learned["teach-folds"].measures["leak"] + 0.3
    shown = []

    class Watched(teaching.Student):
        """Scores everything with its own number."""

        def __init__(self, *arguments):
            super().__init__(*arguments)
            shown.append((self.rows, self.held, self.states))

        def solve_seen(self, features, penalty):
            number = np.full(self.states[self.rows].shape, len(shown) - 1.0, np.float32)
            return SimpleNamespace(loo_scores=number)

    states, folds = masks.known_positives(labels.states), teaching.Teaching(label_folds=True)
    monkeypatch.setattr(teaching, "Student", Watched)
    monkeypatch.setattr(teaching, "_standard", lambda scores: scores)
    scored_by = teaching._unseen_scores(problem, states, folds, 0.1)
    rows, held, _ = shown[0]
    assert len(shown) == teaching.FOLDS
    hidden = np.stack([(states == 1) & (told == 0) for _, _, told in shown])
    assert np.array_equal(hidden.sum(axis=0)[rows], (states == 1)[rows])  # each known tag from one of them
    assert not hidden[:, held].any() and all(np.array_equal(one[1], held) for one in shown)
    known = states[rows] == 1
    assert np.array_equal(hidden[:, rows].argmax(axis=0)[known], scored_by[known])  # which is the one that scores it


def test_teaching_has_a_table_of_its_own(tmp_path):
    rows = ("teach-began", "teach-control", "teach-plain")
    wanted = [job for job in parts.jobs("teaching", 120, 2) if job.row in rows]
    Study(make_maps(), tmp_path, 30).run(wanted, progress=lambda text: None)
    text = write_report("teaching", tmp_path).read_text(encoding="utf-8")
    assert "| own head | solved |" in text and "taught, no blending − not trained, one step" in text
    assert (tmp_path / "figures" / "teaching-made-up-positively_tiny-120.png").stat().st_size > 5000
    (found,) = read_found(tmp_path)
    assert all(cell.cell.depth == "tail" for cells in found.cells.values() for cell in cells.values())


def test_with_hard_targets_the_variational_row_is_pu_mlc():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(12, CLASSES, generator=generator)
    states = (torch.rand(12, CLASSES, generator=generator) < 0.4).to(torch.int8)
    step = StepContext(0, 0, 0, torch.arange(12))
    peer = PUMLCMethod().training_step(lambda inputs: inputs, logits, states, step)
    method = teaching.Variational()
    method.targets = states.float()
    found = method.training_step(lambda inputs: inputs, logits, states, step)
    assert {name: value.item() for name, value in found.items()} == pytest.approx(
        {name: value.item() for name, value in peer.items()}, rel=1e-5
    )


@pytest.fixture(scope="module")
def results(photos, tmp_path_factory):
    """A folder with a few cells of every part."""
    out = tmp_path_factory.mktemp("study")
    study = Study(photos, out, LANDMARKS)
    for part, names, rows in (
        ("ablation", ["uniform-30", "uniform-50"], ("auto", "linear", "one-step", "without")),
        ("criterion", ["uniform-30"], ("sweep-one-step",)),
        ("settings", ["uniform-30", "single", "sure-30", "flipped-50-known-100"], ("auto", "auto-negatives")),
        ("budget", ["budget-positives-50", "budget-photos-50", "budget-asked-50"], ("auto-told",)),
    ):
        wanted = parts.jobs(part, 200, 2, names, [120] if part == "settings" else [])
        study.run([job for job in wanted if job.row in rows], progress=lambda text: None)
    return out


def test_a_second_run_computes_nothing_twice(photos, results):
    computed = []
    study = Study(photos, results, LANDMARKS)
    wanted = [job for job in parts.jobs("ablation", 200, 2, ["uniform-30"]) if job.row in ("auto", "linear")]

    def counting(job):
        def measure(problem, labels):
            computed.append((job.row, job.seed))
            return job.measure(problem, labels)

        return replace(job, measure=measure)

    said = []
    study.run([counting(job) for job in wanted], progress=said.append)
    assert computed == [] and "4 cells" in said[0] and "0 are missing" in said[0]
    study.path(wanted[1]).unlink()
    study.run([counting(job) for job in wanted], progress=said.append)
    assert computed == [(wanted[1].row, wanted[1].seed)]
    other = Study(replace(photos, key="other"), results, LANDMARKS)
    assert not other.path(wanted[0]).exists()  # of other images or another network


def test_results_travel_in_one_file(results, tmp_path):
    archive = tmp_path / "study.jsonl"
    count = pack(results, archive)
    assert count == len(archive.read_text().splitlines()) == len(list((results / "cells").iterdir())) > 20
    assert unpack(archive, tmp_path / "elsewhere") == count
    (before,), (after,) = (read_found(folder) for folder in (results, tmp_path / "elsewhere"))
    assert after.cells.keys() == before.cells.keys()
    for place, cells in before.cells.items():
        assert after.values(*place) == pytest.approx(before.values(*place), abs=1e-6)
        assert [len(cell.history) for cell in after.cells[place].values()] == [
            len(cell.history) for cell in cells.values()
        ]
    archive.write_text(archive.read_text() + '{"file": 1')
    with pytest.raises(RunError, match=f"line {count + 1}"):
        unpack(archive, tmp_path / "elsewhere")


def test_reports_have_verdicts_and_figures(results):
    words = {
        "ablation": (
            "auto, positives alone",
            "linear, no kernel − auto",
            "not among the unlabeled − no soft",
        ),
        "criterion": ("Spearman", "Regret", "log-rank"),
        "settings": ("one positive per image", "By size", "easiest tags first", "120 images"),
        "budget": (
            "positives alone: auto",
            "Differences from positives alone: auto",
            "questions of the review",
            "1 A answers",
        ),
    }
    for part, expected in words.items():
        text = write_report(part, results).read_text(encoding="utf-8")
        assert all(word in text for word in expected), part
        if part != "criterion":
            assert any(f") {mark} |" in text for mark in MARKS.values())
        assert (results / "figures" / f"{part}-made-up-none-200.png").stat().st_size > 5000


def test_the_command_says_which_settings_there_are(results, capsys):
    main(["ablation", "no folder", "no weights", "--out", str(results), "--report"])
    assert "ablation.md" in capsys.readouterr().out
    with pytest.raises(ConfigError, match=naming("'half'", "uniform-10")):
        parts.jobs("ablation", 200, 1, ["half"])


def test_a_row_that_is_not_there_is_an_error(photos, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.study.__main__.read_photos", lambda *given: photos)
    with pytest.raises(SystemExit):
        main(["ablation", "folder", "weights", "--out", str(tmp_path), "--rows", "auto", "lineer"])
    assert "'lineer'" in capsys.readouterr().err


def test_rows_that_need_negatives_are_left_out_where_none_are_known():
    rows = {
        setting.name: {row.name for row in parts.rows_of("settings", setting)} for setting in parts.PARTS["settings"]
    }
    assert "bce" in rows["uniform-30"] and "bce" in rows["flipped-30-known-50"]
    assert "bce" not in rows["single"] and "auto-negatives" not in rows["crowded-30"] and "an" in rows["salient-10"]
