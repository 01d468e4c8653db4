"""Sums over the whole batch, also when the batch is spread over several processes.

The terms of a positive-unlabeled loss are statistics of the batch (a mean inside a logarithm, a standard deviation), so
the average of two half-batch losses is not the loss of the batch. With ``statistics="global"`` every sum is reduced
over the processes *with gradient*: each process then holds the loss of the whole batch, and the averaged gradients are
those of one process that saw it all. ``"local"`` is what the reference code did.
"""

from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor

from positively.distributed import is_distributed, sum_over_processes

Statistics = Literal["global", "local"]


def batch_sum(values: Tensor, statistics: Statistics) -> Tensor:
    """Sum over the rows of the batch: N×C → C."""
    summed = values.sum(dim=0)
    return sum_over_processes(summed) if statistics == "global" else summed


def batch_mean(values: Tensor, statistics: Statistics) -> Tensor:
    """Mean over the rows of the batch: N×C → C."""
    return batch_sum(values, statistics) / batch_sum(torch.ones_like(values), statistics).clamp_min(1)


def known_mean(losses: Tensor, known: Tensor, class_reduction: str, statistics: Statistics) -> Tensor:
    """Mean of a loss N×C over the labels that are known in the batch; "sum": the same times the number of classes.

    Divided by N×C the gradient would shrink with the share of known labels, and most of what looks like a loss of
    quality at small shares is that.
    """
    weights = known.to(losses.dtype)
    loss = batch_sum(losses * weights, statistics).sum() / batch_sum(weights, statistics).sum().clamp_min(1)
    return loss * losses.shape[1] if class_reduction == "sum" else loss


def batch_std(values: Tensor, statistics: Statistics, *, sample: bool = False) -> Tensor:
    """Standard deviation over the rows, in two passes: N×C → C. ``sample`` divides by N − 1 in place of N."""
    deviations = values - batch_mean(values, statistics)
    count = batch_sum(torch.ones_like(values), statistics)
    variance = batch_sum(deviations.square(), statistics) / (count - float(sample)).clamp_min(1)
    # The square root has no finite slope at zero; the floor lies far below any temperature in use.
    return variance.clamp_min(torch.finfo(values.dtype).tiny).sqrt()


def batch_log_mean_exp(values: Tensor, members: Tensor, statistics: Statistics) -> Tensor:
    """Logarithm of the mean of exp(values) over the rows that are ``members``: N×C → C; 0 where a class has none."""
    masked = values.masked_fill(~members, -torch.inf)
    # An empty batch has no largest value, but takes part in the exchange with the others.
    highest = masked.detach().amax(dim=0) if len(masked) else masked.new_full(masked.shape[1:], -torch.inf)
    if statistics == "global" and is_distributed():
        dist.all_reduce(highest, op=dist.ReduceOp.MAX)
    count = batch_sum(members.to(values.dtype), statistics)
    empty = count == 0
    highest = highest.masked_fill(empty, 0.0)
    # exp(−inf) = 0 for those outside, and at least one member of each class gives exp(0) = 1: the log is finite.
    summed = batch_sum((masked - highest).exp(), statistics).masked_fill(empty, 1.0)
    return summed.log() + highest - count.clamp_min(1).log()
