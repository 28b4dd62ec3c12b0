"""Typed text on the page is never lost: drafts, and messages being sent to the bot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.async_api import Browser, FilePayload, Route, expect

from plugins.accounts.logins import PageLogins
from tests.fakes.openai_server import Hang, echo_in_bold
from tests.waiting import until
from tests.web.browser import Tab, browsing, needs_chromium
from tests.web.conftest import Model
from tests.web.site import serving

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="session")]

NOTE = FilePayload(name="note.txt", mimeType="text/plain", buffer=b"Remember the milk.")


async def has_kept_files(tab: Tab, session: str, count: int) -> None:
    """Wait until the browser's database has this many files of this draft."""
    has = """async ([session, count]) => {
        const kept = await import("/page/kept.js");
        return (await kept.files(session)).length === count;
    }"""
    await until(lambda: tab.page.evaluate(has, [session, count]))


async def test_each_conversation_keeps_its_draft_over_a_reload(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        await site.says("Hello", "one")
        await site.says("Hi", "two")
        await tab.opens(site.url, "one")
        await tab.page.fill("#text", "half a thou")
        await tab.page.set_input_files("#picker", [NOTE])
        await has_kept_files(tab, "one", 1)
        await tab.page.click(".session .title:text-is('Hi')")
        await expect(tab.page.locator("#text")).to_have_value("")
        await expect(tab.page.locator("#files .chip")).to_have_count(0)
        await tab.page.fill("#text", "/conf")
        await tab.page.reload()
        await expect(tab.page.locator("#text")).to_have_value("/conf")
        await tab.page.click(".session .title:text-is('Hello')")
        await expect(tab.page.locator("#text")).to_have_value("half a thou")
        await expect(tab.page.locator("#files .chip")).to_have_count(1)
        await tab.page.press("#text", "Enter")
        await tab.sees("#log .turn[data-turn=t2]")
        await tab.page.reload()
        await tab.sees("#log .turn[data-turn=t2]")
        await expect(tab.page.locator("#text")).to_have_value("")
        await expect(tab.page.locator("#files .chip")).to_have_count(0)
        assert "half a thou" in str(site.server.turns[-1].body["messages"])


async def test_what_is_written_while_the_bot_is_away_waits_and_is_sent_in_order(
    tmp_path: Path, browser: Browser
) -> None:
    async with browsing(browser, does_bot_stop=True) as tab:
        async with serving(tmp_path, echo_in_bold) as site:
            await tab.opens(site.url)
            await tab.asks("one", "one")
            port = int(site.url.rpartition(":")[2])
        await tab.sees("body[data-offline]")
        await tab.writes("/title A long title")  # a command is not sent later, but restored
        await tab.sees('#notice:has-text("can\'t be reached")')
        await expect(tab.page.locator("#text")).to_have_value("/title A long title")
        await tab.page.set_input_files("#picker", [NOTE])
        await tab.writes("two")
        await tab.writes("three")
        await expect(tab.page.locator(".unsent")).to_have_count(2)
        await tab.sees(".unsent:has-text('Waiting to be sent')")
        await expect(tab.page.locator("#send")).to_have_attribute("aria-label", "Send")
        async with serving(tmp_path, echo_in_bold, port=port) as site:
            await tab.sees("#log .turn[data-turn=t3] .text:has-text('three')")
            await tab.sees("#log .turn[data-turn=t2] .text:has-text('note.txt')")
            await expect(tab.page.locator(".turn")).to_have_count(3)
            await tab.page.reload()
            await tab.sees("#log .turn[data-turn=t3]")
            await expect(tab.page.locator(".turn")).to_have_count(3)


async def test_a_message_that_waits_outlives_its_page_and_is_sent_once(
    tmp_path: Path, browser: Browser
) -> None:
    """The response is lost, so the page does not know whether the message has arrived."""

    async def swallow(route: Route) -> None:
        await route.fetch()
        await route.abort()

    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        await tab.page.route("**/messages", swallow)
        async with tab.page.expect_request("**/messages"):
            await tab.writes("once")
        await tab.sees("#log .turn:has-text('re: once')")
        await tab.page.unroute("**/messages", swallow)
        await tab.page.reload()
        await tab.sees("#log .turn[data-turn=t1]")
        is_sent = """async () => !(await (await import("/page/kept.js")).outbox()).length"""
        await until(lambda: tab.page.evaluate(is_sent))
        await tab.asks("twice", "re: twice")
        await expect(tab.page.locator(".turn")).to_have_count(2)
        assert len(site.server.requests) == 2
        tab.faults.clear()  # the browser logs a 409


async def refuse(route: Route) -> None:
    if route.request.method != "POST":
        await route.continue_()
        return
    refusal = {"error": {"message": "The disk is full.", "type": "server_error"}}
    await route.fulfill(status=500, content_type="application/json", body=json.dumps(refusal))


async def test_a_chat_is_greeted_when_its_only_message_was_refused_and_discarded(tab: Tab) -> None:
    await tab.page.route("**/messages", refuse)
    await tab.writes("Keep this")
    await tab.presses("Discard", ".unsent")
    await tab.sees("#log .greeting")
    tab.faults.clear()  # the browser notes the 500


async def test_what_the_bot_refuses_can_be_changed_and_sent_again(tab: Tab) -> None:
    await tab.page.route("**/messages", refuse)
    await tab.page.set_input_files("#picker", [NOTE])
    await tab.writes("Keep this")
    await tab.sees(".unsent:has-text('Not sent. The disk is full.')")
    await tab.page.fill("#text", "and this")
    await tab.page.reload()
    await tab.presses("Edit", ".unsent")
    await expect(tab.page.locator("#text")).to_have_value("Keep this\n\nand this")
    await expect(tab.page.locator("#files .chip")).to_have_count(1)
    await expect(tab.page.locator(".unsent")).to_have_count(0)
    await tab.page.press("#text", "Enter")
    await tab.sees(".unsent:has-text('Not sent.')")
    await tab.page.unroute("**/messages", refuse)
    await tab.presses("Send again", ".unsent")
    await tab.sees("#log .turn[data-turn=t1]:has-text('and this')")
    tab.faults.clear()  # the browser notes each 500


async def test_one_button_sends_and_stops(tab: Tab, model: Model) -> None:
    model.script = [Hang("Half")]
    button = tab.page.locator("#composer button[type=submit]")
    await expect(button).to_have_attribute("aria-label", "Send")
    await tab.writes("Go")
    await expect(button).to_have_attribute("aria-label", "Stop the answer")
    await tab.sees(".pending:has-text('Half')")
    await tab.page.fill("#text", "and also")
    await expect(button).to_have_attribute("aria-label", "Send")
    await tab.page.fill("#text", "")
    await button.click()
    await tab.sees(".turn[data-turn=t1]:has-text('Stopped, as you asked.')")
    await expect(button).to_have_attribute("aria-label", "Send")


async def test_a_deleted_conversation_leaves_no_draft_behind(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        await site.says("Hello", "one")
        await tab.opens(site.url, "one")
        await tab.page.fill("#text", "a secret")
        await tab.page.set_input_files("#picker", [NOTE])
        await has_kept_files(tab, "one", 1)
        await tab.chooses("Delete", "Hello")
        await tab.presses("Delete", "#dialog")
        await expect(tab.page.locator("#list [data-session=one]")).to_have_count(0)
        await has_kept_files(tab, "one", 0)
        assert "secret" not in await tab.page.evaluate("JSON.stringify(localStorage)")


async def test_whoever_signs_out_leaves_nothing_typed_behind(
    tmp_path: Path, browser: Browser
) -> None:
    async with (
        serving(tmp_path, echo_in_bold, token="a long random text") as site,
        browsing(browser) as tab,
    ):
        code = await site.app.features.service(PageLogins).invite("ann", "user", "a test")
        await tab.page.goto(f"{site.url}/#join={code}")
        await tab.presses("Join", "#dialog")
        await tab.sees("#panel .headline")
        await tab.page.goto(f"{site.url}/#main")
        await tab.page.fill("#text", "a secret")
        await tab.page.set_input_files("#picker", [NOTE])
        await has_kept_files(tab, "main", 1)
        async with tab.page.expect_navigation():
            await tab.presses("ann: sign out")
        await tab.page.fill("#dialog input[name=password]", "a long random text")
        await tab.presses("Sign in", "#dialog")
        await tab.sees("#panel .headline")
        await has_kept_files(tab, "main", 0)
        assert "secret" not in await tab.page.evaluate("JSON.stringify(localStorage)")
        tab.faults.clear()  # the browser notes each 401


async def test_what_is_typed_off_the_record_is_in_this_tab_alone(
    tmp_path: Path, browser: Browser
) -> None:
    in_browser = """async () => {
        const kept = await import("/page/kept.js");
        return JSON.stringify(localStorage) + JSON.stringify(await kept.outbox());
    }"""
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        await site.says("Hello", "one")
        await tab.opens(site.url, "one")
        await tab.page.fill("#text", "/private on")
        await tab.page.press("#text", "Enter")
        await tab.sees("#private")
        await tab.sees(".of-saved")
        await tab.page.fill("#text", "my zebra")
        await tab.page.press("#text", "Enter")
        await tab.sees("#log .turn[data-turn=p1]")
        await tab.page.fill("#text", "half a zebra")
        assert "zebra" not in await tab.page.evaluate(in_browser)
        await tab.page.reload()
        await tab.sees("#log .turn[data-turn=p1]")  # the bot still has it
        await expect(tab.page.locator("#list .channel")).to_have_text("Off the record now")
        await tab.page.click("#private button")
        for told in ("#private", ".of-saved"):
            await expect(tab.page.locator(told)).to_be_hidden()
        await tab.sees("#log .turn[data-turn=t1]")
        await expect(tab.page.locator("#log")).not_to_contain_text("zebra")
        assert "zebra" not in await tab.page.evaluate(in_browser)
