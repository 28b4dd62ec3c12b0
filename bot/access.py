"""The people who may talk to the bot, and its owners. Fails closed: who is not known is not let in.

A stranger who writes is given a code; an owner who is told of it lets them in with it. People who
are known are kept in memory, so that a message costs no query.
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
from channels.guessing import Throttle
from channels.language import _
from channels.message import Address, Inbound
from memory.record import people
from memory.record.mailbox import AddressColumns
from memory.record.people import Known, Pending, Role
from memory.record.store import Store
from plugins.api import CommandError, Person

PAGE = "web"
"""The channel of the page and of keys to OpenAI's protocol."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
"""The names of the people of that channel."""
LOCAL = frozenset({"terminal", "pipe", "ask", "web"})
"""Channels whose other end sits at this machine, under the account that started the bot; the web
channel lets in only such, and who has its token."""
ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""The characters of codes: no letter or digit that looks like another."""
CODE_LENGTH = 8
HOUR = 3600.0
"""Seconds for which a code is valid."""
MOST_PENDING = 3
"""Strangers of one channel who may have a code at a time."""
MINUTE = 60.0

CLOSED = "You have no access to this bot; ask its owner for access."
CROWDED = (
    "You have no access to this bot yet, and too many people are waiting for it. Write again in an "
    "hour."
)
GUESSED = "You tried too many wrong codes; try again in {seconds} s."
TOO_FAST = (
    "You have reached the limit of messages in a minute (messages_per_minute). This one was not "
    "taken; send it again in a moment."
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
    """Return a person's name, as `owners` lists it; at the machine itself it ends with the
    slash."""
    return f"{address.channel}/{address.user}"


def chat_of(address: Address) -> str:
    """Return a chat's name, as `/users` lists it."""
    return f"{address.channel}/{address.chat}"


def person_of(name: str) -> str:
    """Return the name of somebody who is let in on the page or by a key, as /users lists it:
    "web/ann"."""
    return name_of(Address(PAGE, name, user=name))


def is_local(address: Address) -> bool:
    """Return whether whoever started the bot speaks: at the terminal, on the web page, or through
    the pipe where no `user` is named."""
    return address.channel in LOCAL and not address.user


def knock(code: str) -> str:
    """Return the reply to a stranger: nothing about the bot, and how to be let in."""
    return _(KNOCK, code=f"{code[:4]}-{code[4:]}")


def new_code() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))


def refuse_guesser(seconds: float) -> None:
    """Raise CommandError where somebody is locked out for having guessed, for so long."""
    if seconds:
        raise CommandError(_(GUESSED, seconds=math.ceil(seconds)))


def digest_of(code: str) -> str:
    """Return the digest that is kept of a code, however it is typed. It is short-lived and lets in
    only by an owner's hand, so a plain hash is enough to keep it out of backups."""
    typed = "".join(letter for letter in code.upper() if letter.isalnum())
    return hashlib.sha256(typed.encode()).hexdigest()


