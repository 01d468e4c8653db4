"""A port for the page, the server on it, and the browser in front of it."""

from __future__ import annotations

import errno
import os
import socket
import sys
import webbrowser
from threading import Timer
from typing import TYPE_CHECKING

import uvicorn

from positively.errors import ConfigError, option

if TYPE_CHECKING:
    from fastapi import FastAPI

DEFAULT_PORT = 8517
_NEAR = 20


def listen(host: str, port: int | None) -> socket.socket:
    """A socket that listens at a port, or at a free one near the default.

    Raises:
        ConfigError: The port is taken, or the address is none of this machine's.
    """
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    choices = [port] if port is not None else [*range(DEFAULT_PORT, DEFAULT_PORT + _NEAR), 0]
    for choice in choices:
        # Named as TCP: only then does asyncio send at once, and not 40 ms later, when what was sent is acknowledged.
        made = socket.socket(kind, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        if os.name == "posix":  # elsewhere this would let two servers share a port
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, choice))
            made.listen(128)
            return made
        except (OSError, OverflowError) as error:
            made.close()
            if isinstance(error, OSError) and error.errno == errno.EADDRINUSE and choice != choices[-1]:
                continue
            reason = getattr(error, "strerror", None) or error
            way_out = f"Leave {option('port')} out for a free one" if port is not None else f"Check {option('host')}"
            raise ConfigError(f"Nothing can listen at {host}:{choice}: {reason}. {way_out}.") from None
    raise AssertionError("port 0 is always free")


def serve(app: FastAPI, listening: socket.socket, address: str, open_browser: bool) -> None:
    """Serve until Ctrl-C."""
    if open_browser and has_window():
        opening = Timer(0.5, webbrowser.open, [address])
        opening.daemon = True
        opening.start()
    # Its own words are for operators; ours are above. An open tab must not hold up the end.
    settings = uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=2, lifespan="off")
    uvicorn.Server(settings).run(sockets=[listening])


def has_window() -> bool:
    """Whether a browser would get a window of its own, and not take over the terminal."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
