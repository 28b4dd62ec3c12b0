"""Access control: the people who may talk to the bot, and its owners. Denies access by default.

A stranger who writes gets a code. An owner grants access with that code. People with access are
kept in memory, so that a message costs no query.
"""

from __future__ import annotations

import hashlib
import math
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from bot.settings import Settings
from channels.guess_limit import Throttle
from channels.language import _
from channels.message import Address, Inbound
from memory.record import people
from memory.record.mailbox import AddressColumns
from memory.record.people import KnownPerson, PendingPerson, Role
from memory.record.store import Store
from plugins.api import Person, refusal

PAGE = "web"
"""The channel of the page and of keys to OpenAI's protocol."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
"""The valid names of people on that channel."""
LOCAL = frozenset({"terminal", "pipe", "ask", "web"})
"""Channels used on this machine, under the account that started the bot. The web channel admits
only such users and holders of its token."""
ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""The characters of codes, without letters and digits that look alike."""
CODE_LENGTH = 8
HOUR = 3600.0
"""Seconds for which a code is valid."""
MOST_PENDING = 3
"""The maximum number of strangers of one channel who may have a code at the same time."""
MINUTE = 60.0

CLOSED = "You have no access to this bot; ask its owner for access."
CROWDED = (
    "You have no access to this bot yet, and too many people are waiting for it. Write again in an "
    "hour."
)
GUESSED = "You tried too many wrong codes; try again in {seconds} s."
TOO_FAST = (
    "You have reached the limit of messages in a minute (messages_per_minute). This one was "
    "not accepted; send it again in a moment."
)
KNOCK = (
    "You have no access to this bot yet. Ask the bot's owner to send `/pair {code}` to the bot "
    "within an hour."
)
ASKED = (
    "You have no access to this bot yet. You already have a code: the bot's owner can send /pair "
    "with it to the bot within an hour of when you got it."
)


def name_of(address: Address) -> str:
    """Return a person's name, as `owners` lists it. For the local person it ends with the slash."""
    return f"{address.channel}/{address.user}"


def chat_of(address: Address) -> str:
    """Return a chat's name, as `/users` lists it."""
    return f"{address.channel}/{address.chat}"


def person_of(name: str) -> str:
    """Return the name of a person who has access on the page or by a key, as /users lists it:
    "web/ann"."""
    return name_of(Address(PAGE, name, user=name))


def is_local(address: Address) -> bool:
    """Return whether the sender is the person who started the bot: at the terminal, on the web
    page, or through the pipe without a `user`."""
    return address.channel in LOCAL and not address.user


def new_code() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))


def refuse_guesser(seconds: float) -> None:
    """Raise CommandError if the person is locked out after wrong codes, for this many seconds."""
    if seconds:
        raise refusal(GUESSED, seconds=math.ceil(seconds))


def digest_of(code: str) -> str:
    """Return the stored digest of a code, however it is typed. A code is short-lived and needs an
    owner to use it, so a plain hash is enough to keep it out of backups."""
    typed = "".join(letter for letter in code.upper() if letter.isalnum())
    return hashlib.sha256(typed.encode()).hexdigest()