class MessageRate:
    """Counts what each of many does within a minute; `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._counts = Counter[str]()

    @property
    def left(self) -> float:
        """Seconds until the minute is over."""
        return max(0.0, MINUTE - (self._clock() - self._since))

    def allows(self, who: str, most: int) -> bool:
        """Return whether one more is within `most` a minute; it counts if so."""
        if self._clock() - self._since >= MINUTE:
            self._since = self._clock()
            self._counts.clear()
        self._counts[who] += 1
        return self._counts[who] <= most


class Access:
    """Knows who is let in. `settings` is asked each time; `clock` gives seconds since 1970;
    `on_change` hears that somebody was let in, or is not any more."""

    def __init__(
        self,
        store: Store,
        settings: Callable[[], Settings],
        clock: Callable[[], float] = time.time,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._settings, self._clock = store, settings, clock
        self._known: dict[tuple[str, str], Known] = {}
        self._codes: dict[str, str] = {}
        self._pace, self._strangers = MessageRate(), MessageRate()
        self._guesses = Throttle("codes for /pair")
        self._on_change = on_change

    async def take_up(self) -> None:
        """Read who is let in. After each change too: reads come back in their order, so that none
        of before the change is believed after it."""
        found = await self._store.read(people.list_known)
        self._known = {(one.kind, one.id): one for one in found}

    @property
    def known(self) -> list[Known]:
        """All who were let in, besides the owners that the settings name."""
        return list(self._known.values())

    def knows(self, person: str, role: Role) -> bool:
        """Return whether it is known here that this person was let in as such."""
        one = self._known.get(("person", person))
        return one is not None and one.role == role

    def is_known(self, person: str) -> bool:
        """Return whether it is known here that this person was let in."""
        return ("person", person) in self._known

    async def list_pending(self) -> list[Pending]:
        """Strangers whose code is valid, oldest first."""
        return await self._store.read(lambda db: people.list_pending(db, self._valid_since))

    @property
    def _valid_since(self) -> float:
        return self._clock() - HOUR

    def identify(self, address: Address) -> Person | None:
        """Return the person who speaks, or None for a stranger. In a chat that was let in as a
        whole everybody is a user."""
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
        """The names of all owners but whoever sits at the machine."""
        owners = [one.id for one in self._known.values() if one.role == "owner"]
        return [*self._settings().owners, *owners]

    def find_limited_user(self, address: Address) -> str:
        """Return the user whose limits hold for what comes from here; "" for an owner."""
        person = self.identify(address)
        return person.limited if person else name_of(address)

    async def meet(self, address: Address) -> Person | None:
        """Return the same; a stranger is looked up on disk too, where `main.py pair` may have let
        them in meanwhile. Raises StoreError."""
        if (person := self.identify(address)) is None:
            await self.take_up()
            person = self.identify(address)
        return person

    def is_too_fast(self, person: Person) -> bool:
        """Return whether a user has sent as many messages as they may within a minute; counts this
        one."""
        most = self._settings().messages_per_minute
        return not person.is_owner and most > 0 and not self._pace.allows(person.id, most)

    @property
    def wait(self) -> int:
        """Whole seconds after which who is too fast may write again."""
        return int(self._pace.left) + 1

    async def turn_away(self, inbound: Inbound) -> str:
        """Return the reply to a stranger, at most once a minute; "" for nothing. Raises
        StoreError."""
        address = inbound.address
        if address.channel == "web":  # whose key was taken away meanwhile, and who waits for this
            return _(CLOSED)
        if not self._strangers.allows(f"{chat_of(address)} {address.user}", 1):
            return ""
        return await self._invite(inbound) if address.user else _(CLOSED)

    async def _invite(self, inbound: Inbound) -> str:
        """Return the code of this stranger, who has it for an hour, or gets it now."""
        address, code, now = inbound.address, new_code(), self._clock()
        place = AddressColumns(address.channel, address.chat, address.thread, address.user)
        stranger = Pending(name_of(address), inbound.sender, place, now)
        digest, since = digest_of(code), self._valid_since
        kept = await self._store.write(
            lambda db: people.ask(db, stranger, digest, since, MOST_PENDING)
        )
        if kept is None:
            return _(CROWDED)
        if kept is stranger:
            self._codes[kept.person] = code
        return knock(self._codes[kept.person]) if kept.person in self._codes else _(ASKED)

    async def approve(self, code: str, role: Role, by: str) -> Pending:
        """Let the stranger with this code in; returns who it was. Raises CommandError."""
        digest, since, now = digest_of(code), self._valid_since, self._clock()
        refuse_guesser(self._guesses.wait(by))

        def let_in(db: Any) -> Pending | None:
            stranger = people.answer(db, digest, since)
            if stranger is not None:
                people.let_in(db, Known("person", stranger.person, role, stranger.name, by, now))
            return stranger

        if (stranger := await self._store.write(let_in)) is None:
            refuse_guesser(self._guesses.check(by, digest, is_right=False))
            raise CommandError(
                _(
                    "Nobody is waiting with this code. Codes are valid for an hour; /users shows "
                    "who is waiting."
                )
            )
        await self.changed()
        self._codes.pop(stranger.person, None)
        return stranger

    async def open_chat(self, address: Address, by: str) -> None:
        """Let everybody in who writes in this chat."""
        one = Known("chat", chat_of(address), "user", "", by, self._clock())
        await self._store.write(lambda db: people.let_in(db, one))
        await self.changed()

    async def revoke(self, one: Known) -> None:
        """Let a person or a chat in no more."""
        await self._store.write(lambda db: people.revoke(db, one.kind, one.id))
        await self.changed()

    async def changed(self) -> None:
        """Read the list of people who are let in again, which was changed on disk, and call
        `on_change`."""
        await self.take_up()
        self._on_change()
