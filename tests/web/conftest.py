"""The browser for tests of the page, and a bot with a tab that the tests of a file share."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import argon2
import openai._base_client
import pytest
import pytest_asyncio
from playwright.async_api import Browser

from plugins.accounts import logins
from tests.fakes.openai_server import Answer, Received, echo_in_bold
from tests.web.browser import DESK, Tab, browsing, launched
from tests.web.site import Site, serving


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(processes: None) -> AsyncIterator[Browser]:
    """Launch one Chromium for all tests; each context in it has its own profile."""
    async with launched() as browser:
        yield browser


@dataclass
class Model:
    """A model with a script that each test may replace."""

    script: Sequence[Answer] | Callable[[Received], Answer]

    def __call__(self, request: Received) -> Answer:
        if callable(self.script):
            return self.script(request)
        answer, *self.script = self.script
        return answer


@dataclass
class Shared:
    """A bot and a tab, shared by the tests of a file."""

    site: Site
    model: Model
    tab: Tab
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Shared]:
    model = Model(echo_in_bold)
    folder = tmp_path_factory.mktemp("shared")
    async with serving(folder, model) as site, browsing(browser) as tab:
        yield Shared(site, model, tab)


@pytest.fixture
def site(shared: Shared) -> Site:
    """Return the bot of this file; messages and commands are sent in a new session.

    A test that changes more than its session (settings for all, the memory, facts about a model
    that refused a request) starts its own bot.
    """
    return replace(shared.site, session=f"s{next(shared.numbers)}")


@pytest.fixture
def model(shared: Shared) -> Iterator[Model]:
    """Return the model of this file's bot; it repeats the message unless it gets another script."""
    yield shared.model
    left, shared.model.script = shared.model.script, echo_in_bold
    assert callable(left) or not left, f"never asked for: {left}"


@pytest_asyncio.fixture(loop_scope="session")
async def tab(shared: Shared, site: Site) -> AsyncIterator[Tab]:
    """Return the tab of this file, reloaded with this test's new session."""
    tab = shared.tab
    await tab.page.set_viewport_size(DESK)
    await tab.page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await tab.opens(site.url, site.session)
    yield tab
    await tab.page.unroute_all()
    faults = tab.faults.copy()
    tab.faults.clear()
    tab.hosts.clear()
    if tab.page.url.startswith(site.url):
        await tab.page.evaluate("localStorage.clear()")
    await tab.page.goto("about:blank")
    assert not faults, faults


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make OpenAI's SDK retry without a pause, and make password hashes cheap."""
    monkeypatch.setattr(openai._base_client, "INITIAL_RETRY_DELAY", 0.0)
    monkeypatch.setattr(openai._base_client, "MAX_RETRY_DELAY", 0.0)
    light = partial(argon2.PasswordHasher, time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(argon2, "PasswordHasher", light)
    monkeypatch.setattr(logins, "_NOBODYS", light().hash("nobody's"))
