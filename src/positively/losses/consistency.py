"""Mixup consistency: the prediction on a blend of two images should be the blend of their predictions.

The paper writes L_reg without a formula; this is the reference code's. Known positives are anchored at probability 1,
everything else at what the network says now; the squared difference is taken between logarithms.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from positively.losses.base import ClassReduction, check_inputs, check_shapes, reduce_classes
from positively.losses.statistics import Statistics, batch_mean


def mixup_targets(logits: Tensor, states: Tensor) -> Tensor:
    """Log-target log φ of each image and class: 0 (probability 1) where known positive, else log σ(s): N×C → N×C."""
    logits, states = check_inputs(logits, states)
    return logsigmoid(logits).masked_fill(states == 1, 0.0)


def mixup_consistency(
    mixed_logits: Tensor,
    first_targets: Tensor,
    second_targets: Tensor,
    share: float,
    *,
    class_reduction: ClassReduction = "sum",
    statistics: Statistics = "global",
) -> Tensor:
    """Sum over classes, mean over pairs, of (log(λ φ₁ + (1 − λ) φ₂) − log σ(s̃))².

    Args:
        mixed_logits: M×C logits s̃ of the blended images λ x₁ + (1 − λ) x₂.
        first_targets: M×C log-targets of the first image of each pair, from :func:`mixup_targets`.
        second_targets: M×C log-targets of the second.
        share: λ, the first image's share of the blend.
        class_reduction: "sum" over classes or "mean".
        statistics: "global" over all processes, or "local" to each.
    """
    check_shapes(mixed_logits, first_targets)
    mixed_logits = mixed_logits if mixed_logits.dtype == torch.float64 else mixed_logits.float()
    share = min(max(share, 1e-6), 1 - 1e-6)
    blended = torch.logaddexp(first_targets + math.log(share), second_targets + math.log1p(-share))
    difference = blended - logsigmoid(mixed_logits)
    return reduce_classes(batch_mean(difference.square(), statistics), class_reduction)
