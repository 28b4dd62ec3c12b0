"""The layout of the page: the dialog of the settings, tabs, sides that collapse, the commands, and
the differences on a phone. All by the keyboard alone, and without a finding of axe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, expect

from tests.fakes.openai_server import Say, echo_in_bold
from tests.web.browser import DESK, PHONE, Tab, browsing, needs_chromium
from tests.web.conftest import Model
from tests.web.site import Site, serving

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="session")]

SCHEMES: tuple[Any, ...] = ("light", "dark")
ROWS = """e => new Set([...e.children].filter(one => one.offsetHeight)
    .map(one => Math.round(one.getBoundingClientRect().top))).size"""
"""The number of rows of an element's children."""
BROKEN = """e => [...e.querySelectorAll("td, th")].flatMap(cell => {
    const text = cell.firstChild;
    return [...(text?.data ?? "").matchAll(/\\S+/g)].filter(({0: word, index}) => {
        const range = document.createRange();
        range.setStart(text, index);
        range.setEnd(text, index + word.length);
        return range.getClientRects().length > 1;
    }).map(([word]) => word);
})"""
"""The texts of the table cells with more than one line."""


def dialog(tab: Tab) -> Locator:
    return tab.page.locator("#preferences")


async def test_the_settings_open_at_the_gear_are_walked_by_keys_and_give_the_focus_back(
    tab: Tab,
) -> None:
    await tab.page.focus("#gear")
    await tab.page.keyboard.press("Enter")
    sections = dialog(tab).get_by_role("tab")
    await expect(sections.first).to_be_focused()
    for name in ("Models and keys", "Context", "Memory", "People", "This browser", "General"):
        await tab.page.keyboard.press("ArrowDown")
        section = dialog(tab).get_by_role("tab", name=name)
        await expect(section).to_be_focused()
        await expect(section).to_have_attribute("aria-selected", "true")
        await expect(dialog(tab).get_by_role("tabpanel", name=name)).to_be_visible()
        await expect(dialog(tab).get_by_role("tabpanel")).to_have_count(1)
    inside = (
        "document.activeElement === document.body || preferences.contains(document.activeElement)"
    )
    for _ in range(12):  # more than it has elements
        await tab.page.keyboard.press("Tab")
        assert await tab.page.evaluate(inside)
    await tab.page.keyboard.press("Escape")
    await expect(dialog(tab)).to_be_hidden()
    await expect(tab.page.locator("#gear")).to_be_focused()
    await tab.page.keyboard.press("Control+,")
    await expect(dialog(tab)).to_be_visible()


async def test_a_search_finds_settings_of_all_sections(tab: Tab) -> None:
    await tab.opens_settings("People")
    await dialog(tab).get_by_role("searchbox").fill("tokens")
    shown = dialog(tab).locator("[data-words]:visible")
    names = {
        await one.get_attribute("id")
        for one in await shown.locator("xpath=ancestor::*[@role='tabpanel']").all()
    }
    assert {"section-context", "section-memory"} <= names
    for one in await shown.all():
        assert "tokens" in (await one.get_attribute("data-words") or "")
    await tab.finds_no_fault()
    await dialog(tab).get_by_role("searchbox").fill("")
    await expect(dialog(tab).get_by_role("tabpanel", name="People")).to_be_visible()
    await expect(dialog(tab).get_by_role("tabpanel")).to_have_count(1)


async def test_the_panel_has_tabs_that_the_arrow_keys_walk(tab: Tab) -> None:
    await tab.asks("one", "one")
    tabs = tab.page.locator("#tabs")
    await tabs.get_by_role("tab", name="Context").focus()
    for name, shown in (
        ("Requests", "#requests li"),
        ("Files", "#workspace .help"),
        ("Memory", "#memory .text"),
        ("Context", "#panel .headline"),
    ):
        await tab.page.keyboard.press("ArrowRight")
        await expect(tabs.get_by_role("tab", name=name)).to_be_focused()
        await tab.sees(shown)
    await tab.page.keyboard.press("End")
    await expect(tabs.get_by_role("tab", name="Memory")).to_be_focused()


