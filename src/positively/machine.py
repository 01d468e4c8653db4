"""What this machine has, found out without importing torch."""

from __future__ import annotations

import os


def thread_count() -> int:
    """Threads to use: what ``OMP_NUM_THREADS`` says, as other numerical libraries read it, else one a core."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) else os.cpu_count() or 1
