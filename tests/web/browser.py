"""A real browser before the page: Debian's Chromium, driven by Playwright.

async with serving(tmp_path, script) as site, browsing(browser) as tab:
    await tab.opens(site.url)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, Error, Page, ViewportSize, expect

CHROMIUM = Path("/usr/bin/chromium")
LONGEST = 60_000  # milliseconds; the machine may be busy
expect.set_options(timeout=LONGEST)
DESK: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}

needs_chromium = pytest.mark.skipif(
    not CHROMIUM.exists(), reason="needs Chromium at /usr/bin/chromium: apt install chromium"
)


@dataclass
class Tab:
    """A page that is open. `faults` are what went wrong in it by its console, `hosts` those that it
    asked for anything. Where its bot stops, what it asks for just then is refused with a 503, which
    the console notes."""

    page: Page
    does_bot_stop: bool = False
    faults: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", self._heard)
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))

    def _heard(self, message: Any) -> None:
        if message.type != "error" or "ERR_" in message.text:  # not that it is offline
            return
        if not (self.does_bot_stop and "503" in message.text):
            self.faults.append(message.text)

    async def opens(self, url: str, session: str = "main") -> None:
        await self.page.goto(f"{url}/#{session}")
        await self.sees("#panel .headline")

    async def opens_hidden(self, url: str, session: str = "main") -> None:
        """The same, also where the panel is a drawer."""
        await self.page.goto(f"{url}/#{session}")
        await expect(self.page.locator("#panel .headline")).to_be_attached()

    async def begins_anew(self) -> None:
        """Load the page again, unless it is just doing that by itself."""
        try:
            await self.page.reload()
        except Error as error:
            if "ERR_ABORTED" not in error.message:
                raise

    async def writes(self, text: str) -> None:
        await self.page.fill("#text", text)
        await self.page.press("#text", "Enter")

    async def asks(self, text: str, answer: str) -> None:
        """Write, and wait until this answer is whole."""
        await self.writes(text)
        await self.sees(f"#log .turn[data-turn] .text:has-text('{answer}')")

    async def sees(self, selector: str) -> None:
        await expect(self.page.locator(selector).first).to_be_visible()

    async def presses(self, name: str, where: str = "body") -> None:
        """Press the button of this name."""
        await self.page.locator(where).get_by_role("button", name=name, exact=True).click()

    async def scrolls_to(self, box: str, selector: str, *, is_up: bool = False) -> None:
        """Scroll a box to its end, or up to its beginning, until something is there."""
        script = """([box, what, isUp]) => {
            const element = document.querySelector(box);
            element.scrollTop = isUp ? 0 : element.scrollHeight;
            return document.querySelector(what) !== null;
        }"""
        await self.page.wait_for_function(script, arg=[box, selector, is_up])

    async def chooses(self, what: str, title: str) -> None:
        """Choose something in the menu of the conversation of this title."""
        await self.page.locator(f"#list li[data-session]:has(.title:text-is('{title}'))").hover()
        await self.presses(f"More for {title}", "#list")
        await self.page.get_by_role("menuitem", name=what, exact=True).click()

    async def shows_state(self, turn: str, *states: str) -> None:
        """Wait until the panel says this of a turn."""
        row = self.page.locator(f".turns li:has(button:text-is('{turn}'))")
        await expect(row.locator(".badge")).to_have_text(list(states))


@asynccontextmanager
async def browsing(
    browser: Browser, does_bot_stop: bool = False, **options: Any
) -> AsyncIterator[Tab]:
    """A tab; nothing may have gone wrong in it when it is closed. The page's worker, which would
    load all of its files again, is only there where an option allows it."""
    options = {
        "viewport": DESK,
        "reduced_motion": "reduce",
        "locale": "en-GB",
        "service_workers": "block",
        **options,
    }
    context = await browser.new_context(**options)
    context.set_default_timeout(LONGEST)
    try:
        tab = Tab(await context.new_page(), does_bot_stop)
        yield tab
        assert not tab.faults, tab.faults
    finally:
        await context.close()
