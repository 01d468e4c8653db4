"""The review loop: exact updates, undo, a renewal under the user's hand, new tags, ways of asking, an honest audit."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from positively import probe
from positively.errors import LabelError
from positively.probe import ONE_STEP
from positively.research.simulate import audit_coverage, simulate
from positively.review.audit import AuditDesign, counted_draws, draw_audit, estimate_missing, estimate_total
from positively.review.calibration import _deviation
from positively.review.model import ReviewModel

CLASSES = ["sea", "sand", "dog", "boat", "kite"]


def made_table(images=400, known=0.5, seed=0):
    """Features that carry their tags, states of which a share is known, and the truth."""
    generator = np.random.default_rng(seed)
    truth = generator.random((images, len(CLASSES))) < np.linspace(0.1, 0.3, len(CLASSES))
    directions = generator.random((len(CLASSES), 24)) ** 3
    features = generator.gamma(2.0, size=(images, 24)) + 6 * truth @ directions
    states = (truth & (generator.random(truth.shape) < known)).astype(np.int8)
    return features.astype(np.float32), states, np.where(truth, 1, -1).astype(np.int8)


@pytest.fixture(scope="module")
def table():
    return made_table()


@pytest.fixture
def model(table):
    return ReviewModel(*table[:2], CLASSES, landmarks=80)


def answered(model, truth, way, count, **options):
    """Answer some questions one after the other; returns the pairs."""
    pairs = []
    for _ in range(count):
        question = model.ask(way, 1, **options)[0]
        pairs.append((question.row, question.column))
        model.answer(question.row, question.column, truth[pairs[-1]])
    return pairs


def everything(model):
    """All that a reader sees of a model."""
    columns = range(len(model.classes))
    return [
        np.stack([function(column) for column in columns])
        for function in (model.states, model.probabilities, lambda column: model.columns[column].scores)
    ] + [model.ranking(column) for column in columns]


def assert_same(one, other):
    for first, second in zip(one, other, strict=True):
        np.testing.assert_array_equal(first, second)


def test_an_answer_is_worth_a_full_fit(table, model):
    features, states, truth = table
    pairs = answered(model, truth, "likeliest", 20) + answered(model, truth, "teaching", 30)
    changed = sorted({column for _, column in pairs})
    now, weights = states.copy(), np.zeros(states.shape)
    for row, column in pairs:
        now[row, column] = truth[row, column]
        weights[row, column] = model.columns[column].labels.surprise[row]
    assert (weights[now == -1] < 1).any()  # some rejections were no surprise
    fitted = probe.fit(features, now, reviewed=weights, landmarks=80, step=ONE_STEP)
    fitted.set_penalty(model._fit.penalty)
    again = fitted.held_out_scores(np.arange(len(CLASSES)))
    for column in changed:
        labels, base = model.columns[column].labels, model.columns[column].base.labels
        assert labels.level > base.level
        np.testing.assert_allclose(
            model.columns[column].scores * labels.level / base.level, again[:, column], atol=2e-6
        )
        unknown = np.flatnonzero(now[:, column] == 0)
        ranking = model.ranking(column)
        assert set(ranking) == set(unknown)
        assert (np.diff(model.columns[column].scores[ranking]) <= 0).all()
        assert (np.diff(model.probabilities(column)[ranking]) <= 1e-7).all()
        np.testing.assert_array_equal(
            model.probabilities(column)[now[:, column] != 0], now[now[:, column] != 0, column] == 1
        )


def test_an_answer_changes_its_class_alone_and_moves_what_looks_alike(table, model):
    before = everything(model)
    row = int(model.ranking(2, 1)[0])
    model.answer(row, 2, 1)
    accepted = model.columns[2]
    others = [column for column in range(len(CLASSES)) if column != 2]
    np.testing.assert_array_equal(before[2][others], np.stack([model.columns[column].scores for column in others]))
    near = np.argsort(((table[0] - table[0][row]) ** 2).sum(1))[1:20]
    model.answer(row, 2, -1)
    rejected = model.columns[2]
    raw = accepted.scores * accepted.labels.level / accepted.base.labels.level
    assert raw[near].mean() > before[2][2][near].mean() + 1e-4
    assert rejected.scores[near].mean() < before[2][2][near].mean() - 1e-4  # a no is used
    assert row not in model.ranking(2)


def test_undo_restores_every_number(table, model):
    truth = table[2]
    known = int(np.flatnonzero(model.states(1) == 1)[0])
    before = everything(model)
    pairs = answered(model, truth, "likeliest", 5) + answered(model, truth, "teaching", 15)
    middle = everything(model)
    model.answer([known, known], [1, 1], [-1, -1])  # a known tag can be rejected too
    assert model.states(1)[known] == -1 and not np.array_equal(middle[1], everything(model)[1])
    model.answer(known, 1, 0)
    assert_same(middle, everything(model))
    assert model.states(1)[known] == 1
    rows, columns = zip(*pairs, strict=True)
    model.answer(rows, columns, np.zeros(len(rows), np.int8))
    assert_same(before, everything(model))
    assert all(part.accepted == part.rejected == 0 for part in model.overview())


def test_a_renewal_in_the_background_loses_no_answer(table, model):
    features, states, truth = table
    other = ReviewModel(features, states, CLASSES, landmarks=80)
    questions = model.ask("teaching", 40) + model.ask("likeliest", 10)
    rows, columns = np.array([(question.row, question.column) for question in questions]).T
    for one in (model, other):
        one.answer(rows[:20], columns[:20], truth[rows[:20], columns[:20]])
    renewed, begun, go_on = model._renewed, threading.Event(), threading.Event()

    def slowly(*arguments):
        begun.set()
        result = renewed(*arguments)
        assert go_on.wait(30)
        return result

    model._renewed = slowly
    thread = threading.Thread(target=model.renew)
    thread.start()
    assert begun.wait(30)
    for place in range(20, len(rows)):  # nobody waits for the thread
        model.answer(rows[place], columns[place], truth[rows[place], columns[place]])
    model.answer(rows[0], columns[0], 0)
    new = np.flatnonzero(truth[:, 0] == 1)[:3]
    model.add_class("new", new)
    assert thread.is_alive() and model.columns[0].name == CLASSES[0]
    go_on.set()
    thread.join(30)
    other.renew()
    for place in range(20, len(rows)):
        # How surprising an answer was depends on what was known when it came.
        other.answer(rows[place], columns[place], truth[rows[place], columns[place]])
    other.answer(rows[0], columns[0], 0)
    other.add_class("new", new)
    assert [column.labels.states.tolist() for column in model.columns] == [
        column.labels.states.tolist() for column in other.columns
    ]
    assert model._fit.penalty == other._fit.penalty
    for column, twin in zip(model.columns, other.columns, strict=True):
        same = replace(twin.labels, surprise=column.labels.surprise)
        np.testing.assert_array_equal(column.scores, other._updated(twin, same).scores)
        np.testing.assert_array_equal(column.calibration.slope, twin.calibration.slope)


def test_readers_and_answers_from_many_threads_agree(table, model):
    truth = table[2]
    rows, columns = np.nonzero(model.columns[0].labels.states[:, None] == np.zeros((1, len(CLASSES))))
    pairs = np.random.default_rng(0).permutation(np.stack([rows, columns], axis=1))[:60]
    pairs = [(row, column) for row, column in pairs.tolist() if model.states(column)[row] == 0]
    failures = []

    def work(part):
        try:
            for row, column in part:
                model.answer(row, column, truth[row, column])
                model.photo(row)
                model.overview()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(pairs[start::3],)) for start in range(3)]
    threads.append(threading.Thread(target=model.renew))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert all(model.states(column)[row] == truth[row, column] for row, column in pairs)


def test_copies_do_not_vouch_for_one_another():
    features, states, truth = made_table(images=200)
    features = np.concatenate([features, features[:1]])
    states = np.concatenate([states, np.zeros((1, len(CLASSES)), np.int8)])
    tag = int(np.flatnonzero(truth[0] == -1)[0])
    states[0, tag] = 1  # a tag that means nothing: only the copy could make it look likely
    groups = np.append(np.arange(200), 0)
    apart, naive = (ReviewModel(features, states, CLASSES, groups=g, landmarks=80) for g in (groups, None))
    assert apart.columns[tag].scores[200] < naive.columns[tag].scores[200] - 0.02
    for model in (apart, naive):
        model.answer(0, tag, -1)
        model.answer(0, tag, 1)
        model.answer(1, tag, 1)  # by an update as well
    assert apart.columns[tag].scores[200] < naive.columns[tag].scores[200] - 0.02


def test_a_new_tag_is_found_from_three_photos_in_a_bare_folder():
    features, _, truth = made_table(images=600)
    model = ReviewModel(features, sparse.csr_array((600, 0), dtype=np.int8), [], landmarks=120)
    assert (model.classes, model.overview(), model.ask("audit", 5), model.ask("likeliest", 5)) == ([], [], [], [])
    assert model.photo(0) == [] and model.estimate() is None and "photos" in model.advice(model.estimate())
    model.renew()
    carriers = np.flatnonzero(truth[:, 3] == 1)
    index = model.add_class("boat", carriers[:3])
    top = model.ranking(index, 30)
    assert (truth[top, 3] == 1).mean() > 1.5 * (truth[:, 3] == 1).mean()
    column = model.columns[index]
    unmoved = column.calibration.probabilities(column.scores[top, None])[:, 0]
    np.testing.assert_allclose(model.probabilities(index)[top], unmoved / 2, rtol=1e-4)  # an order, and modest about it
    progress = model.overview()[index]
    assert (progress.accepted, progress.rejected, progress.learned) == (3, 0, False)
    answered(model, truth[:, [3]], "likeliest", 60)
    model.renew()
    progress = model.overview()[index]
    assert progress.learned and progress.accepted > 3
    real = (truth[model.states(index) == 0, 3] == 1).sum()
    assert real / 3 < progress.missing < 3 * real
    model.start_audit()
    answered(model, truth[:, [3]], "audit", 60)
    found = model.estimate(index)
    assert found.low <= (truth[model.states(index) == 0, 3] == 1).sum() <= found.high
    model.remove_class("boat")
    assert model.classes == [] and model.estimate() is None
    with pytest.raises(LabelError, match="'boat'"):
        model.remove_class("boat")


def test_a_new_tag_is_not_learned_before_some_of_the_likeliest_were_rejected():
    features, _, truth = made_table(images=600)
    model = ReviewModel(features, np.zeros((600, 0), np.int8), [], landmarks=120)
    carriers = np.flatnonzero(truth[:, 3] == 1)
    model.add_class("boat", carriers[:3])
    assert "Accept and reject" in model.advice(model.estimate()) and "stop" not in model.advice(model.estimate())
    model.answer(carriers[3:40], 0, 1)
    model.renew()
    assert not model.columns[0].learned  # nothing tells where the tag ends
    others = model.ranking(0)[truth[model.ranking(0), 3] == -1]
    model.answer(others[-5:], 0, -1)
    model.renew()
    assert not model.columns[0].learned  # as little as before, near the end
    assert "stop" not in model.advice(model.estimate()) and "missing" in model.advice(model.estimate())
    model.answer(others[:12], 0, -1)
    model.renew()
    assert model.columns[0].learned and "will be right" in model.advice(model.estimate())


def test_the_bound_of_a_new_tag_knows_that_slopes_are_uncertain():
    generator = np.random.default_rng(0)
    information, scaled = generator.random((1, 9)) * (np.arange(9) > 5), np.linspace(-3, 3, 9)[None]
    found = _deviation(information, scaled, np.array([0.7]))[0]
    design = np.stack([np.ones(9), scaled[0]], axis=1)
    variance = np.linalg.inv(design.T @ (information.T * design) + np.diag([5.0**-2, 0.7**-2]))
    np.testing.assert_allclose(found**2, np.einsum("ij,jk,ik->i", design, variance, design))
    assert found[0] > found[7]  # answers were at the top: little is known of the rest


def test_what_was_reviewed_before_is_not_known_at_random(table, model):
    features, states, truth = table
    answered(model, truth, "likeliest", 100)
    model.renew()
    now = np.stack([model.states(column) for column in range(len(CLASSES))], axis=1)
    again = ReviewModel(features, now, CLASSES, reviewed=now != states, landmarks=80)
    naive = ReviewModel(features, now, CLASSES, landmarks=80)
    assert [part.known for part in again.overview()] == (states == 1).sum(axis=0).tolist()
    assert sum(part.accepted + part.rejected for part in again.overview()) == 100
    frequency = [float(np.mean([c.calibration.label_frequency[0] for c in m.columns])) for m in (model, again, naive)]
    assert abs(frequency[0] - frequency[1]) < 0.05 < frequency[2] - frequency[0]
    row, column = (int(place[0]) for place in np.nonzero(now != states))
    again.answer(row, column, 0)
    assert again.states(column)[row] == 0


def test_ways_of_asking(model):
    likeliest = model.ask("likeliest", 20)
    assert [q.probability for q in likeliest] == sorted((q.probability for q in likeliest), reverse=True)
    best = max(model.probabilities(c)[model.states(c) == 0].max() for c in range(len(CLASSES)))
    assert likeliest[0].probability == pytest.approx(best)
    teaching = model.ask("teaching", 20)
    assert np.mean([abs(q.probability - 0.5) for q in teaching]) < np.mean(
        [abs(q.probability - 0.5) for q in likeliest]
    )
    for way in ("likeliest", "teaching", "audit"):
        asked = model.ask(way, 10)
        skip = {(q.row, q.column) for q in asked[:4]}
        rest = model.ask(way, 6, skip=skip)
        assert [(q.row, q.column) for q in rest] == [(q.row, q.column) for q in asked[4:]]
        assert {q.way for q in asked} == {way}
        assert {q.column for q in model.ask(way, 5, column=2)} == {2}
        assert len(model.ask("likeliest", 10**6)) == sum((model.states(c) == 0).sum() for c in range(len(CLASSES)))
    listed = model.photo(7)
    assert {c for c, _ in listed} == {c for c in range(len(CLASSES)) if model.states(c)[7] == 0}
    assert [p for _, p in listed] == sorted((p for _, p in listed), reverse=True)


def test_the_audit_is_unbiased_and_its_interval_holds_even_where_the_model_is_wrong(table, model):
    truth = table[2]
    right = audit_coverage(model, truth, answers=(50, 200), simulations=300)
    distorted = [
        replace(column, calibration=replace(column.calibration, offset=column.calibration.offset - 1.0))
        for column in model.columns
    ]
    assert sum(column.missing for column in distorted) < 0.7 * sum(column.missing for column in model.columns)
    model._columns = tuple(distorted)
    wrong = audit_coverage(model, truth, answers=(50, 200), simulations=300)
    for found in [*right, *wrong]:
        assert abs(found.bias) < 3.5 * found.error / np.sqrt(300)
        assert found.held > 0.93
    assert right[1].error < 0.7 * right[0].error and right[1].width < 0.7 * right[0].width
    assert right[0].width < 8 * right[0].error  # not by being endless


def test_the_audit_checks_the_stated_precision(table, model):
    truth = table[2]
    real = [truth[model.columns[c].labels.states == 0, c] == 1 for c in range(len(CLASSES))]
    likely = [model.probabilities(c)[model.states(c) == 0] >= 0.4 for c in range(len(CLASSES))]
    precision = np.concatenate(real)[np.concatenate(likely)].mean()
    stated = np.mean([q.probability for q in model.ask("likeliest", int(np.concatenate(likely).sum()))])
    columns, found = model.columns, []
    assert model.precision(0.4) is None
    for seed in range(60):
        model._columns, model.audit = columns, draw_audit(columns, seed, 400)
        rows, classes = model.audit.rows, model.audit.columns
        model.answer(rows, classes, truth[rows, classes])
        found.append(model.precision(0.4))
    assert np.mean([one.right for one in found]) == pytest.approx(precision, abs=0.05)
    assert np.mean([one.stated for one in found]) == pytest.approx(stated, abs=0.02)
    assert np.mean([one.low <= precision <= one.high for one in found]) > 0.85
    assert np.mean([one.high - one.low for one in found]) < 0.5


def test_few_answers_give_no_falsely_narrow_interval(model):
    design = draw_audit(model.columns, 0, 40)
    rare = np.argsort(design.expected)[:5]  # five that are all no surprise
    _, low, high = estimate_total(design, rare, np.zeros(5, bool), list(range(len(CLASSES))))
    spread = np.sqrt(design.variance.sum() / 5)
    assert high - low > 2 * 1.96 * spread


def test_which_draws_of_the_audit_count(table, model):
    truth = table[2]
    first = model.ask("audit", 40)
    assert model.estimate() is None
    later = [(q.row, q.column) for q in model.ask("audit", 60)[50:]]
    for row, column in later:  # answered for another reason, before their turn
        model.answer(row, column, truth[row, column])
    assert model.estimate() is None
    for question in first:
        model.answer(question.row, question.column, truth[question.row, question.column])
    counted = model.estimate().answers
    repeats = len(model.audit) - len(set(zip(model.audit.rows.tolist(), model.audit.columns.tolist(), strict=True)))
    assert 40 <= counted <= 40 + repeats + len(later)
    row, column = (q := model.ask("audit", 1)[0]).row, q.column
    answered(model, truth, "audit", 5, skip={(row, column)})
    assert model.estimate(skip={(row, column)}).answers >= counted + 5  # the one put off is passed over
    model.answer(first[0].row, first[0].column, 0)
    assert model.estimate() is None  # an answer taken back is asked again
    assert (model.ask("audit", 1)[0].row, model.ask("audit", 1)[0].column) == (first[0].row, first[0].column)


def test_an_audit_survives_a_restart(table, model, tmp_path):
    features, states, truth = table
    answered(model, truth, "audit", 40)
    answered(model, truth, "likeliest", 20)
    model.renew()
    np.savez(tmp_path / "audit.npz", **model.audit.to_arrays())
    with np.load(tmp_path / "audit.npz", allow_pickle=False) as arrays:
        design = AuditDesign.from_arrays(arrays)
    now = np.stack([model.states(column) for column in range(len(CLASSES))], axis=1)
    again = ReviewModel(features, now, CLASSES, reviewed=now != states, landmarks=80)
    again.audit = design
    assert again.estimate() == model.estimate()
    assert [(q.row, q.column) for q in again.ask("audit", 9)] == [(q.row, q.column) for q in model.ask("audit", 9)]
    fresh = ReviewModel(features, now, CLASSES, reviewed=now != states, landmarks=80)  # a new one of what is left
    answered(fresh, truth, "audit", 60)
    found = fresh.estimate()
    left = sum(((truth[:, c] == 1) & (fresh.states(c) == 0)).sum() for c in range(len(CLASSES)))
    assert found.low <= left <= found.high


def reviewed_after_a_check(model, columns, truth, seed, left):
    """Sixty checks, then all but the least likely of each class: the model, and what is really missing."""
    model._columns, model.audit = columns, draw_audit(columns, seed, 400)
    rows, classes = np.array([(question.row, question.column) for question in model.ask("audit", 60)]).T
    model.answer(rows, classes, truth[rows, classes])
    for column in range(len(CLASSES)):
        rows = np.setdiff1d(model.ranking(column), columns[column].ranking()[-left:])
        model.answer(rows, column, truth[rows, column])
    return sum(((truth[:, c] == 1) & (model.states(c) == 0)).sum() for c in range(len(CLASSES)))


def test_what_was_answered_adds_nothing_to_what_is_still_missing(table, model):
    truth, columns = table[2], model.columns
    found, real = [], []
    for seed in range(25):
        real.append(reviewed_after_a_check(model, columns, truth, seed, left=150))
        found.append(model.estimate())
    errors = np.array([one.missing for one in found]) - real
    first = draw_audit(columns, 0, 400)
    _, low, high = estimate_total(first, np.arange(60), truth[first.rows[:60], first.columns[:60]] == 1, [*range(5)])
    assert abs(errors.mean()) < 3.5 * errors.std() / 5 + 1
    assert np.mean([one.low <= left <= one.high for one, left in zip(found, real, strict=True)]) >= 0.9
    assert np.mean([one.high - one.low for one in found]) < 0.6 * (high - low)
    assert reviewed_after_a_check(model, columns, truth, 0, left=1) <= len(CLASSES)
    end = model.estimate()
    assert end.missing < 1 and end.high < 3  # the interval closes


def test_what_only_the_audit_answered_is_still_estimated(table, model):
    truth = table[2]
    answered(model, truth, "audit", 60)
    drawn, _, right = counted_draws(model.audit, model.columns)
    total = estimate_total(model.audit, drawn, right, list(range(len(CLASSES))))
    accepted = sum(part.accepted for part in model.overview())
    assert model.estimate().missing == pytest.approx(total[0] - accepted)
    forgetful = replace(model.audit, expectations=None)
    top = int(model.ranking(2, 1)[0])
    model.answer(top, 2, truth[top, 2])  # one more by the review, at the top: known, and nothing to estimate
    assert model.estimate().high != estimate_missing(forgetful, model.columns).high


def test_every_design_has_draws_of_its_own(table, model):
    first = model.audit
    pairs = set(zip(first.rows.tolist(), first.columns.tolist(), strict=True))
    model.start_audit()
    assert (first.number, model.audit.number) == (0, 1)
    # Nothing was answered between the two: the same seed would draw the same.
    assert np.mean((first.rows == model.audit.rows) & (first.columns == model.audit.columns)) < 0.05
    assert len(pairs & set(zip(model.audit.rows.tolist(), model.audit.columns.tolist(), strict=True))) < len(pairs)
    arrays = model.audit.to_arrays()
    assert AuditDesign.from_arrays(arrays).number == 1 and "expectations" not in arrays
    del arrays["number"]
    assert AuditDesign.from_arrays(arrays).number == 0  # stored before designs were numbered


def test_what_was_put_off_is_left_out_and_may_return(table, model):
    truth = table[2]
    answered(model, truth, "audit", 40)
    counted = model.estimate().answers
    question = model.ask("audit", 1)[0]
    put_off = {(question.row, question.column)}
    answered(model, truth, "audit", 5, skip=put_off)
    assert model.estimate(skip=put_off).answers >= counted + 5
    assert model.estimate().answers == counted  # it is open again, and next


def test_a_check_that_is_used_up_keeps_its_estimate(table, model):
    drawn = model.ask("audit", len(model.audit))
    rows, columns = [question.row for question in drawn], [question.column for question in drawn]
    model.answer(rows, columns, table[2][rows, columns])
    found = model.estimate()
    assert not model.ask("audit", 1) and found is not None
    assert found.answers == len(set(zip(model.audit.rows.tolist(), model.audit.columns.tolist(), strict=True)))
    for column in range(len(model.classes)):
        rows = model.ranking(column)
        model.answer(rows, column, table[2][rows, column])
    model.start_audit()  # nothing is open: nothing is drawn, and nothing forgotten
    assert model.estimate() is not None and model.audit.number == 0


def test_advice_counts_learned_tags_alone(table, model):
    before = model.advice(model.estimate())
    assert all(column.learned for column in model.columns)
    model.add_class("new", [1, 2, 3])
    assert not model.columns[-1].learned and model.advice(model.estimate()) == before


def test_advice_says_when_to_stop(table, model):
    truth = table[2]
    first = model.advice(model.estimate())
    assert "missing" in first and "stop" not in first
    answered(model, truth, "audit", 40)
    found = model.estimate()
    assert f"({found.low:,.0f}–{found.high:,.0f})" in model.advice(model.estimate()) and "stop" not in model.advice(
        model.estimate()
    )
    for column in range(len(CLASSES)):
        rows = model.ranking(column)[:-60]
        model.answer(rows, column, truth[rows, column])
    model.renew()
    assert "stop" in model.advice(model.estimate())
    model.answer(*np.nonzero(truth), truth[np.nonzero(truth)])
    assert model.advice(model.estimate()) not in (first, "")


def test_what_so_many_answers_are_worth(table):
    features, states, truth = table
    hidden = int(((truth == 1) & (states == 0)).sum())
    found = {}
    for policy in ("likeliest", "mixed", "random", "fixed"):
        model = ReviewModel(features, states, CLASSES, landmarks=80)
        found[policy] = simulate(model, truth, policy, 120, every=40, quality=lambda m: float(len(m.classes)))
        assert [point.answers for point in found[policy]] == [0, 40, 80, 120]
        assert all(point.found + point.missing == hidden and point.quality == 5 for point in found[policy])
    last = {policy: points[-1].found for policy, points in found.items()}
    assert last["likeliest"] > 2 * last["random"] and last["mixed"] > last["random"]
    assert last["likeliest"] >= last["fixed"]
    assert found["likeliest"][-1].estimate is None
    assert 0 < found["likeliest"][-1].expected < found["likeliest"][0].expected


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda model: model.answer(400, 0, 1), "400 photos"),
        (lambda model: model.answer(0, -1, 1), "5 tags"),
        (lambda model: model.answer(0, 0, 2), "Label states"),
        (lambda model: model.add_class("dog", [1, 2, 3]), "'dog'"),
        (lambda model: model.add_class("cat", [1, 999]), "999"),
        (lambda model: model.remove_class("dog"), "'dog'"),
    ],
)
def test_what_cannot_be_is_said_and_changes_nothing(table, model, change, words):
    before = everything(model)
    with pytest.raises(LabelError, match=words):
        change(model)
    assert_same(before, everything(model))
