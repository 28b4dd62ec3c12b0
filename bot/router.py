"""Where a message goes: to a command, to a turn, or nowhere."""

from __future__ import annotations

import difflib
import hashlib
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import unquote

import orjson

from bot.access import CLOSED, LOCAL, TOO_FAST, Access
from bot.activity import EventBus
from bot.attachments import AttachmentRefused, Stored, store
from bot.completions import Completions
from bot.delivery import Delivery, Received, sendable
from bot.keys import ApiKeys
from bot.queues import KeyedQueues
from bot.turns import BUSY, Turns
from channels.base import Accepted, Activity, CommandEntry, Delta, KeyHolder, Said, Session
from channels.completion import Completed, CompletionRequest
from channels.message import Address, Inbound, Outbound, Reply, cleaned
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.messages import Message
from memory.record.store import StoreError
from memory.turns import Entry
from plugins.api import Ask, Command, CommandError, Person, Ports
from plugins.wording import beginning

log = logging.getLogger(__name__)

EMPTY = "Your message is empty. Write something, or /help to see what I can do."
INTERRUPTED = (
    "The bot was stopped while it carried out /{name}; look whether it took effect (/context "
    "shows), and say it again if it did not."
)
_LONGEST_NAME = 60


def key_of(address: Address) -> ConversationKey:
    """The conversation that an address belongs to: one for each chat, and for each thread in it.

    Its audience is those who share the chat, as a folder's name.
    """
    chat = f"{_escaped(address.channel)}/{_escaped(address.chat)}"
    thread = f"/{_escaped(address.thread)}" if address.thread else ""
    return ConversationKey(chat + thread, _folder(chat))


def _escaped(part: str) -> str:
    """Without slashes, so that chat "a/b" is not thread b of chat a."""
    return part.replace("%", "%25").replace("/", "%2F")


def _folder(chat: str) -> str:
    """A name that is safe as a folder's on every system, and no other chat's: those that are not
    as they stand carry a hash after an underscore, which the others have none of."""
    if re.fullmatch(r"[a-z0-9]+/[a-z0-9-]{1,60}", chat):
        return chat.replace("/", "-")
    safe = re.sub(r"[^a-z0-9]+", "_", chat.lower())[:60]
    return f"{safe}_{hashlib.sha256(chat.encode()).hexdigest()[:16]}"


def shown_name(sender: str) -> str:
    """A person's name as others may be shown it: one short line, which can't pass for two."""
    return " ".join(cleaned(sender).split())[:_LONGEST_NAME].rstrip()


@dataclass(frozen=True, slots=True)
class Line:
    """A command line: "/config x 5" is ("config", "x 5")."""

    name: str
    rest: str


def command_line(text: str) -> Line | None:
    """The command in a message, if it is one: one slash and a word. Two slashes are none."""
    found = re.fullmatch(r"/([A-Za-z_]\w*)(?:@\w+)?(?:\s+(.*))?", text.strip(), re.DOTALL)
    return Line(found[1].lower(), found[2] or "") if found else None


def spoken(text: str) -> str:
    """What reaches the model of a message: "//text" is meant as "/text"."""
    stripped = text.lstrip()
    return stripped[1:] if stripped.startswith("//") else text


HOUSE = Person("parley", "owner")
"""Who changes a setting that nobody has asked for by a command."""


def _unheard(channel: str, error: BaseException) -> None:
    """Where nobody listens."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Who answers requests in OpenAI's protocol, and who knows whose they are."""

    keys: ApiKeys
    completions: Completions


