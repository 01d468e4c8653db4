"""Communication between the processes of a distributed training. With a single process, nothing is exchanged."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from positively.errors import PositivelyError, RunError

Result = TypeVar("Result")

# Maximum wait for the slowest process in one exchange, such as a checkpoint written to a slow disk.
_EXCHANGE_TIMEOUT = timedelta(hours=2)


def is_distributed() -> bool:
    """Whether there is more than one process."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def rank() -> int:
    """Index of this process, from 0."""
    return dist.get_rank() if is_distributed() else 0


def world_size() -> int:
    """Number of processes."""
    return dist.get_world_size() if is_distributed() else 1


@cache
def _control_group(world: Any) -> Any:
    """A process group on the CPU, so that exchanges do not synchronise the GPU."""
    return dist.new_group(backend="gloo", timeout=_EXCHANGE_TIMEOUT)


def any_process(*flags: bool) -> tuple[bool, ...]:
    """For each flag, whether any process has set it; the same on all processes, without GPU synchronisation."""
    if not is_distributed():
        return flags
    raised = torch.tensor([int(flag) for flag in flags])
    dist.all_reduce(raised, op=dist.ReduceOp.MAX, group=_control_group(dist.group.WORLD))
    return tuple(bool(flag) for flag in raised.tolist())


def largest(value: int) -> int:
    """Maximum of a number over all processes."""
    if not is_distributed():
        return value
    number = torch.tensor(value)
    dist.all_reduce(number, op=dist.ReduceOp.MAX, group=_control_group(dist.group.WORLD))
    return int(number)


def broadcast(value: Any) -> Any:
    """Value of the first process, on all processes."""
    if not is_distributed():
        return value
    held = [value]
    dist.broadcast_object_list(held, src=0, group=_control_group(dist.group.WORLD))
    return held[0]


def on_first_process(work: Callable[[], Result]) -> Result:
    """Run a function on the first process only and return its result on all; if it fails, all processes raise."""
    result: Result = broadcast(agree(lambda: work() if rank() == 0 else None))
    return result


def barrier() -> None:
    """Wait for all processes."""
    any_process(False)


def gather(value: Any) -> list[Any]:
    """Values of all processes, in rank order."""
    values: list[Any] = [value] * world_size()
    if is_distributed():
        dist.all_gather_object(values, value, group=_control_group(dist.group.WORLD))
    return values


def agree(work: Callable[[], Result]) -> Result:
    """Run a function on every process; if it fails on one of them, all processes raise.

    The process that failed raises its own error, the others a `RunError` with the same message.
    """
    if not is_distributed():
        return work()
    failure: BaseException | None = None
    try:
        result = work()
    except BaseException as error:  # including KeyboardInterrupt: the other processes must stop too
        failure = error
    (failed,) = any_process(failure is not None)
    if not failed:
        return result
    messages = gather(_message(failure))
    if failure is not None:
        raise failure  # with its own traceback
    process, message = next((number, text) for number, text in enumerate(messages) if text)
    raise RunError(f"Process {process} of {len(messages)} failed: {message}")


def _message(failure: BaseException | None) -> str:
    if failure is None:
        return ""
    return failure.message if isinstance(failure, PositivelyError) else repr(failure)


def gather_rows(rows: Tensor) -> Tensor:
    """Concatenate the rows of all processes, without gradient. The number of rows may differ between processes."""
    rows = rows.detach()
    if not is_distributed():
        return rows
    counts = gather(len(rows))
    padded = rows.new_zeros((max(counts), *rows.shape[1:]))
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in range(world_size())]
    dist.all_gather(parts, padded.contiguous())
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])


class _SumOverProcesses(torch.autograd.Function):
    """Sum over processes whose gradient is the sum of the gradients of all processes."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        value = value.clone()
        dist.all_reduce(value)
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        gradient = gradients[0].contiguous().clone()
        dist.all_reduce(gradient)
        return gradient


def sum_over_processes(value: Tensor) -> Tensor:
    """Sum of a tensor over all processes, with gradient."""
    summed: Tensor = _SumOverProcesses.apply(value) if is_distributed() else value
    return summed


def own_rows(count: int) -> tuple[slice, int]:
    """Position of the ``count`` rows of this process among the rows of all processes, and the total number of rows."""
    counts = gather(count)
    before = sum(counts[: rank()])
    return slice(before, before + count), sum(counts)


def gather_rows_with_gradient(rows: Tensor) -> Tensor:
    """Concatenate the rows of all processes, with gradient from all processes.

    A loss of all rows is then the same on every process, and the averaged gradients equal those of a single process.
    """
    if not is_distributed():
        return rows
    place, total = own_rows(len(rows))
    # Each process fills in its own rows and zeros elsewhere, so the sum is exact.
    spread = torch.cat([rows.new_zeros((size, *rows.shape[1:])) for size in (place.start, total - place.stop)])
    return sum_over_processes(torch.cat([spread[: place.start], rows, spread[place.start :]]))