async def test_both_sides_collapse_and_stay_so_until_they_are_shown_again(tab: Tab) -> None:
    left, right = tab.page.locator("#sessions"), tab.page.locator("#context")
    await tab.page.keyboard.press("Control+b")
    await tab.page.keyboard.press("Control+Shift+B")
    await expect(left).to_be_hidden()
    await expect(right).to_be_hidden()
    await tab.page.reload()
    await expect(tab.page.locator("#share")).not_to_have_text("Context")
    await expect(left).to_be_hidden()
    await expect(right).to_be_hidden()
    await tab.sees("#fresh")
    for scheme in SCHEMES:
        await tab.page.emulate_media(color_scheme=scheme)
        await tab.finds_no_fault()
    opener = tab.page.locator("#usage")
    await expect(opener).to_have_attribute("aria-expanded", "false")
    await opener.click()
    await expect(right).to_be_visible()
    await expect(opener).to_have_attribute("aria-expanded", "true")
    await tab.presses("Close context")
    await expect(opener).to_be_focused()
    await tab.page.keyboard.press("Control+k")
    await expect(left).to_be_visible()
    await expect(tab.page.locator("#search")).to_be_focused()
    await tab.page.focus("#log")
    await tab.page.keyboard.press("?")
    for does in ("Show or hide the conversations", "Show or hide the context", "Settings"):
        await tab.sees(f"#dialog dt:text-is('{does}')")


async def test_a_side_may_be_a_drawer_and_a_column_by_turns(tab: Tab) -> None:
    left = tab.page.locator("#sessions")
    await tab.page.set_viewport_size(PHONE)
    await tab.presses("Conversations", "main")
    await expect(left).to_be_visible()
    await tab.page.keyboard.press("Escape")
    await expect(left).to_be_hidden()
    await expect(tab.page.locator("[data-opens=sessions]")).to_be_focused()
    await tab.page.set_viewport_size(DESK)
    await expect(left).to_be_visible()


async def test_a_drawer_is_closed_by_what_closes_things_on_a_phone(tab: Tab) -> None:
    await tab.page.set_viewport_size(PHONE)
    # Chromium notifies a CloseWatcher of Android's Back, and of Escape if the page does not use it.
    await tab.page.evaluate(
        "addEventListener('keydown', event => event.stopImmediatePropagation(), true)"
    )
    for opener, drawer in (("[data-opens=sessions]", "#sessions"), ("#usage", "#context")):
        await tab.page.click(opener)
        await expect(tab.page.locator(drawer)).to_be_visible()
        await tab.page.keyboard.press("Escape")
        await expect(tab.page.locator(drawer)).to_be_hidden()
        await expect(tab.page.locator(opener)).to_be_focused()


async def test_a_turn_of_the_panel_is_shown_in_the_chat_however_old_it_is(
    site: Site, tab: Tab
) -> None:
    for number in range(33):  # more than are drawn at first
        await site.says(f"number {number}", site.session)
    await tab.page.reload()
    await tab.sees("#log [data-turn=t33]")
    await tab.page.set_viewport_size(PHONE)
    await tab.page.click("#usage")
    await tab.page.locator("#panel .turns + button").click()
    await tab.presses("Show t1", "#panel")
    await expect(tab.page.locator("#log [data-turn=t1]")).to_be_focused()
    await expect(tab.page.locator("#context")).to_be_hidden()


async def test_the_list_of_turns_marks_exceptions_only(site: Site, tab: Tab) -> None:
    for number in range(4):
        await site.says(f"number {number}")
    await site.commands("/context pin t2")
    await site.commands("/context drop t3")
    await tab.shows_state("t3", "dropped")
    await expect(tab.page.locator(".turns .badge")).to_have_text(["dropped", "pinned"])


async def test_commands_are_listed_in_groups_the_most_used_first_with_their_arguments(
    site: Site, tab: Tab
) -> None:
    options = tab.page.locator("#completions [role=option]")
    heads = tab.page.locator("#completions .heading")
    await tab.page.locator("#text").press_sequentially("/")
    await expect(heads.first).to_have_text("Most used")
    await expect(options.first).to_contain_text("/context")
    commands = (await site.commands("/help"))["data"]["commands"]
    named = await options.evaluate_all("all => all.map(one => one.dataset.line.slice(1))")
    assert sorted(named) == sorted(one["name"] for one in commands)
    usages = {one["name"]: one["usage"] for one in commands}
    for option in (await options.all())[:12]:
        line = await option.get_attribute("data-line") or ""
        assert usages[line[1:]] in await option.inner_text()
    for scheme in SCHEMES:
        await tab.page.emulate_media(color_scheme=scheme)
        await tab.finds_no_fault()
    await tab.page.keyboard.press("ArrowUp")  # the last
    await expect(options.last).to_be_in_viewport()
    await expect(options.last).to_have_attribute("aria-selected", "true")
    for _ in range(2):
        await tab.writes("/version")
        await tab.sees(".card:has-text('/version')")
    await tab.page.locator("#text").press_sequentially("/")
    await expect(options.first).to_contain_text("/version")
    await tab.page.locator("#text").press_sequentially("con")
    await expect(options).to_have_count(2)
    await expect(heads).to_have_count(0)


