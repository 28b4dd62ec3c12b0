"""The guard that authorises requests, and the headers of every response.

A client with the token is the owner; without a token in the settings, so is the person at this
machine. A browser there also runs the pages of strangers, so a request must come from our own page:
by its `Origin` and `Sec-Fetch-Site` (CSRF), and by a local `Host` (DNS rebinding). No CORS header
is ever sent. A request through a proxy may come from anywhere: without a token it is refused. Wrong
tokens are counted (`channels/guess_limit.py`), by the address that a trusted proxy names. A key
(`main.py key add`) authorises OpenAI's protocol alone. A browser that is signed in has a cookie
with a secret of its own (`accounts`), which is looked up at each request: its person may do on the
page what their role allows, in conversations of their own.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import math
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from channels.base import KeyHolder, Login, Logins
from channels.guess_limit import Throttle
from channels.language import asked_in
from channels.listening import origin_of
from channels.web import operations
from channels.web.operations import in_their_language
from channels.web.shapes import failure, kind_of

log = logging.getLogger(__name__)

COOKIE = "parley"
OURS = ("/api/", "/v1/")
"""The paths that need authorisation; the page itself, its scripts and the health checks are
open."""
HOOKS = "/api/hooks/"
"""The path for programs that authenticate in ways of their own (`hooks`)."""
OPEN = frozenset({"/api/login", "/api/join"})
PROTOCOL = "/v1/"
"""OpenAI's protocol, which keys authorise too."""
HOLDER = "key_holder"
"""The name of the authenticated user in a request's state."""
LOGIN = "login"
"""The name of the browser's login there, if the request comes from one."""
MOST_UNREAD = 120
"""The maximum number of unreadable requests of one sender within a minute."""
_UNREAD = (400, 413)
_OF_PROXIES = re.compile(
    r"forwarded|proxy|^via$|^x-(original|envoy|traefik|nginx|varnish|ngrok)-|^cf-|^cdn-|^tailscale-"
    r"|(real|client|cluster|user|src|remote)[-_]?(ip|addr)$"
)
"""The names of headers by which proxies name the client or themselves."""


def make_policy(styles: str = "", scripts: str = "") -> str:
    """Return the policy for a page's resources: from here alone, and from these sources."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self'{scripts}",
            f"style-src 'self'{styles}",
            "img-src 'self' blob:",
            "media-src 'self' blob:",
            "connect-src 'self'",
            "font-src 'self'",
            "manifest-src 'self'",
            "worker-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        )
    )


_HEADERS = {
    "Content-Security-Policy": make_policy(),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Return whether a host's name or address is a loopback one."""
    if host.lower() in ("localhost", "localhost."):
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Refused(Struct, frozen=True):
    """The refusal of a request; `seconds` is the time until it may be retried."""

    status: int
    sentence: str
    seconds: int = 0

    def failure(self, text: str) -> Mapping[str, Any]:
        """Return the failure in OpenAI's protocol, with the translated sentence."""
        code = "invalid_api_key" if self.status == 401 else None
        return failure(text, kind_of(self.status), code)

    @property
    def headers(self) -> dict[str, str]:
        """The headers that HTTP requires besides the sentence."""
        if self.status == 401:
            return {"WWW-Authenticate": "Bearer"}
        return {"Retry-After": str(self.seconds)} if self.seconds else {}


NO_TOKEN = Refused(
    401, "This needs the token: send it as “Authorization: Bearer …”, or sign in on the page."
)
NO_KEY = Refused(
    401, "This key is unknown, or was revoked; python main.py key add NAME makes a new one."
)
NOT_HERE = Refused(
    403, "A key only opens /v1; the page and /api need the owner's token (PARLEY_WEB_TOKEN)."
)
FAILED = Refused(500, operations.FAILED)
OTHER_HOST = Refused(
    403, "This can only be reached under a name of this machine, such as localhost."
)
OTHER_ORIGIN = Refused(403, "Another website asked for this, so it was refused.")
BROKEN = Refused(400, "The request's header Host or Origin is malformed, so nothing was done.")
PROXIED = Refused(
    403,
    "This came through a proxy, so it could be from anybody, and the bot has no token to tell "
    "who may come in; put PARLEY_WEB_TOKEN=… (a long random text) into .env, and restart it.",
)


