"""The map of the context on the page: it shows turns, links to them, and steers."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Browser, Locator, expect

from tests.web.browser import DESK, PHONE, Tab, browsing, needs_chromium
from tests.web.site import Site

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="session")]


async def fill(site: Site, turns: int = 6) -> None:
    for number in range(1, turns + 1):
        await site.says(f"question {number} {'many words ' * 40}")


MIDDLE = """turn => {
    const block = document.querySelector(`#map [role=option][aria-label^='${turn},']`);
    block?.scrollIntoView({ block: "nearest" });
    const box = block?.getBoundingClientRect();
    return box?.width ? [box.x + box.width / 2, box.y + box.height / 2] : null;
}"""
"""The middle of a turn's block, once it exists."""


def block(tab: Tab, turn: str) -> Locator:
    return tab.page.locator(f"#map [role=option][aria-label^='{turn},']")


async def drag(tab: Tab, start: str, end: str) -> None:
    """Press the mouse on the block of a turn, and release it on that of another."""
    for turn in (start, end):
        found = await tab.page.wait_for_function(MIDDLE, arg=turn)  # in one go: the map is redrawn
        await tab.page.mouse.move(*await found.json_value(), steps=3)
        await tab.page.mouse.down() if turn == start else await tab.page.mouse.up()


FLOWED = """async () => {
  const { flowed } = await import("/page/flow.js");
  const found = [];
  const limits = [0, 3_000, 50_000, 1_000_000];
  const pairs = limits.flatMap((limit) => [[limit, 336], [limit, 780]]);
  const ways = [0, 1, 5, 30, 200].flatMap((turns) => pairs.map((pair) => [turns, ...pair]));
  for (const [turns, limit, width] of ways) {
    const sizes = [200, 1_300, ...Array.from({ length: turns }, (_, at) => 20 + 7 * (at % 13))];
    const used = sizes.reduce((sum, size) => sum + size, 0), whole = Math.max(limit, used);
    const { rows, ends, gap, lineAt } = flowed(sizes, whole, width);
    const filled = ends.at(-1) / rows, last = lineAt(whole), half = lineAt((used + whole) / 2);
    found.push([Math.min(.74, sizes.length * 40 / (rows * width)), filled, used / whole,
      gap !== null, (last.row + last.start) / rows, (half.row + half.start) / rows]);
  }
  return found;
}"""


async def test_blocks_can_be_seen_however_much_is_free(tab: Tab) -> None:
    for wished, filled, share, is_shortened, limit, half in await tab.page.evaluate(FLOWED):
        assert min(1, max(wished, share)) - 0.01 <= filled <= 1.001
        assert is_shortened == (filled > share + 0.05), "what is not to scale is marked"
        assert limit == pytest.approx(1), "the limit is at the end of what is free"
        assert half == pytest.approx((filled + 1) / 2, abs=0.001)


async def test_a_block_says_what_it_is_and_leads_to_its_turn(site: Site, tab: Tab) -> None:
    await fill(site, 7)
    await expect(block(tab, "t7")).to_be_visible()
    await block(tab, "t1").hover()
    about = tab.page.locator("#map .about")
    await expect(about).to_contain_text("t1 · ")
    await expect(about).to_contain_text("question 1 many words")
    await site.says("question 8")
    await expect(tab.page.locator("#map .marks")).to_contain_text("Limit: 20 turns")
    await expect(about).to_contain_text(" tokens")  # of what is below the mouse now
    await expect(tab.page.locator("#map .marks")).to_contain_text("Next compaction: about t21")
    await tab.page.mouse.move(10, 10)
    await expect(about).to_contain_text("Click a block to show its turn")
    turn = tab.page.locator("#log .turn[data-turn=t1]")
    await expect(turn).not_to_be_in_viewport()
    await block(tab, "t1").click()
    await expect(turn).to_be_in_viewport()
    await expect(turn).to_be_focused()


async def test_turns_are_selected_by_dragging_compacted_and_brought_back(
    site: Site, tab: Tab
) -> None:
    await fill(site)
    await expect(block(tab, "t6")).to_be_visible()
    await drag(tab, "t2", "t4")
    bar = tab.page.locator("#map .selected")
    await expect(bar).to_contain_text("t2 to t4: ")
    await expect(tab.page.locator("#map [aria-selected=true]")).to_have_count(3)
    await tab.presses("Compact", "#map")
    await tab.shows_state("t3", "summarised")
    await expect(block(tab, "summaries of turns")).to_have_attribute(
        "data-part", "summaries of turns"
    )
    await tab.presses("Undo", "#map .selected")
    await tab.shows_state("t3", "in context")
    await expect(block(tab, "t3")).to_be_visible()
    await expect(bar.get_by_role("button", name="Redo")).to_be_visible()
    await tab.presses("Clear the selection", "#map")
    await expect(bar).to_be_hidden()


