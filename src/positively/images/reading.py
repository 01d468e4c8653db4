"""Images read by threads, a few ahead of whoever uses them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from positively.machine import thread_count

Item = TypeVar("Item")
Result = TypeVar("Result")

# Threads that read images: beyond these the interpreter between two images would hold them up.
_MOST_READERS = 4


def read_ahead(
    read: Callable[[Item], Result], items: Iterable[Item], *, threads: int | None = None
) -> Iterator[Result]:
    """What ``read`` gives of each item, in order, by threads that are a few items ahead.

    Decoding, resizing and networks leave the interpreter free, so that they run beside one another. Whoever stops
    asking waits for those items alone that are being read.

    Args:
        read: What is done with an item.
        items: The items, taken one by one.
        threads: How many threads; by default as many as :func:`thread_count` says, up to four.
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
