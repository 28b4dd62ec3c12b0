"""The time for which hostile answers block the event loop.

`python -m benchmarks.loop_held`: a model on this machine answers with each text of
`tests/hostile/texts.py`; the bot sends it to a local fake Telegram and renders it as HTML for the
page. A second task only sleeps, and measures how late it wakes up. The aim is at most 100 ms.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from channels.web.streams import render
from tests.fakes.openai_server import Answer, Received, Say
from tests.hostile.texts import TEXTS
from tests.whole.telegram_testbot import TelegramTestBot, at_telegram

AIM = 0.1
"""Seconds for which the loop may be blocked."""
SIZES = (8_000, 40_000)
"""Characters: a text that fits into one or two messages, and one that needs the maximum number."""
_TICK = 0.002  # seconds between two readings of the clock
_PATIENCE = 60.0  # seconds for a text; a longer block counts as endless
_WORST = 10  # texts of a table


@dataclass(frozen=True, slots=True)
class Held:
    """The longest block of the loop by a text of `size` characters, in seconds."""

    place: str
    text: str
    size: int
    seconds: float


class Watch:
    """A task that measures its longest delay in waking up since the last query."""

    def __init__(self) -> None:
        self._worst = 0.0

    async def run(self) -> None:
        while True:
            begin = time.perf_counter()
            await asyncio.sleep(_TICK)
            self._worst = max(self._worst, time.perf_counter() - begin - _TICK)

    async def worst(self) -> float:
        await asyncio.sleep(2 * _TICK)  # so that a current block is seen, too
        worst, self._worst = self._worst, 0.0
        return worst


async def measured(
    texts: Collection[str] = tuple(TEXTS), sizes: Sequence[int] = SIZES
) -> list[Held]:
    """Measure each of these texts, in each size."""
    asked = [(name, size) for size in sizes for name in texts]
    answers = {_question(name, size): f"Look:\n\n{TEXTS[name](size)}" for name, size in asked}
    found: list[Held] = []
    with tempfile.TemporaryDirectory() as folder:
        async with at_telegram(Path(folder), _model(answers)) as bot, watched() as watch:
            await _answered(bot, "begin")
            gc.freeze()  # as main.py does
            for name, size in asked:
                await watch.worst()
                await _answered(bot, _question(name, size))
                found.append(Held("Telegram", name, size, await watch.worst()))
                await render(TEXTS[name](size))
                found.append(Held("the page", name, size, await watch.worst()))
    return found


def _question(name: str, size: int) -> str:
    return f"{name}: {size}"


def _model(answers: Mapping[str, str]) -> Callable[[Received], Answer]:
    """Return a model that answers a question with its text, and anything else briefly."""

    def model(request: Received) -> Answer:
        return Say(answers.get(request.body["messages"][-1]["content"], "Fine."))

    return model


async def _answered(bot: TelegramTestBot, text: str) -> None:
    async with asyncio.timeout(_PATIENCE):
        before = len(bot.model.requests)
        bot.ann.says(text)
        await bot.telegram.until(lambda: len(bot.model.requests) > before)
        await bot.is_idle()


@asynccontextmanager
async def watched() -> AsyncIterator[Watch]:
    watch = Watch()
    running = asyncio.create_task(watch.run())
    try:
        yield watch
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def table(found: Iterable[Held]) -> str:
    """Return the worst of them, as Markdown."""
    worst = sorted(found, key=lambda held: -held.seconds)
    rows = [
        f"| {held.place} | {held.text} | {held.size:,} | {held.seconds * 1_000:.0f} ms |"
        for held in worst[:_WORST]
    ]
    over = sum(held.seconds > AIM for held in worst)
    head = ["| where | text | characters | held |", "|---|---|---:|---:|"]
    return "\n".join([*head, *rows, "", f"{over} of {len(worst)} over {AIM * 1_000:.0f} ms"])


def main() -> int:
    found = asyncio.run(measured())
    print(table(found))
    return int(any(held.seconds > AIM for held in found))


if __name__ == "__main__":
    sys.exit(main())