class MessageRate:
    """A counter of events per sender within a minute; `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._counts = Counter[str]()

    @property
    def left(self) -> float:
        """The seconds until the minute is over."""
        return max(0.0, MINUTE - (self._clock() - self._since))

    def allows(self, who: str, most: int) -> bool:
        """Count an event, and return whether it is within `most` a minute."""
        if self._clock() - self._since >= MINUTE:
            self._since = self._clock()
            self._counts.clear()
        self._counts[who] += 1
        return self._counts[who] <= most


class Access:
    """The people with access. `settings` is called each time; `clock` returns seconds since 1970;
    `on_change` is called when access was granted or revoked."""

    def __init__(
        self,
        store: Store,
        settings: Callable[[], Settings],
        clock: Callable[[], float] = time.time,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._settings, self._clock = store, settings, clock
        self._known: dict[tuple[str, str], KnownPerson] = {}
        self._codes: dict[str, str] = {}
        self._pace, self._strangers = MessageRate(), MessageRate()
        self._guesses = Throttle("codes for /pair")
        self._on_change = on_change

    async def load(self) -> None:
        """Load the people with access. Called after each change as well: reads complete in order,
        so that a stale one never overwrites a newer one."""
        found = await self._store.read(people.list_known)
        self._known = {(one.kind, one.id): one for one in found}

    @property
    def known(self) -> list[KnownPerson]:
        """All people and chats with access, besides the owners that the settings name."""
        return list(self._known.values())

    def knows(self, person: str, role: Role) -> bool:
        """Return whether this person has access with this role, according to memory."""
        one = self._known.get(("person", person))
        return one is not None and one.role == role

    def is_known(self, person: str) -> bool:
        """Return whether this person has access, according to memory."""
        return ("person", person) in self._known

    async def list_pending(self) -> list[PendingPerson]:
        """Return the strangers whose code is valid, oldest first."""
        return await self._store.read(lambda db: people.list_pending(db, self._valid_since))

    @property
    def _valid_since(self) -> float:
        return self._clock() - HOUR

    def identify(self, address: Address) -> Person | None:
        """Return the person who wrote the message, or None for a stranger. In a chat that has
        access as a whole everybody is a user."""
        if not address.user:
            return Person(address.channel, "owner") if address.channel in LOCAL else None
        name = name_of(address)
        if name in self._settings().owners:
            return Person(name, "owner")
        if one := self._known.get(("person", name)):
            return Person(name, one.role)
        return Person(name, "user") if ("chat", chat_of(address)) in self._known else None

    @property
    def owners(self) -> list[str]:
        """The names of all owners except the person at the machine."""
        owners = [one.id for one in self._known.values() if one.role == "owner"]
        return [*self._settings().owners, *owners]

    def find_limited_user(self, address: Address) -> str:
        """Return the user whose limits apply to messages from this address; "" for an owner."""
        person = self.identify(address)
        return person.limited if person else name_of(address)

    async def identify_or_reload(self, address: Address) -> Person | None:
        """Return the person, or None for a stranger. A stranger is looked up on disk as well,
        because `main.py pair` may have granted access meanwhile. Raises StoreError."""
        if (person := self.identify(address)) is None:
            await self.load()
            person = self.identify(address)
        return person

    def is_too_fast(self, person: Person) -> bool:
        """Count a message, and return whether the user has exceeded the limit per minute."""
        most = 0 if person.is_owner else self._settings().messages_per_minute
        return most > 0 and not self._pace.allows(person.id, most)

    @property
    def wait(self) -> int:
        """The whole seconds after which a rate-limited user may write again."""
        return int(self._pace.left) + 1

    async def refuse_stranger(self, inbound: Inbound) -> str:
        """Return the reply to a stranger, at most once a minute; "" for no reply. Raises
        StoreError."""
        address = inbound.address
        if address.channel == "web":  # the key was revoked, and the client waits for a reply
            return _(CLOSED)
        if not self._strangers.allows(f"{chat_of(address)} {address.user}", 1):
            return ""
        return await self._invite(inbound) if address.user else _(CLOSED)

    async def _invite(self, inbound: Inbound) -> str:
        """Return the code of this stranger, valid for an hour; create one if there is none."""
        address, code, now = inbound.address, new_code(), self._clock()
        place = AddressColumns(address.channel, address.chat, address.thread, address.user)
        stranger = PendingPerson(name_of(address), inbound.sender, place, now)
        digest, since = digest_of(code), self._valid_since
        kept = await self._store.write(
            lambda db: people.ask(db, stranger, digest, since, MOST_PENDING)
        )
        if kept is None:
            return _(CROWDED)
        if kept is stranger:
            self._codes[kept.person] = code
        if (known := self._codes.get(kept.person)) is None:
            return _(ASKED)
        return _(KNOCK, code=f"{known[:4]}-{known[4:]}")

    async def approve(self, code: str, role: Role, by: str) -> PendingPerson:
        """Grant access to the stranger with this code, and return that stranger. Raises
        CommandError."""
        digest, since, now = digest_of(code), self._valid_since, self._clock()
        refuse_guesser(self._guesses.wait(by))

        def load_access(db: Any) -> PendingPerson | None:
            stranger = people.answer(db, digest, since)
            if stranger is not None:
                people.grant_access(
                    db, KnownPerson("person", stranger.person, role, stranger.name, by, now)
                )
            return stranger

        if (stranger := await self._store.write(load_access)) is None:
            refuse_guesser(self._guesses.check(by, digest, is_right=False))
            raise refusal(
                "Nobody is waiting with this code. Codes are valid for an hour; /users shows "
                "who is waiting."
            )
        await self.changed()
        self._codes.pop(stranger.person, None)
        return stranger

    async def open_chat(self, address: Address, by: str) -> None:
        """Grant access to everybody who writes in this chat."""
        one = KnownPerson("chat", chat_of(address), "user", "", by, self._clock())
        await self._store.write(lambda db: people.grant_access(db, one))
        await self.changed()

    async def revoke(self, one: KnownPerson) -> None:
        """Revoke the access of a person or a chat."""
        await self._store.write(lambda db: people.revoke(db, one.kind, one.id))
        await self.changed()

    async def changed(self) -> None:
        """Reload the people with access after a change on disk, and call `on_change`."""
        await self.load()
        self._on_change()
