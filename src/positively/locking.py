"""Locks between processes. The system releases a lock when its process ends, even if it is killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

FOREVER = -1.0


@contextmanager
def held(path: Path, seconds: float = 0.0) -> Iterator[bool]:
    """Hold a lock inside the context; yields whether it was acquired.

    The lock file stays when the lock is released. Only a process that holds the lock removes it.

    Args:
        path: The lock file; its folder is created if needed.
        seconds: How long to wait for another process.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock = FileLock(path, thread_local=False).acquire(timeout=seconds)
    except Timeout:
        yield False
        return
    with lock:
        yield True


def remove_lock(path: Path) -> None:
    """Remove a lock file unless another process holds it."""
    with suppress(OSError), held(path) as is_free:  # Windows cannot remove an open file
        if is_free:
            path.unlink()
