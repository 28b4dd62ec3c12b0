"""A complete session on the page by the keyboard alone, in a real browser: each reached element has
a visible focus, and each action leaves the focus on an element."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.fakes.openai_server import Answer, Call, Fail, Received, Say
from tests.waiting import until
from tests.web.browser import DESK, PHONE, Tab, browsing, needs_chromium
from tests.web.site import Site, serving

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="session")]

TOKEN = "a long random text"
ZOOMED = {"width": 720, "height": 450}
"""The size of a usual screen for a page magnified to 200 %."""
MOST = 320  # presses of Tab until something is reached
OLD = 130  # conversations; the list shows 100 at once
NOWHERE = "nothing has the focus"
FOCUS = """async (nowhere) => {
  await Promise.allSettled(document.getAnimations() // a drawer slides
    .filter((one) => one instanceof CSSTransition).map((one) => one.finished));
  const one = document.activeElement;
  if (one === document.body) return { name: "", fault: nowhere };
  const name = (one.ariaLabel || one.labels?.[0]?.textContent || one.textContent || one.id).trim();
  let { left, top, right, bottom } = one.getBoundingClientRect();
  for (let box = one.parentElement; box; box = box.parentElement) {
    if (getComputedStyle(box).overflowY === "visible" || box.matches("body, html")) continue;
    const clip = box.getBoundingClientRect();
    [left, top] = [Math.max(left, clip.left), Math.max(top, clip.top)];
    [right, bottom] = [Math.min(right, clip.right), Math.min(bottom, clip.bottom)];
  }
  const [x, y] = [Math.max(0, left), Math.max(0, top)];
  const [width, height] = [Math.min(innerWidth, right) - x, Math.min(innerHeight, bottom) - y];
  const over = [[0.5, 0.5], [0.1, 0.1], [0.9, 0.9]].map(([across, down]) => (
    document.elementFromPoint(x + across * width, y + down * height)));
  const isSeen = over.some((other) => other && (one.contains(other) || other.contains(one)));
  const ringed = [one, one.parentElement, one.closest(".box")].find((box) => box
    && (getComputedStyle(box).outlineStyle !== "none" || box.matches(".box:focus-within")));
  const fault = width <= 0 || height <= 0 ? "it is out of sight"
    : !isSeen ? `it is below ${over[0]?.outerHTML.slice(0, 80)}`
    : !ringed ? "nothing shows it" : "";
  return { name, fault };
}"""


class Keys:
    """A person without a mouse."""

    def __init__(self, tab: Tab) -> None:
        self.page = tab.page
        self.press = tab.page.keyboard.press
        self.types = tab.page.keyboard.type

    async def looks(self) -> dict[str, str]:
        """Return the name of the focused element, and what is wrong with it."""
        return dict(await self.page.evaluate(FOCUS, NOWHERE))

    async def focus(self) -> str:
        """Return the name of the focused element, which must be visible. It may be drawn before the
        response of a command, which moves the focus."""
        found: dict[str, str] = {}

        async def is_seen() -> bool:
            found.update(await self.looks())
            return not found["fault"]

        await until(is_seen, lambda: found)
        return found["name"]

    async def comes_to(self, name: str) -> None:
        """Wait until the element with this name has the focus."""

        async def is_there() -> bool:
            return (await self.looks())["name"] == name

        await until(is_there)
        assert await self.focus() == name

    async def reaches(self, name: str, key: str = "Tab") -> None:
        """Press Tab until the element with this name has the focus."""
        been = []
        for _ in range(MOST):
            await self.press(key)
            found = await self.looks()
            if found["fault"] == NOWHERE:
                continue  # from the end of the page to its beginning
            been.append(await self.focus() if found["fault"] else found["name"])
            if been[-1] == name:
                return
        raise AssertionError(f"{name!r} is not reached by {key}: {been}")

    async def does(self, name: str, key: str = "Tab") -> None:
        """Reach a control and press it."""
        await self.reaches(name, key)
        await self.press("Enter")

    async def says(self, text: str, answer: str = "") -> None:
        """Write a message from any focus, and wait for the answer."""
        await self.writes(text)
        await expect(self.page.locator("#log .turn[data-turn]").last).to_contain_text(
            answer or text
        )

    async def writes(self, text: str) -> None:
        if await self.page.evaluate("document.activeElement.id") != "text":
            await self.press("/")
        await expect(self.page.locator("#text")).to_be_focused()
        await self.types(text)
        await self.press("Control+Enter")  # Enter alone makes a new line in a narrow window

    async def goes_to(self, side: str, key: str) -> None:
        """Show a side by its key, and focus it."""
        for _ in range(2):
            await self.press(key)
            inside = f"document.getElementById('{side}').contains(document.activeElement)"
            if await self.page.evaluate(inside):
                break
        await self.focus()


class Model:
    """A model that repeats the message, reads a page on request, and fails once."""

    has_failed = False

    def __call__(self, request: Received) -> Answer:
        if not request.is_turn:
            return Say("They talked of Lisbon.")
        last: dict[str, Any] = request.body["messages"][-1]
        if last["role"] == "tool":
            return Say("I was told so.")
        if "read it" in last["content"]:
            return Say(calls=(Call("web_fetch", json.dumps({"url": "http://127.0.0.1:9/"}), "c"),))
        if "fail" in last["content"] and not self.has_failed:
            self.has_failed = True
            return Fail(401, {"message": "not today"})
        return Say(f"You said: {last['content']}")


async def signs_in(keys: Keys, site: Site) -> None:
    await keys.page.goto(site.url)
    await expect(keys.page.locator("#dialog")).to_be_visible()
    assert (await keys.focus()).startswith("Name")
    await keys.reaches("Password or access key")
    await keys.types(TOKEN)
    await keys.press("Enter")
    await expect(keys.page.locator("#text")).to_be_focused()


async def steers(keys: Keys) -> None:
    """The map: select a range, compact it, edit the summary, undo."""
    page = keys.page
    await keys.reaches("More for t5", "Shift+Tab")
    block = page.locator("#map [role=option][aria-label^='t2,']")
    await expect(block).to_have_count(1)
    await keys.goes_to("context", "Control+Shift+B")
    await expect(page.locator("#tab-of-context")).to_be_focused()
    for _ in range(MOST):
        await keys.press("Tab")
        if await page.evaluate("document.activeElement.closest('#map') !== null"):
            break
    await keys.press("Home")
    for _ in range(MOST):
        if (await keys.focus()).startswith("t2,"):
            break
        await keys.press("ArrowRight")
    await keys.press("Shift+ArrowRight")
    await expect(page.locator("#map .selected .words")).to_contain_text("t2 to t3")
    await keys.does("Compact")
    await expect(page.locator("#log .cut")).to_contain_text("t2 to t3 are summarised")
    await keys.comes_to("Undo")
    await keys.press("/")
    await keys.does("Edit", "Shift+Tab")
    area = page.locator("#log .cut textarea")
    await expect(area).to_have_value("They talked of Lisbon.")
    await keys.comes_to("Text for /context summary edit s1")
    await keys.press("Control+a")
    await keys.types("They talked of Porto.")
    await keys.does("Save")
    await expect(area).to_have_count(0)
    await keys.focus()
    await keys.goes_to("context", "Control+Shift+B")
    await expect(page.locator("#panel .events")).to_contain_text("Edited summary")  # redrawn
    undone = page.locator("#panel .events .undone")
    await keys.reaches("Undo")
    for number in range(2):  # the edit, then the compaction
        await keys.press("Enter")
        await expect(undone).to_have_count(number + 1)
        await keys.focus()
    await keys.reaches("Skip to the message box")
    await keys.press("Tab")
    await keys.focus()  # on a phone, the drawer does not cover it
    await expect(page.locator("#log .cut")).to_have_count(0)


async def chooses_commands(keys: Keys) -> None:
    """The list of commands, a card, the menu of a turn, and a question that is edited."""
    page = keys.page
    await keys.press("/")
    await keys.types("/conte")
    await expect(page.locator("#completions")).to_be_visible()
    await keys.press("ArrowDown")
    await keys.press("Enter")
    await expect(page.locator("#text")).to_have_value("/context ")
    await keys.types("preview")
    await keys.press("Escape")
    await keys.press("Control+Enter")
    card = page.locator("#log > .card", has_text="/context preview")
    await expect(card).to_have_count(1)
    await keys.does("Close", "Shift+Tab")
    await expect(card).to_have_count(0)
    await keys.comes_to("More for t5")  # it stood before the card
    await keys.press("Enter")
    for name in ("Branch off from here", "Quote", "Why this answer?"):
        await keys.press("ArrowDown")
        await keys.comes_to(name)
    await keys.press("Enter")
    await expect(page.locator("#log > .card", has_text="/why t5")).to_have_count(1)
    await keys.comes_to("/why t5")
    for way, then in (("Cancel", "Edit the question"), ("Ask", "Message")):
        if way == "Cancel":
            await keys.reaches("Edit the question", "Shift+Tab")
        await keys.press("Enter")
        await expect(page.locator("#log .field textarea")).to_be_focused()
        await keys.press("Control+a")
        await keys.types("Another question")
        await keys.does(way)
        await expect(page.locator("#log .field")).to_have_count(0)
        await keys.comes_to(then)
    await expect(page.locator("#log .variants")).to_contain_text("2/2")
    await keys.does("Previous", "Shift+Tab")
    await expect(page.locator("#log .variants")).to_contain_text("1/2")
    await keys.focus()
    await keys.does("Drop from the context", "Shift+Tab")
    await expect(page.locator("#log .turn.out")).to_have_count(1)
    await keys.focus()


async def is_asked(keys: Keys) -> None:
    """A question of a tool, and an answer that fails at first."""
    page = keys.page
    for way in ("Allow once", "Deny"):
        await keys.writes("read it")
        await expect(page.get_by_role("button", name=way, exact=True)).to_be_visible()
        await keys.does(way, "Shift+Tab")
        await expect(page.locator("#log .turn[data-turn]").last).to_contain_text("I was told so")
        # Until the result is shown, the button stays, and cannot have the focus.
        await expect(page.get_by_role("button", name=way, exact=True)).to_have_count(0)
        await keys.focus()
    await keys.says("fail", "Retry")
    await keys.does("Retry", "Shift+Tab")
    await expect(page.locator("#log .turn[data-turn]").last).to_contain_text("You said: fail")
    await expect(page.get_by_role("button", name="Retry", exact=True)).to_have_count(0)
    assert await keys.focus() == "Message"


async def looks_around(keys: Keys) -> None:
    """The settings, the panels and their dialogs, the model."""
    page = keys.page
    await keys.press("/")
    await keys.press("Control+,")
    await keys.comes_to("General")
    for name in ("Models and keys", "Context", "Memory", "People", "This browser", "General"):
        await keys.press("ArrowDown")
        await keys.comes_to(name)
    await keys.press("ArrowDown")
    await keys.press("ArrowDown")
    await keys.reaches("Turns in context")
    await keys.press("Control+a")
    await keys.types("9")
    await keys.press("Tab")
    await expect(page.locator("#preferences .said")).to_contain_text("9")
    await keys.focus()
    await keys.does("Reset Turns in context")
    await expect(page.get_by_role("button", name="Reset Turns in context")).to_have_count(0)
    await keys.focus()
    await keys.press("Escape")
    await expect(page.locator("#text")).to_be_focused()
    await keys.goes_to("context", "Control+Shift+B")
    await keys.press("ArrowRight")
    await keys.comes_to("Requests")
    await keys.does("Show r1")
    await keys.press("Escape")
    await keys.comes_to("Show r1")
    await keys.reaches("Requests", "Shift+Tab")
    await keys.press("End")
    await keys.comes_to("Memory")
    await keys.does("Memory: Edit")
    await expect(page.locator("#dialog textarea")).to_be_visible()
    await keys.does("Cancel")
    await keys.focus()
    await keys.press("Escape")
    await keys.comes_to("Memory: Edit")
    await keys.reaches("Memory", "Shift+Tab")
    await keys.press("Home")
    await keys.press("/")
    await keys.reaches("Settings", "Shift+Tab")
    await keys.does("gpt-4o-mini: choose another", "Shift+Tab")
    await expect(page.locator("#dialog")).to_be_visible()
    await keys.press("Escape")
    await keys.comes_to("gpt-4o-mini: choose another")


async def goes_elsewhere(keys: Keys) -> None:
    """A second conversation, search, older ones, and one that is deleted."""
    page, title = keys.page, keys.page.locator("#title")
    await keys.press("Control+Shift+O")
    await keys.says("Of apples")
    await expect(title).to_have_text("Of apples")
    await keys.press("Alt+ArrowDown")
    await expect(title).to_contain_text("Message 1")
    await expect(page.locator("#text")).to_be_focused()
    await keys.press("Control+k")
    await keys.types("apples")
    await keys.press("Enter")
    await expect(title).to_have_text("Of apples")
    await expect(page.locator("#text")).to_be_focused()
    await keys.press("Control+k")
    await keys.press("Control+a")
    await keys.press("Delete")
    await expect(page.locator("#list .session")).to_have_count(100)
    await keys.reaches("Owner: sign out")  # the list grows when its end is visible
    await expect(page.locator("#list .session")).to_have_count(OLD + 2)
    await keys.does("old 1", "Shift+Tab")
    await expect(title).to_have_text("old 1")
    await expect(page.locator("#text")).to_be_focused()
    await keys.goes_to("sessions", "Control+b")
    await keys.reaches("old 1")
    await keys.does("More for old 1")
    await keys.press("ArrowDown")
    await keys.comes_to("Pin")
    await keys.press("Enter")
    await expect(page.locator("#list .group").first).to_have_text("Pinned")
    await keys.comes_to("More for old 1")
    await keys.press("Enter")
    for _ in range(5):
        await keys.press("ArrowDown")
    await keys.comes_to("Delete")
    await keys.press("Enter")
    await expect(page.locator("#dialog")).to_be_visible()
    await keys.does("Delete")
    await expect(page.locator("#list .group").first).to_have_text("Today")
    await keys.focus()


@pytest.mark.parametrize("size", [DESK, ZOOMED, PHONE], ids=["desk", "zoomed", "phone"])
async def test_a_whole_session(tmp_path: Path, browser: Browser, size: dict[str, int]) -> None:
    settings = {"tools": {"web_fetch": True}}
    async with (
        serving(tmp_path, Model(), settings, TOKEN) as site,
        browsing(browser, viewport=size) as tab,
    ):
        site.http.headers["Authorization"] = f"Bearer {TOKEN}"
        for number in range(OLD):
            await site.says(f"old {number}", f"old-{number}")
        keys = Keys(tab)
        await signs_in(keys, site)
        tab.faults.clear()  # requests sent before signing in
        await expect(tab.page.locator("#title")).to_have_text(f"old {OLD - 1}")
        await keys.press("Control+Shift+O")
        await expect(tab.page.locator("#title")).to_have_text("New conversation")
        for number in range(1, 6):
            await keys.says(f"Message {number} {'about Lisbon ' * 20}")
        for part in (steers, chooses_commands, is_asked, looks_around, goes_elsewhere):
            await part(keys)
