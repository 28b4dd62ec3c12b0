"""Tests of buffered recent events: limited by bytes and age, and no listener misses one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.base import Delta, PrivateChanged, TurnStarted
from channels.message import Address, Outbound, Reply
from channels.web.feed import EventBuffer, FeedEvent, FeedLimits, Feeds
from channels.web.operations import Problem
from tests.fakes.fake_bot import FakeBot, deltas
from tests.fakes.openai_server import Received, Say
from tests.waiting import PATIENCE, until
from tests.web.site import Site, serving
from tests.web.test_rest import until_done

LONG = "word " * 2_000
SMALL = FeedLimits(one=20_000, all=60_000)


def tell_long(request: Received) -> Say:
    del request
    return Say(LONG, pieces=400)


async def place_of(site: Site, session: str) -> str:
    """Return the position from which the events of a session continue."""
    return str((await site.get(f"/api/sessions/{session}/messages"))[1]["event"])


async def kind_after(site: Site, session: str, place: str) -> str:
    """Return the kind of the first event for a listener that has read everything until then, once
    the bot has sent more."""
    async with site.follows(session, **{"Last-Event-ID": place}) as events:
        return (await anext(events)).kind


async def test_a_session_that_said_too_much_begins_with_a_snapshot(tmp_path: Path) -> None:
    async with serving(tmp_path, tell_long, bounds=SMALL) as site:
        start = await place_of(site, "main")
        await site.says("Go on.")
        assert await kind_after(site, "main", start) == "snapshot"
        _, said = await site.get("/api/sessions/main/messages")
        assert said["messages"][-1]["text"] == LONG


async def test_sessions_together_keep_no_more_than_one_may_where_there_are_many(
    tmp_path: Path,
) -> None:
    bounds = FeedLimits(one=1_000_000, all=3 * len(LONG))
    async with serving(tmp_path, tell_long, bounds=bounds) as site:
        starts = {}
        for number in range(6):
            starts[number] = await place_of(site, f"s{number}")
            await site.says("Go on.", f"s{number}")
        kinds = [await kind_after(site, f"s{n}", starts[n]) for n in starts]
    assert kinds[0] == "snapshot"
    assert kinds[-1] != "snapshot"


async def test_a_stream_ends_with_the_answer_though_its_pieces_were_forgotten(
    tmp_path: Path,
) -> None:
    tiny = FeedLimits(one=1, all=1)
    async with serving(tmp_path, tell_long, bounds=tiny) as site, site.streams("Go.") as events:
        done = (await until_done(events))[-1]
    assert done.data["text"].strip() == LONG.strip()


def feeds_of(bounds: FeedLimits) -> tuple[FakeBot, Feeds]:
    bot = FakeBot(lambda text: deltas(text))
    return bot, Feeds(bot, bounds)


async def test_what_is_old_is_forgotten_and_a_session_that_nobody_needs_is_left() -> None:
    address = Address("web", "main")
    _, feeds = feeds_of(FeedLimits(age=10, idle=20))
    try:
        feed, now = feeds.of(address), asyncio.get_running_loop().time()
        feeds.deliver(Outbound(1, address, Reply("Hello!"), "m1"))
        begin = feed.place(0)
        feeds.tidy(now + 5)
        assert feed.place_after(begin) == 0
        feeds.tidy(now + 12)
        assert feed.place_after(begin) is None
        assert feed.place_after(feed.place(feed.end)) == feed.end

        async def follow() -> None:
            async for _ in feed.batches(feed.end):
                pass

        waiting = asyncio.create_task(follow())
        await asyncio.sleep(0)  # it follows now
        feeds.tidy(now + 30)
        assert feeds.of(address) is feed
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        feeds.tidy(now + 60)
        assert feeds.of(address) is not feed
    finally:
        await feeds.close()


async def test_what_was_said_off_the_record_is_told_to_nobody_afterwards() -> None:
    bot, feeds = feeds_of(FeedLimits())
    try:
        feed = feeds.of(Address("web", "main"))
        begin = feed.place(0)
        for activity in (PrivateChanged(True), TurnStarted("m1", "secret"), Delta("secret")):
            bot.show(activity)
        bot.show(PrivateChanged(False))
        await until(lambda: feed.end == 4)
        assert feed.place_after(begin) is None
        assert [event.kind for event in feed.kept.newest(len(feed.kept))] == ["private"]
    finally:
        await feeds.close()


async def test_who_comes_when_the_bot_stops_hears_so_and_is_in_nobodys_way() -> None:
    _, feeds = feeds_of(FeedLimits())
    first, _ = (feeds.of(Address("web", name)) for name in ("a", "b"))
    closing = asyncio.create_task(feeds.close())
    await asyncio.sleep(0)  # it waits for the first
    with pytest.raises(Problem, match="shutting down"):
        feeds.of(Address("web", "c"))
    await closing
    assert first.expect("m1").cancelled()


@given(st.lists(st.integers(0, 5_000), max_size=60), st.integers(1, 20_000))
def test_the_sum_of_what_is_kept_is_what_was_told_and_within_its_bound(
    sizes: list[int], most: int
) -> None:
    told: list[int] = []
    kept = EventBuffer(most, told.append)
    for number, size in enumerate(sizes, 1):
        kept.add(FeedEvent(number, "delta", {"text": "x" * size}, "o", float(number)))
        assert sum(told) <= most or len(kept) == 1
        assert sum(event.size for event in kept.newest(len(kept))) == sum(told)
    kept.drop_before(float(len(sizes)))
    assert len(kept) <= 1
    kept.clear()
    assert sum(told) == len(kept) == 0


async def test_more_conversations_than_are_watched_are_all_answered_at_once(tmp_path: Path) -> None:
    def asked(number: int) -> dict[str, object]:
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
        return {"messages": messages, "parley_conversation": f"c{number}"}

    script = [Say("Hello!")] * 12
    async with (
        serving(tmp_path, script, bounds=FeedLimits(feeds=2)) as site,
        asyncio.timeout(PATIENCE),
    ):
        path = "/v1/chat/completions"
        answers = await asyncio.gather(*(site.post(path, asked(number)) for number in range(12)))
    assert [status for status, _ in answers] == [200] * 12
