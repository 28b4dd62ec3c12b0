"""The page in browsers without storage or clipboard, and with late responses."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, Route, expect

from plugins.accounts.logins import PageLogins
from tests.fakes.openai_server import Call, Say, echo_in_bold
from tests.waiting import PATIENCE
from tests.web.browser import PHONE, Tab, browsing, needs_chromium
from tests.web.site import Site, serving

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="session")]

TOKEN = "a long random text"


async def test_a_browser_that_keeps_nothing_shows_the_page_and_loses_no_draft(
    site: Site, browser: Browser
) -> None:
    blocked = """for (const name of ["localStorage", "indexedDB"]) {
        const refuse = () => { throw new DOMException("no", "SecurityError"); };
        Object.defineProperty(window, name, { get: refuse });
    }"""
    async with browsing(browser) as tab:
        await tab.page.add_init_script(blocked)
        await tab.opens(site.url, site.session)
        await tab.asks("one", "one")
        await tab.page.fill("#text", "half a thou")
        await tab.presses("New conversation")
        await expect(tab.page.locator("#text")).to_have_value("")
        await tab.page.click(f"#list [data-session={site.session}] .session")
        await expect(tab.page.locator("#text")).to_have_value("half a thou")
        await tab.opens_settings("This browser")
        await tab.page.select_option("#theme", "light")
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
        async with tab.sees_passing("Copied"):
            await tab.presses("Copy")
        await expect(tab.page.locator("button.copy")).to_be_focused()
        await tab.page.focus("#text")
        await tab.page.keyboard.press("Control+v")
        await expect(tab.page.locator("#text")).to_have_value("1 < 2\n")
        await tab.presses("Copy the answer")
        await tab.page.fill("#text", "")
        await tab.page.keyboard.press("Control+v")
        await expect(tab.page.locator("#text")).to_have_value("So:\n\n```\n1 < 2\n```")


async def test_the_link_to_the_message_box_stays_in_the_conversation(site: Site, tab: Tab) -> None:
    await tab.asks("one", "one")
    await tab.page.focus(".skip")
    await tab.page.keyboard.press("Enter")
    await expect(tab.page.locator("#text")).to_be_focused()
    await tab.asks("two", "two")
    await expect(tab.page.locator(".turn[data-turn]")).to_have_count(2)
    assert tab.page.url.endswith(f"#/{site.session}")


@pytest.mark.parametrize("name", ["100%", "nochannel/1"])
async def test_an_address_that_names_no_conversation_is_survived(
    site: Site, tab: Tab, name: str
) -> None:
    await tab.page.goto("about:blank")
    await tab.page.goto(f"{site.url}/#{name}")
    await tab.presses("New conversation")
    await tab.asks("one", "one")
    await tab.page.evaluate("name => { location.hash = name }", name)
    if name != "100%":
        await tab.sees("#log [role=alert]:has-text('There is no such conversation')")
        await tab.sees("#list li[data-session]")
    await tab.page.evaluate("() => new Promise(requestAnimationFrame)")
    await tab.page.goto("about:blank")  # it sends no further requests
    assert not [fault for fault in tab.faults if "status of 404" not in fault]
    tab.faults.clear()  # the browser logs each 404


async def test_no_name_of_a_conversation_is_taken_for_something_of_the_page(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        ids = "() => [...document.querySelectorAll('[id]')].map(one => one.id)"
        names = await tab.page.evaluate(ids)
        assert {"fresh", "gear", "text"} <= {*names}
        for name in [*names[::7], "fresh", "constructor", "a:b+c~d"]:
            await site.says(f"This is {name}", quote(name))
            for address in (f"#/{quote(name)}", f"#{name}"):  # the one of earlier releases, too
                await tab.page.goto("about:blank")
                await tab.page.goto(f"{site.url}/{address}")
                await tab.sees(f".question:text-is('This is {name}')")
                await expect(tab.page.locator("#text")).to_be_focused()
                assert tab.page.url == f"{site.url}/#/{quote(name, safe='')}"
                assert await tab.page.evaluate("scrollY || document.body.scrollTop") == 0


async def test_a_long_text_fills_the_message_box_and_is_not_measured_at_each_key(tab: Tab) -> None:
    await tab.page.evaluate("""() => {
        window.measured = 0;
        const height = () => { window.measured += 1; return 1000; };
        Object.defineProperty(document.querySelector("#text"), "scrollHeight", { get: height });
    }""")
    tall = "document.querySelector('#text').offsetHeight"
    await tab.page.fill("#text", "word " * 1_000)
    assert await tab.page.evaluate("measured") > 0
    most = await tab.page.evaluate(tall)
    await tab.page.evaluate("measured = 0")
    await tab.page.fill("#text", "word " * 100_000)
    assert await tab.page.evaluate("measured") == 0
    assert await tab.page.evaluate(tall) == pytest.approx(most, abs=4)


async def test_more_tabs_than_a_browser_has_connections_are_all_served(
    tmp_path: Path, browser: Browser
) -> None:
    hide = """is => {
        Object.defineProperty(document, "hidden", { configurable: true, get: () => is });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as first:
        tabs = [first]
        await first.opens(site.url, "c0")
        for number in range(1, 8):  # a browser opens six per host
            await tabs[-1].page.evaluate(hide, True)
            tabs.append(Tab(await first.page.context.new_page()))
            await tabs[-1].opens(site.url, f"c{number}")
        await tabs[-1].asks("one", "one")
        await site.says("two", "c0")
        await tabs[-1].page.evaluate(hide, True)
        await first.page.evaluate(hide, False)
        await first.sees("#log .turn[data-turn=t1] .text:has-text('two')")
        assert not [fault for tab in tabs for fault in tab.faults]


async def test_a_slash_that_needs_shift_leads_to_the_message(tab: Tab) -> None:
    await tab.page.focus("#log")
    await tab.page.evaluate("""document.activeElement.dispatchEvent(
        new KeyboardEvent("keydown", {key: "/", shiftKey: true, bubbles: true}))""")
    await expect(tab.page.locator("#text")).to_be_focused()


async def test_a_deletion_that_fails_takes_no_draft(tab: Tab) -> None:
    await tab.asks("not deleted", "not deleted")
    await tab.page.fill("#text", "half a thou")
    await tab.page.route("**/commands/forget", lambda route: route.abort())
    await tab.chooses("Delete", "not deleted")
    await tab.presses("Delete", "#dialog")
    await tab.sees("#notice:has-text('be reached')")
    await expect(tab.page.locator("#log .turn")).to_have_count(1)
    await tab.page.reload()
    await tab.sees("#log .turn")
    await expect(tab.page.locator("#text")).to_have_value("half a thou")


async def hold_back(tab: Tab, address: str) -> asyncio.Event:
    """Delay requests to this address until the event is set."""
    late = asyncio.Event()

    async def hold(route: Route) -> None:
        await late.wait()
        await route.continue_()

    await tab.page.route(address, hold)
    return late


async def test_what_comes_late_stands_in_no_other_conversation(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        for session in ["two", *["one"] * 31]:
            await site.says(session, session)
        turns = "**/sessions/one/messages?**"
        asks: tuple[tuple[str, Callable[[], Awaitable[None]]], ...] = (
            (turns, lambda: tab.page.evaluate("document.querySelector('#log').scrollTop = 0")),
            (turns, lambda: tab.writes("one")),
            ("**/commands/status", lambda: tab.writes("/status")),
        )
        for address, ask in asks:
            await tab.opens(site.url, "one")
            await tab.sees("#log .older")
            late = await hold_back(tab, address)
            async with tab.page.expect_request(address):
                await ask()
            await tab.page.click("#list li[data-session=two] .session")
            await tab.sees("#log .turn:has-text('re: two')")
            async with tab.page.expect_response(address):
                late.set()
            await tab.page.evaluate("() => new Promise(requestAnimationFrame)")
            await expect(tab.page.locator("#log .question")).to_have_text(["two"])
            await tab.page.unroute_all()
        await tab.sees("#notice:not(:empty)")
        await expect(tab.page.locator("#log .card")).to_have_count(0)


async def test_a_question_that_is_being_edited_outlives_a_cut_connection(
    tmp_path: Path, browser: Browser
) -> None:
    async with browsing(browser, does_bot_stop=True, locale="de-DE") as tab:
        async with serving(tmp_path, echo_in_bold) as site:
            await tab.opens(site.url)
            await tab.asks("one", "one")
            await tab.page.click("#log .act >> nth=2")
            await tab.page.fill("#log .field textarea", "one, but better")
            port = int(site.url.rpartition(":")[2])
        await tab.sees("body[data-offline]")
        said = await tab.page.evaluate(
            "getComputedStyle(document.querySelector('#notice'), '::before').content"
        )
        assert "Keine Verbindung" in said, said
        async with serving(tmp_path, echo_in_bold, port=port) as site:
            await site.says("two")
            await tab.sees(".turn[data-turn=t2] .text:has-text('two')")
            await expect(tab.page.locator("#log .field textarea")).to_have_value("one, but better")


async def test_a_question_that_gives_way_to_the_sign_in_is_not_answered_with_yes(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo_in_bold, token=TOKEN) as site, browsing(browser) as tab:
        await tab.page.goto(f"{site.url}/#main")
        await tab.page.fill("#dialog input[name=password]", TOKEN)
        await tab.presses("Sign in", "#dialog")
        await tab.asks("one", "one")
        await tab.page.fill("#search", "on")
        await tab.chooses("Delete", "one")
        await tab.sees("#dialog:has-text('for good')")
        await tab.page.context.clear_cookies()
        await tab.page.evaluate(
            "document.querySelector('#search').dispatchEvent(new Event('input'))"
        )
        await tab.page.fill("#dialog input[name=password]", TOKEN)
        await tab.presses("Sign in", "#dialog")
        await expect(tab.page.locator("#dialog")).not_to_be_visible()
        await tab.asks("two", "two")
        await tab.page.reload()
        await tab.sees("#log .turn[data-turn=t1]")
        tab.faults.clear()  # the browser notes each 401


async def sign_in(tab: Tab) -> None:
    await tab.page.fill("#dialog input[name=password]", TOKEN)
    await tab.presses("Sign in", "#dialog")


async def test_a_refusal_that_comes_after_the_sign_in_asks_for_no_second_one(
    tmp_path: Path, browser: Browser
) -> None:
    held, late, refused = asyncio.Event(), asyncio.Event(), list[str]()

    async def refuse_once(route: Route) -> None:
        if route.request.url in refused:
            await route.continue_()
            return
        refused.append(route.request.url)
        if route.request.url.endswith("version"):
            held.set()
            await late.wait()
        await route.fulfill(status=401)

    async with serving(tmp_path, echo_in_bold, token=TOKEN) as site, browsing(browser) as tab:
        await tab.page.goto(f"{site.url}/#main")
        await sign_in(tab)
        await tab.asks("one", "one")
        await tab.page.route(re.compile("/commands/(version|status)$"), refuse_once)
        await tab.writes("/version")
        await asyncio.wait_for(held.wait(), PATIENCE)
        await tab.writes("/status")
        await sign_in(tab)
        await tab.sees(".card:has(.line:text-is('/status'))")
        late.set()
        await tab.sees(".card:has(.line:text-is('/version'))")
        await expect(tab.page.locator("#dialog")).not_to_be_visible()
        tab.faults.clear()  # the browser notes each 401


async def test_a_link_that_lets_in_works_in_a_page_that_is_open(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo_in_bold, token=TOKEN) as site, browsing(browser) as tab:
        await tab.page.goto(site.url)
        await tab.sees("#dialog[open]")
        code = await site.app.features.service(PageLogins).invite("ann", "user", "a test")
        await tab.page.evaluate("code => { location.hash = `join=${code}`; }", code)
        await tab.sees("#dialog:has-text('You are invited')")
        tab.faults.clear()  # the browser notes each 401


async def test_the_enter_that_ends_a_composition_sends_nothing(tab: Tab) -> None:
    await tab.page.fill("#text", "ni hao")
    await tab.page.evaluate("""document.querySelector("#text").dispatchEvent(
        new KeyboardEvent("keydown", {key: "Enter", keyCode: 229, bubbles: true}))""")
    await expect(tab.page.locator("#text")).to_have_value("ni hao")


async def test_all_that_are_archived_are_counted(tab: Tab) -> None:
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
    await tab.page.route("**/api/sessions?**", lambda route: route.fulfill(json={"sessions": many}))
    await tab.page.reload()
    await tab.sees("#list summary:text-is('Archived (110)')")


async def test_what_is_deleted_is_shown_nowhere_any_more(tmp_path: Path, browser: Browser) -> None:
    async with (
        serving(tmp_path, echo_in_bold) as site,
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
        await site.commands("/context clear")
        await there.sees("#log .cut")  # a line that is not a turn, and goes with the turns
        await site.commands("/forget chat yes")
        for tab in (here, there):
            await expect(tab.page.locator("#log [data-turn]")).to_have_count(0)
        await there.sees("#log .greeting")
        await there.asks("A new one", "A new one")
        await there.page.reload()
        await there.sees("#log [data-turn] .text:has-text('A new one')")
        assert not await there.page.get_by_text("gamma").count()


async def test_questions_of_tools_are_there_after_a_reload_and_a_no_is_no_failure(
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
        await tab.sees(".turn.pending > .card.asking:has-text('127.0.0.1:9')")
        await tab.sees(".card button:text-is('Allow 127.0.0.1:8')")
        await expect(tab.page.locator(".asking [aria-label=Close]").first).to_be_hidden()
        await expect(tab.page.locator(".card", has_text="/approve")).to_have_count(0)
        await tab.page.reload()
        card = tab.page.locator("#log .card")
        await expect(card.get_by_role("button", name="Deny")).to_have_count(2)
        await card.get_by_role("button", name="Deny").first.click()
        await tab.sees("#log .card p.faint")
        await card.get_by_role("button", name="Deny").click()
        await tab.sees("#log .turn[data-turn] .text:has-text('Then not.')")
        await tab.sees(".turn[data-turn] .tool:has-text('was not allowed')")
        await expect(tab.page.locator(".tool.failed")).to_have_count(0)
        await expect(tab.page.get_by_role("button", name="Allow once")).to_have_count(0)
        asking = tab.page.locator("#log .turn[data-turn=t1] > .question + .card.asking")
        await expect(asking.locator("p.faint")).to_have_count(2)


async def test_a_question_of_a_tool_that_was_answered_elsewhere_has_no_more_buttons(
    tmp_path: Path, browser: Browser
) -> None:
    fetch = Call("web_fetch", '{"url": "http://127.0.0.1:9/"}', "c")
    script = [Say(calls=(fetch,)), Say("Then not."), Say(calls=(fetch,))]
    settings = {"tools": {"web_fetch": True}}
    async with serving(tmp_path, script, settings) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        async with browsing(browser) as there:
            await there.opens(site.url)
            await tab.writes("Read it")
            for one in (tab, there):
                await one.sees(".card button:text-is('Allow once')")
            await there.writes("no")
            for one in (tab, there):
                await one.sees("#log .card.asking p.faint:text-is('✓ Deny')")
                await expect(one.page.locator(".card.asking button:text-is('Deny')")).to_have_count(
                    0
                )
            await tab.writes("Again")
            await there.sees(".card button:text-is('Allow once')")
            await there.page.reload()
            await there.sees(".turn.pending .card button:text-is('Allow once')")
            await tab.writes("/stop")
            for one in (tab, there):
                await one.sees(
                    "#log .card.asking p.faint:text-is('✗ Stopped before it was answered.')"
                )
                await expect(one.page.get_by_role("button", name="Allow once")).to_have_count(0)


async def test_escape_leads_from_a_drawer_back_to_what_opened_it(tab: Tab) -> None:
    await tab.page.set_viewport_size(PHONE)
    opener = tab.page.locator("[data-opens=sessions]")
    await opener.click()
    await expect(tab.page.locator("#sessions.open")).to_be_visible()
    await tab.page.keyboard.press("Escape")
    await expect(tab.page.locator("#sessions.open")).to_have_count(0)
    await expect(opener).to_be_focused()


async def test_each_button_says_that_the_bot_is_away(tab: Tab) -> None:
    await tab.asks("one", "one")
    await tab.shows_state("t1", "in context")
    await tab.page.route("**/commands/**", lambda route: route.abort())
    notice = tab.page.locator("#notice")
    buttons = "Retry in a new branch", "Pin", "Edit the question"
    places = [("#log", name) for name in buttons]
    for place, name in (*places, *(("#panel", name) for name in ("Compact", "Pin t1"))):
        await tab.page.evaluate("document.querySelector('#notice').textContent = ''")
        await tab.presses(name, place)
        await expect(notice, name).to_contain_text("be reached")
    for name in ("Retry with another model", "Branch off from here"):
        await tab.page.evaluate("document.querySelector('#notice').textContent = ''")
        await tab.chooses_more("t1", name)
        await expect(notice, name).to_contain_text("be reached")
    await tab.chooses_more("t1", "Quote")  # works without the bot


async def test_a_turn_that_is_deleted_while_older_ones_are_loaded_is_not_drawn_by_that(
    tmp_path: Path, browser: Browser
) -> None:
    """The response to a load may be older than a deletion reported meanwhile."""
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        for number in range(1, 33):  # of which 30 are shown at first
            await site.says(f"number {number}")
        asked, answered = asyncio.Event(), asyncio.Event()

        async def hold(route: Route) -> None:
            response = await route.fetch()  # as it is before the deletion
            asked.set()
            await answered.wait()
            await route.fulfill(response=response)

        await tab.page.route(re.compile("before="), hold, times=1)
        await tab.opens(site.url)
        await tab.sees("#log [data-turn=t32]")
        await tab.page.evaluate("document.querySelector('#log').scrollTop = 0")
        await asyncio.wait_for(asked.wait(), PATIENCE)
        await site.commands("/forget t2 yes")
        await site.commands("/forget t32 yes")
        await expect(tab.page.locator("#log [data-turn=t32]")).to_have_count(0)
        answered.set()
        await tab.sees("#log [data-turn=t1]")
        await expect(tab.page.locator("#log [data-turn=t2]")).to_have_count(0)
