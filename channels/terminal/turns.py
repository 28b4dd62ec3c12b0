"""The running turns of a conversation: streamed text, running tools, waiting questions, and the
line at the bottom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from time import monotonic
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace
from rich.cells import cell_len

from channels.base import (
    Activity,
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
from channels.language import _, explain
from channels.message import Outbound
from channels.terminal import completion, conversations
from channels.terminal.display import StreamedAnswer, bar_style, bar_text, one_line
from channels.terminal.dumb_screen import DumbScreen
from channels.terminal.screen import Screen
from channels.terminal.scroll import LivePane, Scroll


class ShownReasoning:
    """The reasoning of the running turn that is not on the screen permanently: shown above the
    answer while a person wants it."""

    def __init__(self, scroll: Scroll) -> None:
        self._scroll = scroll
        self._pieces: list[str] = []
        self._is_over = False
        self.is_shown = False

    def toggle(self) -> str:
        """Show or hide it; return a message about the result."""
        self.is_shown = not self.is_shown
        if not self.is_shown:
            return _("Reasoning is hidden.")
        if self._is_over:
            self.flush()
        return _("Reasoning is shown · Ctrl-O hides it")

    def add(self, text: str) -> None:
        if self._is_over:
            self.drop()
        self._pieces.append(text)

    def flush(self) -> None:
        """Write it above the following output, which is not part of it."""
        self._is_over = True
        if self.is_shown and self._pieces:
            self._scroll.reasoning("".join(self._pieces))
            self._pieces = []

    def drop(self) -> None:
        """Discard it: another one begins."""
        self._pieces, self._is_over = [], False

    @property
    def is_hidden(self) -> bool:
        """Return whether there is reasoning that is not shown."""
        return bool(self._pieces) and not self.is_shown

    @property
    def tail(self) -> str:
        """The part that is shown while it grows."""
        return "" if self._is_over or not self.is_shown else "".join(self._pieces)


_ROOM_FOR_NAMES, _LONGEST_NAME = 60, 20  # columns
_FRAME = 0.1  # seconds between two frames of an animation
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
# The seconds that a reply waits for the end of its turn to be shown, so that it follows the
# streamed text.
_PATIENCE = 1.0


class Exchange(Struct):
    """A message of the person until it is answered. `question` is "" once it is on the screen."""

    question: str = ""
    answer: StreamedAnswer = field(default_factory=StreamedAnswer)
    tools: list[ToolStarted] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)


class DisplayedTurns:
    """The turns on the screen. `start` runs background work."""

    def __init__(
        self,
        screen: Screen | DumbScreen,
        scroll: Scroll,
        start: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._screen, self._scroll, self._start = screen, scroll, start
        self.exchanges: dict[str, Exchange] = {}
        self.address = conversations.address_of(conversations.MAIN)
        self.current: Exchange | None = None
        self.usage: ContextUsage | None = None
        self.has_asked = False
        self.reasoning = ShownReasoning(scroll)

    @property
    def is_busy(self) -> bool:
        return any(not exchange.over.is_set() for exchange in self.exchanges.values())

    def open(self, reply_to: str, question: str = "") -> Exchange:
        """Return the exchange of this message; create it if there is none."""
        if not self.is_busy:
            self._start(self._animate())
        return self.exchanges.setdefault(reply_to, Exchange(question))

    def echo(self, exchange: Exchange) -> None:
        if exchange.question:
            self._scroll.question(exchange.question)
            exchange.question = ""

    def drop(self, reply_to: str) -> None:
        """Remove a message that was not sent after all."""
        self.exchanges.pop(reply_to).over.set()

    def write_rest(self) -> None:
        """Write the text of the running answer so far."""
        if self.current:
            self._scroll.answer(self.current.answer.take_all())

    def end(self) -> None:
        """Stop waiting for all of them."""
        for exchange in self.exchanges.values():
            exchange.over.set()

    def switch(self) -> None:
        """Leave the conversation; its work continues, and its answer arrives nevertheless."""
        self.write_rest()
        for exchange in self.exchanges.values():
            self.echo(exchange)
        self.end()
        self.exchanges.clear()
        self.reasoning.drop()
        self.current, self.usage, self.has_asked = None, None, False

    async def follow(self, activities: AsyncIterator[Activity]) -> None:
        async for activity in activities:
            self._handle_activity(activity)

    def _handle_activity(self, activity: Activity) -> None:
        match activity:
            case TurnStarted() if activity.address not in (None, self.address):
                self.current = None  # another chat shares the conversation, and gets the answer
            case TurnStarted(reply_to):
                self._begin(reply_to)
            case Done(reply_to):
                self._end(reply_to)
            case ContextChanged(usage):
                self.usage = usage
            case Notice(text):
                self._scroll.note(explain(text))
            case _ if self.current:
                self._show_step(self.current, activity)
        if not isinstance(activity, Delta | Thought):  # words wait for the next frame
            self.draw()

    def _show_step(self, exchange: Exchange, activity: Activity) -> None:
        match activity:
            case Thought(text):
                self.reasoning.add(text)
            case Delta(text):
                self.reasoning.flush()
                exchange.answer.add(text)
            case StepRestarted():
                self.reasoning.drop()
                self._discard(exchange)
            case ToolStarted():
                self.reasoning.flush()
                self._scroll.answer(exchange.answer.take_all())
                exchange.answer = StreamedAnswer()
                exchange.tools.append(activity)
            case ToolEnded(name, is_error):
                self._end_tool(exchange, name, "failed" if is_error else "ok")

    def _begin(self, reply_to: str) -> None:
        """Begin a turn: the previous one is complete, even if its reply has not arrived yet."""
        if self.current:
            self._scroll.answer(self.current.answer.take_all())
        self.reasoning.drop()
        self.current = self.open(reply_to)
        self.echo(self.current)

    def _end(self, reply_to: str) -> None:
        if exchange := self.exchanges.get(reply_to):
            for tool in list(exchange.tools):
                self._end_tool(exchange, tool.name, "stopped")
            if exchange is self.current:
                self.reasoning.flush()
            exchange.over.set()

    def _end_tool(self, exchange: Exchange, name: str, outcome: str) -> None:
        for tool in exchange.tools:
            if tool.name == name:
                exchange.tools.remove(tool)
                self._scroll.tool(tool, outcome)
                return

    def _discard(self, exchange: Exchange) -> None:
        if exchange.answer.is_begun:
            self._scroll.note(_("The model is being asked again; ignore the answer above."))
        exchange.answer = StreamedAnswer()

    def print_rest(self, outbound: Outbound) -> None:
        """Print the parts of a reply that are not on the screen yet."""
        exchange = self.exchanges.pop(outbound.reply_to, None) or Exchange()
        exchange.over.set()
        self.echo(exchange)
        if self.current is exchange:
            self.current = None
            self.reasoning.drop()
        self.draw()
        if outbound.is_resent:
            self._scroll.note(_("(sent again after a restart)"))
        if outbound.turn is None:
            self._scroll.answer(exchange.answer.take_all())
            self._scroll.command_reply(outbound.reply)
            if len((outbound.reply.data or {}).get("commands", ())) > 1:  # the list of all commands
                self._scroll.note(_(completion.HINT))
        else:
            self._scroll.answer(self._rest(exchange, outbound.reply.text))
            self.has_asked = True
        self._scroll.next_steps(outbound.reply)
        if outbound.reply.form and isinstance(self._screen, Screen):
            self._screen.line.fill(outbound.reply.form)

    def _rest(self, exchange: Exchange, final: str) -> str:
        rest = exchange.answer.rest_of(final)
        if rest is None:
            self._scroll.note(_("The final answer:"))
        return final if rest is None else rest

    async def seen(self, outbound: Outbound) -> None:
        """Wait briefly for the end of the turn of a reply."""
        exchange = self.exchanges.get(outbound.reply_to)
        if exchange and outbound.turn:
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await exchange.over.wait()

    async def _animate(self) -> None:
        while self.is_busy:
            self.draw()
            await asyncio.sleep(_FRAME)

    def draw(self) -> None:
        """Write finished blocks permanently, and redraw the rest."""
        current = self.current or Exchange()
        self._scroll.answer(current.answer.take())
        questions = [e.question for e in self.exchanges.values() if e.question]
        below = LivePane(current.answer.tail.strip("\n"), current.tools, questions)
        self._scroll.show_transient(replace(below, thoughts=self.reasoning.tail))

    def _format_activity(self) -> str:
        if not self.is_busy:
            return ""
        frame = _SPINNER[int(monotonic() / _FRAME) % len(_SPINNER)]
        has_words = self.current and (self.current.answer.is_begun or self.current.answer.tail)
        doing = _("answering… · Ctrl-C stops") if has_words else _("thinking… · Ctrl-C stops")
        if self.current and self.current.tools:  # it may also wait for a person's approval
            tool = one_line(self.current.tools[-1].name)[:_LONGEST_NAME]
            doing = _("waiting for {tool}… · Ctrl-C stops", tool=tool)
        elif self.reasoning.is_hidden and not has_words:
            doing = _("thinking… · Ctrl-O shows it · Ctrl-C stops")
        return f"{frame} {doing}"

    def bar(self, width: int, chat: str) -> tuple[str, str]:
        """Return the line at the bottom, for the conversation of this name."""
        doing = self._format_activity()[:width]
        if self.usage is None:
            return "class:bar", doing
        is_elsewhere = chat != conversations.MAIN and width >= _ROOM_FOR_NAMES
        name = one_line(chat)[:_LONGEST_NAME] if is_elsewhere else ""
        taken = sum(cell_len(part) + 3 for part in (doing, name) if part)
        context = bar_text(self.usage, width - taken)
        return bar_style(self.usage), " · ".join(filter(None, (doing, name, context)))
