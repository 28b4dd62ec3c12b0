"""A test in a browser, from an empty installation to the first answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from dotenv import dotenv_values
from playwright.async_api import Browser, expect

from agent.models import embedded
from plugins.connection.connector import ModelConnector
from tests.fakes.openai_server import OpenAIServer, Say, echo
from tests.web.browser import PHONE, browsing, needs_chromium
from tests.web.conftest import browser
from tests.web.site import serving

__all__ = ["browser"]
pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="session")]
KEY = "a-key-that-nobody-sees-0123456789"


@pytest.fixture(autouse=True)
def _no_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "find_installed_file", lambda: None)


async def test_a_new_installation_comes_to_its_first_answer_on_the_page(
    browser: Browser, tmp_path: Path
) -> None:
    async with (
        OpenAIServer([Say("Hello!"), Say("Good day.")], key=KEY, models=("gpt-9",)) as provider,
        serving(tmp_path, settings={"model": "auto"}, environ={}) as site,
        browsing(browser) as tab,
    ):
        site.app.config.services[ModelConnector].addresses = dict  # type: ignore[attr-defined]
        await tab.opens(site.url)
        form = tab.page.locator(".greeting .connecting")
        await form.get_by_label("Provider").select_option(label="Another address")
        await form.get_by_label("Address", exact=True).fill(provider.base_url)
        await form.get_by_label("API key").fill("another-key-0123")
        await form.get_by_label("Model").fill("gpt-9")
        await tab.presses("Test and connect", ".connecting")
        await expect(form.get_by_role("status")).to_contain_text("refused the API key")
        await form.get_by_label("API key").fill(KEY)
        await form.get_by_label("Model").press("Enter")
        await tab.sees("#notice:has-text('gpt-9 answers from now on.')")
        await expect(form).to_have_count(0)
        await tab.sees("#model:has-text('gpt-9')")
        await tab.asks("Hi", "Good day.")
        assert KEY not in await tab.page.content()
    assert dotenv_values(tmp_path / ".env")["OPENAI_API_KEY"] == KEY


async def test_who_asks_before_a_model_is_connected_is_led_to_the_form(
    browser: Browser, tmp_path: Path
) -> None:
    async with (
        OpenAIServer([Say("Hello!"), Say("Good day.")], key=KEY, models=("gpt-9",)) as provider,
        serving(tmp_path, settings={"model": "auto"}, environ={}) as site,
        browsing(browser, viewport=PHONE, has_touch=True, is_mobile=True) as tab,
    ):
        site.app.config.services[ModelConnector].addresses = dict  # type: ignore[attr-defined]
        await tab.opens_hidden(site.url)
        await tab.writes("Hi")
        await tab.sees(".ending.failed")
        await tab.page.reload()
        await tab.presses("Connect a model", ".ending.failed")
        form = tab.page.locator("#preferences .connecting")
        await form.get_by_label("Provider").select_option(label="Another address")
        await form.get_by_label("Address", exact=True).fill(provider.base_url)
        await form.get_by_label("API key").fill(KEY)
        await form.get_by_label("Model").fill("gpt-9")
        await tab.presses("Test and connect", "#preferences")
        await tab.sees("#notice:has-text('gpt-9 answers from now on.')")
        await expect(tab.page.locator("#preferences")).to_be_hidden()
        await expect(tab.page.locator(".ending .connects")).to_have_count(0)
        await tab.presses("Retry")
        await tab.sees("#log .turn .text:has-text('Good day.')")


async def test_a_server_of_this_machine_is_offered_first_with_the_keyboard_alone(
    browser: Browser, tmp_path: Path
) -> None:
    async with (
        OpenAIServer(echo, models=("qwen3:8b",)) as ollama,
        serving(tmp_path, settings={"model": "auto"}, environ={}) as site,
        browsing(browser, viewport=PHONE) as tab,
    ):
        connector = site.app.config.services[ModelConnector]
        connector.addresses = lambda: {"ollama": ollama.base_url}  # type: ignore[attr-defined]
        await tab.opens_hidden(site.url)
        form = tab.page.locator(".greeting .connecting")
        await expect(form.get_by_label("Provider")).to_have_value("ollama")
        await expect(form.get_by_label("Model")).to_have_value("qwen3:8b")


async def test_the_starters_fill_compact_and_undo_on_the_page(
    browser: Browser, tmp_path: Path
) -> None:
    async with (
        serving(tmp_path, settings={"model": "auto"}, environ={}) as site,
        browsing(browser) as tab,
    ):
        site.app.config.services[ModelConnector].addresses = dict  # type: ignore[attr-defined]
        await tab.opens(site.url)
        await tab.sees(".starters")
        await tab.presses("What can you do?", "#log")
        await tab.sees("#log .card:has-text('You see what the model sees')")
        await tab.presses("Load an example conversation", ".card")
        await tab.sees("#log .turn[data-turn=t1]")
        await tab.sees("#title:text-is('Example: a weekend in Lisbon')")
        await tab.presses("Compact the example", "#log .card")
        await tab.shows_state("t1", "summarised")
        await tab.presses("Undo", "#log .card")
        await tab.shows_state("t1", "in context")
