"""A message that was taken in: whose conversation it is part of, and whether it is a command.

Both are worked out once, before the message is put on disk, and go with it from then on.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from msgspec import Struct

from bot.attachments import Stored
from channels.message import Address, clean_text
from memory.keys import ConversationKey

_LONGEST_NAME = 60
_COMMAND = re.compile(r"/([A-Za-z_]\w*)(?:@\w+)?(?:\s+(.*))?", re.DOTALL)


class CommandLine(Struct, frozen=True):
    """A command as it was typed: "/config x 5" is ("config", "x 5")."""

    name: str
    rest: str


class Received(Struct, frozen=True):
    """A message that was taken in. `row` is its place in the inbox (0: it is off the record, and
    not on disk), `id` the platform's; `line` is
    the command in it, if it is one; `is_begun` says whether a process before this one began to work
    on it. `run` is the run of a job that it is the prompt of (0: somebody said it). One that
    `is_outside` holds text that a stranger may have written."""

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
        """The name by which the model knows who speaks; "" in a chat of one person alone."""
        return "" if self.address.is_private else self.sender or self.address.user


def command_line(text: str) -> CommandLine | None:
    """Return the command in a message, if it is one: one slash and a word. Two slashes are none."""
    found = _COMMAND.fullmatch(text.strip())
    return CommandLine(found[1].lower(), found[2] or "") if found else None


def unescape_slash(text: str) -> str:
    """Return a message's text for the model: "//text" is meant as "/text"."""
    stripped = text.lstrip()
    return stripped[1:] if stripped.startswith("//") else text


def clean_name(sender: str) -> str:
    """Return a person's name as others may be shown it: one short line, which can't pass for
    two."""
    return " ".join(clean_text(sender).split())[:_LONGEST_NAME].rstrip() if sender else ""


@lru_cache(maxsize=1_000)
def key_of(address: Address) -> ConversationKey:
    """Return the conversation that an address begins with: one for each chat, and for each thread
    in it; `Turns.lead` says to which of its branches it leads.

    Its audience is those who share the chat, as a folder's name.
    """
    chat = f"{escape(address.channel)}/{escape(address.chat)}"
    thread = f"/{escape(address.thread)}" if address.thread else ""
    return ConversationKey(chat + thread, _folder(chat))


def escape(part: str) -> str:
    """Without slashes, so that chat "a/b" is not thread b of chat a."""
    return part.replace("%", "%25").replace("/", "%2F")


def _folder(chat: str) -> str:
    """Return a name that is safe as a folder's on every system, and no other chat's: those that are
    not as they stand carry a hash after an underscore, which the others have none of."""
    if re.fullmatch(r"[a-z0-9]+/[a-z0-9-]{1,60}", chat):
        return chat.replace("/", "-")
    safe = re.sub(r"[^a-z0-9]+", "_", chat.lower())[:60]
    return f"{safe}_{hashlib.sha256(chat.encode()).hexdigest()[:16]}"