async def test_nothing_is_drawn_over_the_list_of_commands(site: Site, tab: Tab) -> None:
    for number in range(3):
        await site.says(f"{number} " + "many words\n\n" * 30)
    await tab.sees(".turn[data-turn=t3] footer")
    over = """() => {
        const {left, right, top, bottom} = completions.getBoundingClientRect();
        for (let x = left + 4; x < right - 4; x += 8)
            for (let y = top + 4; y < bottom - 4; y += 8) {
                const there = document.elementFromPoint(x, y);
                if (!completions.contains(there)) return there.outerHTML.slice(0, 80);
            }
        return "";
    }"""
    for size in (DESK, PHONE):
        await tab.page.set_viewport_size(size)
        await tab.page.evaluate("log.scrollTop = 0")
        await tab.sees("#end")
        await tab.page.fill("#text", "")
        await tab.page.locator("#text").press_sequentially("/")
        await tab.sees("#completions [role=option]")
        assert await tab.page.evaluate(over) == ""


async def test_enter_makes_a_new_line_on_a_phone_alone(site: Site, tab: Tab) -> None:
    text = tab.page.locator("#text")
    await tab.page.set_viewport_size(PHONE)
    await expect(text).to_have_attribute("placeholder", "Message")
    await expect(text).to_have_attribute("enterkeyhint", "enter")
    one_line = await text.evaluate("e => e.scrollHeight")
    assert one_line < 48
    await text.press_sequentially("one\ntwo")
    await expect(text).to_have_value("one\ntwo")
    await tab.page.keyboard.press("Control+Enter")
    await tab.sees("#log .turn[data-turn=t1]")
    await tab.page.set_viewport_size({"width": 640, "height": 450})  # 1280 at 200 %
    await text.press_sequentially("three\n")
    await tab.sees("#log .turn[data-turn=t2]")


async def test_a_new_conversation_is_in_the_header_of_a_phone(site: Site, tab: Tab) -> None:
    await site.says("one")
    await tab.page.set_viewport_size(PHONE)
    await tab.presses("New conversation", "header")
    await tab.sees(".greeting")
    assert not tab.page.url.endswith(f"#{site.session}")


async def test_on_a_phone_words_icons_and_the_divider_stay_whole(
    site: Site, tab: Tab, model: Model
) -> None:
    words = "internationally renowned restaurants | Donaudampfschifffahrtsgesellschaft"
    table = f"| {words} | one | two |\n|---|---|---|---|\n| {words} | three | four |"
    table += f"\n\n| Key | Text |\n|---|---|\n| `https://example.org/{'a' * 120}` | {'word ' * 40}|"
    model.script = lambda request: Say("They talked." if request.is_summary else table)
    for number in range(12):
        await site.says(f"{number}: {'many words ' * 30}")
    await site.commands("/context compact t1-t10")
    await tab.page.set_viewport_size(PHONE)
    cut = tab.page.locator(".cut > p")
    await expect(cut).to_have_count(1)
    line = await cut.evaluate("e => e.offsetHeight")
    assert line < 60
    assert await cut.evaluate("e => e.scrollWidth <= e.clientWidth")
    assert await tab.page.locator("#log").evaluate("e => e.scrollWidth <= e.clientWidth")
    under = tab.page.locator(".turn[data-turn=t12] .under")
    assert await under.evaluate(ROWS) == 1
    tables = tab.page.locator(".turn[data-turn=t12] .table")
    assert await tables.first.evaluate(BROKEN) == []
    assert await tables.last.evaluate("e => e.scrollWidth <= e.clientWidth"), "an address breaks"
    await tab.writes("/context turns")
    await tab.sees(".card table")
    assert await tab.page.locator(".card").evaluate(BROKEN) == []
    for scheme in SCHEMES:
        await tab.page.emulate_media(color_scheme=scheme)
        await tab.finds_no_fault()


