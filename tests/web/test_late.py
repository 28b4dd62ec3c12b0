"""Late responses on the page: one that a person did not wait for replaces nothing that was pressed,
opened or typed since. Each test holds one response back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Error, Page, Request, Route, expect

from tests.fakes.openai_server import Hang, Say, echo_in_bold
from tests.waiting import PATIENCE
from tests.web.browser import Tab, browsing, needs_chromium
from tests.web.conftest import Model
from tests.web.site import Site, serving

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="session")]


@asynccontextmanager
async def held(page: Page, address: str, words: str = "") -> AsyncIterator[asyncio.Event]:
    """Hold back the first response to a request with these words in its body, until the block ends.
    The event says that it is held."""
    release, delivered, is_held = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        if is_held.is_set() or words not in (route.request.post_data or ""):
            await route.continue_()
            return
        is_held.set()
        while True:
            try:
                response = await route.fetch()
                break
            except Error:  # the server was closing the idle connection that was used
                continue
        await release.wait()
        await route.fulfill(response=response)
        delivered.set()

    await page.route(address, hold)
    try:
        yield is_held
    finally:
        release.set()
    async with asyncio.timeout(PATIENCE):
        await delivered.wait()
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    await page.unroute(address, hold)


async def ready(event: asyncio.Event) -> None:
    async with asyncio.timeout(PATIENCE):
        await event.wait()


async def talk(site: Site, tab: Tab, count: int = 4) -> None:
    for number in range(count):
        await site.says(f"{number}: {'many words ' * 30}")
    await tab.sees(f".turn[data-turn=t{count}] footer")


async def test_a_question_opened_last_is_the_one_that_is_edited(site: Site, tab: Tab) -> None:
    await talk(site, tab)
    async with held(tab.page, "**/commands/edit", "t3") as is_held:
        await tab.presses("Edit the question", ".turn[data-turn=t3]")
        await ready(is_held)
        await tab.presses("Edit the question", ".turn[data-turn=t4]")
        await tab.page.fill(".turn[data-turn=t4] textarea", "What I write")
    await expect(tab.page.locator("#log textarea")).to_have_count(1)
    await expect(tab.page.locator(".turn[data-turn=t4] textarea")).to_have_value("What I write")


async def test_a_question_that_is_edited_does_not_take_the_keys_from_a_message(
    site: Site, tab: Tab
) -> None:
    await talk(site, tab)
    async with held(tab.page, "**/commands/edit") as is_held:
        await tab.presses("Edit the question", ".turn[data-turn=t4]")
        await ready(is_held)
        await tab.page.locator("#text").press_sequentially("Another ")
    await tab.sees(".turn[data-turn=t4] textarea")
    await tab.page.keyboard.type("message")
    await expect(tab.page.locator("#text")).to_have_value("Another message")


async def test_the_buttons_of_a_question_that_is_edited_are_in_sight(site: Site, tab: Tab) -> None:
    await talk(site, tab)
    await tab.presses("Edit the question", ".turn[data-turn=t4]")
    ask = tab.page.locator(".turn[data-turn=t4] .field").get_by_role("button", name="Ask")
    await expect(ask).to_be_in_viewport(ratio=1)
    under = """e => {
        const { x, bottom } = e.getBoundingClientRect();
        return document.elementFromPoint(x + 4, bottom - 2) === e;
    }"""
    assert await ask.evaluate(under)


async def test_a_turn_shown_by_the_map_stays_in_sight_when_an_answer_is_drawn_late(
    site: Site, tab: Tab
) -> None:
    await talk(site, tab, 6)
    turn = tab.page.locator("#log .turn[data-turn=t1]")
    async with held(tab.page, "**/messages*") as is_held:
        await site.says(f"7: {'many words ' * 30}")
        await ready(is_held)
        await tab.page.locator("#map [role=option][aria-label^='t1,']").click()
        await expect(turn).to_be_in_viewport()
    await expect(tab.page.locator("#log .turn[data-turn=t7]")).to_be_attached()
    await tab.page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    await expect(turn).to_be_in_viewport()


async def compacted(site: Site, tab: Tab, model: Model) -> None:
    model.script = echo_in_bold
    await talk(site, tab)
    await site.commands("/context compact t1-t3")
    await tab.sees(".cut")


async def test_a_summary_that_is_edited_outlives_the_one_that_was_to_be_shown(
    site: Site, tab: Tab, model: Model
) -> None:
    await compacted(site, tab, model)
    async with held(tab.page, "**/commands/context", '"summary s1"') as is_held:
        await tab.presses("Show", ".cut")
        await ready(is_held)
        await tab.presses("Edit", ".cut")
        await tab.page.fill(".cut textarea", "What I write")
    await expect(tab.page.locator(".cut textarea")).to_have_value("What I write")


async def test_a_summary_that_is_edited_outlives_a_reload_of_the_chat(
    site: Site, tab: Tab, model: Model
) -> None:
    await compacted(site, tab, model)
    await tab.presses("Edit", ".cut")
    await tab.page.fill(".cut textarea", "What I write")
    await tab.page.evaluate("log.querySelector('[data-turn=t4]').dataset.old = true")
    await site.commands("/regenerate t4")  # another branch: its messages are loaded
    await expect(tab.page.locator("[data-turn=t4]:not([data-old])")).to_have_count(1)
    await expect(tab.page.locator(".cut textarea")).to_have_value("What I write")


async def test_undo_in_the_divider_brings_the_turns_back_also_after_an_edit(
    site: Site, tab: Tab, model: Model
) -> None:
    await compacted(site, tab, model)
    await site.commands("/context summary edit s1 They talked of Porto.")
    await tab.sees(".events :text('Edited summary')")
    undo = tab.page.locator(".cut").get_by_role("button", name="Undo")
    await expect(undo).to_have_attribute("title", "Undo: Compaction t1 to t3")
    await undo.click()
    await expect(tab.page.locator(".cut")).to_have_count(0)
    await tab.shows_state("t3", "in context")


async def test_a_late_reply_takes_no_keys_from_a_question_that_is_edited(
    site: Site, tab: Tab
) -> None:
    await talk(site, tab)
    await tab.presses("Edit the question", ".turn[data-turn=t4]")
    field = tab.page.locator(".turn[data-turn=t4] textarea")
    async with held(tab.page, "**/commands/why") as is_held:
        await tab.chooses_more("t3", "Why this answer?")
        await ready(is_held)
        await field.fill("What I ")
    await tab.sees("#log > .card:has-text('/why t3')")
    await tab.page.keyboard.type("write")
    await expect(field).to_have_value("What I write")


async def test_the_dialog_shows_what_was_pressed_last(site: Site, tab: Tab) -> None:
    await site.commands("/remember Ann is allergic to nuts.")
    await tab.chooses_tab("Memory")
    async with held(tab.page, "**/commands/memory", "history") as is_held:
        await tab.presses("Memory: Versions", "#memory")
        await ready(is_held)
        await tab.page.keyboard.press("Escape")
        await tab.presses("Memory: Edit", "#memory")
        await tab.page.fill("#dialog textarea", "What I write")
    await expect(tab.page.locator("#dialog textarea")).to_have_value("What I write")


async def test_the_list_of_models_does_not_replace_an_open_question(site: Site, tab: Tab) -> None:
    await site.says("one")
    await tab.sees("#list li[data-session]")
    async with held(tab.page, "**/commands/model") as is_held:
        await tab.page.click("#model")
        await ready(is_held)
        await tab.chooses("Rename", "one")
        await tab.page.fill("#dialog input", "What I write")
    await expect(tab.page.locator("#dialog input")).to_have_value("What I write")


async def test_the_files_of_a_conversation_that_was_left_are_not_shown(
    site: Site, tab: Tab
) -> None:
    await site.says("one", "other")
    async with held(tab.page, "**/files") as is_held:
        await tab.page.reload()
        await ready(is_held)
        folder = await tab.page.evaluate("document.querySelector('#workspace').textContent")
        await tab.page.goto(f"{site.url}/#other")
        await tab.sees("#log .turn[data-turn=t1]")
    assert folder == await tab.page.locator("#workspace").text_content()


async def test_a_name_that_is_typed_outlives_the_list_of_people(site: Site, tab: Tab) -> None:
    await tab.opens_settings("People")
    await tab.sees(".inviting")
    await tab.page.keyboard.press("Escape")
    async with held(tab.page, "**/commands/logins") as is_held:
        await tab.opens_settings("People")
        await ready(is_held)
        await tab.page.fill(".inviting input[type=text]", "ann")
    await expect(tab.page.locator(".inviting input[type=text]")).to_have_value("ann")


async def test_a_setting_that_is_typed_outlives_the_change_of_another(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        await tab.opens_settings("Context")
        async with held(tab.page, "**/commands/config") as is_held:
            await tab.page.fill("#setting-agent_max_context_turns", "9")
            await tab.page.keyboard.press("Tab")
            await ready(is_held)
            field = tab.page.locator("#setting-agent_max_context_tokens")
            await field.fill("9000")
        await tab.sees("#preferences .said:has-text('9')")
        await expect(field).to_be_focused()
        await expect(field).to_have_value("9000")
        await tab.page.keyboard.press("Tab")
        await tab.sees("#preferences .said:has-text('9000')")
        await expect(tab.page.locator("#setting-agent_max_context_turns")).to_have_value("9")


async def test_turns_selected_during_a_command_stay_selected(site: Site, tab: Tab) -> None:
    await talk(site, tab)
    blocks = tab.page.locator("#map [role=option][data-part=turns]")
    await expect(blocks).to_have_count(4)
    await blocks.nth(0).focus()
    await tab.page.keyboard.press(" ")
    async with held(tab.page, "**/commands/context", "pin") as is_held:
        await tab.presses("Pin", "#map .selected")
        await ready(is_held)
        await blocks.nth(2).focus()
        await tab.page.keyboard.press(" ")
        await tab.sees("#map .selected .words:has-text('t3')")
    await tab.sees("#map .selected .words:has-text('t3')")
    await tab.sees("#notice:has-text('pinned')")


async def test_a_found_turn_is_not_shown_in_another_conversation(site: Site, tab: Tab) -> None:
    for number in range(33):
        await site.says(f"number {number}")
    await site.says("elsewhere", "elsewhere")
    await tab.page.fill("#search", "number 0")
    await tab.sees("#list mark")
    async with held(tab.page, "**/messages?*") as is_held:
        await tab.page.locator("#list .session").first.click()
        await ready(is_held)
        await tab.page.goto(f"{site.url}/#elsewhere")
        await tab.sees("#log .turn:has-text('elsewhere')")
    await expect(tab.page.locator("#log .found")).to_have_count(0)


async def test_a_key_that_is_typed_outlives_the_servers_that_are_found(
    tmp_path: Path, browser: Browser
) -> None:
    async with (
        serving(tmp_path, (), {"model": "auto"}, environ={}) as site,
        browsing(browser) as tab,
        held_servers(tab.page) as found,
    ):
        await tab.page.goto(f"{site.url}/#main")
        await tab.page.fill(".connecting [name=key]", "sk-typed")
        await tab.page.focus("#text")
        found.set()
        await expect(tab.page.locator(".connecting optgroup")).to_have_count(2)
        await expect(tab.page.locator(".connecting [name=key]")).to_have_value("sk-typed")


@asynccontextmanager
async def held_servers(page: Page) -> AsyncIterator[asyncio.Event]:
    """Answer the look for servers on this machine with one, once the event is set."""
    found = asyncio.Event()

    async def answer(route: Route) -> None:
        await found.wait()
        server = {"provider": "ollama", "name": "Ollama", "models": ["llama3"]}
        await route.fulfill(json={"servers": [server]})

    await page.route("**/api/connection/servers", answer)
    yield found


async def test_an_empty_chat_is_greeted_though_a_summary_was_open_in_it(
    site: Site, tab: Tab, model: Model
) -> None:
    await compacted(site, tab, model)
    await tab.presses("Show", ".cut")
    await tab.sees(".cut .card")
    await site.commands("/forget chat yes")
    await tab.sees("#log .greeting")
    await expect(tab.page.locator("#log .cut")).to_have_count(0)


async def test_the_branch_that_was_chosen_last_is_shown(site: Site, tab: Tab, model: Model) -> None:
    model.script = [Say("first answer"), Say("second answer"), Say("The end.")]
    await site.says("one")
    await site.commands("/regenerate t1")
    await tab.sees("#log .text:has-text('second answer')")
    async with held(tab.page, "**/messages?limit=30") as is_held:
        await tab.writes("/branches 1")
        await ready(is_held)
        await tab.writes("/branches 2")
        await tab.sees("#log .card >> nth=0")
    await site.says("Which one?")
    await tab.sees("#log .text:has-text('The end.')")
    await expect(tab.page.locator("#log .text").first).to_have_text("second answer")


async def test_a_message_that_is_answered_before_it_is_confirmed_is_shown_once(
    site: Site, tab: Tab
) -> None:
    async with held(tab.page, "**/messages", "Hello") as is_held:
        await tab.writes("Hello")
        await ready(is_held)
        await tab.sees("#log [data-turn=t1] .text:has-text('Hello')")
        await tab.page.evaluate("log.querySelector('[data-turn=t1]').dataset.old = true")
        await site.commands("/regenerate t1")  # another branch: its messages are loaded
        await tab.sees("[data-turn=t1]:not([data-old])")
    await expect(tab.page.locator("#log .turn")).to_have_count(1)


async def test_arrows_between_branches_stay_when_an_earlier_list_of_them_comes_late(
    site: Site, tab: Tab
) -> None:
    async with held(tab.page, "**/commands/branches") as is_held:
        await site.says("one")
        await ready(is_held)
        await site.commands("/regenerate t1")
        await tab.sees(".between button")
    await tab.sees(".between button")


async def test_older_turns_of_a_conversation_that_was_left_are_not_read_in_another(
    site: Site, tab: Tab
) -> None:
    addresses: list[str] = []

    def read(request: Request) -> None:
        addresses.append(request.url)

    for number in range(32):
        await site.says(f"number {number}")
    await tab.page.reload()
    await tab.sees("#log [data-turn=t32]")
    async with held(tab.page, "**/messages?*before=3*") as is_held:
        await tab.scrolls_to("#log", ".turn", is_up=True)
        await ready(is_held)
        await tab.opens(site.url, f"{site.session}-other")
        await tab.asks("Hello", "Hello")
        tab.page.on("request", read)
    tab.page.remove_listener("request", read)
    assert not [url for url in addresses if "before=" in url]


async def opened(site: Site, tab: Tab, session: str) -> None:
    """Open a conversation, and wait until the panel is that of its four turns."""
    await tab.page.goto(f"{site.url}/#{session}")
    await tab.sees("#log .turn[data-turn=t4] footer")
    await expect(tab.page.locator("#panel .turns li")).to_have_count(4)
    await expect(tab.page.locator("#panel[aria-busy]")).to_have_count(0)


EDIT = ("**/commands/edit", "", "[data-turn=t4] [data-way=edit]")
PIN = ("**/commands/context", "pin", "[data-turn=t4] [data-act=pin]")
ANSWER = ("**/messages?*", "", "")


@pytest.mark.parametrize(("address", "words", "button"), [EDIT, PIN, ANSWER])
async def test_what_was_requested_in_one_conversation_changes_no_other(
    site: Site, tab: Tab, address: str, words: str, button: str
) -> None:
    other = f"{site.session}-other"
    for session in (site.session, other):
        for number in range(4):
            await site.says(f"{number} {session} {'many words ' * 30}", session)
    await opened(site, tab, site.session)
    async with held(tab.page, address, words) as is_held:
        if button:
            await tab.page.locator(f"#log {button}").click()
        else:
            await site.says("One more")
        await ready(is_held)
        await opened(site, tab, other)
        before = await tab.page.locator("#log").inner_text()
    await site.commands("/context compact t1-t2", other)  # events are still handled
    await tab.sees("#log .cut")
    assert await tab.page.locator("#log textarea, #log .found").count() == 0
    after = await tab.page.locator("#log > .turn .question").all_inner_texts()
    assert [text for text in after if text not in before] == []
    assert len(after) == 4


async def test_a_conversation_that_is_left_and_opened_again_is_followed_once(
    site: Site, tab: Tab
) -> None:
    addresses: list[str] = []
    other = f"{site.session}-other"
    await site.says("Hello")
    await site.says("Hello", other)
    await tab.page.goto(f"{site.url}/#{other}")
    await tab.sees("#log .turn[data-turn=t1]")
    async with held(tab.page, "**/messages?*") as is_held:
        await tab.page.goto(f"{site.url}/#{site.session}")
        await ready(is_held)
        await tab.page.goto(f"{site.url}/#{other}")
        await tab.page.goto(f"{site.url}/#{site.session}")
        await tab.sees("#log .turn[data-turn=t1]")
    tab.page.on("request", lambda request: addresses.append(request.url))
    await tab.asks("Once", "Once")
    await tab.asks("Twice", "Twice")
    assert len([url for url in addresses if "/messages?" in url]) == 2


async def test_the_undo_of_a_compaction_outlives_a_context_that_was_requested_before(
    site: Site, tab: Tab
) -> None:
    await talk(site, tab)
    blocks = tab.page.locator("#map [role=option][data-part=turns]")
    await expect(blocks).to_have_count(4)
    await blocks.nth(0).focus()
    await tab.page.keyboard.press(" ")
    bar = tab.page.locator("#map .selected")
    async with held(tab.page, "**/api/sessions/*/context") as is_held:
        await site.commands("/context pin t4")
        await ready(is_held)
        await tab.presses("Compact", "#map .selected")
        await expect(bar.get_by_role("button", name="Undo")).to_be_visible()
    await tab.shows_state("t1", "summarised")
    await expect(bar.get_by_role("button", name="Undo")).to_be_visible()
    await site.says("One more")
    await expect(bar).to_be_hidden()


async def test_an_answer_that_is_drawn_late_keeps_its_place(
    site: Site, tab: Tab, model: Model
) -> None:
    model.script = [Say("one"), Say("two"), Hang("Half an *answer*")]
    await site.says("first")
    await tab.sees(".turn[data-turn=t1] footer")
    async with held(tab.page, "**/messages?*before=2*") as is_held:
        await site.commands("/regenerate t1")
        await ready(is_held)
        await tab.writes("/branches 1")
        await tab.sees("#log .turn[data-turn=t1]:has-text('one')")
        await tab.writes("second")
        await tab.sees("#log .turn.pending")
    await expect(tab.page.locator("#log .turn")).to_have_count(2)
    await expect(tab.page.locator("#log .turn").last).to_contain_text("Half an answer")
    await tab.presses("Stop the answer")
    await tab.sees(".turn[data-turn=t2]:has-text('Stopped, as you asked.')")


async def test_a_turn_on_the_map_is_shown_before_its_events_arrive(site: Site, tab: Tab) -> None:
    await talk(site, tab, 2)
    await tab.page.route("**/api/**/events*", lambda route: route.abort())
    await tab.page.reload()
    await tab.sees("#log .turn[data-turn=t2] footer")
    await site.says("third")
    await tab.presses("Pin t1")
    await tab.page.locator("#map [role=option][aria-label^='t3,']").press("Enter")
    await expect(tab.page.locator("#log .turn[data-turn=t3]")).to_be_focused()


async def test_the_answer_being_written_stays_when_an_earlier_question_is_confirmed_late(
    site: Site, tab: Tab, model: Model
) -> None:
    is_seen = asyncio.Event()

    async def confirm_late(route: Route) -> None:
        if route.request.method == "POST":
            await route.fetch()
            await is_seen.wait()
        await route.continue_()

    model.script = [Say("one"), Hang("Half an *answer*")]
    await tab.page.route("**/messages*", confirm_late)
    await tab.writes("first")
    await tab.sees(".turn[data-turn=t1] footer")
    second = asyncio.create_task(site.says("second"))
    await tab.sees(".pending em:text-is('answer')")
    async with tab.page.expect_response(
        lambda one: one.request.method == "GET" and "/messages?" in one.url
    ):
        is_seen.set()
    await tab.page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    await expect(tab.page.locator("#log .turn")).to_have_count(2)
    await tab.sees(".pending em:text-is('answer')")
    await tab.page.locator("#map [role=option][aria-label^='t2,']").press("Enter")
    await expect(tab.page.locator("#log .turn.pending")).to_be_focused()
    await tab.presses("Stop the answer")
    await tab.sees(".turn[data-turn=t2]:has-text('Stopped, as you asked.')")
    await second
