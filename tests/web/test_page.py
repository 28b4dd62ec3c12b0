"""The page in a real browser, with the whole bot behind it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from playwright.async_api import Browser, FilePayload, Route, expect

from bot.received import key_of
from channels.message import Address
from channels.web.feed import FeedLimits
from plugins.accounts.logins import PageLogins
from tests.fakes.openai_server import Answer, Call, Fail, Hang, Received, Say
from tests.waiting import PATIENCE, until
from tests.web.browser import PHONE, Tab, browsing, needs_chromium
from tests.web.conftest import Model
from tests.web.site import Site, serving
from tests.whole.distilling import add, distilled_to, write

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="session")]

EVIL = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>"

NOTES = """
from plugins.api import Form, Reply, command, hookimpl

@command("note", "Keep a note")
async def note(ask):
    if ask.text:
        return Reply(f"Kept: {ask.text}")
    return Reply("What shall it say?", form=Form("/note", "as\\nit was"))

@hookimpl
def parley_commands():
    return [note]
"""


def echo(request: Received) -> Answer:
    question = request.body["messages"][-1]["content"]
    return Say(f"**re:** {question}")


async def test_a_message_is_answered_in_markdown_with_code_to_copy(
    site: Site, tab: Tab, model: Model
) -> None:
    model.script = [Say("Use **this**:\n\n```python\nprint(1)\n```")]
    await tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await tab.asks("How?", "Use this")
    async with tab.sees_passing("Copied"):
        await tab.presses("Copy")
    assert await tab.copied("print") == "print(1)\n"
    await expect(tab.page.locator("#title")).to_have_text("How?")
    assert tab.hosts == {site.url.removeprefix("http://")}


async def test_an_answer_streams_survives_a_reload_and_can_be_stopped(
    tab: Tab, model: Model
) -> None:
    model.script = [Hang("Half an *answer*")]
    await tab.writes("Tell me.")
    await tab.sees(".pending em:text-is('answer')")
    await tab.page.reload()
    await tab.sees(".pending em:text-is('answer')")
    await expect(tab.page.locator(".question")).to_have_count(1)
    await tab.presses("Stop the answer")
    await tab.sees(".turn[data-turn=t1]:has-text('Stopped, as you asked.')")
    await expect(tab.page.locator("#send")).to_have_attribute("aria-label", "Send")
    await expect(tab.page.locator(".pending")).to_have_count(0)


async def test_a_question_that_is_unconfirmed_after_a_reload_is_shown_once(
    tab: Tab, model: Model
) -> None:
    attempts, is_seen = 0, asyncio.Event()

    async def lose(route: Route) -> None:
        nonlocal attempts
        attempts += route.request.method == "POST"
        if route.request.method != "POST":
            await route.continue_()
        elif attempts == 1:
            await route.fetch()  # the bot has received it, but the page gets no response
        else:
            await route.abort()

    async def wait(route: Route) -> None:
        await is_seen.wait()
        await route.continue_()

    model.script = [Hang("Half an *answer*")]
    await tab.page.route("**/messages*", lose)
    await tab.page.route("**/api/**/events*", wait)
    await tab.page.reload()
    await tab.writes("Tell me.")
    await until(lambda: not model.script)
    await tab.page.reload()
    await tab.sees(".unsent-state:has-text('Waiting to be sent')")
    await tab.sees(".turn[data-turn=t1]")
    is_seen.set()
    await tab.sees(".pending em:text-is('answer')")
    await expect(tab.page.locator(".question")).to_have_count(1)
    await expect(tab.page.locator(".unsent-state")).to_have_count(0)
    await tab.page.unroute_all()
    await tab.presses("Stop the answer")
    await tab.sees(".turn[data-turn=t1]:has-text('Stopped, as you asked.')")
    await expect(tab.page.locator(".question")).to_have_count(1)


async def test_the_beginning_of_an_answer_confirms_its_question(tab: Tab, model: Model) -> None:
    posts, is_seen = 0, asyncio.Event()

    async def lose_late(route: Route) -> None:
        nonlocal posts
        if route.request.method != "POST":
            await route.continue_()
            return
        posts += 1
        await route.fetch()
        await is_seen.wait()
        await route.abort()

    model.script = [Hang("Half an *answer*")]
    await tab.page.route("**/messages*", lose_late)
    await tab.writes("Tell me.")
    await tab.sees(".pending em:text-is('answer')")
    async with tab.page.expect_event("requestfailed"):
        is_seen.set()
    await tab.page.reload()
    await tab.sees(".pending em:text-is('answer')")
    await expect(tab.page.locator(".unsent-state")).to_have_count(0)
    await tab.presses("Stop the answer")
    await tab.sees(".turn[data-turn=t1]:has-text('Stopped, as you asked.')")
    assert posts == 1


async def test_a_turn_is_pinned_and_dropped_and_both_are_undone(tab: Tab) -> None:
    for number in ("one", "two"):
        await tab.asks(number, number)
    await tab.presses("Pin t1")
    await tab.shows_state("t1", "pinned")
    await tab.presses("Drop t2")
    await tab.shows_state("t2", "dropped")
    await tab.sees("#log .turn.out[data-turn=t2]")
    await tab.presses("Undo: Dropped t2", ".events")
    await tab.shows_state("t2", "in context")
    await tab.presses("Undo: Pinned t1", ".events")
    await tab.shows_state("t1", "in context")


async def test_a_button_of_the_panel_is_about_what_it_says_when_somebody_else_is_quicker(
    site: Site, tab: Tab
) -> None:
    for number in ("one", "two"):
        await tab.asks(number, number)
    await tab.presses("Pin t1")
    # On a busy machine a press takes longer than the page waits for its end.
    await tab.page.evaluate("""() => {
        const { setTimeout } = window;
        window.setTimeout = (does, time) => (time === 1000 ? 0 : setTimeout(does, time));
    }""")
    controls = tab.page.locator(".controls")
    for way, before, after, states in (
        ("Undo", "Undo: Pinned t1", "/context drop t2", (("in context",), ("dropped",))),
        ("Redo", "Redo: Dropped t2", "/context pin t1", (("pinned",), ("in context",))),
    ):
        button = controls.get_by_text(way, exact=True)
        await expect(button).to_have_attribute("title", before)
        await button.hover()
        async with tab.page.expect_response("**/context"):
            await tab.page.mouse.down()
            await site.commands(after)
        await tab.page.mouse.up()
        for turn, state in zip(("t1", "t2"), states, strict=True):
            await tab.shows_state(turn, *state)
        if way == "Undo":
            await tab.presses("Undo: Dropped t2", ".events")
    await expect(tab.page.locator("#notice")).to_contain_text("is not the change that was undone")


async def test_the_command_context_shows_and_focuses_its_tab(tab: Tab) -> None:
    await tab.chooses_tab("Memory")
    await tab.writes("/context")
    await expect(tab.page.locator("#tab-of-context")).to_be_focused()


async def test_the_context_is_compacted_brought_back_and_cleared_after_a_question(
    site: Site, tab: Tab
) -> None:
    for number in range(5):
        await site.says(f"{number}: {'many words ' * 50}")
    await tab.presses("Compact", ".controls")
    await tab.shows_state("t1", "summarised")
    await tab.sees(".events b:text-is('Compaction')")
    await expect(tab.page.locator("#notice")).to_contain_text("Compacted")
    await tab.presses("Undo", ".controls")
    await tab.shows_state("t1", "in context")
    await expect(tab.page.locator("#notice")).not_to_contain_text("Compacted")
    await tab.presses("Redo", ".controls")
    await tab.shows_state("t1", "summarised")
    await tab.presses("Clear context", ".controls")
    await tab.presses("Cancel")
    await tab.presses("Clear context", ".controls")
    await tab.presses("Clear", "#dialog")
    await tab.shows_state("t5", "cleared")


async def test_old_results_that_are_stubs_are_foreseen_shown_and_brought_back(
    tmp_path: Path, browser: Browser
) -> None:
    def reckon(request: Received) -> Answer:
        is_done = request.body["messages"][-1]["role"] == "tool"
        sum_of_many = json.dumps({"expression": "10 ** 2400"})
        return Say("Done.") if is_done else Say(calls=(Call("calculate", sum_of_many, "c"),))

    stubs = {"strategy": "stubs", "stub_keep": 0, "stub_batch": 800}
    async with serving(tmp_path, reckon, {"context": stubs}) as site, browsing(browser) as tab:
        await site.says("one")
        await tab.opens(site.url)
        await tab.sees("#panel:has-text('2 old tool results become one line each')")
        await site.says("two")
        await site.says("three")
        await tab.shows_state("t1", "tool results shortened")
        await tab.presses("Undo: Shortened tool results", ".events")
        await tab.shows_state("t1", "in context")


async def test_conversations_are_searched_renamed_and_deleted(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo) as site, browsing(browser) as tab:
        await site.says("What about Lisbon?", "one")
        await site.says("And Rome?", "two")
        await tab.opens(site.url, "one")
        await tab.page.fill("#search", "lisbon")
        await expect(tab.page.locator(".session .title")).to_have_text(["What about Lisbon?"])
        await tab.chooses("Rename", "What about Lisbon?")
        await tab.page.fill("#dialog input", "The trip")
        await tab.page.press("#dialog input", "Enter")
        await expect(tab.page.locator("#title")).to_have_text("The trip")
        await tab.page.fill("#search", "")
        await tab.chooses("Delete", "The trip")
        await tab.presses("Delete", "#dialog")
        await expect(tab.page.locator(".session")).to_have_text(["And Rome?"])
        await tab.sees("#log .turn:has-text('And Rome?')")


async def test_commands_complete_with_the_keyboard_and_answer_with_buttons(tab: Tab) -> None:
    await tab.asks("one", "one")
    await tab.page.locator("#text").press_sequentially("/contex")
    await tab.sees("#completions li")
    await tab.page.press("#text", "Tab")
    await tab.page.locator("#text").press_sequentially("cl")
    await tab.sees("#completions b:text-is('/context clear')")
    await tab.page.press("#text", "ArrowDown")
    await tab.page.press("#text", "Enter")
    await expect(tab.page.locator("#text")).to_have_value("/context clear ")
    await tab.page.press("#text", "Enter")
    await tab.presses("Undo", ".card")
    await tab.shows_state("t1", "in context")
    await tab.writes("/context map")
    await tab.sees(".card img")


async def test_a_form_is_a_field_with_what_is_there_now(tmp_path: Path, browser: Browser) -> None:
    folder = tmp_path / "data" / "plugins"
    folder.mkdir(parents=True)
    (folder / "notes.py").write_text(NOTES)
    async with serving(tmp_path, echo) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        await tab.writes("/note")
        field = tab.page.get_by_label("Text for /note")
        await expect(field).to_have_value("as\nit was")
        await field.fill("two\n/lines")
        await tab.presses("Save")
        await tab.sees(".card .text:has-text('Kept: two')")
        await expect(field).to_have_count(0)
        await tab.writes("/note")
        await tab.presses("Cancel", ".card")
        await expect(field).to_have_count(0)
        await tab.asks("a message", "a message")
        assert len(site.server.requests) == 1


async def test_what_is_to_be_remembered_is_a_coloured_diff_with_buttons(
    tmp_path: Path, browser: Browser
) -> None:
    key = key_of(Address("web", "main"))
    write(tmp_path, "Ann lives in Lisbon.", job=1, key=key)
    script = distilled_to([add("Ann lives in Lisbon.")])
    async with serving(tmp_path, script) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        await tab.writes("/memory distill")
        await tab.sees(".card .code .added:has-text('Ann lives in Lisbon.')")
        await tab.presses("Approve", ".card")
        await tab.sees(".card .text:has-text('It is in force now')")
        memory = tab.page.locator(".legend [data-part='memory']")
        assert await memory.evaluate("e => getComputedStyle(e).getPropertyValue('--part')")
        await tab.writes("/memory edit")
        field = tab.page.get_by_label("Text for /memory edit")
        await field.fill("- Ann lives in Porto.")
        await tab.presses("Save")
        await tab.sees(".card .text:has-text('Accepted.')")
        await tab.writes("/memory diff")
        await tab.sees(".card .code .removed:has-text('Lisbon')")


async def test_the_page_shows_the_branch_that_its_session_leads_to(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo) as site, browsing(browser) as tab:
        await tab.opens(site.url, "trip")
        await tab.asks("by train", "re:")
        await tab.asks("by night", "re: by night")
        await tab.writes("/fork t1 By car")
        await tab.sees("text=You are in branch 2, “By car” now.")
        await expect(tab.page.locator("[data-turn=t2]")).to_have_count(0)
        await tab.asks("by car", "re: by car")
        async with browsing(browser) as other:
            await other.opens(site.url, "trip")
            await other.sees("text=re: by car")
            await tab.presses("Go back")
            await tab.sees("text=re: by night")
            await other.sees("text=re: by night")
            await expect(other.page.locator("text=re: by car")).to_have_count(0)
        await tab.writes("/branches")
        await tab.sees("text=You are in branch 1, the bold one")
        await tab.presses("2: By car")
        await tab.sees("text=re: by car")


async def test_files_go_along_with_a_message(tab: Tab) -> None:
    one = FilePayload(name=f"{EVIL}.png", mimeType="image/png", buffer=b"\x89PNG")
    other = FilePayload(name="b.png", mimeType="image/png", buffer=b"\x89PNG")
    await tab.page.set_input_files("#picker", [one, other])
    await tab.presses("Remove b.png")
    await expect(tab.page.locator("#files .chip")).to_have_count(1)
    async with tab.page.expect_request("**/messages") as sent:
        await tab.asks("See?", "See?")
    body = (await sent.value).post_data or "{}"
    assert [file["name"] for file in json.loads(body)["attachments"]] == [one["name"]]
    assert await tab.page.evaluate("window.hacked") is None


async def test_script_in_what_is_said_never_runs(tab: Tab, model: Model) -> None:
    call = Call("calculate", f'{{"expression": "{EVIL.replace(chr(39), "")}"}}', "c1")
    script = [Say(EVIL, (call,)), Say(EVIL), Say("Good."), Say(f"They said {EVIL}")]
    model.script = script
    await tab.writes(f"{EVIL} {'and more ' * 200}")
    await tab.sees(".turn[data-turn=t1] footer")
    await tab.asks("Again", "Good.")
    await tab.writes("/context compact")
    await tab.page.click("#preface summary")
    await tab.sees("#preface blockquote:has-text('onerror')")
    await tab.writes(f"/title {EVIL}")
    await expect(tab.page.locator("#title")).to_contain_text("onerror")
    assert await tab.page.locator("#log img, #list img, #panel img").count() == 0
    assert await tab.page.evaluate("window.hacked") is None


async def test_a_locked_bot_asks_for_the_token_once(tmp_path: Path, browser: Browser) -> None:
    async with (
        serving(tmp_path, echo, token="a long random text") as site,
        browsing(browser) as tab,
    ):
        await tab.page.goto(f"{site.url}/#main")
        await tab.page.fill("#dialog input[name=password]", "wrong")
        await tab.page.press("#dialog input[name=password]", "Enter")
        await tab.sees("#dialog:has-text('Wrong password or access key')")
        await tab.page.fill("#dialog input[name=name]", "ann")
        await tab.presses("Sign in", "#dialog")
        await tab.sees("#dialog:has-text('Wrong name or password')")
        await expect(tab.page.locator("#dialog input[name=password]")).to_be_focused()
        await tab.page.fill("#dialog input[name=name]", "")
        await tab.page.fill("#dialog input[name=password]", "a long random text")
        await tab.presses("Sign in", "#dialog")
        await tab.asks("one", "one")
        await tab.page.reload()
        await tab.sees(".turn[data-turn=t1]")
        assert not await tab.page.evaluate("document.cookie")
        tab.faults.clear()  # the browser notes each 401


async def test_the_page_speaks_the_language_of_the_browser(site: Site, browser: Browser) -> None:
    async with browsing(browser, locale="de-AT") as tab:
        await tab.opens(site.url)
        placeholder = tab.page.locator("#text")
        await expect(placeholder).to_have_attribute("placeholder", "Nachricht (/ für Befehle)")
        await expect(tab.page.locator("html")).to_have_attribute("lang", "de")


async def test_the_page_speaks_the_language_that_is_set_whatever_the_browser_speaks(
    site: Site, tab: Tab
) -> None:
    placeholder = tab.page.locator("#text")
    await expect(placeholder).to_have_attribute("placeholder", "Message, or / for commands")
    await tab.page.fill("#text", "half a thou")
    await site.commands("/config language de")
    await tab.begins_anew()
    await expect(placeholder).to_have_attribute("placeholder", "Nachricht (/ für Befehle)")
    await expect(tab.page.locator("html")).to_have_attribute("lang", "de")
    await expect(placeholder).to_have_value("half a thou")
    await site.commands("/config language --unset")
    await tab.begins_anew()
    await expect(placeholder).to_have_attribute("placeholder", "Message, or / for commands")


async def test_somebody_comes_in_by_a_link_chooses_a_password_signs_out_and_in_again(
    tmp_path: Path, browser: Browser
) -> None:
    async with (
        serving(tmp_path, echo, token="a long random text") as site,
        browsing(browser) as tab,
    ):
        code = await site.app.features.service(PageLogins).invite("ann", "user", "a test")
        await tab.page.goto(f"{site.url}/#join={code}")
        await tab.page.fill("#dialog input[name=password]", "short")
        await tab.presses("Join", "#dialog")
        await tab.sees("#dialog:has-text('A password has 10 to 200 characters')")
        await tab.page.fill("#dialog input[name=password]", "a good password")
        await tab.page.press("#dialog input[name=password]", "Enter")
        await tab.sees("#panel .headline")
        await tab.asks("one", "one")
        assert code not in tab.page.url
        other = Tab(await tab.page.context.new_page())
        await other.opens(site.url)
        async with tab.page.expect_navigation():
            await tab.presses("ann: sign out")
        await other.sees("#dialog.arriving")
        await tab.page.fill("#dialog input[name=name]", "ann")
        await tab.page.fill("#dialog input[name=password]", "a good password")
        await tab.presses("Sign in", "#dialog")
        await tab.sees("#log .turn[data-turn] .text:has-text('one')")
        tab.faults.clear()  # the browser notes each 401


async def test_the_page_shows_all_though_nearly_nothing_is_kept(
    tmp_path: Path, browser: Browser
) -> None:
    script = [Say("long " * 2_000 + "END", pieces=400)]
    tiny = FeedLimits(one=1, all=1)
    async with serving(tmp_path, script, bounds=tiny) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        await tab.asks("Go on.", "END")


async def test_the_page_says_why_nobody_is_let_in(tmp_path: Path, browser: Browser) -> None:
    async with (
        serving(tmp_path, echo, token="a long random text") as site,
        browsing(browser) as tab,
    ):
        for number in range(20):
            await site.post("/api/login", {"token": f"guess {number}"})
        await tab.page.goto(f"{site.url}/#main")
        await tab.page.fill("#dialog input", "a long random text")
        await tab.page.press("#dialog input", "Enter")
        await tab.sees("#dialog:has-text('You tried too often with a wrong password or token')")
        tab.faults.clear()  # the browser notes each 401
    async with serving(tmp_path, echo) as site, browsing(browser) as tab:
        await tab.page.set_extra_http_headers({"X-Forwarded-For": "203.0.113.7"})
        await tab.page.goto(f"{site.url}/#main")
        await tab.sees("#log:has-text('This came through a proxy')")
        tab.faults.clear()


async def test_a_phone_shows_one_column_and_opens_the_others(site: Site, tab: Tab) -> None:
    await tab.page.set_viewport_size(PHONE)
    await site.says(f"one {'unbroken' * 40}\n\n| a | b |\n|---|---|\n| {'x' * 200} | y |")
    await tab.sees(".turn[data-turn=t1]")
    width = await tab.page.evaluate("document.documentElement.scrollWidth")
    assert width == PHONE["width"]
    await expect(tab.page.locator("#panel")).not_to_be_visible()
    await tab.page.click("#usage")
    await tab.shows_state("t1", "in context")
    await tab.presses("Close context")
    await expect(tab.page.locator("#panel")).not_to_be_visible()
    await tab.presses("Conversations")
    await tab.sees(".session")
    await tab.page.keyboard.press("Escape")
    await expect(tab.page.locator(".session").first).not_to_be_visible()


async def test_a_diff_is_read_whole_on_a_phone_and_a_wide_table_breaks_no_word(tab: Tab) -> None:
    await tab.page.set_viewport_size(PHONE)
    await tab.asks("one", "one")
    await tab.asks(f"two {'and more ' * 20}", "two")
    await tab.writes("/context diff")
    await tab.sees(".card .code .added")
    code = tab.page.locator(".card .code")
    is_above = """code => {
        const [copy, line] = [".copy", "pre span"].map((one) => code.querySelector(one));
        return copy.getBoundingClientRect().bottom <= line.getBoundingClientRect().top;
    }"""
    assert await code.evaluate(is_above)  # in one go: the chat may be scrolling
    assert await code.locator("pre").evaluate("e => e.scrollWidth <= e.clientWidth")
    await tab.writes("/config context ")
    cell = tab.page.locator("td:text-is('default')").first
    assert await cell.evaluate("cell => cell.clientHeight") < 40  # one line; two are 55


async def test_it_is_dark_where_the_system_is_or_one_wants_it(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo) as site, browsing(browser, color_scheme="dark") as tab:
        await tab.opens(site.url)
        assert await lightness(tab) < 60
        await tab.opens_settings("This browser")
        await tab.page.select_option("#theme", label="Light")
        assert await lightness(tab) > 200
        await tab.page.reload()
        await tab.sees("#panel .headline")
        assert await lightness(tab) > 200


async def lightness(tab: Tab) -> int:
    colour = await tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return max(int(part) for part in colour.strip("rgb()").split(","))


async def test_axe_finds_nothing_that_keeps_anyone_out(site: Site, tab: Tab, model: Model) -> None:
    model.script = lively
    for question in ("one", "two", "three"):
        await site.says(question)
    await site.commands("/context pin t1")
    await site.commands("/context drop t2")
    await tab.sees(".turn.out")
    await tab.writes("/context turns")
    await tab.sees(".card table")
    await tab.finds_no_fault()
    await tab.page.emulate_media(color_scheme="dark")
    await tab.finds_no_fault()
    await tab.presses("Clear context", ".controls")
    await tab.finds_no_fault()
    await tab.page.keyboard.press("Escape")
    await tab.page.set_viewport_size(PHONE)
    await tab.finds_no_fault()
    await tab.page.click("#usage")
    await tab.finds_no_fault()


def lively(request: Received) -> Answer:
    if request.body["messages"][-1]["role"] == "user":
        return Say("Well.", (Call("calculate", '{"expression": "6*7"}', "c1"),))
    return Say("# Title\n\n- a [link](https://example.com/)\n\n```\ncode\n```\n\n> said")


async def test_a_refused_command_looks_like_none_that_was_carried_out_and_says_what_to_do(
    tab: Tab,
) -> None:
    await tab.writes("/contxt")
    refused = tab.page.locator(".card.refused")
    await expect(refused).to_contain_text("Not done")
    await expect(refused).to_contain_text("did you mean /context?")
    await tab.writes("/context turns")
    await tab.sees(".card:not(.refused):has-text('There are no turns yet')")
    await expect(tab.page.locator(".card.problem")).to_have_count(0)
    await tab.finds_no_fault()


async def test_the_context_that_came_late_is_not_drawn_over_a_newer_one(
    site: Site, tab: Tab
) -> None:
    late, told, held = asyncio.Event(), asyncio.Event(), list[Route]()

    async def hold_first(route: Route) -> None:
        if held:
            await route.continue_()
            return
        held.append(route)
        response = await route.fetch()
        told.set()
        await late.wait()
        await route.fulfill(response=response)
        told.set()

    await tab.asks("one", "one")
    await tab.shows_state("t1", "in context")
    await tab.page.route("**/context", hold_first)
    async with tab.page.expect_request("**/context"):
        await site.commands("/context pin t1")
    await asyncio.wait_for(told.wait(), PATIENCE)
    await site.commands("/context drop t1")
    await tab.shows_state("t1", "dropped")
    told.clear()
    late.set()
    await asyncio.wait_for(told.wait(), PATIENCE)
    await tab.page.evaluate("() => new Promise(requestAnimationFrame)")
    await tab.shows_state("t1", "dropped")


async def test_below_an_answer_that_was_refused_stand_buttons_that_make_the_next_one_work(
    tab: Tab, model: Model
) -> None:
    model.script = [Say("Hello!"), Fail(400, {"message": "Something is off."}), Say("Again.")]
    await tab.asks("Hi", "Hello!")
    await tab.writes("Why?")
    await tab.sees(".ending.failed:has-text('Something is off.')")
    await tab.sees(".ending.failed button:text-is('Retry')")
    await tab.sees(".ending.failed button:text-is('Compact')")
    await tab.presses("Clear the context")
    await tab.page.locator("#dialog button:text-is('Clear the context')").click()
    await tab.sees(".card:has-text('context')")
    await tab.asks("And now?", "Again.")
