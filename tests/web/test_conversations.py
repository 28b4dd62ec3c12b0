"""The list of conversations: of all channels, sorted, searched, archived, exported."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, FilePayload, Route, expect

from bot.received import key_of
from channels.message import Address
from memory.messages import Message
from memory.record import tables
from tests.fakes.openai_server import echo_in_bold
from tests.waiting import PATIENCE
from tests.web.browser import Tab, browsing, needs_chromium
from tests.web.site import Json, Site, serving
from tests.whole.testbot import TestChannel

pytestmark = pytest.mark.asyncio(loop_scope="session")

OWNERS = {"owners": ["telegram/42"]}


@asynccontextmanager
async def several(folder: Path) -> AsyncIterator[tuple[Site, TestChannel, TestChannel]]:
    """A bot with its page, a terminal, and Telegram, where an owner and a user write."""
    terminal, telegram = TestChannel("terminal"), TestChannel("telegram")
    channels = (terminal, telegram)
    async with serving(folder, echo_in_bold, OWNERS, others=channels) as site:
        try:
            yield site, terminal, telegram
        finally:
            for channel in channels:
                channel.leave()


async def listed(site: Site, words: str = "") -> list[Json]:
    _, found = await site.get("/api/sessions", params={"all": "true", "q": words})
    return list(found["sessions"])


async def age(site: Site, session: str, days: float) -> None:
    """Move the messages of a session this far into the past."""
    at, key = time.time() - days * 86_400, f"web/{session}"
    column = tables.Conversation
    await site.app.store.write(
        lambda db: column.update(active_at=at).where(column.key == key).execute(db)
    )


async def names(tab: Tab, group: str = "") -> list[str]:
    """Return the titles in the list, or those below a heading."""
    script = """group => {
        const found = [];
        let heading = "";
        for (const item of document.querySelectorAll("#list > li")) {
            if (item.matches(".group")) heading = item.textContent;
            else if (item.dataset.session && (!group || heading === group))
                found.push(item.querySelector(".title").textContent);
        }
        return found;
    }"""
    return list(await tab.page.evaluate(script, group))


async def test_the_owner_has_one_list_over_all_channels(tmp_path: Path) -> None:
    async with several(tmp_path) as (site, terminal, telegram):
        await site.says("On the page")
        await terminal.says("At the terminal")
        await telegram.says("On the phone", "42", "42")
        found = {(one["channel"], one["id"]): one["title"] for one in await listed(site)}
        assert found == {
            ("web", "main"): "On the page",
            ("terminal", "main"): "At the terminal",
            ("telegram", "42"): "On the phone",
        }
        _, only = await site.get("/api/sessions")
        assert [one["id"] for one in only["sessions"]] == ["main"]


async def test_what_others_said_is_nobody_elses(tmp_path: Path) -> None:
    async with several(tmp_path) as (site, _, telegram):
        await telegram.writes("Let me in", "7", "7")
        await site.says("Hello")
        for path in ("messages", "context", "files", "events", "file?path=files/a"):
            sign = "&" if "?" in path else "?"
            status, _ = await site.get(f"/api/sessions/7/{path}{sign}channel=telegram")
            assert status == 404
        for channel in ("nowhere", "pipe", "telegram"):
            body = {"text": "yes"}
            status, _ = await site.post(f"/api/sessions/7/commands/forget?channel={channel}", body)
            assert status == 404


async def test_a_conversation_of_another_channel_is_read_and_steered_and_not_answered(
    tmp_path: Path,
) -> None:
    async with several(tmp_path) as (site, terminal, _):
        await terminal.says("At the terminal")
        _, said = await site.get("/api/sessions/main/messages?channel=terminal")
        assert said["messages"][0]["text"] == "At the terminal"
        path = "/api/sessions/main/commands/context?channel=terminal"
        status, reply = await site.post(path, {"text": "pin t1"})
        assert (status, "pinned" in reply["text"].lower()) == (200, True)
        path = "/api/sessions/main/messages?channel=terminal"
        status, refused = await site.post(path, {"text": "Hello"})
        assert (status, "write there" in refused["error"]["message"]) == (403, True)


async def test_titles_are_the_first_words_and_name_no_file(tmp_path: Path) -> None:
    async with serving(tmp_path, echo_in_bold) as site:
        await site.says(f"## **What** about {'Lisbon in autumn ' * 9}\n\nand more", "one")
        file = {"name": "a.txt", "media_type": "text/plain", "data": "aGVsbG8="}
        await site.says("Read it", "two", attachments=[file])
        titles = {one["id"]: one["title"] for one in await listed(site)}
        assert titles["two"] == "Read it"
        assert titles["one"].startswith("What about Lisbon in autumn Lisbon")
        assert titles["one"].endswith("…")
        assert len(titles["one"]) <= 61


async def test_the_list_can_be_read_in_parts(tmp_path: Path) -> None:
    async with serving(tmp_path, echo_in_bold) as site:
        for number in range(5):
            await site.says(f"chat {number}", f"c{number}")
        await site.commands("/pin", "c1")
        seen: list[str] = []
        after = ""
        for _ in range(3):
            params = {"all": "true", "limit": "2", "after": after, "open": "c0"}
            _, part = await site.get("/api/sessions", params=params)
            found = [one["id"] for one in part["sessions"]]
            assert (part["open"] is None) == ("c0" in found)
            seen += found
            after = part["next"]
        assert seen == ["c1", "c4", "c3", "c2", "c0"]
        assert after == ""
        for wrong in ("x", "W10", "!!", "bnVsbA"):
            status, told = await site.get("/api/sessions", params={"after": wrong})
            assert (status, "`next` of a list" in told["error"]["message"]) == (400, True)


async def test_a_search_wants_all_words_and_shows_where_they_are(tmp_path: Path) -> None:
    async with serving(tmp_path, echo_in_bold) as site:
        await site.says("Hello", "one")
        await site.says(f"{'before ' * 40} the hotel in LISBON {'after ' * 40}", "one")
        await site.says("A hotel in Rome", "two")
        (found,) = await listed(site, "lisbon hotel")
        assert (found["id"], found["snippet"]["turn"]) == ("one", "t2")
        assert "the hotel in LISBON" in found["snippet"]["text"]
        assert len(found["snippet"]["text"]) < 140
        assert await listed(site, "100%_") == []
        await site.commands("/title The trip", "two")
        (found,) = await listed(site, "trip")
        assert (found["id"], found["snippet"]) == ("two", None)


async def test_a_phrase_and_a_whole_number_come_before_what_is_newer(tmp_path: Path) -> None:
    async with serving(tmp_path, echo_in_bold) as site:
        for name, text in (
            ("whole", "We are 12 for the night train to Lisbon"),
            ("part", "A train in 2012, by night, and Lisbon"),
            ("code", "Gate A-17, 3.14 and 2026-11-27"),
            ("codes", "Gate A-175, 13.145 and 2026-11-271"),
        ):
            await site.says(text, name)
        for words, order in (
            ("12", ["whole", "part"]),
            ("night train", ["whole", "part"]),
            ("lisbon night", ["part", "whole"]),
            *((word, ["code", "codes"]) for word in ("A-17", "a-17", "3.14", "2026-11-27")),
        ):
            assert [one["id"] for one in await listed(site, words)] == order, words
        (found, _) = await listed(site, "night train")
        assert "night train" in found["snippet"]["text"]


async def test_a_hit_in_a_branch_that_was_left_leads_to_no_turn(tmp_path: Path) -> None:
    async with serving(tmp_path, echo_in_bold) as site:
        await site.says("Hello")
        await site.says("by train")
        await site.commands("/fork t1")
        await site.says("by car")
        (found,) = await listed(site, "train")
        assert found["snippet"]["turn"] == ""
        (found,) = await listed(site, "car")
        assert found["snippet"]["turn"] == "t2"


async def test_an_export_can_be_fetched_and_has_nothing_that_was_taken_away(tmp_path: Path) -> None:
    async with serving(tmp_path, echo_in_bold) as site:
        await site.says("Hello")
        reply = await site.commands("/context export markdown")
        paths = {Path(path).name: path for path in reply["data"]["paths"]}
        url = f"{site.url}/api/sessions/main/file"
        async with site.http.get(url, params={"path": paths["context.md"]}) as response:
            text = await response.text()
        assert "**You:**\n\nHello" in text
        assert "**re:** Hello" in text
        async with site.http.get(url, params={"path": paths["context.json"]}) as response:
            assert b"parley-context" in await response.read()
        await site.says("More")
        await site.commands("/context drop t1")
        readable = tmp_path / "data" / "audiences" / "web-main" / paths["context.md"]
        await site.commands("/context export")
        assert "Hello" not in await asyncio.to_thread(readable.read_text)


# --- on the page ---------------------------------------------------------------------------


@needs_chromium
async def test_conversations_stand_under_their_dates_and_what_is_pinned_before_them(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        for name, days in (("now", 0.0), ("then", 1.0), ("week", 5.0), ("month", 20.0)):
            await site.says(name, name)
            await age(site, name, days)
        await tab.opens(site.url, "now")
        await tab.sees("#list .group")
        assert await names(tab, "Today") == ["now"]
        assert await names(tab, "Yesterday") == ["then"]
        assert await names(tab, "Previous 7 days") == ["week"]
        assert await names(tab, "Previous 30 days") == ["month"]
        await tab.chooses("Pin", "month")
        await tab.sees("#list .group:first-child:has-text('Pinned')")
        assert await names(tab, "Pinned") == ["month"]
        await tab.chooses("Archive", "month")
        await expect(tab.page.locator("#list > li .title:text-is('month')")).to_be_hidden()
        await tab.page.click("#archived summary")
        await tab.chooses("Unarchive", "month")
        await tab.sees("#list .group:has-text('Previous 30 days')")


async def many(site: Site, chats: int, turns: int = 1) -> None:
    """Create this many chats with this many turns."""
    for number in range(chats):
        conversation = await site.app.conversations.get(key_of(Address("web", f"c{number}")))
        await conversation.turns.append(
            [
                [Message("user", f"chat {number} {turn}"), Message("assistant", "yes")]
                for turn in range(turns)
            ]
        )


@needs_chromium
async def test_older_turns_and_more_conversations_come_as_one_scrolls(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        await many(site, 230)
        await site.commands("/archive", "c7")
        await site.commands("/pin", "c3")
        conversation = await site.app.conversations.get(key_of(Address("web", "long")))
        await conversation.turns.append(
            [[Message("user", f"turn {n}"), Message("assistant", "yes")] for n in range(1, 96)]
        )
        await tab.opens(site.url, "c0")
        await expect(tab.page.locator("#title")).to_have_text("chat 0 0")
        assert len(await names(tab)) < 230
        assert await names(tab, "Pinned") == ["chat 3 0"]
        await tab.scrolls_to("#list", "#archived")
        await expect(tab.page.locator("#list .rest")).to_have_count(0)
        found = await names(tab)
        assert len(found) == len({*found}) == 230
        await tab.sees("#archived summary:has-text('Archived (1)')")
        await tab.page.fill("#search", "chat 1")
        best = tab.page.locator("#list .session").first
        await expect(best.locator(".title")).to_have_text("chat 1 0")
        await expect(best).to_be_in_viewport()
        await tab.opens(site.url, "long")
        await tab.sees("#log .turn[data-turn=t95]")
        await expect(tab.page.locator("#log .turn[data-turn=t1]")).to_have_count(0)
        await tab.scrolls_to("#log", "#log .turn[data-turn=t1]", is_up=True)
        await expect(tab.page.locator("#log .turn")).to_have_count(95)
        await expect(tab.page.locator("#log .older")).to_have_count(0)


@needs_chromium
async def test_a_search_jumps_to_the_hit_however_far_up_it_is(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        await site.says("The word is Lisbon", "long")
        for number in range(40):
            await site.says(f"{number}", "long")
        await site.says("Hello", "other")
        await tab.opens(site.url, "other")
        await tab.page.fill("#search", "word lisbon")
        await tab.sees(".snippet mark:text-is('Lisbon')")
        await tab.page.click(".session")
        await expect(tab.page.locator(".turn.found[data-turn=t1]")).to_be_in_viewport()
        await expect(tab.page.locator("#title")).to_have_text("The word is Lisbon")


@needs_chromium
async def test_several_conversations_are_put_away_or_deleted_at_once(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        for name in ("one", "two", "three", "four"):
            await site.says(name, name)
        await tab.opens(site.url, "four")
        await tab.presses("More for all conversations")
        await tab.page.get_by_role("menuitem", name="Select several").click()
        for name in ("one", "two"):
            await tab.page.get_by_label(f"Choose {name}").check()
        await tab.presses("Archive", "#selection")
        await tab.sees("#archived summary:has-text('Archived (2)')")
        assert await names(tab) == ["four", "three"]
        await tab.presses("More for all conversations")
        await tab.page.get_by_role("menuitem", name="Select several").click()
        await tab.page.get_by_label("Choose four").check()
        await tab.presses("Delete", "#selection")
        await tab.sees("#dialog:has-text('Delete 1 conversation for good')")
        await tab.presses("Delete", "#dialog")
        await expect(tab.page.locator("#title")).to_have_text("three")
        assert {one["title"] for one in await listed(site)} == {"one", "two", "three"}


@needs_chromium
async def test_a_conversation_is_saved_and_taken_in_again(tmp_path: Path, browser: Browser) -> None:
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        await site.says("What about Lisbon?")
        await tab.opens(site.url)
        for kind, ending in (("Markdown", "md"), ("JSON", "json")):
            async with tab.page.expect_download() as downloading:
                await tab.chooses(f"Save as {kind}", "What about Lisbon?")
            download = await downloading.value
            assert download.suggested_filename.replace("_", " ").strip() in (
                f"What about Lisbon.{ending}",
                f"What about Lisbon .{ending}",
            )
        content = await asyncio.to_thread((await download.path()).read_bytes)
        assert json.loads(content)["format"] == "parley-context"
        await site.commands("/forget branches yes")
        whole = FilePayload(name="trip.json", mimeType="application/json", buffer=content)
        await tab.page.set_input_files("#import", [whole])
        await tab.sees("#log .turn[data-turn=t1]:has-text('What about Lisbon?')")
        await tab.sees("#notice:has-text('Imported 1 turn')")
        broken = FilePayload(name="trip.json", mimeType="application/json", buffer=b"{}")
        await tab.page.set_input_files("#import", [broken])
        await tab.sees("#notice:has-text('Nothing was imported')")
        await tab.sees("#log .turn[data-turn=t1]:has-text('What about Lisbon?')")


@needs_chromium
async def test_the_page_shows_where_a_conversation_came_from_and_where_to_answer(
    tmp_path: Path, browser: Browser
) -> None:
    async with several(tmp_path) as (site, terminal, _), browsing(browser) as tab:
        await site.says("On the page")
        await terminal.says("At the terminal")
        await tab.opens(site.url)
        await tab.page.click(".session:has(.channel:text-is('Terminal'))")
        await tab.sees("#elsewhere:has-text('takes place in Terminal')")
        await expect(tab.page.locator("#composer")).to_be_hidden()
        await tab.presses("Pin t1")
        await tab.shows_state("t1", "pinned")
        await terminal.says("And more")
        await tab.sees("#log .turn[data-turn=t2] .text:has-text('And more')")
        await expect(tab.page.locator(".pending")).to_have_count(0)
        await tab.page.reload()
        await tab.sees("#log .turn[data-turn=t2]")
        await expect(tab.page.locator("#composer")).to_be_hidden()
        await tab.page.click(".session .title:text-is('On the page')")
        await expect(tab.page.locator("#composer")).to_be_visible()


async def test_back_and_forward_lead_from_one_conversation_to_another(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        for name in ("one", "two"):
            await site.says(f"This is {name}", name)
        await tab.opens(site.url, "one")
        for name in ("two", "one"):
            await tab.page.click(f".session .title:text-is('This is {name}')")
            await tab.sees(f".question:text-is('This is {name}')")
        await tab.presses("New conversation")  # no message is sent in it
        await tab.sees(".greeting")
        await tab.page.click(".session .title:text-is('This is two')")
        back, forward = tab.page.go_back, tab.page.go_forward
        for step, name in ((back, "one"), (back, "two"), (back, "one"), (forward, "two")):
            await step()
            await tab.sees(f".question:text-is('This is {name}')")
            assert tab.page.url.endswith(f"#/{name}")


async def test_nothing_of_one_conversation_is_said_of_the_turns_of_another(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        for name in ("one", "two"):
            await site.says(f"This is {name}", name)
        await site.commands("/context pin t1", "one")
        await tab.opens(site.url, "one")
        await tab.shows_state("t1", "pinned")
        asked = asyncio.Event()

        async def hold(route: Route) -> None:
            asked.set()

        await tab.page.route("**/two/context", hold)
        await tab.page.click(".session .title:text-is('This is two')")
        await tab.sees(".question:text-is('This is two')")
        async with asyncio.timeout(PATIENCE):
            await asked.wait()
        await expect(tab.page.locator("#log .state")).to_have_text([""])
        await expect(tab.page.locator("#log [data-act=pin]")).to_have_attribute(
            "aria-pressed", "false"
        )
        await expect(tab.page.locator("#panel")).to_have_attribute("inert", "")
        await tab.page.unroute_all(behavior="ignoreErrors")
        await site.says("More", "two")
        await expect(tab.page.locator("#panel")).not_to_have_attribute("inert", "")


async def test_a_conversation_that_was_left_before_its_first_message_is_the_next_new_one(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        await site.says("Hello", "one")
        await tab.opens(site.url, "one")
        await tab.presses("New conversation")
        await tab.page.fill("#text", "half a thou")
        await tab.page.click(".session .title:text-is('Hello')")
        await expect(tab.page.locator("#text")).to_have_value("")
        await tab.page.reload()
        await tab.presses("New conversation")
        await expect(tab.page.locator("#text")).to_have_value("half a thou")
        await tab.asks("and the rest", "and the rest")
        await tab.presses("New conversation")
        await expect(tab.page.locator("#text")).to_have_value("")


async def test_a_conversation_that_was_deleted_elsewhere_has_no_title_here(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        for name in ("one", "two"):
            await site.says(f"This is {name}", name)
        await tab.opens(site.url, "one")
        await expect(tab.page.locator("#title")).to_have_text("This is one")
        await tab.page.fill("#search", "two")
        await expect(tab.page.locator(".session")).to_have_count(1)
        await expect(tab.page.locator("#title")).to_have_text("This is one")
        await tab.page.fill("#search", "")
        await expect(tab.page.locator(".session")).to_have_count(2)
        await site.commands("/forget branches yes", "one")
        await expect(tab.page.locator("#title")).to_have_text("New conversation")
        await tab.sees(".greeting")
