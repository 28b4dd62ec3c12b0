"""Tests of a received message, its conversation, and the number of messages that may wait."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot import turns
from bot.app import App
from bot.assembly import assemble
from bot.commands import describe_unknown
from bot.received import CommandLine, command_line, key_of, unescape_slash
from bot.settings import load_layers
from bot.turns import BUSY
from channels.base import Activity, Bot, Channel, ChannelError, Notice
from channels.message import Address, Outbound, clean_text
from tests.docs.commands import builtin
from tests.fakes.openai_server import Answer, Hang, Received, Say, Script
from tests.waiting import PATIENCE
from tests.whole.testbot import TestBot, TestChannel, run_bot

words = st.from_regex(r"[a-z_][a-z0-9_]{0,20}", fullmatch=True)
anything = st.text(st.characters(), max_size=40)  # including half characters and controls
addresses = st.builds(
    Address,
    st.sampled_from(["pipe", "telegram", "a", "a-b", "A"]),
    st.one_of(st.text(max_size=8), st.text("aA-/%_.\0", max_size=6)),
    st.sampled_from(["", "b", "7", "a/b"]),
    user=st.sampled_from(["", "ann"]),
)


# Text


@given(anything)
def test_cleaned_text_can_be_stored_and_shown_and_is_clean(text: str) -> None:
    clean = clean_text(text)
    clean.encode()
    assert clean_text(clean) == clean
    controls = {c for c in clean if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")}
    assert controls <= {"\n", "\t"}


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"])))
def test_what_people_write_is_not_touched_by_cleaning(text: str) -> None:
    assert clean_text(text) == text.replace("\ufeff", "")


@given(words, anything, st.sampled_from(["", "@parley_bot"]))
def test_a_slash_and_a_word_is_a_command_in_any_case(name: str, rest: str, bot: str) -> None:
    assert command_line(f" /{name.upper()}{bot} {rest}\n") == CommandLine(name, rest.strip())


@given(anything)
def test_any_text_is_a_command_or_reaches_the_model(text: str) -> None:
    line = command_line(text)
    assert (line is None) or text.strip().startswith(f"/{text.strip()[1]}")
    assert line is None or line.rest in text
    assert unescape_slash(text) in text


@given(anything)
def test_two_slashes_send_any_text_that_begins_with_one(text: str) -> None:
    assert command_line(f"//{text}") is None
    assert unescape_slash(f"//{text}") == f"/{text}"


def test_what_only_looks_like_a_command_is_none() -> None:
    for text in ("", "/", "/ help", "//", "/1", "/etc/passwd", "a /help", "/-x"):
        assert command_line(text) is None


def test_a_command_with_a_megabyte_of_blanks_is_read_at_once() -> None:
    line = command_line(f"/x a{' ' * 1_000_000}b\n")  # minutes, for a pattern that backtracks
    assert line is not None
    assert len(line.rest) == 1_000_002


COMMANDS = {one.name: one for one in builtin() if one.name in ("context", "config")}


@given(anything)
def test_an_unknown_command_is_told_with_a_way_on(name: str) -> None:
    sentence = describe_unknown(name, COMMANDS)
    assert "/context" in sentence or "/config" in sentence or "/help" in sentence
    assert f"//{name}" in sentence


# Whose conversation it is


def _place(address: Address) -> tuple[str, str, str]:
    return address.channel, address.chat, address.thread


@given(addresses, addresses)
@example(Address("x", "a/b"), Address("x", "a", "b"))
@example(Address("x", ""), Address("", "x"))
@example(Address("x", "", "b"), Address("x", "b"))
@example(Address("x", "a%2Fb"), Address("x", "a/b"))
@example(Address("a-b", "c"), Address("a", "b-c"))
@example(Address("x", "Ann"), Address("x", "ann"))
@example(Address("x", "a" * 200 + "b"), Address("x", "a" * 200 + "c"))
def test_two_chats_never_share_a_conversation_or_a_folder(one: Address, other: Address) -> None:
    is_same_chat = _place(one)[:2] == _place(other)[:2]
    first, second = key_of(one), key_of(other)
    assert (first.id == second.id) == (_place(one) == _place(other))
    assert (first.audience.casefold() == second.audience.casefold()) == is_same_chat


@given(addresses)
@example(Address("pipe", ".."))
@example(Address("pipe", "/etc/passwd"))
@example(Address("", ""))
def test_a_folder_has_a_name_that_is_safe_on_every_system(address: Address) -> None:
    assert re.fullmatch(r"[a-z0-9_-]{3,80}", key_of(address).audience)


def test_a_chat_cannot_take_the_folder_that_another_ones_name_was_hashed_to() -> None:
    hashed = key_of(Address("pipe", "Ann")).audience
    assert key_of(Address("pipe", hashed.removeprefix("pipe-"))).audience != hashed
    assert key_of(Address("pipe", "main")).audience == "pipe-main"


# How many may wait


@asynccontextmanager
async def with_a_short_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, script: Script
) -> AsyncIterator[TestBot]:
    """A bot with twelve waiting messages allowed per chat."""
    monkeypatch.setattr(turns, "LONGEST_LINE", 12)
    async with run_bot(folder, script, {"owners": ["afar/ann"]}, channel="afar") as bot:
        yield bot


async def test_a_line_takes_no_more_when_all_come_at_the_same_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with with_a_short_line(tmp_path, monkeypatch, lambda _: Say("Yes.")) as bot:
        writing = (bot.writes("more", user="ann", id=f"more{number}") for number in range(20))
        taken = [accepted for accepted in await asyncio.gather(*writing) if accepted]
        assert len(taken) == 12
        await bot.app.turns.queues.idle()
        assert (await bot.says("again", user="ann")).text == "Yes."


async def test_a_full_line_refuses_before_it_accepts_and_takes_the_same_message_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For remote people; people at this machine wait instead (tests/whole/test_pipe.py)."""

    def script(request: Received) -> Answer:
        asked = request.body["messages"][-1]["content"].removeprefix("ann: ")
        return Hang() if asked == "hang" else Say(f"re: {asked}")

    async with with_a_short_line(tmp_path, monkeypatch, script) as bot:
        await bot.writes("hang", user="ann")
        await bot.server.reached.acquire()
        for number in range(11):
            assert await bot.writes("more", user="ann", id=f"more{number}") is not None
        assert await bot.writes("late", user="ann", id="late") is None
        assert (await bot.reply_to("late")).reply.text == BUSY
        assert await bot.writes("elsewhere", "other", "ann", "elsewhere") is not None
        assert (await bot.says("/status", user="ann")).data is not None
        await bot.says("/stop", user="ann")
        await bot.reply_to("more10")
        assert await bot.writes("late", user="ann", id="late") is not None
    assert [o.reply.text for o in bot.sent if o.reply_to == "late"] == [BUSY, "re: late"]


