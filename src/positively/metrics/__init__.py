"""Metrics for multi-label scores. Unknown labels are never scored; every metric is a fraction in [0, 1]."""

from positively.metrics.average_precision import average_precision, mean_average_precision
from positively.metrics.curves import PrecisionRecallCurve, precision_recall_curve
from positively.metrics.evaluation import Evaluation, OracleF1, evaluate, oracle_f1
from positively.metrics.f1 import F1Scores, f1_scores, top_k_f1
from positively.metrics.logits import sigmoid
from positively.metrics.positive_unlabeled import pair_average_precision, pu_average_precision

__all__ = [
    "Evaluation",
    "F1Scores",
    "OracleF1",
    "PrecisionRecallCurve",
    "average_precision",
    "evaluate",
    "f1_scores",
    "mean_average_precision",
    "oracle_f1",
    "pair_average_precision",
    "precision_recall_curve",
    "pu_average_precision",
    "sigmoid",
    "top_k_f1",
]
