"""Metrics, calibration, thresholds and the probe take tensors, of any float kind."""

import numpy as np
import pytest
import torch

from positively import metrics, probe
from positively.calibration import calibrate, choose_thresholds, few_positives
from positively.metrics import pu_average_precision


@pytest.fixture
def case():
    """Scores that know something, and label states of all three kinds."""
    generator = np.random.default_rng(6)
    truth = generator.random((120, 7)) < 0.3
    scores = generator.random(truth.shape) * 0.6 + 0.4 * truth
    return scores, np.where(truth, 1, -1) * (generator.random(truth.shape) < 0.7)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_metrics_take_any_float_kind(case, dtype):
    scores, states = case
    tensor = torch.tensor(scores, requires_grad=True).to(dtype)
    expected = metrics.average_precision(tensor.detach().double().numpy(), states)
    np.testing.assert_array_equal(metrics.average_precision(tensor, torch.tensor(states)), expected)
    assert metrics.f1_scores(tensor, torch.tensor(states), torch.full((7,), 0.5, dtype=dtype)).overall_f1 > 0


def test_calibration_takes_tensors(case):
    scores, states = case
    from_tensors = calibrate(torch.from_numpy(scores), torch.from_numpy(states))
    np.testing.assert_array_equal(from_tensors.offset, calibrate(scores, states).offset)
    assert pu_average_precision(torch.from_numpy(states), scores) == pu_average_precision(states, scores)


def test_thresholds_take_half_precision(case):
    scores, states = case
    tensor = torch.tensor(scores).bfloat16()
    expected = choose_thresholds(tensor.double().numpy(), states)
    np.testing.assert_array_equal(choose_thresholds(tensor, torch.tensor(states)), expected)
    assert few_positives(torch.tensor(states)).tolist() == few_positives(states).tolist()


def test_the_probe_takes_tensors(case):
    features, states = np.random.default_rng(0).normal(size=(120, 12)).astype(np.float32), case[1]
    found = probe.fit(torch.from_numpy(features), torch.from_numpy(states), landmarks=60)
    expected = probe.fit(features, states, landmarks=60).scores(features)
    np.testing.assert_allclose(found.scores(torch.from_numpy(features)), expected, atol=1e-5)
