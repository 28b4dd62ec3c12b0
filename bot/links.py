"""The conversation that an address leads to: that of its chat, or the one that `/link` led it to.

Where chats lead is kept in memory, so that a message costs no query, and on disk. Several chats of
one person that share a conversation are watched each by its own name (`EventBus`).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from bot.access import ALPHABET, digest_of, name_of, new_code, refuse_guesser
from bot.received import key_of
from bot.signals import Signal
from channels.guessing import Throttle
from channels.language import _
from channels.message import Address
from memory.keys import ConversationKey
from memory.record import links
from memory.record.links import ChatLink, LinkCode, LinkRequest
from memory.record.mailbox import AddressColumns
from memory.record.store import Store
from plugins.api import CommandError

VALID = 600.0
"""Seconds for which a code can be used, and for which its giver can say yes."""

PRIVATE = "A chat can only be linked where nobody else reads it: send this in a private chat."
WRONG = (
    f"No chat gave this code. Codes are valid for {VALID / 60:g} minutes, and once; send /link on "
    "your other channel for a new one."
)
NOBODY = (
    f"No chat waits for your answer here. Whoever types a code of yours waits for {VALID / 60:g} "
    "minutes; send /link for a new one."
)
WHICH = "Say which: {chats} wait for your answer."
SAME = "This code was given here; type it on your other channel, in a private chat with the bot."
LEADS = (
    "Other chats go on in this conversation ({chats}), so it can't be linked itself; /unlink first."
)
LINKED = "This chat goes on in the conversation of {chat} already; /unlink ends that."


class Asked(Struct, frozen=True):
    """A chat that asks to be linked, and where the code for it was given."""

    request: LinkRequest
    giver: AddressColumns


def is_alone(address: Address) -> bool:
    """Return whether nobody but one person reads what is said there."""
    return address.is_private or not address.user


def format_home(home: str) -> str:
    """A chat as people are told of it: "telegram/42"."""
    return unquote(home)


def key_of_home(home: str) -> ConversationKey:
    """The key of a chat's first conversation, by its id."""
    channel, chat, thread = f"{home}/".split("/")[:3]
    return key_of(Address(unquote(channel), unquote(chat), unquote(thread)))


