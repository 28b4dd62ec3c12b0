"""Tests of a person's changes to the context on every channel with buttons: the terminal, where
they are commands named below a reply, Telegram, and the page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
from playwright.async_api import Browser, expect
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from bot.assembly import assemble
from bot.received import key_of
from bot.settings import load_layers
from channels.message import Address
from channels.terminal.terminal import ADDRESS, Terminal
from tests.channels.glass import Glass
from tests.fakes.openai_server import Answer, OpenAIServer, Received, Say
from tests.waiting import PATIENCE
from tests.web.browser import Tab, browsing, needs_chromium
from tests.web.site import serving
from tests.whole.distilling import write
from tests.whole.telegram_testbot import TelegramTestBot, at_telegram

LONG = "and so on " * 60
TELEGRAM, PAGE = Address("telegram", "42", user="42"), Address("web", "main")
_CLEAR = "\x15\x7f" * 20  # a line each
WIDE = 400
"""Columns of a terminal in which no sentence is wrapped."""


def model(request: Received) -> Answer:
    """A model that repeats the question, summarises briefly, and keeps one line in the memory."""
    messages = request.body["messages"]
    if "long-term memory of a chat" in str(messages[0]["content"]):
        new = {"do": "add", "text": "Ann lives in Porto.", "from": ["S1"], "important": False}
        return Say(json.dumps({"operations": [new]}))
    if request.is_summary:
        return Say("They spoke of Lisbon.")
    return Say(f"re: {str(messages[-1]['content'])[:9].strip()}")


Being = Callable[..., AbstractAsyncContextManager["Place"]]


class Place(Protocol):
    """A channel as a person sees it. Waits end when new words appear."""

    address: Address

    async def says(self, line: str, words: str) -> None: ...

    async def presses(self, label: str, command: str, words: str) -> None:
        """Press a button below the newest reply that has it; its command begins like this."""

    async def fills(self, text: str, words: str) -> None:
        """Send the text that was asked for."""


@dataclass
class AtTerminal:
    glass: Glass
    keyboard: PipeInput
    address: Address = ADDRESS

    async def _types(self, keys: str, words: str) -> None:
        before = self.glass.text.count(words)
        self.keyboard.send_text(f"{keys}\r")
        await self.glass.until(lambda: self.glass.text.count(words) > before)

    async def says(self, line: str, words: str) -> None:
        await self._types(line, words)

    async def presses(self, label: str, command: str, words: str) -> None:
        # in the text itself, or offered below it
        await self.glass.until(lambda: command in self.glass.text)
        await self._types(command, words)

    async def fills(self, text: str, words: str) -> None:
        await self.glass.shows("Enter saves")
        await self._types(f"{_CLEAR}{text}", words)


@dataclass
class AtTelegram:
    bot: TelegramTestBot
    address: Address = TELEGRAM

    def _count(self, words: str) -> int:
        return sum(words in text for text in self.bot.telegram.texts)

    async def _sees_more(self, words: str, before: int) -> None:
        await self.bot.telegram.until(lambda: self._count(words) > before)
        await self.bot.is_idle()

    async def says(self, line: str, words: str) -> None:
        before = self._count(words)
        self.bot.ann.says(line)
        await self._sees_more(words, before)

    async def presses(self, label: str, command: str, words: str) -> None:
        before = self._count(words)
        sent = next(
            one
            for one in reversed(self.bot.telegram.messages.values())
            if one.buttons.get(label, "").startswith(command)
        )
        self.bot.ann.presses(sent, label)
        await self._sees_more(words, before)

    async def fills(self, text: str, words: str) -> None:
        await self.says(text, words)


@dataclass
class OnPage:
    tab: Tab
    url: str
    address: Address = PAGE

    async def _until_more(self, words: str, before: int) -> None:
        shown = self.tab.page.locator(f"#log :text({json.dumps(words, ensure_ascii=False)})")
        await expect(shown.nth(before)).to_be_visible()

    async def _count(self, words: str) -> int:
        return await self.tab.page.locator(
            f"#log :text({json.dumps(words, ensure_ascii=False)})"
        ).count()

    async def says(self, line: str, words: str) -> None:
        before = await self._count(words)
        await self.tab.writes(line)
        await self._until_more(words, before)

    async def presses(self, label: str, command: str, words: str) -> None:
        before = await self._count(words)
        button = self.tab.page.locator(".card").get_by_role("button", name=label, exact=True)
        await button.last.click()
        await self._until_more(words, before)

    async def fills(self, text: str, words: str) -> None:
        before = await self._count(words)
        await self.tab.page.get_by_label("Text for ").last.fill(text)
        await self.tab.presses("Save")
        await self._until_more(words, before)


@asynccontextmanager
async def at_terminal(folder: Path, settings: Mapping[str, Any]) -> AsyncIterator[Place]:
    glass = Glass(WIDE)
    output = Vt100_Output(glass, lambda: Size(glass.height, glass.columns), term="xterm")
    config = folder / "config.json"
    config.write_text(json.dumps({"model": "gpt-4o-mini", **settings}))
    with create_pipe_input() as keyboard, create_app_session(keyboard, output):
        async with OpenAIServer(model) as endpoint:
            environ = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "test-key"}
            terminal = Terminal(folder / "history", "Hello there.")
            app = await assemble(load_layers(config, environ), folder / "data", [terminal])
            running = asyncio.create_task(app.run())
            try:
                await glass.shows("Hello there.")
                yield AtTerminal(glass, keyboard)
            finally:
                keyboard.send_text("\x04")
                await asyncio.wait_for(running, PATIENCE)


@asynccontextmanager
async def in_telegram(folder: Path, settings: Mapping[str, Any]) -> AsyncIterator[Place]:
    async with at_telegram(folder, model, settings) as bot:
        yield AtTelegram(bot)


@asynccontextmanager
async def on_page(
    folder: Path, settings: Mapping[str, Any], browser: Browser
) -> AsyncIterator[OnPage]:
    async with serving(folder, model, settings) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        yield OnPage(tab, site.url)


AT = {"terminal": at_terminal, "telegram": in_telegram}


@pytest.fixture(params=list(AT))
def being(request: pytest.FixtureRequest) -> Being:
    """Return the function that opens a channel in this process."""
    return AT[request.param]


async def talk(place: Place, turns: int = 4) -> None:
    for number in range(1, turns + 1):
        await place.says(f"{number}. word {LONG}", f"re: {number}. word")


async def steer(place: Place) -> None:
    await talk(place)
    await place.says("/context compact t1-t2", "Compacted t1 to t2")
    await place.says("/context summaries", "at its position")
    await place.presses("Expand", "/context expand s1", "Expanded s1: t1 to t2 are back")
    await place.presses("Undo", "/context undo", "Undone: the expansion of a summary")
    await place.says("/context undo", "Undone: the compaction")
    await place.says("/context drop t1", "Dropped: t1")
    await place.presses("Undo", "/context undo", "Undone: the drop")
    await place.presses("Redo", "/context redo", "Redone: the drop")
    await place.says("/context pin t2", "Pinned: t2")
    await place.presses("Unpin", "/context unpin t2", "Unpinned: t2")
    await place.says("/context free t2-t3", "t2 to t3 were removed from the context")
    await place.presses("Undo", "/context undo", "t2 to t3 are back in context")
    await place.says("/context history", "undone")


async def edit_a_summary(place: Place) -> None:
    await talk(place)
    await place.says("/context compact", "They spoke of Lisbon.")
    await place.says("/context summary", "s1 replaces t1 to t3")
    await place.presses("Edit", "/context summary edit s1", "Write the new text")
    await place.fills("The hotel is the Yeatman.", "Summary s2 is used")
    await place.says("/context summary", "The hotel is the Yeatman.")
    await place.says("/context undo", "Undone: the edit of the summary")
    await place.says("/context keep 4711", "Summary s3 is used")
    await place.presses("Undo", "/context undo", "Undone: the edit of the summary")


async def branch(place: Place) -> None:
    await talk(place, 2)
    await place.says("/fork t1 Aside", "You are in branch 2, “Aside” now. It shares t1")
    await place.presses("Go back", "/branches 1", "You are in branch 1, “1. word")
    await place.says("/branches", "You are in branch 1, the bold one.")
    await place.presses("2: Aside", "/branches 2", "You are in branch 2, “Aside” now; its")
    await place.presses("All branches", "/branches", "You are in branch 2, the bold one.")
    await place.says("/btw why?", "re: why?")
    await place.says("/btw", "re: why?")
    await place.says("/context turns", "t1")


async def look_at_requests(place: Place) -> None:
    await talk(place, 2)
    await place.says("/context request", "Request r2, sent ")
    await place.presses("Changes since r1", "/context diff r1 r2", "r1 is the beginning of r2")
    await place.presses("Previous: r1", "/context request r1", "Request r1, sent ")
    await place.says("/context diff", "r1 is the beginning of r2")
    await place.says("/context advise", "there is nothing to change")


async def test_what_is_remembered_is_written_distilled_approved_and_taken_back(
    tmp_path: Path, being: Being
) -> None:
    async with being(tmp_path, {}) as place:
        await place.says("/remember Ann sings.", "Remembered: Ann sings.")
        await place.presses("Show all", "/memory list", "Long-term memory")
        await place.says("/memory why 1", "Written ")
        await place.says("/memory edit", "This is the whole file")
        await place.fills("- Ann dances.", "Accepted. 1 line added and 1 line removed.")
        await place.presses("Undo", "/memory undo", "v2 is undone.")
        await place.presses("Bring back", "/memory redo", "v2 is in force again.")
        write(tmp_path, "Ann lives in Porto.", job=1, key=key_of(place.address))
        await place.says("/memory distill", "It takes effect once somebody here")
        await place.says("/memory diff reject", "Rejected; nothing of it is remembered.")
        write(tmp_path, "Ann has moved to Porto.", job=2, key=key_of(place.address))
        await place.says("/memory distill", "It takes effect once somebody here")
        await place.says("/memory diff approve", "It is in force now. 1 line added.")
        await place.says("/memory history", "in force")


CUTS = {"agent_max_context_turns": 3, "context": {"compaction_approval": "ask"}}


async def decline_a_cut(place: Place) -> None:
    await talk(place, 3)
    await place.says(f"4. word {LONG}", "Compact the context?")
    await place.presses("Decline", "/context decline s1", "Nothing is compacted.")


async def test_a_cut_is_asked_about_and_approved_or_not(tmp_path: Path, being: Being) -> None:
    async with being(tmp_path, CUTS) as place:
        await decline_a_cut(place)
        await place.says("/context approve s1", "No compaction is waiting")  # the buttons are gone


@pytest.mark.parametrize("steps", [steer, edit_a_summary, branch])
async def test_what_is_done_at_the_terminal_is_done_by_buttons_too(
    tmp_path: Path, being: Being, steps: Callable[[Place], Awaitable[None]]
) -> None:
    async with being(tmp_path, {}) as place:
        await steps(place)


@needs_chromium
@pytest.mark.asyncio(loop_scope="session")
async def test_it_is_done_on_the_page_as_well(tmp_path: Path, browser: Browser) -> None:
    async with on_page(tmp_path, CUTS, browser) as place:
        await decline_a_cut(place)
        await place.says("/context approve s1", "No compaction is waiting")  # the buttons are gone
        await place.says("/config agent_max_context_turns 20", "20")
        for steps in (steer, edit_a_summary, look_at_requests):
            await place.tab.opens(place.url, steps.__name__)
            await place.tab.sees("#panel :text-is('None yet. A turn is a message and its answer.')")
            await steps(place)
