"""The question below an answer on the page whether to keep a rule."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.fakes.openai_server import echo
from tests.instructions.test_rules_said import BOSS
from tests.web.browser import browsing, needs_chromium
from tests.web.site import serving

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="session")]


async def test_on_the_page_it_stands_below_the_answer_until_it_is_answered(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        await tab.asks(BOSS, "re: Never")
        await tab.sees(f".turn .asides p:has-text('Keep this as a rule? “{BOSS}”')")
        await tab.page.click(".asides button:text-is('Keep')")
        await tab.sees(".card:has-text('Kept as a rule in this conversation')")
        await expect(tab.page.locator(".asides")).to_have_count(0)
        await tab.writes("/context")
        await tab.sees("#panel :text('standing instructions')")
        assert tab.faults == []
