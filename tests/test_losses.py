"""The contract every registered loss keeps, and the values of the paper's reference."""

import inspect
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from positively import losses
from positively.errors import ConfigError, LabelError
from positively.losses import LOSSES
from wording import naming

NAMES = sorted(LOSSES)
GOLDEN_LOGITS = torch.tensor(
    [[0.2, -1.0, 3.0], [-0.5, 0.4, -2.0], [1.5, -0.3, 0.5], [-1.2, 0.1, 1.0]], dtype=torch.float64
)
GOLDEN_STATES = torch.tensor([[1, 0, 0], [-1, 1, 0], [1, 0, 0], [0, -1, 0]])


def example(rows=6, classes=4, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, classes, generator=generator, dtype=torch.float64).to(dtype)
    states = torch.randint(-1, 2, (rows, classes), generator=generator)
    return logits.requires_grad_(), states


def assert_finite(name, logits, states):
    value = LOSSES[name]()(logits, states)
    assert value.ndim == 0 and torch.isfinite(value)
    value.backward()
    assert torch.isfinite(logits.grad).all()


# The contract, for everything registered.


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "case", ["all_unknown", "all_positive", "all_negative", "one_row", "one_class", "one_entry", "equal_logits"]
)
def test_no_batch_breaks_a_loss(name, case):
    logits, states = example()
    if case.startswith("all_"):
        states = torch.full_like(states, {"unknown": 0, "positive": 1, "negative": -1}[case[4:]])
    elif case == "one_row":
        logits, states = example(rows=1)
    elif case == "one_class":
        logits, states = example(classes=1)
    elif case == "one_entry":
        logits, states = example(1, 1)
    else:
        logits = torch.full_like(logits, -3.0).detach().requires_grad_()
    assert_finite(name, logits, states)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [100.0, -100.0, 10_000.0])
def test_extreme_logits_give_a_finite_loss_and_gradient(name, scale):
    logits, states = example()
    assert_finite(name, (logits.detach() * scale).requires_grad_(), states)
    assert_finite(name, torch.full_like(logits, scale).detach().requires_grad_(), states)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(name, dtype):
    logits, states = example(dtype=dtype)
    value = LOSSES[name]()(logits, states)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, LOSSES[name]()(logits.float(), states))
    value.backward()
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_does_not_change_a_loss(name, dtype):
    linear, (_, states) = torch.nn.Linear(5, 4), example()
    inputs = 30 * torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
    with torch.autocast("cpu", dtype):
        logits = linear(inputs)
        inside = LOSSES[name]()(logits, states)
    inside.backward()
    assert logits.dtype == dtype and all(torch.isfinite(p.grad).all() for p in linear.parameters())
    torch.testing.assert_close(inside, LOSSES[name]()(logits, states))


@pytest.mark.parametrize("name", NAMES)
def test_order_of_classes_and_images_does_not_matter(name):
    logits, states = example(dtype=torch.float64)
    loss = LOSSES[name]()
    value = loss(logits, states)
    torch.testing.assert_close(loss(logits[:, [2, 0, 3, 1]], states[:, [2, 0, 3, 1]]), value)
    torch.testing.assert_close(loss(logits[[5, 1, 2, 0, 4, 3]], states[[5, 1, 2, 0, 4, 3]]), value)


@pytest.mark.parametrize("name", NAMES)
def test_function_and_module_agree_and_mean_is_sum_over_classes(name):
    logits, states = example()
    function, module = LOSSES[name].function, LOSSES[name]
    assert torch.equal(function(logits, states), module()(logits, states))
    total, mean = module(class_reduction="sum")(logits, states), module(class_reduction="mean")(logits, states)
    torch.testing.assert_close(total, mean * logits.shape[1])