class Links:
    """The chats that go on in another's conversation. `clock` gives seconds since 1970; `on_change`
    hears that this was changed here, `led` of each chat that leads elsewhere from now on, by its
    id, in every process."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = time.time,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._clock = store, clock
        self._targets: dict[str, ConversationKey] = {}
        self._followers: dict[str, tuple[str, ...]] = {}
        self._ever: frozenset[tuple[str, str]] = frozenset()
        self._links: tuple[ChatLink, ...] = ()
        self._guesses = Throttle("codes for /link")
        self._on_change = on_change
        self.led: Signal[[str]] = Signal()

    async def take_up(self) -> None:
        """Read where chats lead. After each change too, so that no older answer is believed."""
        self._links = tuple(await self._store.read(links.list_links))
        held = [link for link in self._links if not link.is_over]
        followers: defaultdict[str, list[str]] = defaultdict(list)
        for link in held:
            followers[link.target].append(link.home)
        before, self._targets = (
            self._targets,
            {link.home: key_of_home(link.target) for link in held},
        )
        self._followers = {target: tuple(homes) for target, homes in followers.items()}
        self._ever = frozenset((link.home, link.target) for link in self._links)
        for home in self._targets.keys() - before.keys():
            self.led(home)

    def key_of(self, address: Address) -> ConversationKey:
        """The first conversation of the chat in which an address goes on."""
        own = key_of(address)
        return self._targets.get(own.id, own) if self._targets else own

    def lead_of(self, home: str) -> ConversationKey:
        """The same, by the id of the chat's own first conversation."""
        return self._targets.get(home) or key_of_home(home)

    def find_kept(self, address: Address, conversation: str) -> ConversationKey:
        """The conversation for which a message is on disk, by its id there ("": that of its own
        chat). Where the address never led to it, the row is somebody else's making."""
        own = key_of(address)
        if not conversation:
            return own
        named = ConversationKey(conversation, own.audience)
        if named.home == own.id:
            return named
        if (own.id, named.home) in self._ever:
            return replace(key_of_home(named.home), id=conversation)
        return self.key_of(address)

    def followers(self, home: str) -> tuple[str, ...]:
        """The chats that go on in the conversation of this one, by their first conversations."""
        return self._followers.get(home, ())

    def list_from(self, prefix: str) -> list[tuple[str, str]]:
        """The chats whose ids begin so and that go on in another's conversation, and in which."""
        found = self._targets.items()
        return [(home, target.id) for home, target in found if home.startswith(prefix)]

    def list_to(self, home: str) -> list[ChatLink]:
        """The links that lead to the conversation of this chat."""
        return [link for link in self._links if link.target == home and not link.is_over]

    async def give_code(self, address: Address) -> str:
        """A code by which another chat comes to go on in this one's conversation. Raises
        CommandError, and StoreError."""
        if not is_alone(address):
            raise CommandError(_(PRIVATE))
        code, now = new_code(), self._clock()
        place = AddressColumns(address.channel, address.chat, address.thread, address.user)
        target = self.key_of(address).id
        kept = LinkCode(target, digest_of(code), name_of(address), place, now)
        await self._store.write(lambda db: links.put_code(db, kept, now - VALID))
        return f"{code[:4]}-{code[4:]}"

    async def ask(self, address: Address, code: str) -> Asked:
        """Ask whoever gave a code whether the chat at this address may go on where it leads. Raises
        CommandError, and StoreError."""
        if not is_alone(address):
            raise CommandError(_(PRIVATE))
        home, person, now = key_of(address).id, name_of(address), self._clock()
        digest = digest_of(code)
        self._check_free(home)
        refuse_guesser(self._guesses.wait(person))
        place = AddressColumns(address.channel, address.chat, address.thread, address.user)

        def work(db: Any) -> LinkCode | None:
            found = links.find_code(db, digest, now - VALID)
            if found is None or found.target == home:
                return found
            request = LinkRequest(home, found.target, person, found.giver, place, now)
            return found if links.ask(db, found, request, now - VALID) else None

        found = await self._store.write(work)
        refuse_guesser(self._guesses.check(person, digest, found is not None))
        if found is None:
            raise CommandError(_(WRONG))
        if found.target == home:
            raise CommandError(_(SAME))
        request = LinkRequest(home, found.target, person, found.giver, place, now)
        return Asked(request, found.place)

    async def settle(self, address: Address, which: str, is_yes: bool) -> LinkRequest:
        """Answer a chat that asks to go on in the conversation of this one, by its name ("": the
        only one), as whoever gave the code. Raises CommandError, and StoreError."""
        target, giver, now = self.key_of(address).id, name_of(address), self._clock()
        waiting = await self._store.read(
            lambda db: links.list_requests(db, target, giver, now - VALID)
        )
        found = [one for one in waiting if which in ("", format_home(one.home))]
        if len(found) > 1:
            raise CommandError(_(WHICH, chats=", ".join(format_home(one.home) for one in found)))
        if not found or not is_alone(address):
            raise CommandError(_(NOBODY))
        if is_yes:
            self._check_free(found[0].home)
        link_at = now if is_yes else None
        if not await self._store.write(lambda db: links.settle(db, found[0], link_at)):
            raise CommandError(_(NOBODY))
        if is_yes:
            await self._changed()
        return found[0]

    def _check_free(self, home: str) -> None:
        """Raise CommandError where a chat is linked already."""
        if home in self._targets:
            raise CommandError(_(LINKED, chat=format_home(self._targets[home].id)))
        if followers := self.followers(home):
            raise CommandError(_(LEADS, chats=", ".join(map(format_home, followers))))

    async def end(self, home: str) -> None:
        """Let a chat go on in its own conversation again. Raises StoreError."""
        await self._store.write(lambda db: links.end(db, home))
        await self._changed()

    async def _changed(self) -> None:
        await self.take_up()
        self._on_change()


def is_code(text: str) -> bool:
    """Return whether this may be meant as a code, rather than as a word."""
    letters = [letter for letter in text.upper() if letter.isalnum()]
    return len(letters) == 8 and all(letter in ALPHABET for letter in letters)