def refuse_locked_out(seconds: float) -> Refused:
    """Return the refusal of a client that guessed too often and has to wait."""
    wait = math.ceil(seconds)
    sentence = f"You tried too often with a wrong password or token; try again in {wait} s."
    return Refused(429, sentence, wait)


UNREAD = Refused(
    429, "Too many requests that can't be read came from you; look at what the last ones said.", 60
)
CROWDED = Refused(429, "Too many people sign in at once; try again in a moment.", 1)


class TokenAuth(Struct, frozen=True):
    """The lock of the API: a token, or "" if the person at this machine needs none."""

    token: str = ""

    @property
    def proof(self) -> str:
        """The proof with which the owner's browsers have signed in: derived from the token."""
        return hmac.new(self.token.encode(), b"the page of Parley", hashlib.sha256).hexdigest()

    def opens(self, token: str) -> bool:
        return is_same(token, self.token)

    def refusal(self, headers: Headers) -> Refused | None:
        """Return the refusal of this request; None if it is authorised."""
        if self.token and (bearer := bearer_of(headers)) is not None:
            return None if self.opens(bearer) else NO_TOKEN
        return self.stranger(headers) or self._keyless()

    def stranger(self, headers: Headers) -> Refused | None:
        """Return the refusal if a page from elsewhere made this request."""
        host = headers.get("host", "")
        if not self.token and not is_loopback(_name_in(f"//{host}") or ""):
            return OTHER_HOST
        origin = headers.get("origin")
        is_other = origin is not None and urlsplit(origin).netloc != host
        is_cross = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
        return OTHER_ORIGIN if is_other or is_cross else None

    def guess(self, headers: Headers) -> str | None:
        """Return the secret that this request offers, if it may be a guess."""
        if (bearer := bearer_of(headers)) is not None:
            return bearer or None
        return _cookie(headers) or None

    def _keyless(self) -> Refused | None:
        return NO_TOKEN if self.token else None


def is_same(one: str, other: str) -> bool:
    """Return whether two secrets are equal, in a time that does not depend on their difference."""
    return hmac.compare_digest(
        one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass")
    )


def bearer_of(headers: Headers) -> str | None:
    """Return the token in the header Authorization, or in a header of other protocols (Anthropic's,
    Azure's)."""
    bearer = headers.get("authorization", "")
    if bearer[:7].lower() == "bearer ":
        return _decode_header(bearer[7:].strip())
    other = headers.get("x-api-key") or headers.get("api-key")
    return _decode_header(other.strip()) if other else None


def _decode_header(value: str) -> str:
    """Return a header's text as it was sent: most programs send letters beyond ASCII as UTF-8,
    while HTTP reads them as Latin-1, which the others send."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def _cookie(headers: Headers) -> str:
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    return cookies[COOKIE].value if COOKIE in cookies else ""


def _name_in(address: str) -> str | None:
    """Return the host in an address; None if it is malformed."""
    try:
        parts = urlsplit(address)
        name, _ = parts.hostname, parts.port  # each may raise
    except ValueError:
        return None
    return name or ""


def is_broken(headers: Headers) -> bool:
    """Return whether a header that names the target or origin of a request is malformed."""
    places = (f"//{headers.get('host', '')}", headers.get("origin", ""))
    return any(_name_in(place) is None for place in places)


def is_proxied(scope: Scope, headers: Headers) -> bool:
    """Return whether a proxy forwards this request, as far as it can be detected. nginx uses
    HTTP/1.0 by default; current browsers and programs don't."""
    names = headers.keys()
    return scope["http_version"] == "1.0" or any(map(_OF_PROXIES.search, names))


def peer_of(scope: Scope) -> str:
    """Return the address of a request's client: the one that a trusted proxy names, or that of the
    connection."""
    return scope["client"][0] if scope.get("client") else ""


class Keys(Struct, frozen=True):
    """The keys to OpenAI's protocol: their prefix, and the function that finds a holder."""

    prefix: str
    holder: Callable[[str], Awaitable[KeyHolder | None]]