@pytest.mark.parametrize("name", NAMES)
def test_compiled_loss_is_the_same(name):
    logits, states = example()
    loss = LOSSES[name]()
    torch.compiler.reset()  # torch compiles a method for eight classes and then gives up
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(logits, states), loss(logits, states))
    compiled(logits, states).backward()
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("name", NAMES)
def test_gradient_agrees_with_finite_differences(name):
    logits, states = example(5, 3, dtype=torch.float64)
    # Factors without gradient (the reference's τ and p^γ) are no part of the derivative by design: leave them out.
    options = {"gamma": 0.0, "tau": 1.0} if name == "pu-mlc" else {}
    if "detach" in inspect.signature(LOSSES[name].function).parameters:
        options["detach"] = False
    assert torch.autograd.gradcheck(lambda s: LOSSES[name](**options)(s, states), (logits,))


@pytest.mark.parametrize("name", NAMES)
def test_known_negatives_matter_only_where_the_loss_says_so(name):
    logits, states = example()
    forgotten = states.clamp_min(0)
    differs = not torch.equal(LOSSES[name]()(logits, states), LOSSES[name]()(logits, forgotten))
    assert differs == LOSSES[name].uses_negatives


@pytest.mark.parametrize("name", NAMES)
def test_wrong_shape_and_unknown_option_are_sentences(name):
    logits, states = example()
    with pytest.raises(LabelError, match=naming("(6, 4)", "(6, 3)")):
        LOSSES[name]()(logits, states[:, :3])
    with pytest.raises(ConfigError, match=naming("'gama'", "class_reduction")):
        LOSSES[name](gama=1.0)


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_documented(name):
    function = LOSSES[name].function
    text = inspect.getdoc(function)
    for option in inspect.signature(function).parameters:
        assert f"{option}:" in text


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 9),
    classes=st.integers(1, 6),
    scale=st.floats(0, 300),
    seed=st.integers(0, 1000),
    name=st.sampled_from(NAMES),
)
def test_any_batch_is_finite(rows, classes, scale, seed, name):
    logits, states = example(rows, classes, seed)
    assert_finite(name, (logits.detach() * scale).requires_grad_(), states)


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"gamma": "abc"}, ["PUMLC", "gamma", "'abc'"]),
        ({"gamma": True}, ["gamma", "True"]),
        ({"temper": "foo"}, ["temper", "'logits'", "'spread'", "'foo'"]),
        ({"detach": 1}, ["detach", "True", "False", "1"]),
        ({"tau": "x"}, ["tau", "'x'"]),
    ],
)
def test_a_wrong_value_of_an_option_is_a_sentence(options, facts):
    with pytest.raises(ConfigError, match=naming(*facts)):
        losses.PUMLC(**options)
    losses.PUMLC(gamma=1, tau=None, detach=False, temper="spread")


# PU-MLC itself.


@pytest.mark.parametrize(
    ("alpha", "gamma", "value"), [(1.0, 0.55, -0.606939), (2.0, 0.85, -0.204811), (1.0, 0.0, -1.267529)]
)
def test_pu_mlc_has_the_reference_values(alpha, gamma, value):
    loss = losses.pu_mlc(GOLDEN_LOGITS, GOLDEN_STATES, gamma=gamma, alpha=alpha)
    assert loss.item() == pytest.approx(value, abs=1e-6)


def test_pu_mlc_has_the_reference_gradient():
    logits = GOLDEN_LOGITS.clone().requires_grad_()
    losses.pu_mlc(logits, GOLDEN_STATES, gamma=0.55, alpha=1.0).backward()
    expected = [
        [-0.14039, 0.07849, 0.01415],
        [0.08087, -0.45530, 0.03288],
        [-0.03995, 0.16075, 0.07359],
        [0.06113, 0.17269, 0.06156],
    ]
    torch.testing.assert_close(logits.grad, torch.tensor(expected, dtype=torch.float64), atol=1e-5, rtol=0)


def test_adaptive_temperature_has_the_reference_values_and_a_floor():
    tau = losses.adaptive_temperature(GOLDEN_LOGITS, alpha=1.0)
    torch.testing.assert_close(tau, torch.tensor([0.997497, 0.524404, 1.0], dtype=torch.float64), atol=1e-6, rtol=0)
    assert losses.adaptive_temperature(torch.full((4, 2), 3.0), tau_min=0.02).tolist() == pytest.approx([0.02, 0.02])


