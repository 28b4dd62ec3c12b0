"""The conversation of an address: that of its chat, or of another chat that a feature has linked it
to (`read_from`); and signals within the bot, which decouple its parts. Links are kept in memory,
too, so that a message costs no query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Generic, ParamSpec
from urllib.parse import unquote

from msgspec.structs import replace

from bot.received import key_of
from channels.message import Address
from memory.keys import ConversationKey
from memory.record.database import Database
from memory.record.people import ChatLink
from memory.record.store import Store

P = ParamSpec("P")


class Signal(Generic[P]):
    """An event with any number of listeners, called in the order in which they were connected."""

    def __init__(self) -> None:
        self._listeners: list[Callable[P, object]] = []

    def connect(self, listener: Callable[P, object]) -> None:
        self._listeners.append(listener)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        for listener in self._listeners:
            listener(*args, **kwargs)


def format_home(home: str) -> str:
    """Return a chat's name for people: "telegram/42"."""
    return unquote(home)


def key_of_home(home: str) -> ConversationKey:
    """Return the key of a chat's first conversation, by its id."""
    channel, chat, thread = f"{home}/".split("/")[:3]
    return key_of(Address(unquote(channel), unquote(chat), unquote(thread)))


class Links:
    """The chats that are linked to another chat's conversation. `changes` is notified of changes
    made in this process; `led` is notified of the id of each newly linked chat, in every
    process."""

    def __init__(self, store: Store, changes: Signal[[]]) -> None:
        self._store, self._changes = store, changes
        self._sources: list[Callable[[Database], list[ChatLink]]] = []
        self._targets: dict[str, ConversationKey] = {}
        self._followers: dict[str, tuple[str, ...]] = {}
        self._ever: frozenset[tuple[str, str]] = frozenset()
        self._links: tuple[ChatLink, ...] = ()
        self.led: Signal[[str]] = Signal()

    def read_from(self, source: Callable[[Database], list[ChatLink]]) -> None:
        """Add a feature's source of links, effective from the next start."""
        self._sources.append(source)

    async def load(self) -> None:
        """Load the links. Called after each change as well, so that a stale result never overwrites
        a newer one."""
        read = self._store.read
        self._links = tuple([link for one in self._sources for link in await read(one)])
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
        """Return the first conversation of the chat that an address is linked to."""
        own = key_of(address)
        return self._targets.get(own.id, own) if self._targets else own

    def resolve(self, home: str) -> ConversationKey:
        """Return the same, by the id of the chat's own first conversation."""
        return self._targets.get(home) or key_of_home(home)

    def find_kept(self, address: Address, conversation: str) -> ConversationKey:
        """Return the conversation that a stored message belongs to, by its id ("": that of its own
        chat). If the address was never linked to it, the row is forged."""
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
        """Return the chats that are linked to this one's conversation, by their first
        conversations."""
        return self._followers.get(home, ())

    def list_from(self, prefix: str) -> list[tuple[str, str]]:
        """Return the linked chats whose ids begin with this prefix, and their targets."""
        found = self._targets.items()
        return [(home, target.id) for home, target in found if home.startswith(prefix)]

    def list_to(self, home: str) -> list[ChatLink]:
        """Return the links to the conversation of this chat."""
        return [link for link in self._links if link.target == home and not link.is_over]

    async def changed(self) -> None:
        """Reload the links after a change in this process, and notify `changes`."""
        await self.load()
        self._changes()
