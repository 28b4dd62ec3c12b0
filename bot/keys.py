"""Keys to OpenAI's protocol (`main.py key`): each is a person, with limits of their own.

Only a key's digest is kept. It is looked up at every request, so that a key that another process
revokes stops working at once.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, tzinfo

from bot.access import Access, name_of
from channels.base import KEY_PREFIX, KeyHolder
from channels.message import Address
from memory.record import people
from memory.record.people import ApiKey, Role
from memory.record.store import Store, StoreError
from plugins.api import CommandError

CHANNEL = "web"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
MINUTE = 60.0
"""Seconds for which the last use of a key need not be written again."""


def person_of(name: str) -> str:
    """The holder's name, as /users lists it: "web/ann"."""
    return name_of(Address(CHANNEL, name, user=name))


def new_key() -> str:
    return KEY_PREFIX + secrets.token_urlsafe(32)


def digest_of(key: str) -> str:
    """Return the digest that is kept of a key. The key is long and random, so that a plain hash
    can't be turned back."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def format_keys(keys: Sequence[ApiKey], zone: tzinfo) -> str:
    """All keys, a line each."""
    if not keys:
        return "There are no keys; python main.py key add NAME makes one."
    return "\n".join(_line(key, zone) for key in keys)


def _line(key: ApiKey, zone: tzinfo) -> str:
    def format_time(at: float) -> str:
        return f"{datetime.fromtimestamp(at, zone):%Y-%m-%d %H:%M}"

    name, commands = key.person.partition("/")[2], ", with commands" if key.may_command else ""
    used = f"last used {format_time(key.used)}" if key.used else "never used"
    return f"{name}: {key.role}{commands}, made {format_time(key.at)}, {used}"


class ApiKeys:
    """The keys of one store; `clock` gives seconds since 1970."""

    def __init__(
        self, store: Store, access: Access, clock: Callable[[], float] = time.time
    ) -> None:
        self._store, self._access, self._clock = store, access, clock

    async def add(self, name: str, role: Role, may_command: bool) -> str:
        """Make a key; returns it, the only time that it can be seen. Raises CommandError."""
        if not NAME.fullmatch(name):
            raise CommandError(
                f"{name!r} can't be the name of a key: a name has up to 60 letters, digits, and . "
                "_ -, and begins with a letter or a digit."
            )
        key, person = new_key(), person_of(name)
        made = ApiKey(person, role, may_command, self._clock())
        digest = digest_of(key)
        if not await self._store.write(lambda db: people.add_key(db, made, digest, "main.py")):
            raise CommandError(
                f"There is already a key {name}; choose another name, or revoke it first with "
                f"python main.py key revoke {name}."
            )
        return key

    async def all(self) -> list[ApiKey]:
        """All keys, the oldest first."""
        return await self._store.read(people.keys)

    async def revoke(self, name: str) -> None:
        """Let this key open nothing any more. Raises CommandError."""
        person = person_of(name)
        if not await self._store.write(lambda db: people.revoke_key(db, person)):
            raise CommandError(f"There is no key {name}; python main.py key list shows all.")

    async def holder(self, key: str) -> KeyHolder | None:
        """Return the holder of a key; None for what is no key, or is one no more. Raises
        StoreError."""
        if not key.startswith(KEY_PREFIX):
            return None
        digest = digest_of(key)
        found = await self._store.read(lambda db: people.find_key(db, digest))
        if found is None or not self._access.knows(found.person, found.role):
            await self._access.take_up()  # another process has let them in, or lets them in no more
        if found is None:
            return None
        await self._mark_used(found)
        return KeyHolder(found.person.partition("/")[2], found.may_command)

    async def _mark_used(self, key: ApiKey) -> None:
        now = self._clock()
        if not 0 <= now - key.used < MINUTE:
            with suppress(StoreError):  # a full disk must not keep anybody out
                await self._store.write(
                    lambda db: people.mark_key_used(db, key.person, now), is_synced=False
                )
