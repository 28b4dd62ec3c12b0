"""The bot as a person starts it: `python main.py` on a pseudo-terminal, with keys and a screen.

async with sitting(tmp_path, endpoint) as person:
    person.types("Hi\\r")
    await person.sees("Hello!")
"""

from __future__ import annotations

import asyncio
import codecs
import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from tests.channels.glass import Glass
from tests.waiting import PATIENCE
from tests.whole.forks import fork
from tests.whole.process import MAIN, Endpoint, Process

_OURS = re.compile("OPENAI_|PARLEY_|KITTY|WEZTERM|GHOSTTY|KONSOLE|NO_COLOR|TMUX|STY|EDITOR|VISUAL")


class Sitter:
    """A person at a terminal in which a process runs."""

    def __init__(self, process: Process, keyboard: int, glass: Glass) -> None:
        self.process, self.glass, self.keyboard = process, glass, keyboard

    def types(self, keys: str) -> None:
        os.write(self.keyboard, keys.encode())

    async def sees(self, text: str | re.Pattern[str], times: int = 1) -> None:
        """Wait until a text, or a match of a pattern, is on the screen this many times."""
        found = re.compile(re.escape(text)) if isinstance(text, str) else text
        try:
            await self.glass.until(lambda: len(found.findall(self.glass.text)) >= times)
        except TimeoutError:
            raise AssertionError(
                f"{text!r} did not come; there stands\n{self.glass.text}"
            ) from None

    async def ended(self) -> int:
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()

    async def leaves(self) -> int:
        """Press Ctrl-D; return the exit code."""
        self.types("\x04")
        return await self.ended()


@asynccontextmanager
async def sitting(
    folder: Path,
    endpoint: Endpoint | None = None,
    *,
    arguments: tuple[str, ...] = (),
    environ: Mapping[str, str] | None = None,
    columns: int = 80,
    afresh: bool = False,
) -> AsyncIterator[Sitter]:
    """Run a bot at a terminal, started in `folder`, with its data there; kill it if it still runs
    at the end. Without an endpoint there is no key. It is forked (`forks`) unless it is to import
    everything itself, `afresh`."""
    ours, theirs = pty.openpty()
    glass = Glass(columns)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", glass.height, columns, 0, 0))
    surroundings = {name: value for name, value in os.environ.items() if not _OURS.match(name)}
    if endpoint:
        surroundings |= {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "test-key"}
    surroundings |= {"TERM": "xterm-256color", **(environ or {})}
    process: Process
    if afresh:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(MAIN), *arguments),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=surroundings,
            preexec_fn=partial(_own_terminal, theirs),
        )
    else:
        streams = (theirs, theirs, theirs)
        process = await fork(
            arguments, surroundings, streams=streams, folder=folder, has_terminal=True
        )
    os.close(theirs)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            data = os.read(ours, 65536)
        except OSError:
            data = b""
        if not data:
            loop.remove_reader(ours)
        glass.write(decoder.decode(data))

    loop.add_reader(ours, read)
    try:
        yield Sitter(process, ours, glass)
    finally:
        loop.remove_reader(ours)
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        os.close(ours)


def _own_terminal(terminal: int) -> None:
    """Give the child process a terminal of its own, so that Ctrl-C sends a signal to it."""
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