async def test_a_phone_has_room_for_a_title_and_for_a_table_with_many_columns(
    site: Site, tab: Tab
) -> None:
    title = "Planning a weekend in Lisbon"
    await site.says("one")
    await site.commands(f"/title {title}")
    await tab.page.set_viewport_size(PHONE)
    heading = tab.page.locator("#title")
    await expect(heading).to_have_text(title)
    fits = "e => e.scrollHeight <= e.clientHeight + 1 && e.scrollWidth <= e.clientWidth + 1"
    assert await heading.evaluate(fits)
    box = "e => e.getBoundingClientRect().toJSON()"
    words, model, middle = [
        await tab.page.locator(one).evaluate(box) for one in ("#title", "#model span", "#model")
    ]
    assert model["y"] >= words["y"] + words["height"] - 1
    assert middle["height"] >= 44
    assert middle["width"] > 150
    await tab.page.mouse.click(words["x"] + 4, words["y"] + 4)  # the title is part of the button
    await expect(tab.page.locator("#dialog #question")).to_have_text("Choose a model")
    await tab.page.keyboard.press("Escape")
    await tab.writes("/usage")
    table = tab.page.locator(".card .table")
    await expect(table).to_contain_text(title)
    assert await table.evaluate("e => e.scrollWidth <= e.clientWidth")
    assert await table.evaluate(BROKEN) == []
    cost = table.locator("td[data-heading=cost]").first
    assert await cost.is_visible()
    await tab.finds_no_fault()


async def test_what_is_done_seldom_is_in_a_menu_under_the_answer(tab: Tab) -> None:
    await tab.asks("one", "one")
    more = tab.page.get_by_role("button", name="More for t1")
    for size in (DESK, PHONE):
        await tab.page.set_viewport_size(size)
        await more.focus()
        await tab.page.keyboard.press("Enter")
        items = tab.page.get_by_role("menuitem")
        await expect(items.first).to_be_focused()
        await expect(items).to_have_text(
            ["Retry with another model", "Branch off from here", "Quote", "Why this answer?"]
        )
        await tab.finds_no_fault()
        await tab.page.keyboard.press("Escape")
        await expect(more).to_be_focused()


@pytest.mark.parametrize(
    ("language", "tokens", "cost"),
    [("en-GB", "1.3k", "$0.0002"), ("de-DE", "1,3k", "0,0002 $"), ("zh-CN", "1.3k", "$0.0002")],
)
async def test_numbers_have_the_form_of_the_language(
    tmp_path: Path, browser: Browser, language: str, tokens: str, cost: str
) -> None:
    script = """async () => {
        const { amount, money } = await import("/page/dom.js");
        return [amount(1300), money(0.0002), amount(999), money(0)];
    }"""
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser, locale=language) as tab:
        await tab.opens(site.url)
        said = [text.replace("\xa0", " ") for text in await tab.page.evaluate(script)]
        assert said[:3] == [tokens, cost, "999"]
        assert said[3] in ("$0", "0 $")


async def test_signing_in_has_the_brand_and_no_way_into_nothing(
    tmp_path: Path, browser: Browser
) -> None:
    token = "a long random text"
    async with serving(tmp_path, echo_in_bold, token=token) as site, browsing(browser) as tab:
        await tab.page.goto(site.url)
        await tab.sees("#dialog .brand:has-text('Parley')")
        for size in (DESK, PHONE):
            await tab.page.set_viewport_size(size)
            for scheme in SCHEMES:
                await tab.page.emulate_media(color_scheme=scheme)
                await tab.finds_no_fault()
        for _ in range(3):
            await tab.page.keyboard.press("Escape")
        await tab.sees("#dialog .brand")
        await expect(tab.page.locator("#dialog button")).to_have_text(["Sign in"])
        await tab.page.route("**/api/login", lambda route: route.abort())
        await tab.page.fill("#dialog [name=name]", "ann")
        await tab.page.keyboard.press("Enter")
        await tab.sees("#dialog .wrong:has-text('reached')")
        await expect(tab.page.locator("#dialog [name=name]")).to_have_value("ann")
        await tab.page.unroute("**/api/login")
        await tab.page.fill("#dialog [name=name]", "")
        await tab.page.fill("#dialog [name=password]", token)
        await tab.page.keyboard.press("Enter")
        await expect(tab.page.locator("#dialog")).to_be_hidden()
        await expect(tab.page.locator("#share")).not_to_have_text("Context")
        tab.faults.clear()  # errors from before


async def test_the_voice_button_is_a_microphone(tab: Tab) -> None:
    record = tab.page.get_by_role("button", name="Record a voice message")
    await expect(record).to_be_visible()
    await expect(record.locator("svg")).to_be_visible()
    await expect(record).to_have_text("")
