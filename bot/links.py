"""Which conversation an address leads to: that of its chat, or the one that `/link` led it to.

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

from bot.access import ALPHABET, MOST_TRIES, digest_of, name_of, new_code
from bot.received import key_of
from channels.language import _
from channels.message import Address
from memory.keys import ConversationKey
from memory.record import links
from memory.record.links import ChatLink, LinkCode
from memory.record.mailbox import AddressColumns
from memory.record.store import Store
from plugins.api import CommandError

VALID = 600.0
"""Seconds for which a code can be used."""

PRIVATE = "A chat can only be linked where nobody else reads it: send this in a private chat."
WRONG = (
    f"No chat gave this code. Codes are valid for {VALID / 60:g} minutes, and once; after "
    f"{MOST_TRIES} wrong ones none is. Send /link on your other channel for a new one."
)
SAME = "This code was given here; type it on your other channel, in a private chat with the bot."
LEADS = (
    "Other chats go on in this conversation ({chats}), so it can't be linked itself; /unlink first."
)
LINKED = "This chat goes on in the conversation of {chat} already; /unlink ends that."


class NewLink(Struct, frozen=True):
    """A link that was made, and where the code for it was given."""

    link: ChatLink
    giver: AddressColumns


def is_alone(address: Address) -> bool:
    """Whether nobody but one person reads what is said there."""
    return address.is_private or not address.user


def format_home(home: str) -> str:
    """A chat as people are told of it: "telegram/42"."""
    return unquote(home)


def key_of_home(home: str) -> ConversationKey:
    """The key of a chat's first conversation, by its id."""
    channel, chat, thread = f"{home}/".split("/")[:3]
    return key_of(Address(unquote(channel), unquote(chat), unquote(thread)))


class Links:
    """`clock` gives seconds since 1970; `on_change` hears that chats lead elsewhere."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self._targets: dict[str, ConversationKey] = {}
        self._followers: dict[str, tuple[str, ...]] = {}
        self._ever: frozenset[tuple[str, str]] = frozenset()
        self._links: tuple[ChatLink, ...] = ()
        self.on_change: Callable[[], None] = _unheard

    async def take_up(self) -> None:
        """Read where chats lead. After each change too, so that no older answer is believed."""
        self._links = tuple(await self._store.read(links.list_links))
        held = [link for link in self._links if not link.is_over]
        followers: defaultdict[str, list[str]] = defaultdict(list)
        for link in held:
            followers[link.target].append(link.home)
        self._targets = {link.home: key_of_home(link.target) for link in held}
        self._followers = {target: tuple(homes) for target, homes in followers.items()}
        self._ever = frozenset((link.home, link.target) for link in self._links)

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

    async def follow(self, address: Address, code: str) -> NewLink:
        """Let the chat at this address go on where a code leads. Raises CommandError, and
        StoreError."""
        if not is_alone(address):
            raise CommandError(_(PRIVATE))
        home, now, digest = key_of(address).id, self._clock(), digest_of(code)
        if home in self._targets:
            raise CommandError(_(LINKED, chat=format_home(self._targets[home].id)))
        if followers := self.followers(home):
            raise CommandError(_(LEADS, chats=", ".join(map(format_home, followers))))

        def work(db: Any) -> LinkCode | None:
            found = links.find_code(db, digest, now - VALID, MOST_TRIES)
            if found is None or found.target == home:
                return found
            is_made = links.redeem(db, found, home, name_of(address), now)
            return found if is_made else None

        found = await self._store.write(work)
        if found is None:
            raise CommandError(_(WRONG))
        if found.target == home:
            raise CommandError(_(SAME))
        await self._changed()
        link = next(one for one in self.list_to(found.target) if one.home == home)
        return NewLink(link, found.place)

    async def end(self, home: str) -> None:
        """Let a chat go on in its own conversation again. Raises StoreError."""
        await self._store.write(lambda db: links.end(db, home))
        await self._changed()

    async def _changed(self) -> None:
        await self.take_up()
        self.on_change()


def is_code(text: str) -> bool:
    """Whether this may be meant as a code, rather than as a word."""
    letters = [letter for letter in text.upper() if letter.isalnum()]
    return len(letters) == 8 and all(letter in ALPHABET for letter in letters)


def _unheard() -> None:
    """No other process needs to know."""
