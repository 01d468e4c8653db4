"""Two-way loss (Kobayashi, CVPR 2023): every class compares its images, and every image its classes."""

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
    """softplus(T_n log Σ_N e^(s/T_n) + T_p log Σ_P e^(−s/T_p)), of each class over the batch and of each image.

    P are the known positives, N all other labels: what a known positive is worth is its distance from the rest, and no
    label alone is called anything. Classes and images without a positive (or without anything else) are left out.
    The mean over the classes plus the mean over the images.

    Args:
        logits: N×C raw outputs.
        states: N×C label states; only +1 is read.
        temperature_positive: T_p; high: all positives count alike, not only the one with the lowest logit.
        temperature_negative: T_n.
        class_reduction: "mean", or "sum": the same times the number of classes.
        statistics: "global" over all processes, or "local" to each.
    """
    logits, states = check_inputs(logits, states)
    positive = states == 1

    def over_batch(values: Tensor, members: Tensor) -> tuple[Tensor, Tensor]:
        """Log of the sum of exp over the images, C, and how many there are."""
        count = batch_sum(members.to(values.dtype), statistics)
        return batch_log_mean_exp(values, members, statistics) + count.clamp_min(1).log(), count

    def over_classes(values: Tensor, members: Tensor) -> tuple[Tensor, Tensor]:
        count = members.sum(1)
        # Of nothing the sum is 0 and its logarithm has no gradient: such an image is left out below.
        masked = values.masked_fill(~members, -torch.inf).where(count[:, None] > 0, torch.zeros_like(values))
        return masked.logsumexp(1), count

    def compare(over: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        lowest, positives = over(-logits / temperature_positive, positive)
        highest, others = over(logits / temperature_negative, ~positive)
        value = softplus(temperature_negative * highest + temperature_positive * lowest)
        judged = (positives > 0) & (others > 0)
        return value.where(judged, torch.zeros_like(value)), judged.to(value.dtype)

    per_class, classes = compare(over_batch)
    per_image, images = compare(over_classes)
    by_class = per_class.sum() / classes.sum().clamp_min(1)
    total, count = batch_sum(torch.stack([per_image, images], 1), statistics)
    loss: Tensor = by_class + total / count.clamp_min(1)
    return loss * logits.shape[1] if class_reduction == "sum" else loss


class TwoWay(LossModule):
    """Module over :func:`two_way`."""

    function = staticmethod(two_way)
