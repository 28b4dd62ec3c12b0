"""The terminal as a channel: what the bot does becomes what the screen shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

from msgspec import Struct, field
from msgspec.structs import replace
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.utils import is_dumb_terminal
from rich.cells import cell_len

from channels.base import (
    Activity,
    Bot,
    ContextChanged,
    ContextUsage,
    Delta,
    Done,
    Notice,
    StepRestarted,
    Thought,
    ToolEnded,
    ToolStarted,
    TurnStarted,
)
from channels.language import ENGLISH, _, explain, speaking
from channels.local_files import LocalFileError, read_attachment
from channels.message import Attachment, Inbound, Outbound, Reply
from channels.terminal import conversations, keys, mentions
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
from channels.terminal.display import StreamedAnswer, bar_style, bar_text, one_line
from channels.terminal.dumb_screen import DumbScreen
from channels.terminal.early import LEAVING, EarlyInput
from channels.terminal.picker import Picker, PickerEntry
from channels.terminal.screen import Screen
from channels.terminal.scroll import Scroll

ADDRESS = conversations.address_of(conversations.MAIN)
"""The conversation of whoever names none."""
_ROOM_FOR_NAMES, _LONGEST_NAME = 60, 20  # columns
_AUTO = "auto"  # the name of a model before it is known which one it is
_FRAME = 0.1  # seconds between two pictures of what moves
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
# Seconds that a reply waits for the end of its turn to be seen, so that it follows what streamed.
_PATIENCE = 1.0


class _Exchange(Struct):
    """A message of the person's until it is answered. `question` is "" once it is on the screen."""

    question: str = ""
    answer: StreamedAnswer = field(default_factory=StreamedAnswer)
    tools: list[ToolStarted] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Terminal:
    """The channel of the person at this machine; `history` keeps what they typed."""

    name = conversations.CHANNEL

    def __init__(
        self,
        history: Path,
        greeting: str = "",
        chat: str | None = "main",
        early: EarlyInput | None = None,
    ) -> None:
        """`chat` is the conversation to begin in; None: the one where something was said last.
        `early` is open already; it goes on here."""
        self._history, self._greeting, self._early = history, greeting, early
        self._chat = chat
        self._language: Callable[[], str] = lambda: ENGLISH
        self._address = conversations.address_of(chat or conversations.MAIN)
        self._watching = ExitStack()
        self._follower: asyncio.Task[None] | None = None
        self._lines = early.lines if early else Lines(history)
        self._screen = early.screen if early else self._make_screen()
        self._has_screen = asyncio.Event()
        if not early:
            self._has_screen.set()
        self.has_fields = isinstance(self._screen, Screen)
        self._scroll = Scroll(self._screen)
        self._exchanges: dict[str, _Exchange] = {}
        self._current: _Exchange | None = None
        self._usage: ContextUsage | None = None
        self._vocabulary: Vocabulary | None = None
        self._has_asked = False

    def _make_screen(self) -> Screen | DumbScreen:
        return (DumbScreen if is_dumb_terminal() else Screen)(self._lines, self)

    async def listen(self, bot: Bot) -> None:
        self._bot = bot
        if self._early:
            await asyncio.to_thread(self._early.close)
            self._early.let_signals_be()
            self._early.screen.listener = self
            self._has_screen.set()
        self._language = lambda: bot.language_of(self._address)
        self._history.touch(mode=0o600)
        with patch_stdout(), self._watching, speaking(self._language):
            async with asyncio.TaskGroup() as self._tasks:
                if self._greeting:
                    self._scroll.note("\n".join(map(explain, self._greeting.split("\n"))))
                self._attend(self._chat or await conversations.newest(bot))
                if self._chat != conversations.MAIN:
                    self._tasks.create_task(self._retell())
                await self._sit()
                await self._part()
                if self._follower:
                    self._follower.cancel()

    async def _sit(self) -> None:
        """Until the person leaves, who may have done so while nobody listened yet."""
        early = self._early
        for text in early.sent if early else ():
            self.on_text(text)
        try:
            if not (early and early.has_left):
                await self._screen.run()
        finally:
            if early:
                early.restore()

    def _attend(self, chat: str) -> None:
        """Follow what happens in this conversation, and in no other any more."""
        if self._follower:
            self._follower.cancel()
        self._watching.close()
        self._address = conversations.address_of(chat)
        activities = self._watching.enter_context(self._bot.watch(self._address))
        self._follower = self._tasks.create_task(self._follow(activities))
        self._tasks.create_task(self._look())

    async def send(self, outbound: Outbound) -> None:
        await self._has_screen.wait()  # what the last process had not sent comes before we listen
        with speaking(self._language):
            await self._send(outbound)

    async def _send(self, outbound: Outbound) -> None:
        exchange = self._exchanges.get(outbound.reply_to)
        if outbound.address != self._address:
            name = one_line(outbound.address.chat)
            self._scroll.note(_("From the conversation “{name}”:", name=name))
        if exchange and outbound.turn:
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await exchange.over.wait()
        self._settle(outbound)

    def forget(self, said: Sequence[str] | None) -> None:
        self._lines.forget(None if said is None else {text.strip() for text in said})

    # What the person does: screen.Listener.

    def on_text(self, text: str) -> None:
        self._vocabulary = None
        said = text.strip()
        command, _space, rest = said.partition(" ")
        if said in LEAVING:
            self._screen.leave()
        elif command == "/resume":
            self._tasks.create_task(self._resume(rest.strip()))
        elif said == "/help keys":
            self._scroll.question(text)
            self._scroll.command_reply(Reply(keys.table()))
        elif said:
            self._say(text)

    def _say(self, text: str) -> None:
        is_at_once = not self._is_busy or _is_command(text)
        identity = f"terminal-{uuid4().hex}"
        exchange = self._open(identity, text)
        if is_at_once:
            self._echo(exchange)
        if files := [] if _is_command(text) else mentions.find_mentions(text):
            self._tasks.create_task(self._submit_with(identity, text, files))
        else:
            inbound = Inbound(identity, self._address, _as_command(text))
            self._tasks.create_task(self._bot.submit(inbound))

    async def _submit_with(self, identity: str, text: str, files: Sequence[Path]) -> None:
        """Submit a message with files that it names."""
        address, attachments = self._address, list[Attachment]()
        try:
            for file in files:
                attachments.append(await asyncio.to_thread(read_attachment, file))
        except LocalFileError as error:
            self._exchanges.pop(identity).over.set()
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
        """Let the person change their last question; False where there is none to change now."""
        is_asked = self._has_asked and not self._is_busy
        if is_asked:
            self._tasks.create_task(self._change_last())
        return is_asked

    async def _change_last(self) -> None:
        reply = await self._bot.command(self._address, "/edit")
        if isinstance(self._screen, Screen):
            self._screen.fill_last_question(reply.form)

    def on_interrupt(self) -> bool:
        if is_busy := self._is_busy:
            self._tasks.create_task(self._stop())
        return is_busy

    def bar(self, width: int) -> tuple[str, str]:
        doing = self._format_activity()[:width]
        if self._usage is None:
            return "class:bar", doing
        is_elsewhere = self._address != ADDRESS and width >= _ROOM_FOR_NAMES
        name = one_line(self._address.chat)[:_LONGEST_NAME] if is_elsewhere else ""
        taken = sum(cell_len(part) + 3 for part in (doing, name) if part)
        context = bar_text(self._usage, width - taken)
        return bar_style(self._usage), " · ".join(filter(None, (doing, name, context)))

    async def choices(self, line: str) -> Iterable[Suggestion]:
        known = self._vocabulary
        if known is None:
            commands = await self._ask("/help", "commands")
            settings = await self._ask("/config", "settings")
            own = [{"name": name, "summary": summary} for name, summary in keys.COMMANDS]
            known = Vocabulary((*(commands or ()), *own), settings or (), {})
        if (kind := find_kind(line)) and kind not in known.lists:
            known = replace(known, lists={**known.lists, kind: await self._list(kind, known)})
        self._vocabulary = known
        return choices(line, known)

    async def _list(self, kind: str, known: Vocabulary) -> Sequence[Offer]:
        """List what there is of a kind now."""
        if kind == "conversations":
            found = await self._bot.sessions(conversations.CHANNEL)
            return [(one.chat, one.title) for one in found]
        command, what = SOURCES[kind]
        if not is_known(command, known):
            return ()
        return offers_in(kind, await self._ask(command, what) or ())

    # What the bot does.

    async def _follow(self, activities: AsyncIterator[Activity]) -> None:
        async for activity in activities:
            self._take(activity)

    def _take(self, activity: Activity) -> None:
        match activity:
            case TurnStarted() if activity.address not in (None, ADDRESS):
                self._current = None  # another chat shares the conversation, and reads the answer
            case TurnStarted(reply_to):
                self._begin(reply_to)
            case Done(reply_to):
                self._end(reply_to)
            case ContextChanged(usage):
                self._usage = usage
            case Notice(text):
                self._scroll.note(text)
            case _ if self._current:
                self._take_step(self._current, activity)
        if not isinstance(activity, Delta | Thought):  # words wait for the next frame
            self._draw()

    def _take_step(self, exchange: _Exchange, activity: Activity) -> None:
        match activity:
            case Delta(text):
                exchange.answer.add(text)
            case StepRestarted():
                self._void(exchange)
            case ToolStarted():
                self._scroll.answer(exchange.answer.take_all())
                exchange.answer = StreamedAnswer()
                exchange.tools.append(activity)
            case ToolEnded(name, is_error):
                self._end_tool(exchange, name, "failed" if is_error else "ok")

    def _begin(self, reply_to: str) -> None:
        """A turn starts: the last one has said all, even if its reply is still on its way."""
        if self._current:
            self._scroll.answer(self._current.answer.take_all())
        self._current = self._open(reply_to)
        self._echo(self._current)

    def _end(self, reply_to: str) -> None:
        if exchange := self._exchanges.get(reply_to):
            for tool in list(exchange.tools):
                self._end_tool(exchange, tool.name, "stopped")
            exchange.over.set()

    def _end_tool(self, exchange: _Exchange, name: str, outcome: str) -> None:
        for tool in exchange.tools:
            if tool.name == name:
                exchange.tools.remove(tool)
                self._scroll.tool(tool, outcome)
                return

    def _void(self, exchange: _Exchange) -> None:
        if exchange.answer.is_begun:
            self._scroll.note(_("The model is being asked again; ignore the answer above."))
        exchange.answer = StreamedAnswer()

    def _settle(self, outbound: Outbound) -> None:
        """Print what of a reply is not on the screen yet."""
        exchange = self._exchanges.pop(outbound.reply_to, None) or _Exchange()
        exchange.over.set()
        self._echo(exchange)
        if self._current is exchange:
            self._current = None
        self._draw()
        if outbound.is_resent:
            self._scroll.note(_("(sent again after a restart)"))
        if outbound.turn is None:
            self._scroll.answer(exchange.answer.take_all())
            self._scroll.command_reply(outbound.reply)
            if len((outbound.reply.data or {}).get("commands", ())) > 1:  # the list of all commands
                self._scroll.note(_(keys.HINT))
        else:
            self._scroll.answer(self._rest(exchange, outbound.reply.text))
            self._has_asked = True
        self._scroll.next_steps(outbound.reply)
        if outbound.reply.form and isinstance(self._screen, Screen):
            self._screen.fill(outbound.reply.form)

    def _rest(self, exchange: _Exchange, final: str) -> str:
        rest = exchange.answer.rest_of(final)
        if rest is None:
            self._scroll.note(_("The final answer:"))
        return final if rest is None else rest

    # What the bot is asked.

    async def _stop(self) -> None:
        reply = await self._bot.command(self._address, "/stop")
        if not self._current:  # else the turn's own reply says that it was stopped
            self._scroll.note(reply.text)

    async def _part(self) -> None:
        if self._is_busy:
            await self._bot.command(self._address, "/stop")
            if self._current:
                self._scroll.answer(self._current.answer.take_all())
            self._scroll.note(
                _("You quit, so the running answer was stopped; what was done so far is kept.")
            )
        for exchange in self._exchanges.values():
            exchange.over.set()

    async def _look(self) -> None:
        if usage := await self._ask("/context", "usage"):
            self._usage = ContextUsage(**usage)
            self._has_asked = self._has_asked or self._usage.turns > 0
            model = self._usage.model
            if model not in ("", _AUTO) and model not in self._greeting:
                self._greeting += model  # which is said once
                self._scroll.note(_("{model} answers.", model=model))
            self._draw()

    async def _resume(self, words: str) -> None:
        """Go to the conversation of this name, or let the person choose one."""
        names = {session.chat for session in await self._bot.sessions(conversations.CHANNEL)}
        if words in names or words == conversations.MAIN:
            self._switch(words)
        elif isinstance(self._screen, Screen):
            title = _("Conversations of this terminal")
            self._screen.pick(Picker(title, self._find_conversations, self._switch), words)
        elif name := conversations.clean_name(words):
            self._switch(name)
        else:
            found = await self._find_conversations("")
            lines = "\n".join(f"/resume {entry.value}: {entry.label}" for entry in found)
            self._scroll.note(lines or _("Nothing was said here yet; /resume NAME begins one."))

    async def _find_conversations(self, words: str) -> Sequence[PickerEntry]:
        return await conversations.find(self._bot, words, self._address.chat)

    def _switch(self, chat: str) -> None:
        """Go to another conversation; what runs in this one goes on, and its answer comes all the
        same."""
        if self._current:
            self._scroll.answer(self._current.answer.take_all())
        for exchange in self._exchanges.values():
            self._echo(exchange)
            exchange.over.set()
        self._exchanges.clear()
        self._current, self._usage, self._has_asked = None, None, False
        self._attend(chat)
        self._tasks.create_task(self._retell())

    async def _retell(self) -> None:
        """Show where one is, and what was said there last."""
        said = await self._bot.transcript(self._address, most=conversations.SHOWN)
        name = one_line(self._address.chat)
        nothing = "" if said else f" · {_('nothing was said here yet')}"
        self._scroll.note(f"── {name}{nothing} ──")
        for who, text in conversations.retell(said):
            if who == "person":
                self._scroll.question(text)
            elif who == "model":
                self._scroll.answer(text)
            else:
                self._scroll.note(f"⚙ {text}")
        self._has_asked = bool(said)
        self._draw()

    async def _ask(self, command: str, what: str) -> Any:
        """Return a part of a command's data; None if it has none."""
        reply = await self._bot.command(self._address, command)
        return (reply.data or {}).get(what)

    # What is shown.

    @property
    def _is_busy(self) -> bool:
        return any(not exchange.over.is_set() for exchange in self._exchanges.values())

    def _open(self, reply_to: str, question: str = "") -> _Exchange:
        if not self._is_busy:
            self._tasks.create_task(self._animate())
        return self._exchanges.setdefault(reply_to, _Exchange(question))

    def _echo(self, exchange: _Exchange) -> None:
        if exchange.question:
            self._scroll.question(exchange.question)
            exchange.question = ""

    async def _animate(self) -> None:
        while self._is_busy:
            self._draw()
            await asyncio.sleep(_FRAME)

    def _draw(self) -> None:
        """Blocks that are finished go up; the rest is drawn anew."""
        current = self._current or _Exchange()
        self._scroll.answer(current.answer.take())
        questions = [e.question for e in self._exchanges.values() if e.question]
        self._scroll.show_below(current.answer.tail.strip("\n"), current.tools, questions)

    def _format_activity(self) -> str:
        if not self._is_busy:
            return ""
        frame = _SPINNER[int(monotonic() / _FRAME) % len(_SPINNER)]
        has_words = self._current and (self._current.answer.is_begun or self._current.answer.tail)
        doing = _("answering… · Ctrl-C stops") if has_words else _("thinking… · Ctrl-C stops")
        return f"{frame} {doing}"


def _is_command(text: str) -> bool:
    """For the display only: what a command is, is the bot's to say."""
    return (text.startswith("/") and not text.startswith("//")) or _as_command(text) != text


def _as_command(text: str) -> str:
    """ "!ls" as the command that it is short for; any other text as it stands."""
    return f"/shell {text[1:].strip()}" if text.startswith("!") and text[1:].strip() else text
