"""Batch statistics over one or several processes.

PU losses contain statistics of the batch (a mean inside a logarithm, a standard deviation), so the mean of two
half-batch losses is not the loss of the batch. With ``statistics="global"`` every sum is reduced over the processes
with gradient. Each process then holds the loss of the whole batch, and the averaged gradients equal those of a single
process. ``"local"`` is the behaviour of the reference code.
"""

from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor

from positively.distributed import is_distributed, sum_over_processes

Statistics = Literal["global", "local"]


def batch_sum(values: Tensor, statistics: Statistics) -> Tensor:
    """Sum over the rows of the batch, shape (N, C) → (C,)."""
    summed = values.sum(dim=0)
    return sum_over_processes(summed) if statistics == "global" else summed


def batch_mean(values: Tensor, statistics: Statistics) -> Tensor:
    """Mean over the rows of the batch, shape (N, C) → (C,).

    Args:
        values: Values, shape (N, C).
        statistics: "global" over all processes, or "local" to each process.

    Returns:
        Means, shape (C,).
    """
    return batch_sum(values, statistics) / batch_sum(torch.ones_like(values), statistics).clamp_min(1)


def known_mean(losses: Tensor, known: Tensor, class_reduction: str, statistics: Statistics) -> Tensor:
    """Mean of an element-wise loss over the known labels of the batch.

    The divisor is the number of known labels. With N×C as the divisor the gradient would shrink with the share of known
    labels, which looks like a worse loss at small shares.

    Args:
        losses: Loss of each label, shape (N, C).
        known: Whether each label is known, shape (N, C).
        class_reduction: "mean" over the known labels, or "sum": the mean times the number of classes.
        statistics: "global" over all processes, or "local" to each process.

    Returns:
        The loss, a scalar.
    """
    weights = known.to(losses.dtype)
    loss = batch_sum(losses * weights, statistics).sum() / batch_sum(weights, statistics).sum().clamp_min(1)
    return loss * losses.shape[1] if class_reduction == "sum" else loss


def batch_std(values: Tensor, statistics: Statistics, *, sample: bool = False) -> Tensor:
    """Standard deviation over the rows, shape (N, C) → (C,). ``sample`` divides by N − 1 instead of N."""
    deviations = values - batch_mean(values, statistics)
    count = batch_sum(torch.ones_like(values), statistics)
    variance = batch_sum(deviations.square(), statistics) / (count - float(sample)).clamp_min(1)
    # The gradient of the square root is infinite at zero. The floor is far below any temperature in use.
    return variance.clamp_min(torch.finfo(values.dtype).tiny).sqrt()


def batch_log_mean_exp(values: Tensor, members: Tensor, statistics: Statistics) -> Tensor:
    """Logarithm of the mean of exp(values) over the rows in ``members``, shape (N, C) → (C,); 0 for empty classes."""
    masked = values.masked_fill(~members, -torch.inf)
    # An empty batch has no maximum, but must take part in the reduction.
    highest = masked.detach().amax(dim=0) if len(masked) else masked.new_full(masked.shape[1:], -torch.inf)
    if statistics == "global" and is_distributed():
        dist.all_reduce(highest, op=dist.ReduceOp.MAX)
    count = batch_sum(members.to(values.dtype), statistics)
    empty = count == 0
    highest = highest.masked_fill(empty, 0.0)
    # exp(−inf) = 0 for non-members, and the maximum of each class gives exp(0) = 1, so the log is finite.
    summed = batch_sum((masked - highest).exp(), statistics).masked_fill(empty, 1.0)
    return summed.log() + highest - count.clamp_min(1).log()
