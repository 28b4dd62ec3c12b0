"""An accepted message, with its conversation and the command in it, which are determined once,
before the message is put on disk; and the handlers of messages that a feature puts into the inbox
by itself, such as the prompt of a job."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from agent.loop import Agent
from bot.attachments import Stored
from channels.language import _
from channels.message import Address, Reply, clean_text
from memory.conversation import Conversation
from memory.keys import ConversationKey
from memory.messages import Mark

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
