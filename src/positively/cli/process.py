"""Settings of the process of the command line. As a library, Positively leaves them to the caller."""

import ctypes
import errno
import io
import os
import sys


def prepare_process() -> None:
    """Set how threads wait and memory is freed; call it before torch is imported."""
    if sys.platform.startswith("linux"):
        wait_passively()
        keep_freed_memory()


def print_anything() -> None:
    """Let a console that lacks a character (ASCII, Windows cp1252) print its code instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def is_closed_pipe(error: OSError) -> bool:
    """Whether the reader of our output has closed it; Windows reports an invalid argument then (cpython#79935)."""
    is_windows_pipe = sys.platform == "win32" and error.errno == errno.EINVAL and error.filename is None
    return isinstance(error, BrokenPipeError) or is_windows_pipe


def leave_group(code: int) -> None:
    """End one of several processes at once, after its work is done or its error is printed.

    During a normal exit, threads of gloo may still run and sometimes abort the process. A success would become a
    failure, and an abort would follow the error message.
    """
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        sys.stderr.flush()
        os._exit(code)


def wait_passively() -> None:
    """Let idle threads of a parallel region sleep instead of spinning on a core that another process could use.

    Next to another busy process this makes inference and training about 1.5 times as fast; alone, it costs up to 20 %
    (``python -m benchmarks.busy``). A setting of the user is kept.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def keep_freed_memory() -> None:
    """Let the process keep the memory that it frees, if the C library is glibc.

    By default, every large tensor is mapped by the kernel and returned page by page. At 224 px that takes as much time
    as the network itself.
    """
    try:
        tune = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return
    trim_threshold, mmap_max = -1, -4
    tune(mmap_max, 0)
    tune(trim_threshold, 2**31 - 1)
