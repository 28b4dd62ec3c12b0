"""A person at a terminal: the whole channel with keyboard and screen, and a scripted bot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from channels.base import Activity, TranscriptMessage
from channels.terminal.terminal import Terminal
from tests.channels.glass import Glass
from tests.fakes.fake_bot import FakeBot, Script
from tests.waiting import PATIENCE


@dataclass
class TerminalUser:
    """A person at a terminal, with the bot that answers."""

    glass: Glass
    keyboard: PipeInput
    bot: FakeBot
    terminal: Terminal
    talk: asyncio.Task[None]

    def types(self, keys: str) -> None:
        self.keyboard.send_text(keys)

    async def sees(self, text: str) -> None:
        await self.glass.shows(text)

    async def leaves(self) -> None:
        self.types("\x04")
        async with asyncio.timeout(PATIENCE):
            await self.talk


@asynccontextmanager
async def at_terminal(
    folder: Path,
    script: Script,
    *,
    columns: int = 80,
    finals: dict[str, str] | None = None,
    said: Sequence[TranscriptMessage] = (),
    chat: str = "main",
) -> AsyncIterator[TerminalUser]:
    glass = Glass(columns)
    output = Vt100_Output(
        glass, lambda: Size(rows=glass.height, columns=glass.columns), term="xterm"
    )
    with create_pipe_input() as keyboard, create_app_session(keyboard, output):
        terminal = Terminal(folder / "history", "Hello there.", chat)
        bot = FakeBot(script, finals=finals)
        bot.said = [*said]
        talk = asyncio.create_task(bot.serve(terminal))
        try:
            await glass.shows("Hello there.")
            yield TerminalUser(glass, keyboard, bot, terminal, talk)
        finally:
            talk.cancel()
            await asyncio.wait([talk])


def says(*activities: Activity | asyncio.Event) -> Script:
    return lambda text: activities


def silent(text: str) -> Sequence[Activity]:
    return ()
