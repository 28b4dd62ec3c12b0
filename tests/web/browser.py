"""A real browser for the page: Debian's Chromium, driven by Playwright.

A window of Chromium costs more than the page in it, so tests use its shell without windows where
it is installed (`SHELL`): opening a tab and the page in it takes 1.0 s of CPU instead of 2.8 s.

async with serving(tmp_path, script) as site, browsing(browser) as tab:
    await tab.opens(site.url)
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Error, Page, ViewportSize, async_playwright, expect

from tests.waiting import PATIENCE, until

CHROMIUM = Path("/usr/bin/chromium")
SHELL = Path("/usr/lib/chromium/chromium-headless-shell")
CHEAPEST = SHELL if SHELL.exists() else CHROMIUM
LONGEST = 1_000 * PATIENCE  # milliseconds
expect.set_options(timeout=LONGEST)
DESK: ViewportSize = {"width": 1440, "height": 900}
USUAL = "in context"
"""The state of a turn that the page does not show."""
PHONE: ViewportSize = {"width": 390, "height": 844}
OVERTAKEN = ("ERR_ABORTED", "interrupted by another navigation", "Not attached to an active page")
"""Chromium's error for a navigation replaced by another one of the same page."""

needs_chromium = pytest.mark.skipif(
    not CHROMIUM.exists(), reason="needs Chromium at /usr/bin/chromium: apt install chromium"
)

_FAULTS = """async () => {
  const { violations } = await axe.run({ resultTypes: ["violations"] });
  return violations.flatMap(({ id, help, nodes }) => (
    nodes.map(({ html, failureSummary }) => `${id}: ${help}: ${html}: ${failureSummary}`)));
}"""


