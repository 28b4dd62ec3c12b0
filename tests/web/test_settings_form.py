"""The settings on the page: a few with descriptive names, all others by searching."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, expect

from tests.fakes.openai_server import echo
from tests.web.browser import PHONE, Tab, browsing, needs_chromium
from tests.web.site import Site, serving

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="session")]


def row(tab: Tab, key: str) -> Locator:
    return tab.page.locator(f"li:has(#setting-{key.replace('.', '-')})")


async def value_of(site: Site, key: str, session: str = "") -> object:
    return (await site.commands(f"/config {key}", session))["data"]["value"]


async def open_all(tab: Tab) -> None:
    """Show all settings, of all sections."""
    await tab.opens_settings()
    await tab.page.get_by_label("Search all settings").fill(".")


async def test_eleven_settings_have_names_a_help_and_say_where_a_change_applies(tab: Tab) -> None:
    await tab.opens_settings()
    few = tab.page.locator("#preferences .few > li")
    await expect(few).to_have_count(11)
    for item in await few.all():
        label = await item.locator("label").text_content() or ""
        assert "." not in label
        assert "_" not in label
        assert len(await item.locator(".help").text_content() or "") > 20
        said = await item.locator(".source").text_content() or ""
        assert "For all conversations" in said or await item.locator("select[data-scope]").count()


async def test_whatever_a_conversation_may_set_has_a_name(site: Site, tab: Tab) -> None:
    await open_all(tab)
    settings = (await site.get(f"{site.path}/context"))[1]["settings"]
    names = await tab.page.evaluate("import('/page/named.js').then(({ NAMES }) => NAMES)")
    assert set(names) <= {one["key"] for one in settings}
    for key, name in names.items():
        await expect(row(tab, key).locator("label")).to_have_text(name)
        await expect(row(tab, key).locator(".source code")).to_contain_text(key)
    for key in (one["key"] for one in settings if one["is_per_conversation"]):
        await expect(row(tab, key).locator("label")).not_to_have_text(key)


async def test_a_setting_is_changed_here_or_everywhere_and_reset(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        await tab.opens_settings("Context")
        strategy = row(tab, "context.strategy")
        await tab.page.select_option("#setting-context-strategy", label="Send everything")
        await expect(strategy).to_contain_text("Set in this conversation")
        assert await value_of(site, "context.strategy") == "full"
        assert await value_of(site, "context.strategy", "other") == "trim"
        await tab.presses("Reset When the conversation gets long")
        await expect(strategy).to_contain_text("Default")
        await strategy.locator("select[data-scope]").select_option(label="For all conversations")
        await site.commands("/config agent_max_context_turns 7")
        await expect(row(tab, "agent_max_context_turns")).to_contain_text("Set everywhere")
        await tab.page.select_option("#setting-context-strategy", label="Send everything")
        await expect(strategy).to_contain_text("Set everywhere")
        assert await value_of(site, "context.strategy", "other") == "full"


async def test_a_long_text_is_written_in_several_lines(site: Site, tab: Tab) -> None:
    await tab.opens_settings()
    await tab.page.get_by_label("Instructions", exact=True).fill(' Be "brief".\n\nAlways. ')
    await tab.page.keyboard.press("Tab")
    await expect(row(tab, "system_prompt")).to_contain_text("Set in this conversation")
    await tab.page.keyboard.press("Escape")
    await tab.asks("Hi", "re: Hi")
    system = site.server.turns[-1].body["messages"][0]["content"]
    assert 'Be "brief".\n\nAlways.' in system


async def test_what_is_refused_is_said_and_stays_as_it_was(tab: Tab) -> None:
    await tab.opens_settings("Context")
    await tab.page.fill("#setting-agent_max_context_turns", "1001")
    await tab.page.press("#setting-agent_max_context_turns", "Enter")
    await tab.sees("#preferences .said:has-text('it must be a whole number from 0 to 1000')")
    await expect(tab.page.locator("#setting-agent_max_context_turns")).to_have_value("20")


async def test_all_others_are_searched_and_what_no_chat_may_change_looks_so(
    site: Site, tab: Tab
) -> None:
    await tab.opens_settings()
    search = tab.page.get_by_label("Search all settings")
    await search.fill("shell run")
    await expect(row(tab, "tools.shell")).to_be_visible()
    await expect(row(tab, "database")).to_be_hidden()
    await expect(row(tab, "tools.shell")).to_contain_text("For all conversations")
    nothing = tab.page.locator("#preferences .nothing")
    await search.fill("zeppelin")
    await expect(nothing).to_be_visible()
    await search.fill("database")
    await expect(nothing).to_be_hidden()
    await expect(row(tab, "database")).to_contain_text("Changed in the configuration, not here")
    assert await row(tab, "database").locator("input, select, textarea, button").count() == 0
    await search.fill("web.port")
    await expect(row(tab, "web.port")).to_contain_text("at the next start")
    for setting in (await site.get(f"{site.path}/context"))[1]["settings"]:
        fields = row(tab, setting["key"]).locator("input, select, textarea")
        assert (await fields.count() == 0) == setting["is_fixed"], setting["key"]


async def test_what_is_being_written_stays_while_the_context_changes(site: Site, tab: Tab) -> None:
    await tab.opens_settings()
    await tab.page.fill("#setting-system_prompt", "Half a thou")
    await site.says("Hello")
    await tab.shows_state("t1", "in context")
    await expect(tab.page.locator("#setting-system_prompt")).to_have_value("Half a thou")
    await expect(tab.page.locator("#setting-system_prompt")).to_be_focused()


@pytest.mark.parametrize("key", ["tools.web_fetch", "context.offload"])
async def test_a_switch_switches(site: Site, tab: Tab, key: str) -> None:
    await tab.page.set_viewport_size(PHONE)
    await open_all(tab)
    before = await value_of(site, key)
    await row(tab, key).get_by_role("switch").click()
    await expect(row(tab, key)).to_contain_text("Set ")
    assert await value_of(site, key) is not before


async def test_the_fields_of_settings_are_the_same_in_every_language(
    tmp_path: Path, browser: Browser
) -> None:
    rule = {"id": "a", "on": "turn_end", "action": {"type": "log", "message": "x"}}
    async with (
        serving(tmp_path, echo, {"hooks": [rule]}) as site,
        browsing(browser, locale="de-DE") as tab,
    ):
        await tab.opens(site.url)
        await tab.page.click("#gear")
        await expect(tab.page.locator("textarea#setting-system_prompt")).to_be_visible()
        await tab.page.locator("#preferences input[type=search]").fill("o")
        hooks = await tab.page.locator("textarea#setting-hooks").input_value()
        assert json.loads(hooks)[0]["id"] == "a"
        await expect(tab.page.locator("select#setting-context-full_turns")).to_be_visible()
