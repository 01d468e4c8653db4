"""What this machine has, found out without importing torch."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec


def thread_count() -> int:
    """Threads to use: what ``OMP_NUM_THREADS`` says, as other numerical libraries read it, else one a core."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) else os.cpu_count() or 1


@cache
def gpu_names() -> tuple[str, ...]:
    """Names of NVIDIA's GPUs, as their driver lists them; empty where there is no driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        listed = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(
        line.partition(": ")[2].partition(" (UUID")[0] for line in listed.splitlines() if line.startswith("GPU")
    )


def trains_on_gpu() -> bool:
    """Whether a GPU is here that torch, if it is installed, can train on."""
    return bool(gpu_names()) and find_spec("torch") is not None


def process_count() -> int:
    """Processes that a launcher such as torchrun started, this one included."""
    return int(os.environ.get("WORLD_SIZE", "1"))