def plain_python_pu_mlc(logits, states, gamma, alpha, *, tempered_factor, in_unlabeled, skip, sample):
    """Equations 9 to 11, one number at a time."""
    total, rows = 0.0, len(logits)
    for c in range(len(logits[0])):
        column = [row[c] for row in logits]
        mean = sum(column) / rows
        tau = min(alpha * math.sqrt(sum((s - mean) ** 2 for s in column) / (rows - sample)), 1.0)
        probability = [1 / (1 + math.exp(-s / tau)) for s in column]
        plain = [1 / (1 + math.exp(-s)) for s in column]
        members = [n for n in range(rows) if in_unlabeled or states[n][c] != 1]
        positives = [n for n in range(rows) if states[n][c] == 1]
        average = sum(probability[n] for n in members) / len(members)
        weight = average if tempered_factor else sum(plain[n] for n in members) / len(members)
        if positives or not skip:
            total += weight**gamma * math.log(average)
        if positives:
            total -= sum(math.log(probability[n]) for n in positives) / len(positives)
    return total


@pytest.mark.parametrize("tempered", [True, False])
@pytest.mark.parametrize("in_unlabeled", [True, False])
@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("sample", [True, False])
def test_every_form_of_pu_mlc_matches_its_equation(tempered, in_unlabeled, skip, sample):
    value = losses.pu_mlc(
        GOLDEN_LOGITS,
        GOLDEN_STATES,
        gamma=0.7,
        alpha=0.9,
        rebalance_on="tempered" if tempered else "plain",
        positives_in_unlabeled=in_unlabeled,
        without_positives="skip" if skip else "keep",
        std="sample" if sample else "population",
    )
    expected = plain_python_pu_mlc(
        GOLDEN_LOGITS.tolist(),
        GOLDEN_STATES.tolist(),
        0.7,
        0.9,
        tempered_factor=tempered,
        in_unlabeled=in_unlabeled,
        skip=skip,
        sample=sample,
    )
    assert value.item() == pytest.approx(expected, abs=1e-12)


def test_without_detaching_the_gradient_is_that_of_the_whole_formula():
    logits, states = example(6, 3, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda s: losses.pu_mlc(s, states, detach=False), (logits,))


def test_a_fixed_temperature_replaces_the_adaptive_one():
    logits, states = example()
    torch.testing.assert_close(
        losses.pu_mlc(logits, states, tau=2.0), losses.pu_mlc(logits / 2.0, states, tau=1.0, alpha=7.0)
    )
    torch.testing.assert_close(losses.pu_mlc(logits, states, gamma=0.0, tau=1.0), losses.vpu(logits, states))


def test_tempering_the_spread_leaves_the_mean_and_sharpens_about_it():
    logits, states = example(dtype=torch.float64)
    level = logits.mean(dim=0)
    torch.testing.assert_close(
        losses.pu_mlc(logits, states, tau=0.5, temper="spread"),
        losses.pu_mlc(level + 2 * (logits - level), states, tau=1.0),
    )


def test_vpu_does_not_care_about_the_scale_of_the_probabilities():
    # Far below zero σ(s) ≈ e^s, so that adding a constant to the logits multiplies every probability by one factor.
    logits, states = example(dtype=torch.float64)
    states[0] = 1
    torch.testing.assert_close(losses.vpu(logits - 40, states), losses.vpu(logits - 45, states))


# The other losses.


def test_mixup_consistency_has_the_reference_value():
    targets = losses.mixup_targets(GOLDEN_LOGITS, GOLDEN_STATES)
    mixed = torch.tensor([[0.1, -0.2, 0.3], [0.4, 0.5, -0.6]], dtype=torch.float64)
    loss = losses.mixup_consistency(mixed, targets[[1, 0]], targets[[2, 3]], 0.3)
    assert loss.item() == pytest.approx(0.572139, abs=1e-6)