@dataclass
class Tab:
    """An open page. `faults` are the errors on its console, `hosts` the hosts that it sent requests
    to. When its bot stops, requests sent at that moment are refused with a 503, which is on the
    console."""

    page: Page
    does_bot_stop: bool = False
    faults: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", self._heard)
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))

    def _heard(self, message: Any) -> None:
        if message.type != "error" or "ERR_" in message.text:  # except that it is offline
            return
        if not (self.does_bot_stop and "503" in message.text):
            self.faults.append(message.text)

    async def opens(self, url: str, session: str = "main") -> None:
        await self.page.goto(f"{url}/#{session}")
        await self.sees("#panel .headline")

    async def opens_hidden(self, url: str, session: str = "main") -> None:
        """Return the same, also if the panel is a drawer."""
        await self.page.goto(f"{url}/#{session}")
        await expect(self.page.locator("#panel .headline")).to_be_attached()

    async def begins_anew(self) -> None:
        """Reload the page. It may be reloading by itself: Chromium then cancels one of the two, or
        has no page to reload until the other has begun."""
        while True:
            try:
                await self.page.reload()
                return
            except Error as error:
                if not any(reason in error.message for reason in OVERTAKEN):
                    raise
            await self.page.wait_for_load_state()

    async def writes(self, text: str) -> None:
        """Type and send; on a phone by the button, because Enter makes a new line there."""
        await self.page.fill("#text", text)
        if self.page.viewport_size == PHONE:
            await self.page.click("#send")
        else:
            await self.page.press("#text", "Enter")

    async def asks(self, text: str, answer: str) -> None:
        """Type, send, and wait until this answer is complete."""
        await self.writes(text)
        await self.sees(f"#log .turn[data-turn] .text:has-text('{answer}')")

    async def sees(self, selector: str) -> None:
        await expect(self.page.locator(selector).first).to_be_visible()

    async def presses(self, name: str, where: str = "body") -> None:
        """Press the button of this name."""
        buttons = self.page.locator(where).get_by_role("button", name=name, exact=True)
        if name in ("Undo", "Redo"):  # the accessible name says what it takes back
            buttons = self.page.locator(where).get_by_role("button").get_by_text(name, exact=True)
        await buttons.click()

    async def scrolls_to(self, box: str, selector: str, *, is_up: bool = False) -> None:
        """Scroll a box to its end, or up to its beginning, until an element is there."""
        script = """([box, what, isUp]) => {
            const element = document.querySelector(box);
            element.scrollTop = isUp ? 0 : element.scrollHeight;
            return document.querySelector(what) !== null;
        }"""
        await self.page.wait_for_function(script, arg=[box, selector, is_up])

    async def chooses(self, what: str, title: str) -> None:
        """Choose an entry in the menu of the conversation with this title."""
        await self.page.locator(f"#list li[data-session]:has(.title:text-is('{title}'))").hover()
        await self.presses(f"More for {title}", "#list")
        await self.page.get_by_role("menuitem", name=what, exact=True).click()

    async def opens_settings(self, section: str = "General") -> None:
        """Open the settings at a section."""
        if not await self.page.locator("#preferences").is_visible():
            await self.presses("Settings", "main")
        await self.page.locator("#preferences").get_by_role("tab", name=section).click()

    async def chooses_tab(self, name: str) -> None:
        """Show this tab of the panel."""
        await self.page.locator("#tabs").get_by_role("tab", name=name).click()

    async def chooses_more(self, turn: str, what: str) -> None:
        """Choose an entry in the menu below a turn."""
        await self.presses(f"More for {turn}", f".turn[data-turn={turn}]")
        await self.page.get_by_role("menuitem", name=what, exact=True).click()

    @asynccontextmanager
    async def sees_passing(self, text: str) -> AsyncIterator[None]:
        """Wait at the end until a button has had this text, which may be gone again by then."""
        seen = await self.page.evaluate_handle(
            """text => ({ once: new Promise((resolve) => {
                const look = () => [...document.querySelectorAll("button")]
                    .some((button) => button.textContent === text) && resolve();
                const all = { subtree: true, childList: true };
                new MutationObserver(look).observe(document.body, all);
            }) })""",
            text,
        )
        yield
        async with asyncio.timeout(PATIENCE):
            await seen.evaluate("seen => seen.once")

    async def copied(self, beginning: str) -> str:
        """Wait until the clipboard has a text with this beginning, and return it: a press returns
        before the text is copied."""

        async def read() -> str:
            text = str(await self.page.evaluate("navigator.clipboard.readText()"))
            return text if text.startswith(beginning) else ""

        return await until(read)

    async def finds_no_fault(self) -> None:
        """Run axe in the page as it is now."""
        if not await self.page.evaluate("'axe' in window"):
            await self.page.evaluate(Axe().axe_script)
        found = await self.page.evaluate(_FAULTS)
        assert not found, "\n".join(found)

    async def shows_state(self, turn: str, *states: str) -> None:
        """Wait until the panel shows this state of a turn; the usual state has no mark."""
        row = self.page.locator(f".turns li:has(button:text-is('{turn}'))")
        await expect(row).to_have_count(1)
        marked = [state for state in states if state != USUAL]
        await expect(row.locator(".badge")).to_have_text(marked)


@asynccontextmanager
async def launched(program: Path = CHEAPEST) -> AsyncIterator[Browser]:
    """Run a browser until the end of the block."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        await browser.close()


@asynccontextmanager
async def browsing(
    browser: Browser, does_bot_stop: bool = False, **options: Any
) -> AsyncIterator[Tab]:
    """Open a tab; its console must have no error when it is closed. The page's worker, which would
    load all files again, is only active if an option allows it."""
    options = {
        "viewport": DESK,
        "reduced_motion": "reduce",
        "locale": "en-GB",
        "service_workers": "block",
        **options,
    }
    context = await browser.new_context(**options)
    context.set_default_timeout(LONGEST)
    if os.environ.get("UNEVEN"):
        await context.add_init_script(path=Path(__file__).parent / "uneven.js")
    try:
        tab = Tab(await context.new_page(), does_bot_stop)
        try:
            yield tab
        except AssertionError:
            notice = await tab.page.locator("#notice").all_text_contents()
            print(f"faults of the page: {tab.faults}; its notice: {notice}")  # noqa: T201 - evidence
            raise
        assert not tab.faults, tab.faults
    finally:
        await context.close()
