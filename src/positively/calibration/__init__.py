"""Scores and label states in, the meaning of a score out."""

from positively.calibration.thresholds import choose_thresholds, f1_thresholds, few_positives, pu_thresholds

__all__ = ["choose_thresholds", "f1_thresholds", "few_positives", "pu_thresholds"]
