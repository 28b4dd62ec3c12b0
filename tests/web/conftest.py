"""The browser of the tests of the page."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.web.browser import CHROMIUM


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(processes: None) -> AsyncIterator[Browser]:
    """One Chromium for a module's tests; each has a profile of its own in it."""
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        await launched.close()
