"""The terminal as a channel: it shows the bot's activity on the screen.

Also the suggestions for typing, from the bot's data: loaded when they are needed, and cached until
something is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from msgspec.structs import replace
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.utils import is_dumb_terminal

from channels.base import Bot, ContextUsage
from channels.language import ENGLISH, _, explain, speaking
from channels.message import (
    Address,
    Attachment,
    Inbound,
    LocalFileError,
    Outbound,
    Reply,
    read_attachment,
)
from channels.terminal import completion, conversations, mentions
from channels.terminal.completion import (
    SOURCES,
    Lines,
    Offer,
    Suggestion,
    Vocabulary,
    choices,
    find_kind,
    is_known,
    offers_in,
)
from channels.terminal.display import one_line
from channels.terminal.dumb_screen import DumbScreen
from channels.terminal.early import LEAVING, EarlyInput
from channels.terminal.line import Picker, PickerEntry
from channels.terminal.screen import Screen
from channels.terminal.scroll import Scroll
from channels.terminal.theme import TerminalBackground, drawing_on
from channels.terminal.turns import DisplayedTurns


class Offers:
    """The cached vocabulary of the current conversation."""

    def __init__(self) -> None:
        self._known: Vocabulary | None = None

    def forget(self) -> None:
        """Clear the cache."""
        self._known = None

    async def find(self, bot: Bot, address: Address, line: str) -> Iterable[Suggestion]:
        """Return the suggestions for the end of a line."""
        known = self._known
        if known is None:
            commands = (await bot.command(address, "/help")).data or {}
            settings = (await bot.command(address, "/config")).data or {}
            own = [{"name": name, "summary": summary} for name, summary in completion.COMMANDS]
            listed = (*completion.by_use(commands), *own)
            known = Vocabulary(listed, settings.get("settings") or (), {})
        if (kind := find_kind(line)) and kind not in known.lists:
            found = await _list(kind, known, bot, address)
            known = replace(known, lists={**known.lists, kind: found})
        self._known = known
        return choices(line, known)


async def _list(kind: str, known: Vocabulary, bot: Bot, address: Address) -> Sequence[Offer]:
    """Return the current items of a kind."""
    if kind == "conversations":
        found = await bot.sessions(conversations.CHANNEL)
        return [(one.chat, one.title) for one in found]
    command, what = SOURCES[kind]
    if not is_known(command, known):
        return ()
    data = (await bot.command(address, command)).data or {}
    return offers_in(kind, data.get(what) or ())


ADDRESS = conversations.address_of(conversations.MAIN)
"""The default conversation."""
_ROOM_FOR_NAMES, _LONGEST_NAME = 60, 20  # columns
_AUTO = "auto"  # the name of a model before the actual one is known
_FRAME = 0.1  # seconds between two frames of an animation
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
# The seconds that a reply waits for the end of its turn to be shown, so that it follows the
# streamed text.
_PATIENCE = 1.0


class Terminal:
    """The channel of the person at this machine; `history` is the file of typed lines."""

    name = conversations.CHANNEL

    def __init__(
        self,
        history: Path,
        greeting: str = "",
        chat: str | None = "main",
        early: EarlyInput | None = None,
        *,
        program: str = "python main.py",
        theme: Callable[[], str] = lambda: "auto",
    ) -> None:
        """`chat` is the conversation to begin in; None: the one with the latest message. `early` is
        open already, and is continued here. `program` is the command that starts the bot, `theme`
        the setting of the background ("auto", "dark", "light")."""
        self._history, self._greeting, self._early = history, greeting, early
        self._chat, self._program = chat, program
        self._language: Callable[[], str] = lambda: ENGLISH
        self._address = conversations.address_of(chat or conversations.MAIN)
        self._came = datetime.now(UTC)
        self._watching = ExitStack()
        self._follower: asyncio.Task[None] | None = None
        self._lines = early.lines if early else Lines(history)
        make_screen = DumbScreen if is_dumb_terminal() else Screen
        self._screen = early.screen if early else make_screen(self._lines, self)
        self._has_screen = asyncio.Event()
        if not early:
            self._has_screen.set()
        self.has_fields = isinstance(self._screen, Screen)
        self._scroll = Scroll(self._screen)
        self._background = TerminalBackground(theme, lambda: self._screen.is_light)
        start = lambda work: self._tasks.create_task(work)  # noqa: E731 - there are none yet
        self._turns = DisplayedTurns(self._screen, self._scroll, start)
        self._offers = Offers()
        self._has_copied = False

    async def listen(self, bot: Bot) -> None:
        self._bot = bot
        if self._early:
            await asyncio.to_thread(self._early.close)
            self._early.restore_signal_handlers()
            self._early.screen.listener = self
            self._has_screen.set()
        self._language = lambda: bot.language_of(self._address)
        self._lines.is_private = lambda: bot.is_private(self._address)
        self._history.touch(mode=0o600)
        with patch_stdout(), self._watching, self._localized():
            async with asyncio.TaskGroup() as self._tasks:
                if self._greeting:
                    self._scroll.note("\n".join(map(explain, self._greeting.split("\n"))))
                self._watch_conversation(self._chat or await conversations.newest(bot))
                await self._run_screen(self._tasks.create_task(self._show_recent()))
                await self._shut_down()
                if self._follower:
                    self._follower.cancel()

    async def _run_screen(self, retelling: asyncio.Task[None]) -> None:
        """Run the screen until the person leaves, which may have happened before anything
        listened."""
        early = self._early
        if early and early.sent:
            await retelling  # earlier messages are shown first
        for text in early.sent if early else ():
            self.on_text(text)
        try:
            if not (early and early.has_left):
                await self._screen.run()
        finally:
            if early:
                early.restore()

    def _watch_conversation(self, chat: str) -> None:
        """Follow the events of this conversation, and of no other."""
        if self._follower:
            self._follower.cancel()
        self._watching.close()
        self._address = self._turns.address = conversations.address_of(chat)
        self._came = datetime.now(UTC)
        activities = self._watching.enter_context(self._bot.watch(self._address))
        self._follower = self._tasks.create_task(self._turns.follow(activities))
        self._tasks.create_task(self._load_usage())

    async def send(self, outbound: Outbound) -> None:
        await self._has_screen.wait()  # unsent replies of the last process come before `listen`
        with self._localized():
            await self._send(outbound)

    @contextmanager
    def _localized(self) -> Iterator[None]:
        """Use the person's language, and colours for their terminal."""
        with speaking(self._language), drawing_on(self._background):
            yield

    async def _send(self, outbound: Outbound) -> None:
        if outbound.address != self._address:
            name = one_line(outbound.address.chat)
            self._scroll.note(_("From the conversation “{name}”:", name=name))
        await self._turns.seen(outbound)
        self._turns.print_rest(outbound)

    def forget(self, texts: Sequence[str] | None) -> None:
        self._lines.forget(None if texts is None else {text.strip() for text in texts})

    # The handlers of screen.ScreenListener.

    def on_text(self, text: str) -> None:
        self._offers.forget()
        line = text.strip()
        command, _space, rest = line.partition(" ")
        if line in LEAVING:
            self._screen.leave()
        elif command == "/resume":
            self._tasks.create_task(self._resume(rest.strip()))
        elif command == "/copy":
            self._scroll.question(text)
            self._tasks.create_task(self._copy(rest))
        elif line == "/help keys":
            self._scroll.question(text)
            self._scroll.command_reply(Reply(completion.table()))
        elif line:
            self._say(text)

    def _say(self, text: str) -> None:
        is_at_once = not self._turns.is_busy or _is_command(text)
        identity = f"terminal-{uuid4().hex}"
        exchange = self._turns.open(identity, text)
        if is_at_once:
            self._turns.echo(exchange)
        if files := [] if _is_command(text) else mentions.find_mentions(text):
            self._tasks.create_task(self._submit_with(identity, text, files))
        else:
            inbound = Inbound(identity, self._address, _as_command(text))
            self._tasks.create_task(self._bot.submit(inbound))

    async def _submit_with(self, identity: str, text: str, files: Sequence[Path]) -> None:
        """Submit a message with the files that it names."""
        address, attachments = self._address, list[Attachment]()
        try:
            for file in files:
                attachments.append(await asyncio.to_thread(read_attachment, file))
        except LocalFileError as error:
            self._turns.drop(identity)
            note = _("{why}, so your message was not sent. ↑ brings it back.", why=error)
            self._scroll.note(note)
            return
        await self._bot.submit(Inbound(identity, address, text, attachments=tuple(attachments)))
        mentions.discard(files)

    def on_form(self, command: str, text: str) -> None:
        if text.strip():
            self.on_text(f"{command} {text}")
        else:
            self._scroll.note(_("The text is empty, so nothing was changed."))

    def on_change_last(self) -> bool:
        """Let the person change their last question; return False if there is none now."""
        is_asked = self._turns.has_asked and not self._turns.is_busy
        if is_asked:
            self._tasks.create_task(self._change_last())
        return is_asked

    async def _change_last(self) -> None:
        reply = await self._bot.command(self._address, "/edit")
        if isinstance(self._screen, Screen):
            self._screen.line.fill_last_question(reply.form)

    def on_reasoning(self) -> str:
        running = self._turns.current is not None
        notice = self._turns.reasoning.toggle()
        if self._turns.reasoning.is_shown and not running:
            self._tasks.create_task(self._show_last_reasoning())
        self._turns.draw()
        return notice

    async def _show_last_reasoning(self) -> None:
        messages = await self._bot.transcript(self._address, most=1)
        thoughts = "\n\n".join(one.reasoning for one in messages if one.reasoning.strip())
        self._scroll.reasoning(thoughts)
        if not thoughts:
            self._scroll.note(_("The last answer came without reasoning."))

    async def _copy(self, words: str) -> None:
        messages = await self._bot.transcript(self._address, most=conversations.TURNS)
        try:
            copied = conversations.find_copy(messages, words)
        except conversations.NothingToCopy as nothing:
            self._scroll.note(str(nothing))
            return
        if isinstance(self._screen, Screen):
            self._screen.copy(copied.text)
            self._scroll.note(conversations.describe(copied, is_first=not self._has_copied))
            self._has_copied = True
        else:
            self._scroll.as_it_is(copied.text)
            self._scroll.note(_("This terminal has no clipboard; select the text above."))

    def on_interrupt(self) -> bool:
        if is_busy := self._turns.is_busy:
            self._tasks.create_task(self._stop())
        return is_busy

    def bar(self, width: int) -> tuple[str, str]:
        style, text = self._turns.bar(width, self._address.chat)
        if not self._lines.is_private():
            return style, text
        return "class:bar.warm", " · ".join(filter(None, (_("OFF THE RECORD"), text)))[:width]

    async def choices(self, line: str) -> Iterable[Suggestion]:
        return await self._offers.find(self._bot, self._address, line)

    # Requests to the bot.

    async def _stop(self) -> None:
        reply = await self._bot.command(self._address, "/stop")
        if not self._turns.current:  # else the turn's own reply says that it was stopped
            self._scroll.note(reply.text)

    async def _shut_down(self) -> None:
        if self._turns.is_busy:
            await self._bot.command(self._address, "/stop")
            self._turns.write_rest()
            self._scroll.note(
                _("You quit, so the running answer was stopped; what was done so far is kept.")
            )
        self._turns.end()
        if self._turns.has_asked:
            self._scroll.note(conversations.describe_way_back(self._program, self._address.chat))

    async def _load_usage(self) -> None:
        if usage := await self._ask("/context", "usage"):
            self._turns.usage = ContextUsage(**usage)
            self._turns.has_asked = self._turns.has_asked or self._turns.usage.turns > 0
            model = self._turns.usage.model
            if model not in ("", _AUTO) and model not in self._greeting:
                self._greeting += model  # which is shown once
                self._scroll.note(_("{model} answers.", model=model))
            self._turns.draw()

    async def _resume(self, words: str) -> None:
        """Switch to the conversation of this name, or let the person choose one."""
        names = {session.chat for session in await self._bot.sessions(conversations.CHANNEL)}
        if words in names or words == conversations.MAIN:
            self._switch(words)
        elif isinstance(self._screen, Screen):
            title = _("Conversations of this terminal")
            self._screen.line.pick(Picker(title, self._find_conversations, self._switch), words)
        elif name := conversations.clean_name(words):
            self._switch(name)
        else:
            found = await self._find_conversations("")
            lines = "\n".join(f"/resume {entry.value}: {entry.label}" for entry in found)
            self._scroll.note(lines or _("Nothing was said here yet; /resume NAME begins one."))

    async def _find_conversations(self, words: str) -> Sequence[PickerEntry]:
        return await conversations.find(self._bot, words, self._address.chat)

    def _switch(self, chat: str) -> None:
        """Switch to another conversation; the work in this one continues, and its answer arrives
        nevertheless."""
        self._turns.switch()
        self._watch_conversation(chat)
        self._tasks.create_task(self._show_recent())

    async def _show_recent(self) -> None:
        """Show the current conversation and its last messages."""
        address = self._address
        came = self._came
        transcript = await self._bot.transcript(address, most=conversations.SHOWN)
        messages = conversations.list_before(came, transcript)
        await self._screen.know_background()
        if address != self._address:
            return  # switched to another one meanwhile
        self._turns.has_asked = self._turns.has_asked or bool(messages)
        if messages or address != ADDRESS:
            self._scroll.replay(conversations.describe_visit(address.chat, messages), messages)
            self._turns.draw()

    async def _ask(self, command: str, what: str) -> Any:
        """Return a part of a command's data; None if it has none."""
        reply = await self._bot.command(self._address, command)
        return (reply.data or {}).get(what)


def _is_command(text: str) -> bool:
    """Return whether a text is a command, for display only: the bot decides."""
    return (text.startswith("/") and not text.startswith("//")) or _as_command(text) != text


def _as_command(text: str) -> str:
    """Return "!ls" as the command that it abbreviates; any other text unchanged."""
    return f"/shell {text[1:].strip()}" if text.startswith("!") and text[1:].strip() else text
