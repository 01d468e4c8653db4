"""Locks between processes; the system takes a lock away when its process ends, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

FOREVER = -1.0


@contextmanager
def held(path: Path, seconds: float = 0.0) -> Iterator[bool]:
    """Hold a lock while the context lasts, and say whether it could be had.

    A lock file stays when its lock is released. It is removed only with its folder, by a process that holds it.

    Args:
        path: The lock file; its folder is made if it is not there.
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
    with suppress(OSError), held(path) as is_free:  # Windows removes no file that is open; unlocking does
        if is_free:
            path.unlink()
