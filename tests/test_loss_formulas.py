"""Every loss with a published formula: value and gradient of a worked example, computed anew in NumPy."""

import numpy as np
import pytest
import torch

from positively import losses

LOGITS = np.array([[0.2, -1.0, 3.0], [-0.5, 0.4, -2.0], [1.5, -0.3, 0.5], [-1.2, 0.1, 1.0], [0.9, -2.5, 0.3]])
STATES = np.array([[1, 0, 0], [-1, 1, 0], [1, 0, 0], [0, -1, 0], [-1, 0, 1]])
POSITIVE, KNOWN = STATES == 1, STATES != 0


def sigmoid(s):
    return 1 / (1 + np.exp(-s))


def bce(s):
    return np.where(POSITIVE, -np.log(sigmoid(s)), -np.log(sigmoid(-s)))[KNOWN].mean() * 3


def partial_bce(s):
    total = 0.0
    for row, states in zip(s, STATES, strict=True):
        share = np.mean(states != 0)
        weight = -4.45 * share + 5.45
        total -= weight * sum(np.log(sigmoid(x if y == 1 else -x)) for x, y in zip(row, states, strict=True) if y)
    return total / len(s)


def asl_parts(s, fixed, gamma_negative, gamma_positive, clip):
    """Focusing factors at ``fixed``: constants to the gradient."""
    p, q = sigmoid(s), np.maximum(sigmoid(fixed) - clip, 0)
    shifted = np.maximum(p - clip, 0)
    positive = -((1 - sigmoid(fixed)) ** gamma_positive) * np.log(p)
    negative = -(q**gamma_negative) * np.log(1 - shifted)
    return np.where(POSITIVE, positive, negative)


def asl(s):
    return asl_parts(s, LOGITS, 4, 1, 0.05)[KNOWN].mean() * 3


def asl_an(s):
    return asl_parts(s, LOGITS, 4, 1, 0.05).mean() * 3


def asl_paper(s):
    return asl_parts(s, s, 4, 0, 0.05)[KNOWN].mean() * 3


def focal(s):
    return asl_parts(s, s, 2, 2, 0)[KNOWN].mean() * 3


def focal_an(s):
    return asl_parts(s, s, 2, 2, 0).mean() * 3


def hill(s):
    p, lowered = sigmoid(s), sigmoid(s - 1)
    return np.where(POSITIVE, -((1 - lowered) ** 2) * np.log(lowered), (1.5 - p) * p**2).mean() * 3


def splc(s):
    total = 0.0
    for row, states in zip(s, STATES, strict=True):
        for x, y in zip(row, states, strict=True):
            p = sigmoid(x - 1) if y == 1 else sigmoid(x)
            is_positive = y == 1 or (y == 0 and p > 0.6)
            total -= (1 - p) ** 2 * np.log(p) if is_positive else p**2 * np.log(1 - p)
    return total / len(s)


def an_ls(s):
    target = np.where(POSITIVE, 0.9, 0.1)
    return -(target * np.log(sigmoid(s)) + (1 - target) * np.log(sigmoid(-s))).mean() * 3


def em(s):
    p = sigmoid(s)
    entropy = -p * np.log(p) - (1 - p) * np.log(1 - p)
    return np.where(POSITIVE, -np.log(p), -0.1 * entropy).mean() * 3


def gr_parts(s, fixed):
    p, held = sigmoid(s), sigmoid(fixed)
    share, weight = sigmoid(2 * held - 2), np.exp(-(((held - 0.8) / 0.5) ** 2) / 2)
    unknown = weight * (share * (1 - p**0.01) / 0.01 + (1 - share) * p)  # q3 = 1: 1 − (1 − p)
    return np.where(POSITIVE, (1 - p**0.01) / 0.01, unknown).mean() * 3


def gr(s):
    return gr_parts(s, LOGITS)


def two_way(s):
    def compare(values, positive):
        if not positive.any() or positive.all():
            return None
        low = 4 * np.log(np.exp(-values[positive] / 4).sum())
        return np.log1p(np.exp(np.log(np.exp(values[~positive]).sum()) + low))

    classes = [compare(s[:, c], POSITIVE[:, c]) for c in range(3)]
    images = [compare(s[n], POSITIVE[n]) for n in range(len(s))]
    return 3 * (np.mean([x for x in classes if x is not None]) + np.mean([x for x in images if x is not None]))


