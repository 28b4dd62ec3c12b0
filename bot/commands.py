"""The execution of commands: in the order of their conversation, and each at most once.

The options of commands are words that begin with "--", before all other words.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
from asyncio import CancelledError, Lock
from collections import Counter
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import dropwhile
from pathlib import Path
from weakref import WeakKeyDictionary, WeakValueDictionary

from msgspec.structs import replace

from bot.access import CLOSED, Access, is_local, name_of
from bot.delivery import Delivery, sendable
from bot.forms import Forms
from bot.received import CommandLine, Links, Received, RunHandler, find_handler
from channels.base import CommandEntry
from channels.language import _, explain
from channels.message import Address, Reply
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.record.store import StoreError
from memory.tasks import Job, KeyedQueues, is_stopped
from plugins.api import Ask, Command, CommandError, Ports, refusal
from plugins.wording import clip, literal

_OPTION = re.compile(r"--[A-Za-z][\w-]*")
_TURNS = re.compile(r"t\d+(?:-t?\d+)?,?", re.IGNORECASE)
_WRITTEN = re.compile(r"\b(?:TEXT|QUESTION|COMMAND|PROMPT|WHAT)\b|\bsearch WORDS\b")
"""Arguments with free text, and commands that parse their options themselves."""
_OF_WORDS = frozenset({"search", "keep"})
"""Subcommands that take free text."""


def refuse_unknown(command: Command, text: str) -> None:
    """Raise CommandError for words after a command that takes none, and for an option that the
    command does not have; a command with free text would otherwise take it as text."""
    words = text.split()
    names = {sub.name for sub in command.subs}
    verb = words.pop(0).lower() if words and words[0].lower() in names else ""
    first = next(dropwhile(_TURNS.fullmatch, words), "")
    known = _OPTION.findall(" ".join((command.usage, *(sub.summary for sub in command.subs))))
    is_free = verb in _OF_WORDS or _WRITTEN.search(command.usage)
    if not is_free and _OPTION.fullmatch(first) and first.lower() not in known:
        raise refusal(
            "/{name} has no option {option}, so nothing was done; /help {name} says what it takes.",
            name=command.name,
            option=first[:60],
        )
    if words and verb in command.bare:
        raise refusal(
            "/{name} does not take “{words}”, so nothing was done. Send it alone.",
            name=f"{command.name} {verb}".rstrip(),
            words=literal(clip(" ".join(words))),
        )


log = logging.getLogger(__name__)

INTERRUPTED = (
    "The bot was stopped while it carried out /{name}. Check whether it took effect (/context "
    "shows it), and send it again if not."
)


_ENDS = frozenset({"stop", "cancel"})
MOST_AT_ONCE = 30
"""The maximum number of a person's waiting or running commands, in all their chats."""
TOO_MANY = (
    "{most} of your commands wait or are being carried out, the most at once. Send this one again "
    "when some are answered."
)
UNKNOWN = (
    "There is no command /{name}; /help lists all commands. To send it to the model, write "
    "//{name}."
)
MEANT = (
    "There is no command /{name}; did you mean /{near}? To send it to the model, write //{name}."
)
FAILED = "/{name} failed inside the bot; the log has the details (`python main.py logs`)."
UNWRITTEN = (
    "/{name} was not done, or only in part: {file} can't be used ({why}). Tell the bot's "
    "owner, and send it again later."
)