class Platform:
    """A channel that listens for ever, or fails at once."""

    name = "platform"

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.is_closed = error, False
        self.may_fail = asyncio.Event()

    async def listen(self, bot: Bot) -> None:
        await self.may_fail.wait()
        if self.error:
            raise self.error

    async def send(self, outbound: Outbound) -> None:
        """Never called."""

    async def close(self) -> None:
        self.is_closed = True


async def assembled(folder: Path, channels: list[Channel]) -> App:
    config = folder / "config.json"
    config.write_text('{"model": "gpt-4o-mini"}')
    layers = load_layers(config, {"OPENAI_API_KEY": "test-key"})
    return await assemble(layers, folder / "data", channels)


async def test_the_bot_ends_with_the_channel_that_it_is_told_to_and_closes_the_others(
    tmp_path: Path,
) -> None:
    channel, platform = TestChannel(), Platform()
    app = await assembled(tmp_path, [channel, platform])
    running = asyncio.create_task(app.run(until="pipe"))
    await channel.api()
    channel.leave()
    await running
    assert platform.is_closed


async def test_what_a_channel_fails_with_is_heard_at_the_others_and_raised_in_the_end(
    tmp_path: Path,
) -> None:
    channel, platform = TestChannel(), Platform(ChannelError("The token is wrong; correct it."))
    app = await assembled(tmp_path, [channel, platform])
    running = asyncio.create_task(app.run())
    bot = await channel.api()
    with bot.watch(Address("pipe", "main")) as happening:
        platform.may_fail.set()
        heard = await asyncio.wait_for(anext(happening), PATIENCE)
    assert heard == Notice("The token is wrong; correct it.")
    channel.leave()
    with pytest.raises(ChannelError, match="The token is wrong"):
        await running


async def test_an_owner_who_watches_hears_once_that_a_channel_has_ended(tmp_path: Path) -> None:
    channel, platform = TestChannel(), Platform(ChannelError("The token is wrong; correct it."))
    app = await assembled(tmp_path, [channel, platform])
    running = asyncio.create_task(app.run())
    bot = await channel.api()
    await channel.says("/version")
    noticed: list[Activity] = []
    watchers = [await channel.watches(noticed, chat) for chat in ("main", "other")]
    with bot.watch(Address("pipe", "other")) as happening:
        platform.may_fail.set()
        assert isinstance(await asyncio.wait_for(anext(happening), PATIENCE), Notice)
    assert "The token is wrong" in (await channel.reply_to("")).reply.text
    for watching in watchers:
        watching.cancel()
    assert len(noticed) == 1
    channel.leave()
    with pytest.raises(ChannelError, match="The token is wrong"):
        await running
