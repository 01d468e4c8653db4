"""CPUs and GPUs of this machine, without importing torch."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from typing import Any


def thread_count() -> int:
    """Number of threads: ``OMP_NUM_THREADS`` if set, otherwise one per core."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) else os.cpu_count() or 1


def import_onnxruntime() -> Any:
    """Import ONNX Runtime without its telemetry, which would write an identifier of the machine to the user's cache."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime


@cache
def gpu_names() -> tuple[str, ...]:
    """Names of the NVIDIA GPUs; empty if there is no driver."""
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
    """Whether there is a GPU and torch is installed."""
    return bool(gpu_names()) and find_spec("torch") is not None


def process_count() -> int:
    """Number of processes that a launcher such as torchrun started, including this one."""
    return int(os.environ.get("WORLD_SIZE", "1"))