class Router:
    """The `Bot` of `channels/base`: what every channel talks to."""

    def __init__(
        self,
        ports: Ports,
        conversations: Conversations,
        delivery: Delivery,
        turns: Turns,
        bus: EventBus,
        access: Access,
        requests: Requests,
    ) -> None:
        self._keys, self._completions = requests.keys, requests.completions
        self._ports, self._conversations = ports, conversations
        self._delivery, self._turns, self._bus, self._access = delivery, turns, bus, access
        self.queues = KeyedQueues("command")
        self.on_trouble: Callable[[str, BaseException], None] = _unheard

    async def submit(self, inbound: Inbound) -> Accepted | None:
        """Let a message in, put it on disk, and send it where it belongs."""
        inbound = replace(inbound, text=cleaned(inbound.text), sender=shown_name(inbound.sender))
        try:
            if (refusal := await self._refusal(inbound)) is not None:
                self._refuse(inbound, refusal)
                return None
            with self._turns.coming(key_of(inbound.address)):
                files = await self._stored(inbound)
                received, is_new = await self._delivery.receive(inbound, files)
        except (StoreError, AttachmentRefused) as error:
            is_wrong = isinstance(error, AttachmentRefused)
            self._refuse(inbound, Reply(str(error), problem="invalid" if is_wrong else "failed"))
            return None
        if is_new:
            self.route(received)
        return Accepted(inbound.id, is_new)

    def must_wait(self, inbound: Inbound) -> bool:
        """Whether this message's line is full; the wait itself is in `submit`."""
        if inbound.address.channel not in LOCAL or command_line(cleaned(inbound.text)):
            return False
        return self._turns.is_busy(key_of(inbound.address))

    def trouble(self, channel: str, error: BaseException) -> None:
        self.on_trouble(channel, error)

    async def _refusal(self, inbound: Inbound) -> Reply | None:
        """Why a message is not taken in, "" without a word; None: it is."""
        person = await self._access.meet(inbound.address)
        if person is None:
            log.warning("a stranger was refused: %s", inbound.address)
            return Reply(await self._access.turn_away(inbound), problem="refused")
        if self._access.is_too_fast(person):
            return Reply(TOO_FAST, problem="too_fast")
        return None if await self._has_room(inbound) else Reply(BUSY, problem="busy")

    async def _stored(self, inbound: Inbound) -> tuple[Stored, ...]:
        """The files of a message, on disk; a command has no use for any."""
        if not inbound.attachments or command_line(inbound.text):
            return ()
        key = key_of(inbound.address)
        quota = self._ports.settings.describe("tools.files_quota", key.id).value
        return await store(self._ports.workspace(key), inbound.attachments, quota)

    def route(self, received: Received) -> None:
        """Send a message that is on disk to its command or into its conversation's line."""
        key = key_of(received.address)
        if not received.text.strip() and not received.files:
            self._reply(key, received, Reply(EMPTY))
        elif line := command_line(received.text):
            self.queues.put(self._queue(key, line), lambda: self._answer_command(received, line))
        else:
            self._turns.put(key, received, spoken(received.text))

    def admits(self, address: Address) -> bool:
        """Whether this person may talk to the bot."""
        return self._access.identify(address) is not None

    async def command(self, address: Address, line: str) -> Reply:
        """Carry out a command line now."""
        parsed = command_line(line)
        if parsed is None:
            return Reply(f"{line!r} is not a command; commands begin with a slash, like /help.")
        return await self._carry_out(address, parsed)

    def complete(
        self, holder: KeyHolder, request: CompletionRequest
    ) -> AsyncGenerator[Delta | Completed, None]:
        """Answer a request that stands by itself."""
        return self._completions.answer(holder, request)

    async def key_holder(self, key: str) -> KeyHolder | None:
        """Whose key to OpenAI's protocol this is."""
        return await self._keys.holder(key)

    def offered(self) -> Sequence[CommandEntry]:
        """All commands by name."""
        known = self._ports.commands
        return [CommandEntry(name, known[name].summary) for name in sorted(known)]

    def watch(self, address: Address) -> AbstractContextManager[AsyncIterator[Activity]]:
        """What happens in this address's conversation from now on."""
        return self._bus.watch(key_of(address).id)

    async def sessions(self, channel: str, words: str = "") -> list[Session]:
        """The conversations of a channel, but for its threads."""
        prefix = f"{_escaped(channel)}/"
        found = await self._conversations.listed(prefix, words)
        chats = ((listed.key.removeprefix(prefix), listed) for listed in found)
        return [
            Session(unquote(chat), beginning(one.title), datetime.fromtimestamp(one.at, UTC))
            for chat, one in chats
            if "/" not in chat
        ]

    async def transcript(self, address: Address, before: int = 0, most: int = 50) -> list[Said]:
        """The newest turns, or those before this one."""
        conversation = await self._conversations.get(key_of(address))
        newest = conversation.context.newest + 1
        end = min(before, newest) if before else newest
        turns = await conversation.context.turns(range(max(1, end - most), end))
        return [_said(entry) for turn in turns for entry in turn.entries]

    async def instruct(self, address: Address, text: str) -> str:
        """Let a client's words be its conversation's system prompt; returns what is wrong."""
        here = key_of(address).id
        now = self._ports.settings.describe("system_prompt", here)
        if (now.value, now.layer) == (text, "--here"):
            return ""
        try:
            quoted = orjson.dumps(text).decode()
            await self._ports.settings.set("system_prompt", quoted, here, HOUSE)
        except (CommandError, StoreError) as error:
            return str(error)
        return ""

    async def begin_with(self, address: Address, exchanges: Sequence[tuple[str, str]]) -> bool:
        """Append these turns, if there is none yet."""
        conversation = await self._conversations.get(key_of(address))
        if conversation.context.newest or not exchanges:
            return False
        turns = [
            [Message("user", cleaned(question)), Message("assistant", cleaned(answer))]
            for question, answer in exchanges
        ]
        await conversation.turns.append(turns)
        return True

    def _queue(self, key: ConversationKey, line: Line) -> Hashable:
        """Commands of a conversation are answered in order, but none waits behind a slow one."""
        command = self._ports.commands.get(line.name)
        return (key.id, "slow") if command and command.is_slow(line.rest) else key.id

    async def _has_room(self, inbound: Inbound) -> bool:
        """Whether the conversation's line takes one more. Whoever sits at this machine waits until
        it does: a script hands over as many as it has. Commands join no line."""
        if command_line(inbound.text):
            return True
        key = key_of(inbound.address)
        if inbound.address.channel in LOCAL:
            await self._turns.room(key)
        return not self._turns.is_busy(key)

    def _refuse(self, inbound: Inbound, reply: Reply) -> None:
        if reply.text:
            self._delivery.send(Outbound(0, inbound.address, reply, inbound.id))

    def _reply(self, key: ConversationKey, received: Received, reply: Reply) -> None:
        self.queues.put(key.id, lambda: self._delivery.answer(received, reply))

    async def _answer_command(self, received: Received, line: Line) -> None:
        if received.is_begun:
            reply = Reply(INTERRUPTED.format(name=line.name))
        else:
            with suppress(StoreError):  # a full disk must not keep anybody from /context
                await self._delivery.begin(received)
            reply = await self._carry_out(received.address, line)
        await self._delivery.answer(received, reply)

    async def _carry_out(self, address: Address, line: Line) -> Reply:
        if (person := self._access.identify(address)) is None:
            return Reply(CLOSED)
        command = self._ports.commands.get(line.name)
        if command is None:
            return Reply(unknown(line.name, self._ports.commands))
        try:
            return await self._run(command, line, address, person)
        except (CommandError, StoreError) as error:
            return Reply(str(error))
        except (Exception, SystemExit):  # a plugin's sys.exit() must not take the bot along
            log.exception("/%s failed", line.name)
            return Reply(
                f"/{line.name} failed inside the bot; the log has the details (data/logs)."
            )

    async def _run(self, command: Command, line: Line, address: Address, person: Person) -> Reply:
        conversation = await self._conversations.get(key_of(address))
        ask = Ask(line.rest, address, person, conversation, self._ports)
        return sendable(await command.run(ask))


def _said(entry: Entry) -> Said:
    """An entry of the transcript, as channels show it."""
    message = entry.message
    return Said(
        turn=f"t{entry.turn}",
        role="system" if message.role == "note" else message.role,
        text=message.told,
        at=entry.at,
        calls=tuple(call.name for call in message.tool_calls),
        tool=message.tool,
        is_error=message.is_error,
    )


def unknown(name: str, commands: Mapping[str, Command]) -> str:
    """What a person is told who mistyped a command."""
    near = difflib.get_close_matches(name, commands, n=1, cutoff=0.5)
    hint = f"did you mean /{near[0]}?" if near else "/help lists all commands."
    return f"There is no command /{name}; {hint} To send it to the model, write //{name}."
