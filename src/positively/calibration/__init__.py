"""Calibration: turn scores and label states into probabilities, counts of missing tags and thresholds."""

from positively.calibration.calibrated import CalibratedScores, OutOfSample
from positively.calibration.criteria import (
    log_rank,
    log_ranks,
    pooled_log_rank,
    summarized_pu_average_precision,
)
from positively.calibration.expected_f1 import Expected, expected, expected_f1_thresholds, precision_thresholds
from positively.calibration.posterior import Calibration, calibrate, calibrate_summary
from positively.calibration.priors import FEWEST_POSITIVES
from positively.calibration.summary import Summary, join, rescale_loo, summarize
from positively.calibration.thresholds import choose_thresholds, f1_thresholds, few_positives, pu_thresholds

__all__ = [
    "FEWEST_POSITIVES",
    "CalibratedScores",
    "Calibration",
    "Expected",
    "OutOfSample",
    "Summary",
    "calibrate",
    "calibrate_summary",
    "choose_thresholds",
    "expected",
    "expected_f1_thresholds",
    "f1_thresholds",
    "few_positives",
    "join",
    "log_rank",
    "log_ranks",
    "pooled_log_rank",
    "precision_thresholds",
    "pu_thresholds",
    "rescale_loo",
    "summarize",
    "summarized_pu_average_precision",
]