def upu_parts(s, c):
    positive, prior = POSITIVE[:, c], 0.3
    called_positive, called_negative = sigmoid(-s[:, c]), sigmoid(s[:, c])
    negative_risk = called_negative.mean() - prior * called_negative[positive].mean()
    return prior * called_positive[positive].mean(), negative_risk


def upu(s):
    return sum(sum(upu_parts(s, c)) for c in range(3))


def vpu(s):
    return sum(np.log(sigmoid(s[:, c]).mean()) - np.log(sigmoid(s[POSITIVE[:, c], c])).mean() for c in range(3))


CASES = [
    (losses.bce, {}, bce),
    (losses.partial_bce, {}, partial_bce),
    (losses.asl, {}, asl),
    (losses.asl, {"gamma_positive": 0.0, "detach": False}, asl_paper),
    (losses.asl_assume_negative, {}, asl_an),
    (losses.focal, {}, focal),
    (losses.focal_assume_negative, {}, focal_an),
    (losses.hill, {}, hill),
    (losses.splc, {}, splc),
    (losses.an_ls, {}, an_ls),
    (losses.em, {}, em),
    (losses.gr, {}, gr),
    (losses.two_way, {}, two_way),
    (losses.upu, {"prior": 0.3}, upu),
    (losses.vpu, {}, vpu),
]


@pytest.mark.parametrize(("loss", "options", "formula"), CASES, ids=lambda case: getattr(case, "__name__", None))
def test_value_and_gradient_are_those_of_the_published_formula(loss, options, formula):
    logits = torch.from_numpy(LOGITS).requires_grad_()
    value = loss(logits, torch.from_numpy(STATES), **options)
    value.backward()
    assert value.item() == pytest.approx(formula(LOGITS), abs=1e-10)
    step, expected = 1e-6, np.zeros_like(LOGITS)
    for place in np.ndindex(LOGITS.shape):
        moved = np.zeros_like(LOGITS)
        moved[place] = step
        expected[place] = (formula(LOGITS + moved) - formula(LOGITS - moved)) / (2 * step)
    np.testing.assert_allclose(logits.grad.numpy(), expected, atol=1e-7)


def test_nnpu_walks_back_where_the_negative_risk_is_negative_as_published():
    """Class 0's negative risk is below zero with this prior: value πE_P[l(s)], gradient that of minus the risk."""
    prior = 0.9
    logits = torch.from_numpy(LOGITS[:, :1].copy()).requires_grad_()
    states = torch.from_numpy(STATES[:, :1])
    s, positive = LOGITS[:, 0], POSITIVE[:, 0]
    risk = sigmoid(s).mean() - prior * sigmoid(s[positive]).mean()
    assert risk < 0
    value = losses.nnpu(logits, states, prior=prior)
    value.backward()
    assert value.item() == pytest.approx(prior * sigmoid(-s[positive]).mean(), abs=1e-12)
    slope = sigmoid(s) * sigmoid(-s)
    expected = -(slope / len(s) - prior * slope * positive / positive.sum())
    np.testing.assert_allclose(logits.grad.numpy()[:, 0], expected, atol=1e-12)


def test_focal_without_focus_is_cross_entropy_and_asl_is_focal_without_margin_and_asymmetry():
    logits, states = torch.from_numpy(LOGITS), torch.from_numpy(STATES)
    torch.testing.assert_close(losses.focal(logits, states, gamma=0), losses.bce(logits, states))
    same = {"gamma_negative": 2, "gamma_positive": 2, "clip": 0.0}
    torch.testing.assert_close(losses.asl(logits, states, **same), losses.focal(logits, states, gamma=2))


def test_hill_forgives_unknown_labels_that_the_network_is_sure_of():
    """Its pull is strongest in the middle and fades towards p = 1, where BCE's is strongest."""
    logits = torch.tensor([[-6.0], [0.0], [1.5], [6.0]], requires_grad=True)
    losses.hill(logits, torch.zeros(4, 1)).backward()
    pull = logits.grad[:, 0]
    assert (pull > 0).all() and pull[1] > pull[0] and pull[1] > pull[2] > pull[3]


def test_splc_turns_round_above_the_threshold_but_never_a_known_negative():
    logits = torch.tensor([[1.0], [0.3], [1.0]], requires_grad=True)  # σ = .73, .57, .73
    losses.splc(logits, torch.tensor([[0], [0], [-1]])).backward()
    assert logits.grad[0] < 0 < logits.grad[1] and logits.grad[2] > 0
