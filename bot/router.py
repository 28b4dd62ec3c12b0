"""Where a message goes: to a command, to a turn, or nowhere."""

from __future__ import annotations

import difflib
import hashlib
import logging
import re
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from bot.access import LOCAL, identify, refusal
from bot.activity import Hub
from bot.attachments import AttachmentRefused, Stored, store
from bot.delivery import Delivery, Received, sendable
from bot.lanes import Lanes
from bot.turns import BUSY, Turns
from channels.base import Accepted, Activity
from channels.message import Address, Inbound, Outbound, Reply
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.record.store import StoreError
from plugins.api import Ask, Command, CommandError, Person, Ports

log = logging.getLogger(__name__)

EMPTY = "Your message is empty. Write something, or /help to see what I can do."
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


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


def cleaned(text: str) -> str:
    """Text without what can't be stored or shown: control characters and broken Unicode."""
    whole = text.encode("utf-8", "replace").decode()
    return _CONTROL.sub("", whole.replace("\r\n", "\n").replace("\r", "\n"))


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


class Router:
    """The `Bot` of `channels/base`: what every channel talks to."""

    def __init__(
        self,
        ports: Ports,
        conversations: Conversations,
        delivery: Delivery,
        turns: Turns,
        hub: Hub,
        owners: Callable[[], Sequence[str]],
    ) -> None:
        self._ports, self._conversations = ports, conversations
        self._delivery, self._turns, self._hub, self._owners = delivery, turns, hub, owners
        self.lanes = Lanes("command")

    async def submit(self, inbound: Inbound) -> Accepted | None:
        """Let a message in, put it on disk, and send it where it belongs."""
        if identify(inbound.address, self._owners()) is None:
            log.warning("a stranger was refused: %s", inbound.address)
            self._refuse(inbound, refusal(inbound.address))
            return None
        inbound = replace(inbound, text=cleaned(inbound.text))
        if not await self._has_room(inbound):
            self._refuse(inbound, BUSY)
            return None
        try:
            received, is_new = await self._delivery.receive(inbound, await self._stored(inbound))
        except (StoreError, AttachmentRefused) as error:
            self._refuse(inbound, str(error))
            return None
        if is_new:
            self.route(received)
        return Accepted(inbound.id, is_new)

    async def _stored(self, inbound: Inbound) -> tuple[Stored, ...]:
        """The files of a message, on disk; a command has no use for any."""
        if not inbound.attachments or command_line(inbound.text):
            return ()
        return await store(self._ports.workspace(key_of(inbound.address)), inbound.attachments)

    def route(self, received: Received) -> None:
        """Send a message that is on disk to its command or into its conversation's line."""
        key = key_of(received.address)
        if not received.text.strip() and not received.files:
            self._reply(key, received, Reply(EMPTY))
        elif line := command_line(received.text):
            self.lanes.put(self._lane(key, line), lambda: self._answer_command(received, line))
        else:
            self._turns.put(key, received, spoken(received.text))

    async def command(self, address: Address, line: str) -> Reply:
        """Carry out a command line now."""
        parsed = command_line(line)
        if parsed is None:
            return Reply(f"{line!r} is not a command; commands begin with a slash, like /help.")
        return await self._carry_out(address, parsed)

    def watch(self, address: Address) -> AbstractContextManager[AsyncIterator[Activity]]:
        """What happens in this address's conversation from now on."""
        return self._hub.watch(key_of(address).id)

    def _lane(self, key: ConversationKey, line: Line) -> Hashable:
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

    def _refuse(self, inbound: Inbound, sentence: str) -> None:
        self._delivery.send(Outbound(0, inbound.address, Reply(sentence), inbound.id))

    def _reply(self, key: ConversationKey, received: Received, reply: Reply) -> None:
        self.lanes.put(key.id, lambda: self._delivery.answer(received, reply))

    async def _answer_command(self, received: Received, line: Line) -> None:
        reply = await self._carry_out(received.address, line)
        await self._delivery.answer(received, reply)

    async def _carry_out(self, address: Address, line: Line) -> Reply:
        person = identify(address, self._owners())
        if person is None:
            return Reply(refusal(address))
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


def unknown(name: str, commands: Mapping[str, Command]) -> str:
    """What a person is told who mistyped a command."""
    near = difflib.get_close_matches(name, commands, n=1, cutoff=0.5)
    hint = f"did you mean /{near[0]}?" if near else "/help lists all commands."
    return f"There is no command /{name}; {hint} To send it to the model, write //{name}."
