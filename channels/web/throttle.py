"""How often a token may be guessed: who offers too many wrong ones is locked out for a while.

It counts different wrong tokens, by the address that they come from: a page with an old cookie, or
a program with an old token, asks again and again and guesses nothing. Only what proves to be right
for the first time is held up by a lock; whoever was let in before goes on.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct, field

from channels.listening import origin_of

log = logging.getLogger(__name__)

TRIES = 10
"""Different wrong tokens that one address may offer before it is locked out."""
WINDOW = 15 * 60.0
"""Seconds after the last wrong token from which on none is counted any more."""
FIRST_LOCK, LONGEST_LOCK = 60.0, 3600.0
"""Seconds; each lock of an address is twice as long as the one before."""
REMEMBERED = 24 * 3600.0
"""Seconds for which it is known how often an address was locked out."""
MOST = 10_000
"""Addresses, and those let in, that are kept; beyond, the oldest are forgotten."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class _Guesses(Struct):
    """Of one address. `wrong` are digests; times are seconds of the throttle's clock."""

    wrong: set[bytes] = field(default_factory=set)
    last: float = 0.0
    locks: int = 0
    until: float = 0.0


class Throttle:
    """`clock` counts seconds from anywhere."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32)  # so that what is kept tells nothing of a guess
        self._guesses: OrderedDict[str, _Guesses] = OrderedDict()
        self._known: OrderedDict[tuple[str, bytes], None] = OrderedDict()

    def check(self, host: str, token: str, is_right: bool) -> float:
        """Take notice of a token that this address offered; returns the seconds for which it is
        locked out, 0.0 where it is not."""
        origin, digest = origin_of(host), self._digest(token)
        if is_right and (origin, digest) in self._known:
            self._known.move_to_end((origin, digest))
            return 0.0
        if left := self._find_wait(origin):
            return left
        if is_right:
            _keep(self._known, (origin, digest), None)
            return 0.0
        return self._count(origin, digest)

    def wait(self, host: str) -> float:
        """The seconds for which an address is locked out."""
        return self._find_wait(origin_of(host))

    def _digest(self, token: str) -> bytes:
        return hmac.digest(self._key, token.encode("utf-8", "surrogatepass"), hashlib.sha256)[:16]

    def _find_wait(self, origin: str) -> float:
        guesses = self._guesses.get(origin)
        return max(0.0, guesses.until - self._clock()) if guesses else 0.0

    def _count(self, origin: str, digest: bytes) -> float:
        now = self._clock()
        guesses = self._guesses.get(origin) or _Guesses(last=now)
        if now - guesses.last > WINDOW:
            guesses.wrong.clear()
        if now - guesses.last > REMEMBERED:
            guesses.locks = 0
        guesses.last = now
        guesses.wrong.add(digest)
        _keep(self._guesses, origin, guesses)
        if len(guesses.wrong) < TRIES:
            return 0.0
        return self._lock(origin, guesses)

    def _lock(self, origin: str, guesses: _Guesses) -> float:
        seconds = min(FIRST_LOCK * 2.0**guesses.locks, LONGEST_LOCK)
        guesses.locks = min(guesses.locks + 1, 20)
        guesses.until = self._clock() + seconds
        guesses.wrong.clear()
        log.warning(
            "%d wrong tokens came from %r; this address is locked out of the web channel for %g s",
            TRIES,
            origin,
            seconds,
        )
        return seconds


def _keep(kept: OrderedDict[_Key, _Value], key: _Key, value: _Value) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > MOST:
        kept.popitem(last=False)
