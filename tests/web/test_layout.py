"""The page's texts fit in every language: at both widths no label is cut or exceeds its box, only
intended parts scroll sideways, and no control covers another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.web.browser import DESK, PHONE, Tab, browsing, needs_chromium
from tests.web.site import serving
from tests.web.test_words import SCENARIOS, open_settings, script

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="session")]

LOCALES = ("en-GB", "de-DE", "zh-CN")
MISPLACED = """() => {
  const top = document.querySelector("dialog[open]") ?? document.body;
  const theirs = "#log .text, #title, .title, .words, .name, #model, .state, .costs a, output";
  const wide = "pre, .table, .formula, textarea, input, #preferences [role=tablist]";
  const shown = [...top.querySelectorAll("*")].filter((one) => (
    !one.closest(".hidden, .skip, svg, [aria-hidden=true]") && one.clientWidth
    && one.checkVisibility({ visibilityProperty: true, opacityProperty: true })));
  const called = (one) => (
    `${one.tagName.toLowerCase()} “${(one.ariaLabel || one.textContent).trim().slice(0, 40)}”`);
  const scrolls = (one) => ["auto", "scroll"].includes(getComputedStyle(one).overflowX);
  const found = [];
  for (const one of shown) {
    const isOver = one.scrollWidth > one.clientWidth + 1;
    const speaks = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!isOver || one.matches(wide)) continue;
    if (scrolls(one)) found.push(`scrolls sideways: ${called(one)}`);
    else if (speaks && !one.closest(theirs)) found.push(`has no room: ${called(one)}`);
  }
  const pen = new OffscreenCanvas(1, 1).getContext("2d");
  for (const one of shown.filter((one) => one.matches("select"))) {
    const { font, paddingLeft, paddingRight } = getComputedStyle(one);
    pen.font = font;
    const longest = Math.max(...[...one.options].map(({ text }) => pen.measureText(text).width));
    const around = parseFloat(paddingLeft) + parseFloat(paddingRight) + 20; // with the arrow
    if (longest > one.clientWidth - around) found.push(`has no room for an option: ${called(one)}`);
  }
  const scroller = (one) => (one && !scrolls(one) ? scroller(one.parentElement) : one);
  const layer = (one) => scroller(one) ?? one.closest(".side, main, dialog");
  const seen = (one) => {
    let { left, right, top: head, bottom } = one.getBoundingClientRect();
    for (let box = one.parentElement; box; box = box.parentElement) {
      if (getComputedStyle(box).overflow === "visible") continue;
      const clip = box.getBoundingClientRect();
      [left, right] = [Math.max(left, clip.left), Math.min(right, clip.right)];
      [head, bottom] = [Math.max(head, clip.top), Math.min(bottom, clip.bottom)];
    }
    return { left, right, top: head, bottom };
  };
  const controls = shown.filter((one) => one.matches("button, select, a, input:not([type=file])"));
  controls.forEach((one, at) => controls.slice(at + 1).forEach((other) => {
    if (one.contains(other) || layer(one) !== layer(other)) return;
    if ([one, other].some((either) => either.closest("#menu, #completions, .over"))) return;
    const [a, b] = [seen(one), seen(other)];
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (across > 2 && down > 2) found.push(`one over the other: ${called(one)}, ${called(other)}`);
  }));
  return found;
}"""


OPEN = "for (const one of preferences.querySelectorAll('details')) one.open = true"
SECTIONS = ("general", "models", "context", "memory", "people", "browser")


async def find_misplaced(tab: Tab) -> list[str]:
    return list(await tab.page.evaluate(MISPLACED))


async def test_what_has_no_room_would_be_seen(tab: Tab) -> None:
    assert await find_misplaced(tab) == []
    for change in (
        "byId => byId('new').style = 'flex: none; inline-size: 20px'",
        "byId => byId('tabs').style.inlineSize = '90px'",
        "byId => byId('gear').style.marginInlineStart = '-40px'",
        "byId => byId('tabs').after(Object.assign(document.createElement('select'), "
        "{ innerHTML: '<option>A choice of several words', style: 'inline-size: 90px' }))",
    ):
        await tab.page.evaluate(f"({change})((id) => document.getElementById(id))")
        assert await find_misplaced(tab), change
        await tab.page.reload()
        await tab.sees("#panel .headline")


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_all_words_fit_in_every_language_at_both_widths(
    tmp_path: Path, browser: Browser, scenario: str, locale: str
) -> None:
    found: dict[tuple[str, int], list[str]] = {}

    async def look(tab: Tab, name: str) -> None:
        for size in (DESK, PHONE):
            await tab.page.set_viewport_size(size)
            await tab.page.evaluate("context.classList.toggle('open', innerWidth < 1100)")
            if misplaced := await find_misplaced(tab):
                found[name, size["width"]] = misplaced
        await tab.page.set_viewport_size(DESK)

    async with serving(tmp_path, script) as site, browsing(browser, locale=locale) as tab:
        for state in SCENARIOS[scenario]:
            if state is open_settings:
                continue
            await tab.page.goto("about:blank")
            await state(site, tab)
            await look(tab, state.__name__)
        await tab.page.goto("about:blank")
        await tab.opens(site.url)
        await tab.page.click("#gear")
        for section in SECTIONS:
            await tab.page.click(f"#tab-{section}")
            await tab.page.evaluate(OPEN)
            await look(tab, section)
        tab.faults.clear()  # the browser logs the refused request
        await site.commands("/stop")
    assert not found, "\n".join(f"{where}: {what}" for where, what in found.items())


async def test_a_long_card_opens_at_its_heading(tab: Tab) -> None:
    for size in (DESK, PHONE):
        await tab.page.set_viewport_size(size)
        await tab.writes("/help all")
        heading = tab.page.locator("#log > .card").last.locator("header .line")
        await expect(heading).to_have_text("/help all")
        await expect(heading).to_be_in_viewport(ratio=1)
        place = "e => e.getBoundingClientRect().top - log.getBoundingClientRect().top"
        assert 0 <= await heading.evaluate(place) < 60


async def test_a_german_date_at_the_beginning_of_a_line_is_no_number_of_a_list(
    tmp_path: Path, browser: Browser
) -> None:
    settings = {"language": "de"}
    async with (
        serving(tmp_path, script, settings) as site,
        browsing(browser, locale="de-DE") as tab,
    ):
        await site.commands("/remember Ann is allergic to nuts.")
        await tab.opens(site.url)
        await tab.page.locator("#tabs [role=tab]").last.click()
        lines = tab.page.locator("#memory .text ol li")
        await expect(lines).to_have_count(1)
        await expect(lines).to_have_text(re.compile(r"^\d\d?\.\s\w+\.? \d{4}: Ann is allergic"))
        await site.says("More")
        await site.commands("/context pin t1")
        await tab.writes("/context history")
        items = tab.page.locator("#log > .card .text :is(ul, ol) li")
        await expect(items).to_have_text(
            [re.compile(r"^e1 Anheften · t1\s+\d\d?\.\s\w+\.? \d{4}, ")]
        )
