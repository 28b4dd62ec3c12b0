"""The people who are signed in on the page, and the keys to OpenAI's protocol.

A signed-in browser has its own secret, and a key (`main.py key`) is a person with its own limits.
Both are looked up at every request, so a sign-out or a revocation takes effect everywhere at once.
The holder of the page's token is its owner. Everybody else gets access by a single-use link
(`/invite`), and may choose a password to sign in elsewhere. Passwords are hashed with Argon2.
Secrets and keys are long and random, so that a plain digest is enough, and no signatures are
needed.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, tzinfo

from bot.access import NAME, Access, person_of
from channels.base import KEY_PREFIX, KeyHolder, Login, Logins
from channels.language import format_datetime
from memory.record.people import Role
from memory.record.store import Store, StoreError
from plugins.accounts import record
from plugins.accounts.record import ApiKey, Invite, LoginRow
from plugins.api import CommandError, refusal

INVITED = 3 * 24 * 3600.0
"""Seconds for which an invitation link is valid."""
KEPT = 30 * 24 * 3600.0
"""Seconds after its last use for which a browser stays signed in."""
MINUTE = 60.0
"""Seconds within which the last use of a login or a key is not written again."""
AT_ONCE = 2
"""The maximum of passwords hashed at the same time: each takes 64 MB, and a core for a moment."""
_LONGEST_BROWSER = 120
_OWNER = "web/"
_NOBODYS = (
    "$argon2id$v=19$m=65536,t=3,p=4$r9ewDoY8r7I6GlKict/svA"
    "$ElhJuTh7AUu1zj6C8hLYNtekBSyBtiG5iBynLwipQ0o"
)
"""The hash to compare with for a person without a password, so that the check takes the same
time."""


def digest_of(secret: str) -> str:
    """Return the stored digest of a secret. A secret is long and random, so that a plain hash can't
    be reversed."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class PageLogins(Logins):
    """The logins and the keys of one store."""

    def __init__(self, store: Store, access: Access) -> None:
        super().__init__()
        self._store, self._access, self._clock = store, access, time.time
        self._hashing = asyncio.Semaphore(AT_ONCE)
        self._keys = ApiKeys(store, access)

    def wake(self) -> None:
        """Notify waiting tasks that somebody may have been signed out."""
        self.changed.set()
        self.changed = asyncio.Event()

    async def find_key(self, key: str) -> KeyHolder | None:
        return await self._keys.holder(key)

    async def find(self, secret: str, proof: str) -> Login | None:
        """Return the login with this secret; `proof` must be the one that an owner's login was made
        with."""
        digest, since = digest_of(secret), self._clock() - KEPT
        row = await self._store.read(lambda db: record.find(db, digest, since))
        if row is None or not await self._has_access(row, proof):
            return None
        now = self._clock()
        if not 0 <= now - row.used < MINUTE:
            with suppress(StoreError):  # a full disk must not lock anybody out
                await self._store.write(
                    lambda db: record.mark_used(db, row.id, now), is_synced=False
                )
        return Login(row.id, row.person.partition("/")[2], row.browser, _at(row.at), _at(row.used))

    async def _has_access(self, row: LoginRow, proof: str) -> bool:
        if row.person == _OWNER:
            return secrets.compare_digest(row.proof, proof)
        if not self._access.is_known(row.person):
            await self._access.load()  # another process may have granted access
        return self._access.is_known(row.person)

    async def is_in(self, number: int) -> bool:
        """Return whether a browser is still signed in. Raises StoreError."""
        since = self._clock() - KEPT
        found = await self._store.read(lambda db: record.list_logins(db, since))
        return any(row.id == number for row in found)

    async def begin(self, user: str, proof: str, browser: str) -> str:
        """Sign a browser in; return its secret. Raises StoreError."""
        secret, now = secrets.token_urlsafe(32), self._clock()
        person = person_of(user) if user else _OWNER
        text = "".join(letter for letter in browser if letter.isprintable())[:_LONGEST_BROWSER]
        row = LoginRow(0, person, proof, text, now, now)
        digest = digest_of(secret)
        await self._store.write(lambda db: record.begin(db, row, digest, now - KEPT))
        return secret

    async def invite(self, name: str, role: Role, by: str) -> str:
        """Return a single-use code that gives somebody access to the page. Raises CommandError, and
        StoreError."""
        if not NAME.fullmatch(name):
            raise refusal(
                "{name!r} can't be the name of a person here: a name has up to 60 letters, "
                "digits, and . _ -, and begins with a letter or a digit.",
                name=name,
            )
        code, now = secrets.token_urlsafe(24), self._clock()
        invite = Invite(person_of(name), role, digest_of(code), by, now)
        await self._store.write(lambda db: record.put_invite(db, invite, now - INVITED))
        return code

    async def is_invited(self, code: str) -> bool:
        """Return whether a code is still valid. Raises StoreError."""
        digest, since = digest_of(code), self._clock() - INVITED
        return await self._store.read(lambda db: record.find_invite(db, digest, since)) is not None

    async def join(self, code: str, password: str, browser: str) -> str | None:
        """Give access to the holder of this code, and sign their browser in; return its secret,
        None for an invalid or used code. Raises StoreError."""
        now, digest = self._clock(), digest_of(code)
        hashed = await self._hash(password) if password else ""
        invite = await self._store.write(
            lambda db: record.accept(db, digest, now - INVITED, hashed, now)
        )
        if invite is None:
            return None
        await self._access.changed()
        return await self.begin(invite.person.partition("/")[2], "", browser)

    async def is_password(self, name: str, password: str) -> bool:
        """Return whether this is the password of a person with access. Raises StoreError."""
        person = person_of(name)
        kept = await self._store.read(lambda db: record.find_password(db, person))
        async with self._hashing:
            is_right = await asyncio.to_thread(_verify, kept or _NOBODYS, password)
        return bool(kept) and is_right

    async def change_password(self, login: Login, current: str, password: str) -> bool:
        """Set a person's password, and end their other logins; return False if `current` is wrong.
        Without a previous password it is not needed. Raises StoreError."""
        person = person_of(login.user)
        kept = await self._store.read(lambda db: record.find_password(db, person))
        if kept:
            async with self._hashing:
                if not await asyncio.to_thread(_verify, kept, current):
                    return False
        hashed = await self._hash(password)
        await self._store.write(lambda db: record.set_password(db, person, hashed, login.number))
        await self._access.changed()
        return True

    async def list_all(self, person: str = "") -> list[LoginRow]:
        """Return the logins of a person ("": of all). Raises StoreError."""
        since = self._clock() - KEPT
        return await self._store.read(lambda db: record.list_logins(db, since, person))

    async def end(self, number: int) -> None:
        """Sign a browser out, everywhere and at once. Raises StoreError."""
        await self._store.write(lambda db: record.end(db, number))
        await self._access.changed()

    async def _hash(self, password: str) -> str:
        async with self._hashing:
            return await asyncio.to_thread(_hash, password)


