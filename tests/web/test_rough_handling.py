"""The page in browsers that keep nothing or copy nothing, and where answers come late."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, expect

from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.web.browser import PHONE, Tab, browsing, needs_chromium
from tests.web.site import serving

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="module")]

TOKEN = "a long random text"


def echo(request: Received) -> Answer:
    return Say(f"**re:** {request.body['messages'][-1]['content']}")


async def test_a_browser_that_keeps_nothing_shows_the_page_and_loses_no_draft(
    tmp_path: Path, browser: Browser
) -> None:
    blocked = """for (const name of ["localStorage", "indexedDB"]) {
        const refuse = () => { throw new DOMException("no", "SecurityError"); };
        Object.defineProperty(window, name, { get: refuse });
    }"""
    async with serving(tmp_path, echo) as site, browsing(browser) as tab:
        await tab.page.add_init_script(blocked)
        await tab.opens(site.url)
        await tab.asks("one", "one")
        await tab.page.fill("#text", "half a thou")
        await tab.presses("New conversation")
        await expect(tab.page.locator("#text")).to_have_value("")
        await tab.page.click("#list .session")
        await expect(tab.page.locator("#text")).to_have_value("half a thou")
        await tab.presses("Colours: same as the system")
        await expect(tab.page.locator("html")).to_have_attribute("data-theme", "light")


async def test_code_is_copied_where_the_page_is_not_secure(
    tmp_path: Path, browser: Browser
) -> None:
    async with (
        serving(tmp_path, [Say("So:\n\n```\n1 < 2\n```")]) as site,
        browsing(browser) as tab,
    ):
        await tab.page.add_init_script("Object.defineProperty(navigator, 'clipboard', {})")
        await tab.opens(site.url)
        await tab.asks("How?", "So")
        await tab.page.focus("button.copy")
        await tab.presses("Copy")
        await tab.sees("button:text-is('Copied')")
        await expect(tab.page.locator("button.copy")).to_be_focused()
        await tab.page.focus("#text")
        await tab.page.keyboard.press("Control+v")
        await expect(tab.page.locator("#text")).to_have_value("1 < 2\n")
        await tab.presses("Copy the answer")
        await tab.page.fill("#text", "")
        await tab.page.keyboard.press("Control+v")
        await expect(tab.page.locator("#text")).to_have_value("So:\n\n```\n1 < 2\n```")


async def test_the_link_to_the_message_box_stays_in_the_conversation(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        await tab.asks("one", "one")
        await tab.page.focus(".skip")
        await tab.page.keyboard.press("Enter")
        await expect(tab.page.locator("#text")).to_be_focused()
        await tab.asks("two", "two")
        await expect(tab.page.locator(".turn[data-turn]")).to_have_count(2)
        assert tab.page.url.endswith("#main")


@pytest.mark.parametrize("name", ["100%", "nochannel/1", "x" * 500])
async def test_an_address_that_names_no_conversation_is_survived(
    tmp_path: Path, browser: Browser, name: str
) -> None:
    async with serving(tmp_path, echo) as site, browsing(browser) as tab:
        await tab.page.goto(f"{site.url}/#{name}")
        await tab.presses("New conversation")
        await tab.asks("one", "one")
        await tab.page.evaluate("name => { location.hash = name }", name)
        if name != "100%":
            await tab.sees("#notice:not(:empty)")
        await tab.page.evaluate("() => new Promise(requestAnimationFrame)")
        assert not [fault for fault in tab.faults if "status of 404" not in fault]
        tab.faults.clear()  # the browser notes each 404


async def test_a_slash_that_needs_shift_leads_to_the_message(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        await tab.page.focus("#log")
        await tab.page.evaluate("""document.activeElement.dispatchEvent(
            new KeyboardEvent("keydown", {key: "/", shiftKey: true, bubbles: true}))""")
        await expect(tab.page.locator("#text")).to_be_focused()


async def test_a_deletion_that_fails_takes_no_draft(tmp_path: Path, browser: Browser) -> None:
    async with serving(tmp_path, echo) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        await tab.asks("one", "one")
        await tab.page.fill("#text", "half a thou")
        await tab.page.route("**/commands/forget", lambda route: route.abort())
        await tab.chooses("Delete", "one")
        await tab.presses("Delete", "dialog")
        await tab.sees("#notice:has-text('be reached')")
        await expect(tab.page.locator("#log .turn")).to_have_count(1)
        await tab.page.reload()
        await tab.sees("#log .turn")
        await expect(tab.page.locator("#text")).to_have_value("half a thou")


async def hold_back(tab: Tab, address: str) -> asyncio.Event:
    """Let what is asked of this address wait until the event is set."""
    late = asyncio.Event()

    async def hold(route: Route) -> None:
        await late.wait()
        await route.continue_()

    await tab.page.route(address, hold)
    return late


async def test_a_reply_that_comes_late_stands_in_no_other_conversation(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo) as site, browsing(browser) as tab:
        await site.says("one", "one")
        await site.says("two", "two")
        await tab.opens(site.url, "one")
        late = await hold_back(tab, "**/commands/status")
        async with tab.page.expect_request("**/commands/status"):
            await tab.writes("/status")
        await tab.page.click("#list li[data-session=two] .session")
        await tab.sees("#log .turn:has-text('re: two')")
        async with tab.page.expect_response("**/commands/status"):
            late.set()
        await tab.sees("#notice:not(:empty)")
        await expect(tab.page.locator("#log .card")).to_have_count(0)


async def test_turns_that_come_late_stand_in_no_other_conversation(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo) as site, browsing(browser) as tab:
        await site.says("two", "two")
        await tab.opens(site.url, "one")
        late = await hold_back(tab, "**/sessions/one/messages?**")
        async with tab.page.expect_request("**/sessions/one/messages?**"):
            await tab.writes("one")
        await tab.page.click("#list li[data-session=two] .session")
        await tab.sees("#log .turn:has-text('re: two')")
        async with tab.page.expect_response("**/sessions/one/messages?**"):
            late.set()
        await tab.page.evaluate("() => new Promise(requestAnimationFrame)")
        await expect(tab.page.locator("#log .question")).to_have_text(["two"])


async def test_older_turns_that_come_late_stand_in_no_other_conversation(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo) as site, browsing(browser) as tab:
        for session in ["two", *["one"] * 31]:
            await site.says(session, session)
        await tab.opens(site.url, "one")
        late = await hold_back(tab, "**/sessions/one/messages?**")
        async with tab.page.expect_request("**/sessions/one/messages?**"):
            await tab.presses("Show older turns", "#log")
        await tab.page.click("#list li[data-session=two] .session")
        await tab.sees("#log .turn:has-text('re: two')")
        async with tab.page.expect_response("**/sessions/one/messages?**"):
            late.set()
        await tab.page.evaluate("() => new Promise(requestAnimationFrame)")
        await expect(tab.page.locator("#log .question")).to_have_text(["two"])


async def test_a_question_that_is_being_edited_outlives_a_cut_connection(
    tmp_path: Path, browser: Browser
) -> None:
    async with browsing(browser, does_bot_stop=True) as tab:
        async with serving(tmp_path, echo) as site:
            await tab.opens(site.url)
            await tab.asks("one", "one")
            await tab.presses("Edit the question")
            await tab.page.fill("#log .field textarea", "one, but better")
            port = int(site.url.rpartition(":")[2])
        await tab.sees("body[data-offline]")
        async with serving(tmp_path, echo, port=port) as site:
            await site.says("two")
            await tab.sees(".turn[data-turn=t2] .text:has-text('two')")
            await expect(tab.page.locator("#log .field textarea")).to_have_value("one, but better")


async def test_the_page_says_in_german_that_the_bot_is_away(
    tmp_path: Path, browser: Browser
) -> None:
    async with browsing(browser, does_bot_stop=True, locale="de-DE") as tab:
        async with serving(tmp_path, echo) as site:
            await tab.opens(site.url)
        await tab.sees("body[data-offline]")
        said = await tab.page.evaluate(
            "getComputedStyle(document.querySelector('#notice'), '::before').content"
        )
        assert "Bot ist nicht" in said, said


async def test_a_question_that_gives_way_to_the_sign_in_is_not_answered_with_yes(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo, token=TOKEN) as site, browsing(browser) as tab:
        await tab.page.goto(f"{site.url}/#main")
        await tab.page.fill("dialog input[name=password]", TOKEN)
        await tab.presses("Sign in", "dialog")
        await tab.asks("one", "one")
        await tab.page.fill("#search", "on")
        await tab.chooses("Delete", "one")
        await tab.sees("dialog:has-text('for good')")
        await tab.page.context.clear_cookies()
        await tab.page.evaluate(
            "document.querySelector('#search').dispatchEvent(new Event('input'))"
        )
        await tab.page.fill("dialog input[name=password]", TOKEN)
        await tab.presses("Sign in", "dialog")
        await expect(tab.page.locator("dialog")).not_to_be_visible()
        await tab.asks("two", "two")
        await tab.page.reload()
        await tab.sees("#log .turn[data-turn=t1]")
        tab.faults.clear()  # the browser notes each 401


async def test_who_is_shut_out_is_told_to_sign_in(tmp_path: Path, browser: Browser) -> None:
    async with serving(tmp_path, echo, token=TOKEN) as site, browsing(browser) as tab:
        code = await site.app.bot.logins.invite("ann", "user", "a test")
        await tab.page.goto(f"{site.url}/#join={code}")
        await tab.presses("Come in", "dialog")
        await tab.sees("#panel .headline")
        await tab.asks("one", "one")
        site.http.headers["Authorization"] = f"Bearer {TOKEN}"
        await site.commands("/revoke web/ann")
        await tab.sees("dialog:has-text('Who are you?')")
        tab.faults.clear()  # the browser notes each 401


async def test_a_link_that_lets_in_works_in_a_page_that_is_open(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo, token=TOKEN) as site, browsing(browser) as tab:
        await tab.page.goto(site.url)
        await tab.presses("Cancel", "dialog")
        code = await site.app.bot.logins.invite("ann", "user", "a test")
        await tab.page.evaluate("code => { location.hash = `join=${code}`; }", code)
        await tab.sees("dialog:has-text('You are invited')")
        tab.faults.clear()  # the browser notes each 401


@pytest.mark.parametrize(
    "button",
    ["Ask another model", "Ask again", "Pin", "Edit the question", "Quote", "Branch off from here"],
)
async def test_a_button_says_that_the_bot_is_away(
    tmp_path: Path, browser: Browser, button: str
) -> None:
    async with serving(tmp_path, echo) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        await tab.asks("one", "one")
        await tab.page.route("**/commands/**", lambda route: route.abort())
        await tab.presses(button, "#log")
        if button != "Quote":
            await tab.sees("#notice:has-text('be reached')")


@pytest.mark.parametrize("button", ["Map", "Compact", "Pin t1"])
async def test_the_panel_says_that_the_bot_is_away(
    tmp_path: Path, browser: Browser, button: str
) -> None:
    async with serving(tmp_path, echo) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        await tab.asks("one", "one")
        await tab.shows_state("t1", "in play")
        await tab.page.route("**/commands/**", lambda route: route.abort())
        await tab.presses(button, "#panel")
        await tab.sees("#notice:has-text('be reached')")


async def test_the_enter_that_ends_a_composition_sends_nothing(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        await tab.page.fill("#text", "ni hao")
        await tab.page.evaluate("""document.querySelector("#text").dispatchEvent(
            new KeyboardEvent("keydown", {key: "Enter", keyCode: 229, bubbles: true}))""")
        await expect(tab.page.locator("#text")).to_have_value("ni hao")


async def test_all_that_are_archived_are_counted(tmp_path: Path, browser: Browser) -> None:
    many = [
        {
            "id": f"s{n}",
            "channel": "web",
            "title": "one",
            "at": "2026-01-02T03:04:05+00:00",
            "standing": "",
        }
        for n in range(260)
    ]
    for one in many[150:]:
        one["standing"] = "archived"
    async with serving(tmp_path, echo) as site, browsing(browser) as tab:
        await tab.page.route(
            "**/api/sessions?**", lambda route: route.fulfill(json={"sessions": many})
        )
        await tab.opens(site.url)
        await tab.sees("#list summary:text-is('Archived (110)')")


async def test_what_is_deleted_is_shown_nowhere_any_more(tmp_path: Path, browser: Browser) -> None:
    async with (
        serving(tmp_path, echo) as site,
        browsing(browser) as here,
        browsing(browser) as there,
    ):
        for text in ("alpha", "beta", "gamma"):
            await site.says(text)
        for tab in (here, there):
            await tab.opens(site.url)
            await tab.sees("#log [data-turn=t3] .text:has-text('gamma')")
        await here.writes("/forget t2 yes")
        await here.sees("#log .card:has-text('Deleted')")
        for tab in (here, there):
            await expect(tab.page.locator("#log [data-turn=t2]")).to_have_count(0)
            await expect(tab.page.locator("#log [data-turn]")).to_have_count(2)
        await site.commands("/forget chat yes")
        for tab in (here, there):
            await expect(tab.page.locator("#log [data-turn]")).to_have_count(0)
        await there.sees("#log .greeting")
        await there.asks("A new one", "A new one")
        await there.page.reload()
        await there.sees("#log [data-turn] .text:has-text('A new one')")
        assert not await there.page.get_by_text("gamma").count()


async def test_questions_of_tools_are_there_after_a_reload(
    tmp_path: Path, browser: Browser
) -> None:
    calls = tuple(
        Call("web_fetch", f'{{"url": "http://127.0.0.1:{port}/"}}', f"c{port}") for port in (8, 9)
    )
    script = [Say(calls=calls), Say("Then not.")]
    settings = {"tools": {"web_fetch": True}}
    async with serving(tmp_path, script, settings) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        await tab.writes("Read it")
        await tab.sees(".card:has-text('127.0.0.1:8')")
        await tab.sees(".card:has-text('127.0.0.1:9')")
        await tab.page.reload()
        card = tab.page.locator("#log .card")
        await expect(card.get_by_role("button", name="Deny")).to_have_count(2)
        await card.get_by_role("button", name="Deny").first.click()
        await tab.sees("#log .card p.faint")
        await card.get_by_role("button", name="Deny").click()
        await tab.sees("#log .turn[data-turn] .text:has-text('Then not.')")


async def test_escape_leads_from_a_drawer_back_to_what_opened_it(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo) as site, browsing(browser, viewport=PHONE) as tab:
        await tab.opens_hidden(site.url)
        opener = tab.page.locator("[data-opens=sessions]")
        await opener.click()
        await expect(tab.page.locator("#sessions.open")).to_be_visible()
        await tab.page.keyboard.press("Escape")
        await expect(tab.page.locator("#sessions.open")).to_have_count(0)
        await expect(opener).to_be_focused()
