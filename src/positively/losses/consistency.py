"""Mixup consistency: the prediction for a blend of two images should be the blend of their predictions.

The paper gives no formula for L_reg; this is the one of the reference code. The target is probability 1 for known
positives and the current prediction of the network for all other labels. The loss is the squared difference of
logarithms.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from positively.losses.base import ClassReduction, check_inputs, check_shapes, reduce_classes
from positively.losses.statistics import Statistics, batch_mean


def mixup_targets(logits: Tensor, states: Tensor) -> Tensor:
    """Log-targets log φ for `mixup_consistency`: 0 for known positives, log σ(s) for all other labels.

    Args:
        logits: Raw outputs of the network, shape (N, C).
        states: Label states, shape (N, C): +1 positive, 0 unknown, -1 negative.

    Returns:
        Log-targets, shape (N, C).

    Raises:
        LabelError: If the shapes differ, or `states` holds a value other than +1, 0 and -1.

    Example:
        >>> import torch
        >>> from positively.losses import mixup_targets
        >>> mixup_targets(torch.zeros(1, 2), torch.tensor([[1, 0]]))
        tensor([[ 0.0000, -0.6931]])
    """
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
    """Mixup consistency: (log(λ φ₁ + (1 − λ) φ₂) − log σ(s̃))², summed over classes and averaged over pairs.

    Args:
        mixed_logits: Logits s̃ of the blended images λ x₁ + (1 − λ) x₂, shape (M, C).
        first_targets: Log-targets of the first image of each pair, from `mixup_targets`, shape (M, C).
        second_targets: Log-targets of the second image of each pair, shape (M, C).
        share: λ, the share of the first image in the blend.
        class_reduction: "sum" over the classes, or "mean".
        statistics: "global" over all processes, or "local" to each process.

    Returns:
        The loss, a scalar.

    Raises:
        LabelError: If the shapes differ.

    Example:
        >>> import torch
        >>> from positively.losses import mixup_consistency, mixup_targets
        >>> targets = mixup_targets(torch.zeros(2, 1), torch.tensor([[1], [0]]))
        >>> round(mixup_consistency(torch.zeros(1, 1), targets[:1], targets[1:], share=0.5).item(), 4)
        0.1644
    """
    check_shapes(mixed_logits, first_targets)
    mixed_logits = mixed_logits if mixed_logits.dtype == torch.float64 else mixed_logits.float()
    share = min(max(share, 1e-6), 1 - 1e-6)
    blended = torch.logaddexp(first_targets + math.log(share), second_targets + math.log1p(-share))
    difference = blended - logsigmoid(mixed_logits)
    return reduce_classes(batch_mean(difference.square(), statistics), class_reduction)