def _hash(password: str) -> str:
    from argon2 import PasswordHasher  # noqa: PLC0415 - slow, and password logins are rare

    return PasswordHasher().hash(password)


def _verify(kept: str, password: str) -> bool:
    from argon2 import PasswordHasher  # noqa: PLC0415 - slow, and password logins are rare
    from argon2.exceptions import InvalidHashError, VerificationError  # noqa: PLC0415

    try:
        return PasswordHasher().verify(kept, password)
    except (VerificationError, InvalidHashError, UnicodeError):
        return False


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def new_key() -> str:
    return KEY_PREFIX + secrets.token_urlsafe(32)


def format_keys(keys: Sequence[ApiKey], zone: tzinfo) -> str:
    """List all keys, a line each."""
    if not keys:
        return "There are no keys; python main.py key add NAME makes one."
    return "\n".join(_line(key, zone) for key in keys)


def _line(key: ApiKey, zone: tzinfo) -> str:
    name, commands = key.person.partition("/")[2], ", with commands" if key.may_command else ""
    used = f"last used {format_datetime(key.used, zone)}" if key.used else "never used"
    return f"{name}: {key.role}{commands}, made {format_datetime(key.at, zone)}, {used}"


class ApiKeys:
    """The keys of one store."""

    def __init__(self, store: Store, access: Access) -> None:
        self._store, self._access, self._clock = store, access, time.time

    async def add(self, name: str, role: Role, may_command: bool) -> str:
        """Make a key; return it, the only time that it can be seen. Raises CommandError."""
        if not NAME.fullmatch(name):
            raise CommandError(
                f"{name!r} can't be the name of a key: a name has up to 60 letters, digits, and . "
                "_ -, and begins with a letter or a digit."
            )
        key, person = new_key(), person_of(name)
        made = ApiKey(person, role, may_command, self._clock())
        digest = digest_of(key)
        if not await self._store.write(lambda db: record.add_key(db, made, digest, "main.py")):
            raise CommandError(
                f"There is already a key {name}; choose another name, or revoke it first with "
                f"python main.py key revoke {name}."
            )
        return key

    async def all(self) -> list[ApiKey]:
        """Return all keys, oldest first."""
        return await self._store.read(record.keys)

    async def revoke(self, name: str) -> None:
        """Revoke this key. Raises CommandError."""
        person = person_of(name)
        if not await self._store.write(lambda db: record.revoke_key(db, person)):
            raise CommandError(f"There is no key {name}; python main.py key list shows all.")

    async def holder(self, key: str) -> KeyHolder | None:
        """Return the holder of a key; None for an invalid or revoked one. Raises StoreError."""
        if not key.startswith(KEY_PREFIX):
            return None
        digest = digest_of(key)
        found = await self._store.read(lambda db: record.find_key(db, digest))
        if found is None or not self._access.knows(found.person, found.role):
            await self._access.load()  # another process has granted or revoked access
        if found is None:
            return None
        await self._mark_used(found)
        return KeyHolder(found.person.partition("/")[2], found.may_command)

    async def _mark_used(self, key: ApiKey) -> None:
        now = self._clock()
        if not 0 <= now - key.used < MINUTE:
            with suppress(StoreError):  # a full disk must not lock anybody out
                await self._store.write(
                    lambda db: record.mark_key_used(db, key.person, now), is_synced=False
                )
