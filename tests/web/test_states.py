"""States of the page without a finding of axe, at both widths and in both themes. In none is
anything wider than the window, a table wider than its card, or a field without a visible edge."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.web.browser import needs_chromium
from tests.web.states import STATES, shows, staged

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="session")]

SEEN = {
    "demo": ("first_visit", "tour_filled", "tour_compacted"),
    "locked": ("sign_in", "invitation"),
    "asked": ("compaction_asked",),
    "usual": ("chat", "rich", "summary_edited"),
    "panel": ("panel_selected", "panel_request", "panel_memory"),
    "menus": ("turn_menu", "conversation_menu"),
    "questions": ("question_edited", "delete_asked", "models"),
    "answers": ("asked_again", "failed", "private"),
    "tools": ("tool_asks", "settings_context"),
    "german": ("german_card_usage", "german_panel_in_context"),
}
"""The states by the bot that they need, 24 in total; "panel" to "tools" need the usual one."""


CUT_TABLES = """
[...document.querySelectorAll(".card .table")]
  .filter((one) => one.scrollWidth > one.clientWidth).length
"""

FAINT_FIELDS = """
(() => {
  const values = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const parts = values(colour).slice(0, 3).map((one) => one / 255)
      .map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const ground = (one) => {
    for (; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if ((values(colour)[3] ?? 1) === 1) return light(colour);
    }
    return 1;
  };
  const kinds = "input:not([type=checkbox], [type=file], [type=radio]), select, textarea, .box";
  return [...document.querySelectorAll(kinds)]
    .filter((one) => one.checkVisibility() && getComputedStyle(one).borderTopWidth !== "0px")
    .filter((one) => {
      const edge = light(getComputedStyle(one).borderTopColor);
      const behind = ground(one.parentElement);
      const [more, less] = edge > behind ? [edge, behind] : [behind, edge];
      return (more + 0.05) / (less + 0.05) < 3;
    })
    .map((one) => one.outerHTML.slice(0, 100));
})()
"""
"""The fields whose edge has less than 3:1 against the colour around it (WCAG 2.2, 1.4.11)."""


@pytest.mark.parametrize("group", SEEN)
async def test_axe_finds_nothing_in_any_state(tmp_path: Path, browser: Browser, group: str) -> None:
    bot = group if group in STATES else "usual"
    async with staged(bot, browser, tmp_path) as stage:
        for name in SEEN[group]:
            async for combination in shows(stage, STATES[bot][name]):
                print(f"{name}, {combination}")  # noqa: T201 - shown for a failure
                await stage.tab.finds_no_fault()
                wide = "document.documentElement.scrollWidth - innerWidth"
                assert await stage.tab.page.evaluate(wide) <= 0
                assert await stage.tab.page.evaluate(CUT_TABLES) == 0
                assert await stage.tab.page.evaluate(FAINT_FIELDS) == []
