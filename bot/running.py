"""The bot as channels see it: accepts a message, and dispatches it as a command or a turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from agent.tools.base import NOT_RUN
from bot.access import Access
from bot.activity import EventBus
from bot.attachments import run_limited, split_files
from bot.commands import CommandRunner
from bot.completions import Completions
from bot.delivery import Languages
from bot.intake import Intake
from bot.listing import Listing, place_in_list
from bot.logs import off_record
from bot.private import PrivateConversations
from bot.received import CommandLine, Links, Received, command_line, key_of, unescape_slash
from bot.turns import Turns
from bot.workspaces import Workspaces, list_spoken
from channels.base import (
    Accepted,
    Activity,
    ChannelState,
    CommandEntry,
    Delta,
    KeyHolder,
    Logins,
    OpenedFile,
    SaidFile,
    Session,
    TranscriptMessage,
    WorkspaceFiles,
)
from channels.language import _, explain, speaking
from channels.message import (
    Address,
    Completed,
    CompletionRequest,
    Inbound,
    Reply,
    clean_text,
)
from memory.conversations import Conversations
from memory.messages import Message
from memory.record.offload import SESSIONS
from memory.record.store import StoreError
from memory.turns import Entry
from plugins.api import CommandError, Person, SettingsPort
from plugins.loader import LoadedPlugins

EMPTY = "Your message is empty. Write something, or /help to see what I can do."
NOT_HERE = "This conversation is off the record, so no system prompt is kept for it."
AT_THE_MACHINE = ("web", "terminal")
"""Channels whose chats belong to the person at this machine."""
_ITSELF = Person("parley", "owner")
"""The person named for a setting that was changed without a command."""


class RunningBot(Struct, frozen=True):
    """The implementation of `Bot` in `channels/base`."""

    intake: Intake
    commands: CommandRunner
    turns: Turns
    bus: EventBus
    access: Access
    conversations: Conversations
    settings: SettingsPort
    completions: Completions
    workspaces: Workspaces
    links: Links
    listing: Listing
    languages: Languages
    features: LoadedPlugins
    state: ChannelState
    private: PrivateConversations
    nobody: Logins = field(default_factory=Logins)

    @property
    def logins(self) -> Logins:
        """Return the logins of a feature; without one, no person is signed in."""
        return next(iter(self.features.logins), self.nobody)

    async def submit(self, inbound: Inbound) -> Accepted | None:
        """Accept a message, put it on disk, and dispatch it."""
        self.languages.remember_language(inbound.address)
        chat = self.links.key_of(inbound.address).id
        if (name := self.intake.find_command(inbound)) and self.commands.may_switch(name):
            async with self.commands.switching(chat):
                return await self._submit(inbound)
        await self.commands.wait_for_switches(chat)
        return await self._submit(inbound)

    async def _submit(self, inbound: Inbound) -> Accepted | None:
        with speaking(self.languages.of(inbound.address)):
            if (taken := await self.intake.take(inbound)) is None:
                return None
            received, is_new = taken
            if is_new:
                self.turns.recent.message_taken(
                    inbound.address.channel, is_command=received.line is not None
                )
                if received.row:
                    self.dispatch(self._with_recognized_command(inbound, received))
                else:
                    await self._dispatch_privately(received)
        return Accepted(inbound.id, is_new)

    def _with_recognized_command(self, inbound: Inbound, received: Received) -> Received:
        """Return a message with the command that its words mean, if a feature recognises one."""
        person = self.access.identify(received.address)
        if person is None or received.line is not None or received.files:
            return received
        meanings = (find(inbound, received.key, person) for find in self.features.meant)
        line = next((command_line(meant) for meant in meanings if meant), None)
        return received if line is None else replace(received, line=line)

    def dispatch(self, received: Received) -> None:
        """Dispatch a stored message as a command, or into its conversation's queue."""
        if received.line is not None:
            self.commands.put(received, received.line)
        elif received.text.strip() or received.files:
            self.turns.put(received, unescape_slash(received.text))
        else:
            self.commands.answer(received, Reply(_(EMPTY)))

    async def _dispatch_privately(self, received: Received) -> None:
        """Dispatch a message that is off the record. Its command is executed before the next
        message is accepted, which may be on the record again."""
        if received.line is not None:
            given = (received.address, received.line, received.speaker)
            await self.private.send(received, await self._command_privately(*given))
        elif received.text.strip():
            self.private.put(received)
        else:
            await self.private.send(received, Reply(_(EMPTY)))

    async def _command_privately(
        self, address: Address, line: CommandLine, speaker: str = ""
    ) -> Reply:
        """Execute a command in a chat that is off the record, if it stores nothing."""
        key = self.turns.resolve(address)
        with off_record(), speaking(self.languages.of(address)):
            is_known = self.commands.is_known(line.name)
            reply = self.private.answer_command(key, line) if is_known else None
            if reply is None:
                reply = await self.commands.run(address, line, speaker)
                reply = self.commands.remind_of_form(address, key, reply)
            return self.private.mark(key, reply)

    def must_wait(self, inbound: Inbound) -> bool:
        return self.intake.must_wait(inbound)

    def run_limited(self, script: Path, content: bytes, *arguments: str) -> bytes:
        """Run a script on this content in a process with limits."""
        return run_limited(script, content, *arguments)

    def trouble(self, channel: str, error: BaseException) -> None:
        self.turns.recent.channel_unreachable(channel, error)

    def admits(self, address: Address) -> bool:
        """Return whether this person may talk to the bot."""
        return self.access.identify(address) is not None

    def language_of(self, address: Address) -> str:
        """Return the language of the person at this address."""
        self.languages.remember_language(address)
        return self.languages.of(address)

    async def command(self, address: Address, line: str) -> Reply:
        """Execute a command line now."""
        self.languages.remember_language(address)
        parsed = command_line(line)
        if parsed is None:
            with speaking(self.languages.of(address)):
                sentence = _(
                    "{line!r} is not a command; commands begin with a slash, like /help.",
                    line=line,
                )
            return Reply(sentence, problem="command_refused")
        if self.is_private(address):
            return await self._command_privately(address, parsed)
        return await self.commands.run(address, parsed)

    def is_private(self, address: Address) -> bool:
        return self.private.covers(self.turns.resolve(address))

    def complete(
        self, holder: KeyHolder, request: CompletionRequest
    ) -> AsyncGenerator[Delta | Completed, None]:
        """Answer a stateless request."""
        return self.completions.answer(holder, request)

    async def key_holder(self, key: str) -> KeyHolder | None:
        """Return the holder of a key to OpenAI's protocol; None if it is not a key."""
        return await self.logins.find_key(key)

    def list_commands(self) -> Sequence[CommandEntry]:
        """Return all commands by name."""
        return self.commands.offered

    def watch(self, address: Address) -> AbstractContextManager[AsyncIterator[Activity]]:
        """Watch the events at this address from now on, in any conversation."""
        return self.bus.watch(key_of(address).id)

    # --- data for pages and clients ------------------------------------------------------------

    async def sessions(self, channel: str, words: str = "") -> list[Session]:
        """Return the chats of a channel, without its threads; each by its current branch."""
        return self._with_private(await self.listing.of_channel(channel, words))

    async def own_sessions(self, words: str = "") -> list[Session]:
        """Return the chats of the person at this machine, on all channels, in order."""
        here = [await self.listing.of_channel(channel, words) for channel in AT_THE_MACHINE]
        elsewhere = await self.listing.of_people(self._owners_elsewhere, words)
        linked = {target for _home, target in self.links.list_from("web/")}  # listed as the page's
        found = [
            session
            for sessions in (*here, elsewhere)
            for session in sessions
            if key_of(Address(session.channel, session.chat)).id not in linked
        ]
        return self._with_private(sorted(found, key=place_in_list, reverse=True))

    def _with_private(self, sessions: Sequence[Session]) -> list[Session]:
        """Return the sessions, with those off the record marked."""
        return [
            replace(one, is_private=True)
            if self.is_private(Address(one.channel, one.chat))
            else one
            for one in sessions
        ]

    def own_address(self, channel: str, chat: str) -> Address | None:
        """Return the address of an owner's chat."""
        if channel in AT_THE_MACHINE:
            return Address(channel, chat)
        user = chat.partition("/")[0]
        is_theirs = f"{channel}/{user}" in self._owners_elsewhere
        return Address(channel, chat, user=user) if is_theirs else None

    @property
    def _owners_elsewhere(self) -> list[str]:
        """The owners on other channels; owners with a name on the page have their chats there."""
        return [name for name in self.access.owners if not name.startswith("web/")]

    async def transcript(
        self, address: Address, before: int = 0, most: int = 50
    ) -> Sequence[TranscriptMessage]:
        """Return the newest turns, or those before this one."""
        key = self.turns.resolve(address)
        with speaking(self.languages.of(address)):
            private = self.private.transcript(key, before, most)
        if private is not None:
            return private
        conversation = await self.conversations.get(key)
        context = conversation.context
        newest = context.newest + 1
        end = min(before, newest) if before else newest
        turns = await context.turns(range(max(1, end - most), end))
        with speaking(self.languages.of(address)):
            messages = [_to_transcript(entry) for turn in turns for entry in turn.entries]
        spoken = await asyncio.to_thread(list_spoken, conversation.folder)
        return _with_sounds(messages, spoken, f"{SESSIONS}/{conversation.folder.name}")

    async def list_files(self, address: Address) -> WorkspaceFiles:
        """Return the files in a chat's workspace."""
        return await self.workspaces.list_files(self.turns.resolve(address))

    async def open_file(self, address: Address, path: str) -> OpenedFile | None:
        """Return a file of a chat."""
        return await self.workspaces.open(self.turns.resolve(address), path)

    def list_routes(self) -> Sequence[object]:
        """Return the HTTP routes of features, as `channels.web.operations.Operation`s."""
        return [route for make in self.features.routes for route in make(self)]

    async def call_owner(self, address: Address, name: str, body: bytes) -> bytes:
        """Execute a feature's call by its name: this process has all conversations."""
        return await self.features.calls[name](body)

    async def instruct(self, address: Address, text: str) -> str:
        """Set a client's text as its conversation's system prompt; return the error, or ""."""
        if self.is_private(address):
            return _(NOT_HERE)
        here = self.turns.resolve(address).id
        now = self.settings.describe("system_prompt", here)
        if (now.value, now.layer) == (text, "--here"):
            return ""
        try:
            await self.settings.set("system_prompt", orjson.dumps(text).decode(), here, _ITSELF)
        except (CommandError, StoreError) as error:
            return str(error)
        return ""

    async def begin_with(self, address: Address, exchanges: Sequence[tuple[str, str]]) -> bool:
        """Append these turns if there are none yet; return whether they were appended."""
        if self.is_private(address):
            return False
        conversation = await self.conversations.get(self.turns.resolve(address))
        if conversation.context.newest or not exchanges:
            return False
        turns = [
            [Message("user", clean_text(question)), Message("assistant", clean_text(answer))]
            for question, answer in exchanges
        ]
        await conversation.turns.append(turns)
        return True


def _with_sounds(
    messages: list[TranscriptMessage], spoken: Mapping[int, str], place: str
) -> list[TranscriptMessage]:
    """Return the messages; those that end a turn get the file with the spoken answer."""
    last = {one.turn: number for number, one in enumerate(messages) if one.role == "assistant"}
    for turn, name in spoken.items():
        if (number := last.get(f"t{turn}")) is not None:
            sound = SaidFile(name, f"{place}/{name}", is_picture=False)
            messages[number] = replace(messages[number], files=(sound,))
    return messages


def _to_transcript(entry: Entry) -> TranscriptMessage:
    """Return an entry of the transcript, as channels show it."""
    message = entry.message
    if message.notice:
        message = replace(message, notice=explain(message.notice))
    text, files = split_files(message)
    return TranscriptMessage(
        turn=f"t{entry.turn}",
        role="system" if message.role == "note" else message.role,
        text=text,
        at=entry.at,
        calls=tuple(call.name for call in message.tool_calls),
        tool=message.tool,
        is_error=message.is_error,
        reasoning=message.reasoning,
        mark=message.mark,
        notice=message.notice,
        is_denied=message.is_error and NOT_RUN in message.text[: 2 * len(NOT_RUN)],
        files=files,
    )
