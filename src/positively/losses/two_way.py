"""Two-way loss (Kobayashi, CVPR 2023): compares images within each class and classes within each image."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import softplus

from positively.losses.base import ClassReduction, LossModule, check_inputs
from positively.losses.statistics import Statistics, batch_log_mean_exp, batch_sum
from positively.options import Positive


def two_way(
    logits: Tensor,
    states: Tensor,
    *,
    temperature_positive: Positive = 4.0,
    temperature_negative: Positive = 1.0,
    class_reduction: ClassReduction = "sum",
    statistics: Statistics = "global",
) -> Tensor:
    """Two-way loss: known positives should score above all other labels of the class and of the image.

    For each class over the batch and for each image over the classes the loss is
    softplus(T_n log Σ_N e^(s/T_n) + T_p log Σ_P e^(−s/T_p)), where P are the known positives and N all other labels.
    The result is the mean over the classes plus the mean over the images. Classes and images without positives, or
    without other labels, are skipped.

    Args:
        logits: Raw outputs of the network, shape (N, C).
        states: Label states, shape (N, C). Only +1 is read; 0 and -1 are treated alike.
        temperature_positive: T_p. With a high value all positives count, not only the one with the lowest logit.
        temperature_negative: T_n.
        class_reduction: "mean", or "sum": the mean times the number of classes.
        statistics: "global" over all processes, or "local" to each process.

    Returns:
        The loss, a scalar.

    Raises:
        LabelError: If the shapes differ, or `states` holds a value other than +1, 0 and -1.

    Example:
        >>> import torch
        >>> from positively.losses import two_way
        >>> logits = torch.tensor([[2.0, -1.0], [-2.0, 0.5], [0.0, -0.5]])
        >>> states = torch.tensor([[1, 0], [0, 1], [0, -1]])
        >>> round(two_way(logits, states).item(), 4)
        0.7348
    """
    logits, states = check_inputs(logits, states)
    positive = states == 1

    def over_batch(values: Tensor, members: Tensor) -> tuple[Tensor, Tensor]:
        """Log-sum-exp over the images and the number of members, both of shape (C,)."""
        count = batch_sum(members.to(values.dtype), statistics)
        return batch_log_mean_exp(values, members, statistics) + count.clamp_min(1).log(), count

    def over_classes(values: Tensor, members: Tensor) -> tuple[Tensor, Tensor]:
        count = members.sum(1)
        # The log of an empty sum has no gradient. Such an image is skipped below.
        masked = values.masked_fill(~members, -torch.inf).where(count[:, None] > 0, torch.zeros_like(values))
        return masked.logsumexp(1), count

    def compare(over: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        lowest, positives = over(-logits / temperature_positive, positive)
        highest, others = over(logits / temperature_negative, ~positive)
        value = softplus(temperature_negative * highest + temperature_positive * lowest)
        valid = (positives > 0) & (others > 0)
        return value.where(valid, torch.zeros_like(value)), valid.to(value.dtype)

    per_class, classes = compare(over_batch)
    per_image, images = compare(over_classes)
    by_class = per_class.sum() / classes.sum().clamp_min(1)
    total, count = batch_sum(torch.stack([per_image, images], 1), statistics)
    loss: Tensor = by_class + total / count.clamp_min(1)
    return loss * logits.shape[1] if class_reduction == "sum" else loss


class TwoWay(LossModule):
    """Module form of `two_way`; the options are the same keyword arguments."""

    function = staticmethod(two_way)