class CommandRunner:
    """The executor of commands, independent of the turns."""

    def __init__(
        self,
        ports: Ports,
        conversations: Conversations,
        delivery: Delivery,
        access: Access,
        forms: Forms,
        links: Links,
        runs: Sequence[RunHandler],
    ) -> None:
        self._runs = runs
        self._ports, self._conversations, self._links = ports, conversations, links
        self._delivery, self._access, self._forms = delivery, access, forms
        self.queues = KeyedQueues("command")
        self._switching = Counter[str]()
        self._coming = WeakValueDictionary[str, Lock]()  # chats with an incoming switching command
        self._givers = WeakKeyDictionary[Job, str]()  # of the commands in the queues

    @property
    def offered(self) -> list[CommandEntry]:
        """Return all commands by name."""
        known = self._ports.commands
        return [CommandEntry(name, known[name].summary) for name in sorted(known)]

    def is_known(self, name: str) -> bool:
        """Return whether there is a command of this name."""
        return name in self._ports.commands

    def put(self, received: Received, line: CommandLine) -> None:
        """Add a command to its conversation's queue; slow commands have a queue of their own."""
        command = self._ports.commands.get(line.name)
        is_slow = command is not None and command.is_slow(line.rest)
        chat = received.key.home
        queue: Hashable = (received.key.id, "slow") if is_slow else chat
        if self.may_switch(line.name):
            self._switching[chat] += 1
        job = partial(self._answer, received, line)
        self._givers[job] = name_of(received.address)
        self.queues.put(queue, job)

    def find_excess(self, address: Address, line: CommandLine) -> str:
        """Return the refusal for a person with too many unfinished commands; "" if the command is
        accepted. Commands that end something are always accepted, and so are those of a script on
        this machine, which waits by itself."""
        if is_local(address) or line.name in _ENDS:
            return ""
        who = name_of(address)
        count = sum(giver == who for giver in self._givers.values())
        return _(TOO_MANY, most=MOST_AT_ONCE) if count >= MOST_AT_ONCE else ""

    def answer(self, received: Received, reply: Reply) -> None:
        """Send this reply in the order of the commands."""
        self.queues.put(received.key.home, lambda: self._delivery.answer(received, reply))

    def takes_files(self, line: CommandLine) -> bool:
        """Return whether a command uses the files that come with it."""
        command = self._ports.commands.get(line.name)
        verb = next(iter(line.rest.lower().split()), "")
        return command is not None and verb in command.takes_files

    def may_switch(self, name: str) -> bool:
        """Return whether a command of this name may switch its chat to another conversation."""
        command = self._ports.commands.get(name)
        return command is not None and command.leads

    @asynccontextmanager
    async def switching(self, chat: str) -> AsyncIterator[None]:
        """Register a command that may switch the chat to another conversation. `wait_for_switches`
        waits for it, because some channels deliver a message before the previous one has been
        accepted."""
        async with self._coming.setdefault(chat, Lock()):
            if self._switching[chat]:
                await self.queues.wait_for_capacity(chat, 1)
            yield

    async def wait_for_switches(self, chat: str) -> None:
        """Wait for all commands that may switch the chat to another conversation, so that later
        messages go to the new one."""
        if chat in self._coming or self._switching[chat]:
            async with self.switching(chat):
                pass

    async def run(
        self,
        address: Address,
        line: CommandLine,
        speaker: str = "",
        files: tuple[str, ...] = (),
    ) -> Reply:
        """Execute a command now; the answer is in the caller's language."""
        with self._delivery.speaking_to(address):
            return await self._run(address, line, speaker, files)

    async def _run(
        self, address: Address, line: CommandLine, speaker: str, files: tuple[str, ...]
    ) -> Reply:
        if (person := self._access.identify(address)) is None:
            return Reply(_(CLOSED), problem="refused")
        command = self._ports.commands.get(line.name)
        if command is None:
            sentence = describe_unknown(line.name, self._ports.commands)
            return Reply(sentence, problem="command_refused")
        try:
            key = self._conversations.branches.current(self._links.key_of(address))
            conversation = await self._conversations.get(key)
            refuse_unknown(command, line.rest)
            ask = Ask(line.rest, address, person, conversation, self._ports, speaker, files)
            return _in_words(sendable(await command.run(ask)))
        except CommandError as error:
            return Reply(explain(str(error)), problem="command_refused")
        except StoreError as error:
            return Reply(explain(str(error)), problem="failed")
        except (Exception, SystemExit, CancelledError) as error:  # plugins may raise these, too
            if isinstance(error, CancelledError) and is_stopped():
                raise
            log.exception("/%s failed", line.name)
            return Reply(_describe_fault(line.name, error), problem="failed")

    async def _answer(self, received: Received, line: CommandLine) -> None:
        if received.is_begun:
            command = self._ports.commands.get(line.name)
            notice = command.interrupted if command is not None else ""
            with self._delivery.speaking_to(received.address):
                text = _(notice) if notice else _(INTERRUPTED, name=line.name)
            reply = Reply(text, problem="failed")
            waiting = self._forms.find(received.address)
            if waiting is not None and waiting.command.split()[0] == f"/{line.name}":
                await self._forms.cancel(received.address)  # its question may not have been sent
        else:
            with suppress(StoreError):  # a full disk must not keep anybody from /context
                await self._delivery.begin(received)
            files = tuple(file.path for file in received.files)
            reply = await self._run_unless_deleted(received, line, files)
            is_asking = reply.form is not None
            reply = await self._ask_for_form(received.address, reply)
            if not is_asking and not received.run:
                reply = self.remind_of_form(received.address, received.key, reply)
        if self.may_switch(line.name):
            self._switching -= Counter([received.key.home])
        with self._delivery.speaking_to(received.address, received.key.id):
            if not (received.run and await find_handler(self._runs).answer(received, reply)):
                await self._delivery.answer(received, reply)

    async def _run_unless_deleted(
        self, received: Received, line: CommandLine, files: tuple[str, ...]
    ) -> Reply:
        with self._delivery.speaking_to(received.address, received.key.id):
            refusal = await find_handler(self._runs).refusal(received) if received.run else ""
        if refusal:
            return Reply(refusal, problem="refused")
        return await self.run(received.address, line, received.speaker, files)

    def remind_of_form(self, address: Address, key: ConversationKey, reply: Reply) -> Reply:
        """Return a command's reply with a reminder of the form that the next message fills.
        Messages off the record fill no form."""
        if self._ports.private.status(key) is not None:
            return reply
        with self._delivery.speaking_to(address):
            text = self._forms.remind(address)
        return replace(reply, text=f"{reply.text}\n\n{text}") if text else reply

    async def _ask_for_form(self, address: Address, reply: Reply) -> Reply:
        try:
            return await self._forms.ask(address, reply)
        except StoreError as error:
            with self._delivery.speaking_to(address):
                why = explain(str(error))
            return replace(reply, text=f"{reply.text}\n\n({why})", form=None)


def _describe_fault(name: str, error: BaseException) -> str:
    """Return the sentence for a failed command; it names an unwritable folder or a full disk."""
    if isinstance(error, OSError) and isinstance(error.filename, str | bytes) and error.strerror:
        file = Path(os.fsdecode(error.filename)).name
        return _(UNWRITTEN, name=name, file=file, why=explain(error.strerror))
    return _(FAILED, name=name)


def _in_words(reply: Reply) -> Reply:
    """Return the reply with its buttons in the caller's language, except a name in a command."""
    actions = tuple(
        one if one.command.endswith(f" {one.label}") else replace(one, label=_(one.label))
        for one in reply.actions
    )
    return replace(reply, actions=actions) if actions else reply


def describe_unknown(name: str, commands: Mapping[str, Command]) -> str:
    """Return the reply for an unknown command."""
    parts = (f"{one.name} {sub.name}" for one in commands.values() for sub in one.subs)
    near = [part for part in parts if part.endswith(f" {name}")]
    near = near or difflib.get_close_matches(name, commands, n=1, cutoff=0.6)
    if near:
        return _(MEANT, name=name, near=near[0])
    return _(UNKNOWN, name=name)
