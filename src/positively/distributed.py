"""The processes of a training: who this one is, and how all of them agree. Alone, everything here does nothing."""

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

# One exchange may wait for the slowest process: a checkpoint to a slow disk, a segment of features.
_PATIENCE = timedelta(hours=2)


def is_distributed() -> bool:
    """Whether there is more than one process."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def rank() -> int:
    """Number of this process, from 0."""
    return dist.get_rank() if is_distributed() else 0


def world_size() -> int:
    """Number of processes."""
    return dist.get_world_size() if is_distributed() else 1


@cache
def _control_group(world: Any) -> Any:
    """A group over the CPU: what is exchanged there never makes a GPU wait."""
    return dist.new_group(backend="gloo", timeout=_PATIENCE)


def any_process(*flags: bool) -> tuple[bool, ...]:
    """For each flag, whether any process raised it; the same answer on all of them. Costs no GPU synchronisation."""
    if not is_distributed():
        return flags
    raised = torch.tensor([int(flag) for flag in flags])
    dist.all_reduce(raised, op=dist.ReduceOp.MAX, group=_control_group(dist.group.WORLD))
    return tuple(bool(flag) for flag in raised.tolist())


def largest(value: int) -> int:
    """The largest of a number that every process has."""
    if not is_distributed():
        return value
    number = torch.tensor(value)
    dist.all_reduce(number, op=dist.ReduceOp.MAX, group=_control_group(dist.group.WORLD))
    return int(number)


def broadcast(value: Any) -> Any:
    """What the first process has, on all of them."""
    if not is_distributed():
        return value
    held = [value]
    dist.broadcast_object_list(held, src=0, group=_control_group(dist.group.WORLD))
    return held[0]


def on_first_process(work: Callable[[], Result]) -> Result:
    """Do a piece of work on the first process alone, and give what came of it to all; if it fails, all raise."""
    result: Result = broadcast(agree(lambda: work() if rank() == 0 else None))
    return result


def barrier() -> None:
    """Wait until every process is here."""
    any_process(False)


def gather(value: Any) -> list[Any]:
    """What each process has, in their order."""
    values: list[Any] = [value] * world_size()
    if is_distributed():
        dist.all_gather_object(values, value, group=_control_group(dist.group.WORLD))
    return values


def agree(work: Callable[[], Result]) -> Result:
    """Do a piece of work on every process; if it fails on one of them, all raise.

    The one that failed raises its own error, the others a :class:`RunError` that repeats it.
    """
    if not is_distributed():
        return work()
    failure: BaseException | None = None
    try:
        result = work()
    except BaseException as error:  # also Ctrl-C: the others have to hear of it
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
    """Rows of all processes, one process after the other; each may have a number of its own. No gradient."""
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
    """Sum over processes whose gradient is the sum of the processes' gradients."""

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
    """Where the ``count`` rows of this process stand among those of all, and how many all have together."""
    counts = gather(count)
    before = sum(counts[: rank()])
    return slice(before, before + count), sum(counts)


def gather_rows_with_gradient(rows: Tensor) -> Tensor:
    """Rows of all processes as by :func:`gather_rows`, and each process's rows get their gradient from all of them.

    A loss of all rows is then the same on every process, and the averaged gradients are those of one process.
    """
    if not is_distributed():
        return rows
    place, total = own_rows(len(rows))
    # Each process fills its own rows and leaves zeros elsewhere: the sum over them is exact.
    spread = torch.cat([rows.new_zeros((size, *rows.shape[1:])) for size in (place.start, total - place.stop)])
    return sum_over_processes(torch.cat([spread[: place.start], rows, spread[place.start :]]))
