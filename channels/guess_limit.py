"""A limit for guesses at secrets: tokens, keys, passwords, invitations, and the codes of `/link`
and `/pair`. Too many wrong guesses lock the guesser out for a while.

Wrong guesses count against the guesser, by address or name, and never against the secret or its
holder: nobody is locked out by others. A lock blocks only secrets that are right for the first
time; a guesser continues with a secret that was right before. A right guess does not reset the
count.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from msgspec import Struct
from msgspec.structs import replace

from channels.limited import LimitedDict
from channels.listening import origin_of

SHORTEST_TOKEN = 16
"""Characters; a shorter token could be guessed."""
_FEWEST_SIGNS = 6  # distinct ones; "aaaaaaaaaaaaaaaa" could be guessed as well


def is_weak(token: str) -> bool:
    """Return whether a token could be guessed."""
    return len(token) < SHORTEST_TOKEN or len(set(token)) < _FEWEST_SIGNS


log = logging.getLogger(__name__)

TRIES = 10
"""Wrong guesses of one guesser, the last of which locks them out."""
WINDOW = 15 * 60.0
"""Seconds after the last wrong guess, after which the count restarts."""
FIRST_LOCK, LONGEST_LOCK = 60.0, 3600.0
"""Seconds; each lock of a guesser is twice as long as the one before."""
REMEMBERED = 24 * 3600.0
"""Seconds for which a guesser's number of locks is kept."""
MOST = 10_000
"""The maximum number of guessers, and of accepted ones, that are kept; beyond it the oldest are
evicted."""
OF_ONE, IN_ALL = 2, 10
"""The maximum number of guesses that may wait for a costly check, of one guesser and in all."""


class Guesses(Struct, frozen=True):
    """The wrong guesses of one guesser. Times are seconds of any clock; `seen` are digests of wrong
    secrets that are not counted again."""

    wrong: int = 0
    seen: frozenset[bytes] = frozenset()
    last: float = 0.0
    locks: int = 0
    until: float = 0.0

    def wait(self, now: float) -> float:
        """Return the remaining seconds of a lock."""
        return max(0.0, self.until - now)

    def is_calm(self, now: float) -> bool:
        """Return whether there was no wrong guess lately."""
        return not (self.wrong or self.locks) or now - self.last > WINDOW


def count_wrong(before: Guesses, now: float, digest: bytes | None = None) -> Guesses:
    """Return a guesser's state after one more wrong guess. With a digest, the same secret counts
    once: programs resend an old one again and again without guessing."""
    is_new = now - before.last > WINDOW
    wrong, seen = (0, frozenset[bytes]()) if is_new else (before.wrong, before.seen)
    locks = 0 if now - before.last > REMEMBERED else before.locks
    if digest is None or digest not in seen:
        wrong += 1
        seen = seen if digest is None else seen | {digest}
    if wrong < TRIES:
        return replace(before, wrong=wrong, seen=seen, last=now, locks=locks)
    seconds = min(FIRST_LOCK * 2.0**locks, LONGEST_LOCK)
    return Guesses(last=now, locks=min(locks + 1, 20), until=now + seconds)


class Throttle:
    """A counter of the guesses at one kind of secret (`what`, in the plural); `clock` returns
    seconds from any origin."""

    def __init__(
        self, what: str = "tokens or passwords", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._what, self._clock = what, clock
        self._key = secrets.token_bytes(32)  # so that stored digests reveal no guess
        self._guesses = LimitedDict[str, Guesses](MOST)
        self._known = LimitedDict[tuple[str, bytes], None](MOST)

    def wait(self, guesser: str, secret: str = "") -> float:
        """Return the remaining seconds of a guesser's lock; 0.0 for a secret that was right before.
        Call it before any lookup."""
        origin = origin_of(guesser)
        if secret and (origin, self._digest(secret)) in self._known:
            return 0.0
        return self._of(origin).wait(self._clock())

    def is_calm(self, guesser: str) -> bool:
        """Return whether a guesser made no wrong guess lately."""
        return self._of(origin_of(guesser)).is_calm(self._clock())

    def check(
        self, guesser: str, secret: str, is_right: bool, *, may_repeat: bool = False
    ) -> float:
        """Count a guess; return the remaining seconds of the guesser's lock, or 0.0. `may_repeat`:
        the same wrong secret counts once."""
        origin, digest = origin_of(guesser), self._digest(secret)
        if is_right and (origin, digest) in self._known:
            self._known.move_to_end((origin, digest))
            return 0.0
        before, now = self._of(origin), self._clock()
        if left := before.wait(now):
            return left
        if is_right:
            self._known[origin, digest] = None
            return 0.0
        after = count_wrong(before, now, digest if may_repeat else None)
        self._guesses[origin] = after
        if seconds := after.wait(now):
            log.warning(
                "%d wrong %s came from %r, the last of which locks it out for %g s",
                TRIES,
                self._what,
                origin,
                seconds,
            )
        return seconds

    def _digest(self, secret: str) -> bytes:
        return hmac.digest(self._key, secret.encode("utf-8", "surrogatepass"), hashlib.sha256)[:16]

    def _of(self, origin: str) -> Guesses:
        return self._guesses.get(origin) or Guesses()


class CrowdedError(Exception):
    """Raised if too many guesses wait to be checked."""


class GuessQueues:
    """Queues for costly checks of guesses. One guess is checked at a time of guessers without wrong
    guesses lately, and one of all others, so that these delay only each other."""

    def __init__(self, throttle: Throttle) -> None:
        self._throttle = throttle
        self._locks = {True: asyncio.Lock(), False: asyncio.Lock()}
        self._waiting = Counter[tuple[bool, str]]()

    @asynccontextmanager
    async def enter(self, guesser: str) -> AsyncIterator[None]:
        """Wait for the check. Raises CrowdedError at once if too many wait, of this guesser or in
        all."""
        is_calm = self._throttle.is_calm(guesser)
        place = (is_calm, origin_of(guesser))
        waiting = sum(count for (lane, _), count in self._waiting.items() if lane is is_calm)
        of_one = sum(self._waiting[lane, place[1]] for lane in self._locks)
        if of_one >= OF_ONE or waiting >= IN_ALL:
            raise CrowdedError
        self._waiting[place] += 1
        try:
            async with self._locks[is_calm]:
                yield
        finally:
            self._waiting[place] -= 1
            self._waiting += Counter()  # removes counts of zero