@pytest.mark.parametrize("share", [0.0, 1.0, 1e-12])
def test_mixup_consistency_is_finite_for_any_share_and_any_number_of_pairs(share):
    logits, states = example()
    targets = losses.mixup_targets(logits * 100, states)
    loss = losses.mixup_consistency(logits[:3] * 100, targets[0::2], targets[1::2], share)
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(logits.grad).all()
    assert losses.mixup_consistency(logits[:0], targets[:0], targets[:0], share).item() == 0.0


def test_bce_is_divided_by_the_known_labels():
    logits, states = example(dtype=torch.float64)
    known = states != 0
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits[known], (states[known] == 1).double())
    torch.testing.assert_close(losses.bce(logits, states, class_reduction="mean"), expected)
    target = (states == 1).double()
    torch.testing.assert_close(
        losses.assume_negative(logits, states, class_reduction="mean"),
        torch.nn.functional.binary_cross_entropy_with_logits(logits, target),
    )


def test_upu_is_the_supervised_risk_where_everything_is_labelled():
    # With all positives labelled and the true prior, U minus the positives is exactly the negatives.
    logits, _ = example(40, 1, dtype=torch.float64)
    states = torch.zeros(40, 1)
    states[:10] = 1
    value = losses.upu(logits, states, prior=0.25, surrogate="logistic")
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, states.double())
    torch.testing.assert_close(value, expected)


def test_nnpu_reports_one_thing_and_walks_back_another():
    logits = torch.tensor([[-4.0], [-4.0], [3.0]], dtype=torch.float64, requires_grad=True)
    states = torch.tensor([[0], [0], [1]])
    value = losses.nnpu(logits, states, prior=0.9)
    positive_risk = 0.9 * torch.sigmoid(torch.tensor(-3.0, dtype=torch.float64))
    torch.testing.assert_close(value, positive_risk)
    value.backward()
    corrected = logits.detach().clone().requires_grad_()
    (-(torch.sigmoid(corrected).mean() - 0.9 * torch.sigmoid(corrected[2, 0]))).backward()
    torch.testing.assert_close(logits.grad, corrected.grad)


def test_nnpu_takes_beta_and_correction_as_published():
    logits = torch.tensor([[-4.0], [-4.0], [3.0]], dtype=torch.float64, requires_grad=True)
    states = torch.tensor([[0], [0], [1]])
    positive_risk, negative_risk = 0.9 * torch.sigmoid(torch.tensor(-3.0)), -0.53
    value = losses.nnpu(logits, states, prior=0.9, beta=0.1, correction=0.5)
    assert value.item() == pytest.approx(positive_risk.item() - 0.1)  # R_p − β, for R_n lies below −β
    (slope,) = torch.autograd.grad(value, logits)
    (full,) = torch.autograd.grad(losses.nnpu(logits, states, prior=0.9), logits)
    torch.testing.assert_close(slope, 0.5 * full)  # −γ R_n
    plain = losses.nnpu(logits, states, prior=0.9, beta=1.0)  # R_n is not below −1: nothing is corrected
    assert plain.item() == pytest.approx(positive_risk.item() + negative_risk, abs=5e-3)


@pytest.mark.parametrize("name", ["hill", "splc", "focal"])
def test_a_power_below_one_has_a_slope_where_a_label_is_certain(name):
    logits = torch.tensor([[-1000.0, -110.0, -90.0, 90.0, 110.0, 1000.0]]).repeat(3, 1).requires_grad_()
    states = torch.tensor([[1], [0], [-1]]).expand(3, 6)
    LOSSES[name](gamma=0.5)(logits, states).backward()
    assert logits.grad.isfinite().all()


def test_prior_of_each_class_follows_the_module_to_its_device():
    loss = losses.UPU(prior=torch.tensor([0.1, 0.2, 0.3, 0.4]))
    assert "prior" in dict(loss.named_buffers()) and "prior=" in repr(loss)
    logits, states = example()
    assert torch.isfinite(loss(logits, states))
