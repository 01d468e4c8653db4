"""Access control of the page: the right host name, the token, and requests from our own page."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from fastapi import Request, Response
from fastapi.responses import PlainTextResponse

POLICY = "; ".join(
    [
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "img", "connect")),
        *(f"{kind} 'none'" for kind in ("base-uri", "form-action", "frame-ancestors")),
    ]
)
"""Content security policy: only content of this server."""

RUN = "Review-Run"
"""Header with the start of the review that a page belongs to: row numbers are valid for one start."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


_EARLIER = "This page is of an earlier start of the review; it is loaded again."


class Guard:
    """Checks every request first.

    Args:
        host: Address that the server listens at.
        port: Its port; the cookie carries it in its name, since browsers share cookies between ports.
    """

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port, self.token = host, port, secrets.token_urlsafe(24)
        self.run = secrets.token_hex(4)
        self.cookie = f"positively-{port}"

    @property
    def address(self) -> str:
        """Address for the user."""
        name = (
            "127.0.0.1" if self.host in ("0.0.0.0", "::", "") else f"[{self.host}]" if ":" in self.host else self.host
        )
        return f"http://{name}:{self.port}/?token={self.token}"

    async def __call__(self, request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        """Refuse a request or pass it on; the page stores the token as a cookie."""
        refused = self._refusal(request)
        if refused is not None:
            return PlainTextResponse(refused, 403, HEADERS)
        if request.url.path.startswith("/api/") and request.headers.get(RUN) != self.run:
            return PlainTextResponse(_EARLIER, 409, HEADERS)
        response = await go_on(request)
        for name, value in HEADERS.items():
            response.headers[name] = value
        response.headers.setdefault("Cache-Control", "no-store")
        if request.url.path == "/":
            response.set_cookie(self.cookie, self.token, httponly=True, samesite="strict")
        return response

    def _refusal(self, request: Request) -> str | None:
        # Refuse other host names that resolve to our address (DNS rebinding).
        if not self._is_own(request.headers.get("host", "")):
            return "This review answers at the address it printed, and under no other name."
        origin = request.headers.get("origin")
        if origin is not None and origin != f"http://{request.headers['host']}":
            return "Another site asked. The review answers its own page alone."
        is_page = request.url.path == "/" and request.method == "GET"
        in_address = is_page and self._is_token(request.query_params.get("token"))
        if not in_address:
            if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
                return "Another site asked. The review answers its own page alone."
            if not self._is_token(request.cookies.get(self.cookie)):
                return "The token is missing or of another review. Open the address that positively review printed."
        return None

    def _is_token(self, given: str | None) -> bool:
        return given is not None and secrets.compare_digest(given.encode(), self.token.encode())

    def _is_own(self, host: str) -> bool:
        try:
            parts = urlsplit(f"//{host}")
            name, port = parts.hostname or "", parts.port or 80
        except ValueError:
            return False
        if port != self.port:
            return False
        if name in ("localhost", self.host.lower()):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return not is_loopback(self.host) and name == socket.gethostname().lower()
        # Numeric addresses do not use DNS.
        return address.is_loopback or not is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether an address is reachable only from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
