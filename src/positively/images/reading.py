"""Read images in threads, a few items ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from positively.machine import thread_count

Item = TypeVar("Item")
Result = TypeVar("Result")

# With more threads, the interpreter lock limits the speed.
_MOST_READERS = 4


def read_ahead(
    read: Callable[[Item], Result], items: Iterable[Item], *, threads: int | None = None
) -> Iterator[Result]:
    """Apply ``read`` to each item in threads, a few items ahead, and yield the results in order.

    Decoding, resizing and ONNX Runtime release the interpreter lock, so they run in parallel. If the caller stops, only
    the items that are being read are finished.

    Args:
        read: Function of an item.
        items: The items, consumed one by one.
        threads: Number of threads; by default :func:`thread_count`, up to four.
    """
    threads = threads or min(thread_count(), _MOST_READERS)
    waiting = iter(items)
    pool = ThreadPoolExecutor(threads)
    try:
        ahead = deque(pool.submit(read, item) for item in islice(waiting, threads + 1))
        while ahead:
            result = ahead.popleft().result()
            ahead.extend(pool.submit(read, item) for item in islice(waiting, 1))
            yield result
    finally:
        pool.shutdown(cancel_futures=True)
