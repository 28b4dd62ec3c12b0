"""Who is let in, and the headers that every answer carries.

Whoever has the token is the owner; so is, where no token is set, whoever sits at this machine. A
browser there also runs the pages of strangers, so that a request must come from our own page: by
its `Origin` and `Sec-Fetch-Site` (CSRF), and by a `Host` that is this machine's (DNS rebinding).
No CORS header is ever sent.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from channels.web.shapes import failure

COOKIE = "parley"
OURS = ("/api/", "/v1/")
"""Where it is asked who comes; the page itself, its scripts and the health checks are open."""
OPEN = frozenset({"/api/login"})
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine's own, and no other's."""
    if host.lower() in ("localhost", "localhost."):
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a request is not let in."""

    status: int
    sentence: str

    @property
    def kind(self) -> str:
        return "authentication_error" if self.status == 401 else "forbidden"


NO_TOKEN = Refused(
    401, "This needs the token: send it as “Authorization: Bearer …”, or sign in on the page."
)
OTHER_HOST = Refused(403, "This is open only under the name of this machine, such as localhost.")
OTHER_ORIGIN = Refused(403, "A page from elsewhere asked for this, so it was not done.")


@dataclass(frozen=True, slots=True)
class Lock:
    """What opens the API: a token, or "" for whoever is at this machine."""

    token: str = ""

    @property
    def cookie(self) -> str:
        """What the page's cookie holds: made from the token, and not the token."""
        return hmac.new(self.token.encode(), b"the page of Parley", hashlib.sha256).hexdigest()

    def opens(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.token.encode())

    def refusal(self, headers: Headers) -> Refused | None:
        """Why this request is not let in; None if it is."""
        bearer = headers.get("authorization", "")
        if self.token and bearer[:7].lower() == "bearer ":
            return None if self.opens(bearer[7:].strip()) else NO_TOKEN
        return self.stranger(headers) or self._keyless(headers)

    def stranger(self, headers: Headers) -> Refused | None:
        """Whether a page from elsewhere is behind this request."""
        host = headers.get("host", "")
        if not self.token and not is_loopback(urlsplit(f"//{host}").hostname or ""):
            return OTHER_HOST
        origin = headers.get("origin")
        is_other = origin is not None and urlsplit(origin).netloc != host
        is_cross = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
        return OTHER_ORIGIN if is_other or is_cross else None

    def _keyless(self, headers: Headers) -> Refused | None:
        is_in = not self.token or hmac.compare_digest(_cookie(headers), self.cookie)
        return None if is_in else NO_TOKEN


def _cookie(headers: Headers) -> str:
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    return cookies[COOKIE].value if COOKIE in cookies else ""


class Guard:
    """Stands before the application."""

    def __init__(self, app: ASGIApp, lock: Lock) -> None:
        self._app, self._lock = app, lock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refused = self._refusal(scope)
        app = self._app if refused is None else _refusing(refused)
        await app(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Refused | None:
        path, headers = scope["path"], Headers(scope=scope)
        if not path.startswith(OURS):
            return None
        return self._lock.stranger(headers) if path in OPEN else self._lock.refusal(headers)


def _refusing(refused: Refused) -> ASGIApp:
    headers = {"WWW-Authenticate": "Bearer"} if refused.status == 401 else {}
    return JSONResponse(failure(refused.sentence, refused.kind), refused.status, headers)
