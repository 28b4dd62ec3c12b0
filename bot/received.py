"""An accepted message, with its conversation and the command in it, which are determined once,
before the message is put on disk; the handlers of messages that a feature has queued; and signals
within the bot, which decouple its parts.

The conversation is that of the chat, or of another chat that a feature has linked it to
(`read_from`). Links are kept in memory, too, so that a message costs no query.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Generic, ParamSpec
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from agent.loop import Agent
from bot.attachments import Stored
from channels.language import _
from channels.message import Address, Reply, clean_text
from memory.conversation import Conversation
from memory.keys import ConversationKey
from memory.messages import Mark
from memory.record.database import Database
from memory.record.people import ChatLink
from memory.record.store import Store

_LONGEST_NAME = 60
_COMMAND = re.compile(r"/([A-Za-z_]\w*)(?:@\w+)?(?:\s+(.*))?", re.DOTALL)


class CommandLine(Struct, frozen=True):
    """A command as it was typed: "/config x 5" is ("config", "x 5")."""

    name: str
    rest: str


class Received(Struct, frozen=True):
    """An accepted message. `row` is its id in the inbox (0: it is off the record, and not on disk),
    `id` the platform's id; `line` is the command in it, if any; `is_begun` says whether a previous
    process began to work on it. `run` is the job run that it is the prompt of (0: a person sent
    it). With `is_outside` its text may come from a stranger."""

    row: int
    id: str
    address: Address
    key: ConversationKey
    text: str
    line: CommandLine | None
    sender: str
    files: tuple[Stored, ...] = ()
    is_begun: bool = False
    run: int = 0
    is_outside: bool = False

    @property
    def speaker(self) -> str:
        """The sender's name for the model; "" in a chat of one person alone."""
        return "" if self.address.is_private else self.sender or self.address.user


def command_line(text: str) -> CommandLine | None:
    """Return the command in a message, if it is one: a slash and a word. Two slashes don't make
    one."""
    found = _COMMAND.fullmatch(text.strip())
    return CommandLine(found[1].lower(), found[2] or "") if found else None


def unescape_slash(text: str) -> str:
    """Return a message's text for the model: "//text" stands for "/text"."""
    stripped = text.lstrip()
    return stripped[1:] if stripped.startswith("//") else text


def clean_name(sender: str) -> str:
    """Return a person's name in a form safe to show to others: one short line."""
    return " ".join(clean_text(sender).split())[:_LONGEST_NAME].rstrip() if sender else ""


@lru_cache(maxsize=1_000)
def key_of(address: Address) -> ConversationKey:
    """Return the first conversation of an address: one for each chat, and for each thread in it;
    `Turns.resolve` selects its current branch.

    The audience is the name of a folder for all people who share the chat.
    """
    chat = f"{escape(address.channel)}/{escape(address.chat)}"
    thread = f"/{escape(address.thread)}" if address.thread else ""
    return ConversationKey(chat + thread, _folder(chat))


def escape(part: str) -> str:
    """Return the part without slashes, so that chat "a/b" is not thread b of chat a."""
    return part.replace("%", "%25").replace("/", "%2F")


def _folder(chat: str) -> str:
    """Return a folder name for a chat that is unique and valid on every system. A changed name ends
    with an underscore and a hash; an unchanged one has no underscore."""
    if re.fullmatch(r"[a-z0-9]+/[a-z0-9-]{1,60}", chat):
        return chat.replace("/", "-")
    safe = re.sub(r"[^a-z0-9]+", "_", chat.lower())[:60]
    return f"{safe}_{hashlib.sha256(chat.encode()).hexdigest()[:16]}"


class RunHandler:
    """The feature that owns runs (`Received.run`), which turns and commands execute; this base
    class has none."""

    async def refusal(self, received: Received) -> str:
        """Return why a waiting run does not start; "" if it does."""
        return _("The part of the bot that set this up is not installed any more.")

    async def prepare(self, received: Received, conversation: Conversation, agent: Agent) -> Agent:
        """Return the agent that answers a run, with its own limits and permissions."""
        raise RuntimeError(f"{received.id} is a run, and no feature has runs")

    async def answer(
        self, received: Received, reply: Reply, turn: str | None = None, mark: Mark = ""
    ) -> bool:
        """Store the end of a run together with its outgoing reply; return False if the reply is an
        ordinary one. `mark` says why it ended, unless the model ended it."""
        return False


def find_handler(handlers: Sequence[RunHandler]) -> RunHandler:
    """Return the handler of the feature that has runs: at most one, which is opened late."""
    return next(iter(handlers), RunHandler())


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
