"""The page by the keyboard alone, in a real browser: the focus is never lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.fakes.openai_server import echo
from tests.web.browser import DESK, PHONE, browsing, needs_chromium
from tests.web.site import serving

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="session")]

ZOOMED = {"width": 720, "height": 450}
"""The size of a usual screen for a page magnified to 200 %."""


@pytest.mark.parametrize("size", [DESK, PHONE, ZOOMED], ids=["desk", "phone", "zoomed"])
async def test_the_focus_stays_where_a_button_was_pressed_and_all_is_drawn_anew(
    tmp_path: Path, browser: Browser, size: dict[str, int]
) -> None:
    async with serving(tmp_path, echo) as site, browsing(browser, viewport=size) as tab:
        for text in ("one", "two", "three"):
            await site.says(text)
        await tab.opens_hidden(site.url)
        if size is not DESK:
            await tab.page.focus("#usage")
            await tab.page.keyboard.press("Enter")
        context = tab.page.locator("#of-context")
        for name, then in (
            ("Pin t2", "Undo: Pinned t2"),
            ("Unpin t2", "Undo: Unpinned t2"),
            ("Drop t2", "Undo: Dropped t2"),
            ("Undo", "Redo: Dropped t2"),
            ("Redo", "Undo: Dropped t2"),
            ("Undo", "Redo: Dropped t2"),
        ):
            await context.get_by_role("button", name=name, exact=True).focus()
            await tab.page.keyboard.press("Enter")
            await expect(context.locator(f".controls [title='{then}']")).to_be_enabled()
            await expect(context.locator(":focus-visible")).to_be_in_viewport()


async def test_a_conversation_is_searched_and_opened_from_the_keyboard(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo) as site, browsing(browser) as tab:
        await site.says("apples", "one")
        await site.says("pears", "two")
        await tab.opens(site.url, "two")
        for words, title, key in (
            ("apples", "apples", "Enter"),
            ("pears", "pears", "ArrowDown"),
        ):
            await tab.page.keyboard.press("Control+k")
            await tab.page.fill("#search", words)
            if key == "ArrowDown":
                await tab.page.keyboard.press(key)
                await expect(tab.page.locator("#list .session")).to_be_focused()
            await tab.page.keyboard.press("Enter")
            await expect(tab.page.locator("#title")).to_have_text(title)
            await expect(tab.page.locator("#text")).to_be_focused()


MOVED = """async () => {
  const turn = document.querySelector("#log .turn"), button = turn.querySelector(".act");
  button.focus();
  for (let times = 0; times < 3; times += 1) {
    turn.replaceChildren(...turn.childNodes);
    await new Promise((resolve) => setTimeout(resolve));
  }
  return document.activeElement === button;
}"""


async def test_the_focus_stays_on_what_is_moved_again_and_again(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        await tab.asks("one", "one")
        assert await tab.page.evaluate(MOVED)
