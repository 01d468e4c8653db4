"""The port of the page, its server, and the browser."""

from __future__ import annotations

import errno
import os
import socket
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from html import escape
from pathlib import Path
from tempfile import mkstemp
from threading import Timer
from typing import TYPE_CHECKING

import uvicorn

from positively.errors import ConfigError, option

if TYPE_CHECKING:
    from fastapi import FastAPI

DEFAULT_PORT = 8517
_NEAR = 20
_REDIRECT = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={0}"><title>Review</title></head>
<body><a href="{0}">To the review</a></body></html>
"""


def listen(host: str, port: int | None) -> socket.socket:
    """A socket that listens at the given port, or at a free one near the default.

    Raises:
        ConfigError: The port is in use, or the address does not belong to this machine.
    """
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    choices = [port] if port is not None else [*range(DEFAULT_PORT, DEFAULT_PORT + _NEAR), 0]
    for choice in choices:
        # With the protocol named as TCP, asyncio sends at once instead of after up to 40 ms.
        made = socket.socket(kind, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        if sys.platform == "win32":  # where SO_REUSEADDR would let two servers share a port
            made.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, choice))
            made.listen(128)
            return made
        except (OSError, OverflowError) as error:
            made.close()
            # Windows refuses reserved and exclusive ports with EACCES.
            is_taken = isinstance(error, OSError) and error.errno in (errno.EADDRINUSE, errno.EACCES)
            if is_taken and choice != choices[-1]:
                continue
            reason = getattr(error, "strerror", None) or error
            way_out = f"Omit {option('port')} to use a free one" if port is not None else f"Check {option('host')}"
            raise ConfigError(f"Cannot listen at {host}:{choice}: {reason}. {way_out}.") from None
    raise AssertionError("port 0 is always free")


def serve(app: FastAPI, listening: socket.socket, address: str, open_browser: bool) -> None:
    """Serve until Ctrl-C."""
    # Show only our own messages. An open browser tab must not delay the end.
    settings = uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=2, lifespan="off")
    with in_browser(address) if open_browser and has_window() else nullcontext():
        uvicorn.Server(settings).run(sockets=[listening])


@contextmanager
def in_browser(address: str) -> Iterator[None]:
    """Open the browser at a secret address, through a file that only this user can read.

    Everybody on a machine may read the command line of a browser, and thus what it was told to open. Where no file can
    be written no browser is opened: the address was printed.
    """
    with ExitStack() as ending:
        with suppress(OSError, RuntimeError):  # no writable home folder
            # Not hidden and not in /tmp, which browsers in a snap or flatpak cannot read.
            handle, name = mkstemp(".html", "positively-review-", Path.home())  # with mode 0600
            ending.callback(_remove, Path(name))
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(_REDIRECT.format(escape(address)))
            opening = Timer(0.5, webbrowser.open, [Path(name).as_uri()])
            opening.daemon = True
            opening.start()
            ending.callback(opening.cancel)
        yield


def _remove(path: Path) -> None:
    with suppress(OSError):  # on Windows the browser may have it open
        path.unlink(missing_ok=True)


def has_window() -> bool:
    """Whether a browser would open its own window instead of using the terminal."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