class UnreadableRequests:
    """The counter of unreadable requests, per sender and minute: each costs as much as an answered
    one, and no other limit counts it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._since = clock, clock()
        self._counts = Counter[str]()

    def is_too_many(self, sender: str) -> bool:
        """Return whether further requests of this sender are refused within this minute."""
        if self._clock() - self._since >= 60:
            self._since = self._clock()
            self._counts.clear()
        return self._counts[origin_of(sender)] >= MOST_UNREAD

    def count(self, sender: str) -> None:
        """Count one more."""
        self._counts[origin_of(sender)] += 1


class AuthMiddleware:
    """The middleware that authorises requests before the application."""

    def __init__(
        self, app: ASGIApp, lock: TokenAuth, throttle: Throttle, keys: Keys, logins: Logins
    ) -> None:
        self._app, self._lock, self._throttle, self._keys = app, lock, throttle, keys
        self._logins = logins
        self._unread = UnreadableRequests()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                if is_counted and message["status"] in _UNREAD:
                    self._unread.count(sender)
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        asked_in.set(Headers(scope=scope).get("accept-language", ""))
        refused = await self._refusal(scope)
        holder: KeyHolder | None = scope.get("state", {}).get(HOLDER)
        sender = (holder.user if holder else "") or peer_of(scope)
        is_counted = refused is None and _is_own_path(scope["path"])
        if is_counted and self._unread.is_too_many(sender):
            refused = UNREAD
        app = self._app if refused is None else _make_refusal(refused)
        await app(scope, receive, with_headers)

    async def _refusal(self, scope: Scope) -> Refused | None:
        path, headers = scope["path"], Headers(scope=scope)
        if is_broken(headers):
            return BROKEN
        if not _is_own_path(path):
            return None
        given = bearer_of(headers) or ""
        if given.startswith(self._keys.prefix) and not self._lock.opens(given):
            refused = await self._by_key(scope, given)
            return self._throttle_guess(scope, headers, refused)
        if not self._lock.token and is_proxied(scope, headers):
            return PROXIED
        if path in OPEN:
            return self._lock.stranger(headers)
        try:
            login = await self._find_login(headers)
        except Exception:
            log.exception("a cookie could not be looked up")
            return FAILED
        scope.setdefault("state", {})[HOLDER] = KeyHolder(login.user) if login else KeyHolder()
        scope["state"][LOGIN] = login
        if login is not None:
            return self._lock.stranger(headers)
        refused = self._lock.refusal(headers)
        return self._throttle_guess(scope, headers, refused) if self._lock.token else refused

    async def _find_login(self, headers: Headers) -> Login | None:
        """Return the login of the browser; a token in the header takes precedence over its
        cookie."""
        secret = _cookie(headers) if bearer_of(headers) is None else ""
        return await self._logins.find(secret, self._lock.proof) if secret else None

    async def _by_key(self, scope: Scope, key: str) -> Refused | None:
        """Check an apparent key, which is either valid or refused, also without a token in the
        settings: a revoked key must not act as the owner's."""
        try:
            holder = await self._keys.holder(key)
        except Exception:
            log.exception("a key could not be looked up")
            return FAILED
        if holder is None:
            return NO_KEY
        scope.setdefault("state", {})[HOLDER] = holder
        return None if scope["path"].startswith(PROTOCOL) else NOT_HERE

    def _throttle_guess(
        self, scope: Scope, headers: Headers, refused: Refused | None
    ) -> Refused | None:
        """Return the result for a request, counted if it may be a guess."""
        guess = self._lock.guess(headers)
        if guess is None or refused not in (None, NO_TOKEN, NO_KEY):
            return refused
        seconds = self._throttle.check(
            peer_of(scope), guess, is_right=refused is None, may_repeat=True
        )
        return refuse_locked_out(seconds) if seconds else refused


def _is_own_path(path: str) -> bool:
    return path.startswith(OURS) and not path.startswith(HOOKS)


def _make_refusal(refused: Refused) -> ASGIApp:
    text = in_their_language(refused.sentence)
    return JSONResponse(refused.failure(text), refused.status, refused.headers)
