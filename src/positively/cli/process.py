"""What the command line sets for its own process. A library leaves these to its caller."""

import ctypes
import errno
import io
import os
import sys


def prepare_process() -> None:
    """Make torch a good neighbour and spare the kernel; to be called before torch is imported."""
    if sys.platform.startswith("linux"):
        wait_passively()
        keep_freed_memory()


def print_anything() -> None:
    """Let a console or pipe that lacks a letter (ASCII, Windows' cp1252) show its code, in place of failing at it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def is_closed_pipe(error: OSError) -> bool:
    """Whether the reader of our output has had enough; Windows then calls the argument invalid (cpython#79935)."""
    is_windows_pipe = sys.platform == "win32" and error.errno == errno.EINVAL and error.filename is None
    return isinstance(error, BrokenPipeError) or is_windows_pipe


def leave_group(code: int) -> None:
    """End one of several processes here, its work being done or its error being printed.

    While Python takes it down, gloo's threads may still run and abort it now and then: what went well would be a
    failure, and a sentence would be followed by an abort.
    """
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        sys.stderr.flush()
        os._exit(code)


def wait_passively() -> None:
    """Let idle threads of a parallel region sleep, in place of spinning on a core that another process could use.

    Beside another busy process this makes inference and training about one and a half times as fast, alone it costs up
    to a fifth (``python -m benchmarks.busy``): most machines have something else to do. A setting of the user's own
    stays.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def keep_freed_memory() -> None:
    """Let the process keep the memory it frees, where the C library is glibc.

    By default every large tensor is mapped anew from the kernel and given back, page by page: at 224 px that costs as
    much time as the network itself. Kept, the same memory serves the next layer.
    """
    try:
        tune = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return
    trim_threshold, mmap_max = -1, -4
    tune(mmap_max, 0)
    tune(trim_threshold, 2**31 - 1)