async def test_what_can_be_undone_in_one_conversation_is_offered_in_no_other(
    site: Site, tab: Tab
) -> None:
    await fill(site)
    await expect(block(tab, "t6")).to_be_visible()
    await drag(tab, "t2", "t4")
    await tab.presses("Compact", "#map")
    bar = tab.page.locator("#map .selected")
    await expect(bar.get_by_role("button", name="Undo")).to_be_visible()
    await tab.page.click("#new")
    await expect(bar).to_be_hidden()


async def test_turns_are_selected_pinned_and_dropped_with_the_keyboard_alone(
    site: Site, tab: Tab
) -> None:
    await fill(site)
    await expect(block(tab, "t6")).to_be_visible()
    await tab.page.locator("#map [role=option][tabindex='0']").focus()
    press = tab.page.keyboard.press
    await press("End")
    await expect(block(tab, "t6")).to_be_focused()
    await press("ArrowLeft")
    await press("Shift+ArrowLeft")
    await expect(block(tab, "t4")).to_be_focused()
    told = tab.page.locator("#map [role=status]")
    await expect(told).to_contain_text("t4 to t5: ")
    await press("Escape")
    await expect(told).to_be_empty()
    await press("Shift+ArrowLeft")
    await expect(told).to_contain_text("t3 to t4: ")
    pin = tab.page.locator("#map .selected").get_by_role("button", name="Pin", exact=True)
    for _key in ("close", "Show", "Compact", "Pin"):
        await press("Tab")
    await expect(pin).to_be_focused()
    await press("Enter")
    await tab.shows_state("t3", "pinned")
    await tab.shows_state("t4", "pinned")
    await expect(tab.page.locator("#map .selected button", has_text="Unpin")).to_be_focused()
    await press("Enter")
    await tab.shows_state("t4", "in context")
    await block(tab, "t1").focus()
    await press("Space")
    await tab.presses("Drop", "#map")
    await tab.shows_state("t1", "dropped")
    await expect(block(tab, "t1")).to_have_count(0)
    await block(tab, "t5").press("Enter")
    await expect(tab.page.locator("#log .turn[data-turn=t5]")).to_be_focused()


async def test_on_a_phone_a_tap_begins_a_selection_and_another_ends_it(
    site: Site, browser: Browser
) -> None:
    await fill(site)
    async with browsing(browser, viewport=PHONE, has_touch=True, is_mobile=True) as tab:
        await tab.opens_hidden(site.url, site.session)
        await tab.page.tap("#usage")
        await block(tab, "t2").tap()
        await expect(tab.page.locator("#map .selected")).to_contain_text("t2: ")
        await block(tab, "t4").tap()
        await expect(tab.page.locator("#map .selected")).to_contain_text("t2 to t4: ")
        for button in await tab.page.locator("#map .selected button").all():
            size = await button.bounding_box()
            assert size
            assert size["height"] >= 44
        await tab.page.locator("#map .selected").get_by_role("button", name="Drop").tap()
        await tab.shows_state("t3", "dropped")
        await tab.page.locator("#map .selected").get_by_role("button", name="Undo").tap()
        await tab.shows_state("t3", "in context")
        await block(tab, "t1").tap()
        await tab.page.locator("#map .selected").get_by_role("button", name="Show").tap()
        await expect(tab.page.locator("#panel")).not_to_be_visible()
        await expect(tab.page.locator("#log .turn[data-turn=t1]")).to_be_in_viewport()
        width = await tab.page.evaluate("document.documentElement.scrollWidth")
        assert width == PHONE["width"]


async def test_the_line_and_the_bars_say_in_words_what_they_show(site: Site, tab: Tab) -> None:
    await fill(site, 3)
    await site.commands("/context compact t1-t2")
    line = tab.page.get_by_role("img", name="Context size from t1 to t3")
    await expect(line).to_have_attribute("aria-label", re.compile(r"Made smaller at t3\.$"))
    await expect(line).to_be_visible()
    await expect(tab.page.locator("#map .cut-at")).to_have_count(1)
    await tab.page.locator("#costs summary").click()
    day = tab.page.get_by_role("list", name="Costs by day").locator("> li")
    await expect(day).to_have_count(1)
    title = day.get_by_role("link").filter(has_text="question 1").first
    await expect(title).to_be_visible()


async def test_axe_finds_nothing_in_the_map_and_below_it(site: Site, tab: Tab) -> None:
    await fill(site)
    await site.commands("/context compact t1-t2")
    await site.commands("/context pin t4")
    await expect(block(tab, "t4")).to_have_attribute("data-state", "pinned")
    await drag(tab, "t3", "t5")
    await tab.page.locator("#costs summary").click()
    await tab.sees("#costs time")
    for size in (DESK, PHONE):
        await tab.page.set_viewport_size(size)
        if size == PHONE:
            await tab.page.click("#usage")
        for theme in ("light", "dark"):
            await tab.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
            await tab.finds_no_fault()
