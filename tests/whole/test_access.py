"""Tests of access: strangers, codes, owners, users, chats; and rate limits."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from bot import commands
from bot.access import (
    ALPHABET,
    ASKED,
    CLOSED,
    CODE_LENGTH,
    CROWDED,
    HOUR,
    MOST_PENDING,
    TOO_FAST,
    Access,
    MessageRate,
    digest_of,
    new_code,
)
from bot.commands import TOO_MANY, CommandRunner
from bot.ports import WELCOME
from bot.received import key_of
from bot.settings import Settings
from channels.guess_limit import TRIES
from channels.message import Address, Inbound, Reply
from memory.record.store import Store
from plugins.api import CommandError
from tests.bot.in_process import Ended, run_main
from tests.fakes.openai_server import echo
from tests.waiting import until
from tests.whole.testbot import TestBot, run_bot

CODE = re.compile(r"/pair ([A-Z2-9]{4}-[A-Z2-9]{4})")
OWNER = "boss"


def afar(folder: Path, **settings: Any) -> AbstractAsyncContextManager[TestBot]:
    """A bot on a channel with remote people; the owner is `boss`."""
    return run_bot(folder, echo, {"owners": [f"afar/{OWNER}"], **settings}, channel="afar")


async def code_of(bot: TestBot, user: str, chat: str = "") -> str:
    """Return the code that a stranger gets."""
    told = (await bot.says("Hello?", chat or user, user)).text
    found = CODE.search(told)
    assert found is not None, told
    return found[1]


async def befriended(bot: TestBot, user: str, how: str = "") -> Reply:
    """Add a stranger whom the owner has approved."""
    code = await code_of(bot, user)
    return await bot.says(f"/pair {code} {how}", OWNER, OWNER)


# Codes


async def test_a_stranger_is_told_in_one_sentence_how_to_be_let_in_and_gets_nothing_else(
    tmp_path: Path,
) -> None:
    async with afar(tmp_path) as bot:
        told = await bot.says("/context", "ann", "ann")
        assert (told.data, told.actions) == (None, ())
        assert re.fullmatch(
            r"You have no access to this bot yet\. Ask the bot's owner to send `/pair \w{4}-\w{4}` "
            r"to the bot within an hour\.",
            told.text,
        )
        assert not bot.server.requests
        count = "SELECT COUNT(*) FROM inbox"
        kept = await bot.app.store.read(lambda db: db.execute_sql(count).fetchone())
        assert kept == (0,), "nothing of it is kept"


async def test_an_owner_lets_a_stranger_in_who_is_told_and_is_known_after_a_restart(
    tmp_path: Path,
) -> None:
    async with afar(tmp_path) as bot:
        assert (
            await befriended(bot, "ann")
        ).text == "afar/ann now has access as a user, and was notified."
        assert (await bot.reply_to("")).reply.text == WELCOME
        assert (await bot.says("Hi", "ann", "ann")).text == "re: Hi"
        assert "a user of this bot" in (await bot.says("/whoami", "ann", "ann")).text
    async with afar(tmp_path) as bot:
        assert (await bot.says("Hi again", "ann", "ann")).text == "re: Hi again"


async def test_a_code_is_taken_however_it_is_typed_and_once(tmp_path: Path) -> None:
    async with afar(tmp_path) as bot:
        code = (await code_of(bot, "ann")).lower().replace("-", " ")
        assert "now has access" in (await bot.says(f"/pair {code}", OWNER, OWNER)).text
        assert "Nobody is waiting" in (await bot.says(f"/pair {code}", OWNER, OWNER)).text


async def test_a_stranger_who_writes_again_has_the_same_code(tmp_path: Path) -> None:
    async with afar(tmp_path) as bot:
        code = await code_of(bot, "ann")
        assert await bot.writes("Hello?", "ann", "ann") is None
        assert len([o for o in bot.sent if o.address.user == "ann"]) == 1, "once a minute"
        bot.app.access._strangers._since -= 60
        assert await code_of(bot, "ann") == code
        assert await code_of(bot, "ann", "elsewhere") == code
    async with afar(tmp_path) as bot:
        assert (await bot.says("Hello?", "ann", "ann")).text == ASKED, "only its hash is kept"
        assert "now has access" in (await bot.says(f"/pair {code}", OWNER, OWNER)).text


async def test_a_code_is_nowhere_on_the_disk(tmp_path: Path) -> None:
    async with afar(tmp_path) as bot:
        code = await code_of(bot, "ann")
    for file in (tmp_path / "data").rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert code.encode() not in content
            assert code.replace("-", "").encode() not in content


async def test_most_strangers_of_a_channel_wait_without_a_code(tmp_path: Path) -> None:
    async with afar(tmp_path) as bot:
        for number in range(MOST_PENDING):
            await code_of(bot, f"stranger{number}")
        assert (await bot.says("Hello?", "late", "late")).text == CROWDED
        users = await bot.says("/users", OWNER, OWNER)
        assert users.data is not None
        assert [one["id"] for one in users.data["pending"]] == [
            f"afar/stranger{number}" for number in range(MOST_PENDING)
        ]


async def test_wrong_codes_count_against_who_tries_them(tmp_path: Path) -> None:
    async with afar(tmp_path, owners=[f"afar/{OWNER}", "afar/other"]) as bot:
        code = await code_of(bot, "ann")
        told = [(await bot.says("/pair AAAA-AAAA", OWNER, OWNER)).text for _ in range(TRIES)]
        assert ["Nobody is waiting" in one for one in told] == [True] * (TRIES - 1) + [False]
        assert "too many wrong codes" in (await bot.says(f"/pair {code}", OWNER, OWNER)).text
        assert "now has access" in (await bot.says(f"/pair {code}", "other", "other")).text


async def test_a_code_ends_after_an_hour_and_a_new_one_is_given(store: Store) -> None:
    now = 1_000_000.0
    access = Access(store, Settings, lambda: now)
    inbound = Inbound("1", Address("afar", "ann", user="ann"), "Hello?", "Ann")
    first = await access.refuse_stranger(inbound)
    code = CODE.search(first)
    assert code is not None
    now += HOUR
    assert await access.list_pending() == []
    with pytest.raises(CommandError, match="Nobody is waiting"):
        await access.approve(code[1], "user", "boss")
    access._strangers._since -= 60
    second = CODE.search(await access.refuse_stranger(inbound))
    assert second is not None
    assert second[1] != code[1]
    assert (await access.approve(second[1], "user", "boss")).person == "afar/ann"


def test_codes_are_long_and_cannot_be_misread() -> None:
    codes = {new_code() for _ in range(200)}
    assert len(codes) == 200
    assert all(len(code) == CODE_LENGTH and set(code) <= set(ALPHABET) for code in codes)
    assert not set("01IO") & set(ALPHABET)
    assert digest_of("k7qm-2xrd ") == digest_of("K7QM2XRD") != digest_of("K7QM2XRE")


async def test_a_stranger_without_a_name_gets_no_code(store: Store) -> None:
    access = Access(store, Settings)
    assert await access.refuse_stranger(Inbound("1", Address("afar", "chat"), "Hi")) == CLOSED
    assert await access.list_pending() == []


async def test_the_command_line_lets_in_while_the_bot_runs_and_while_it_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def pairs(*arguments: str) -> Ended:
        return await asyncio.to_thread(run_main, capsys, tmp_path, "pair", *arguments)

    (tmp_path / "config.json").write_text("{}")
    refused = await pairs("AAAAAAAA")
    assert refused.code == 1
    assert "There is no bot in" in refused.err
    async with afar(tmp_path, owners=[]) as bot:
        load_access = await pairs(await code_of(bot, "ann"))
        assert load_access == (0, "afar/ann has access now.\n", "")
        assert (await bot.says("And now?", "ann", "ann")).text == "re: And now?"
        code = await code_of(bot, "bob")
    wrong = await pairs("AAAAAAAA")
    assert wrong.code == 1
    assert wrong.err.startswith("Nobody is waiting with this code")
    assert (await pairs(code, "--owner")).code == 0
    async with afar(tmp_path, owners=[]) as bot:
        assert "an owner" in (await bot.says("/whoami", "bob", "bob")).text


# Owners and users


async def test_what_is_for_owners_says_so(tmp_path: Path) -> None:
    async with afar(tmp_path) as bot:
        await befriended(bot, "ann")
        for command in (
            "/config agent_max_steps 3",
            "/config agent_max_steps --unset",
            "/pair AAAA-AAAA",
            "/pair here",
            "/users",
            "/revoke afar/boss",
            "/usage lift",
            "/forget all",
            "/forget all yes",
        ):
            answer = (await bot.says(command, "ann", "ann")).text
            assert answer.startswith("Only an owner may "), command
            assert answer.endswith("you are afar/ann.")
        shown = {}
        for name in (OWNER, "ann"):
            reply = await bot.says("/status", name, name)
            shown[name] = f"{reply.text} {reply.data}"
        assert "Plugins: " in shown["ann"]
        assert str(tmp_path) in shown[OWNER]
        assert str(tmp_path) not in shown["ann"], "only owners read where the bot is kept"


async def test_an_owner_who_was_let_in_owns_the_bot(tmp_path: Path) -> None:
    async with afar(tmp_path) as bot:
        assert "as an owner" in (await befriended(bot, "ann", "owner")).text
        assert (await bot.says("/config agent_max_steps 3", "ann", "ann")).data is not None


async def test_who_is_revoked_is_a_stranger_again(tmp_path: Path) -> None:
    async with afar(tmp_path) as bot:
        await befriended(bot, "ann")
        users = await bot.says("/users", OWNER, OWNER)
        assert [action.command for action in users.actions] == ["/revoke afar/ann"]
        assert "afar/boss" in users.text
        assert (await bot.says("/revoke afar/ann", OWNER, OWNER)).text == (
            "afar/ann no longer has access."
        )
        bot.app.access._strangers._since -= 60
        assert CODE.search((await bot.says("Hi", "ann", "ann")).text)
        assert "has no access" in (await bot.says("/revoke afar/ann", OWNER, OWNER)).text
        assert "through the setting" in (await bot.says("/revoke afar/boss", OWNER, OWNER)).text
    async with afar(tmp_path) as bot:
        assert "no access" in (await bot.says("Hi", "ann", "ann")).text


async def test_who_is_revoked_gets_no_answer_to_what_still_waits(tmp_path: Path) -> None:
    async with afar(tmp_path) as bot:
        await befriended(bot, "ann")
        async with bot.app.turns.exclusive(key_of(Address("afar", "ann"))):
            await bot.writes("Hi", "ann", "ann", id="waits")
            await bot.says("/revoke afar/ann", OWNER, OWNER)
        assert (await bot.reply_to("waits")).reply.text == CLOSED
        assert not bot.server.requests


async def test_a_known_person_is_known_in_every_chat_and_lets_nobody_else_in(
    tmp_path: Path,
) -> None:
    async with afar(tmp_path) as bot:
        await befriended(bot, "ann")
        assert (await bot.says("Hi", "family", "ann")).text == "re: ann: Hi"
        assert CODE.search((await bot.says("Hi", "family", "mallory")).text)


async def test_an_owner_opens_a_whole_chat_and_closes_it(tmp_path: Path) -> None:
    async with afar(tmp_path) as bot:
        assert "Nobody else writes" in (await bot.says("/pair here", OWNER, OWNER)).text
        await bot.says("/pair here", "family", OWNER)
        assert (await bot.says("Hi", "family", "kid")).text == "re: kid: Hi"
        assert "a user" in (await bot.says("/whoami", "family", "kid")).text
        assert CODE.search((await bot.says("Hi", "kid", "kid")).text), "only in that chat"
        assert "afar/family" in (await bot.says("/users", OWNER, OWNER)).text
        await bot.says("/revoke here", "family", OWNER)
        assert CODE.search((await bot.says("Hi", "family", "kid")).text)


# Pace


async def test_a_person_has_only_so_many_commands_under_way_in_all_their_chats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "MOST_AT_ONCE", 2)
    gate, run = asyncio.Event(), CommandRunner.run

    async def held(*arguments: Any) -> Reply:
        await gate.wait()
        return await run(*arguments)

    async with afar(tmp_path) as bot:
        for user in ("ann", "ben"):
            await befriended(bot, user)
        monkeypatch.setattr(CommandRunner, "run", held)
        chats = ("ann", "room")
        tasks = [asyncio.create_task(bot.says("/whoami", chat, "ann")) for chat in chats]
        await until(lambda: bot.app.bot.commands.queues.size == 2)
        assert (await bot.says("/whoami", "hall", "ann")).text == TOO_MANY.format(most=2)
        tasks.append(asyncio.create_task(bot.says("/whoami", "ben", "ben")))
        await until(lambda: bot.app.bot.commands.queues.size == 3)
        gate.set()
        for task in tasks:
            assert "a user" in (await task).text
        assert "a user" in (await bot.says("/whoami", "hall", "ann")).text


async def test_a_user_who_writes_too_fast_is_told_so_and_owners_are_not(tmp_path: Path) -> None:
    async with afar(tmp_path, messages_per_minute=3) as bot:
        await befriended(bot, "ann")
        answers = [(await bot.says("Hi", "ann", "ann")).text for _ in range(4)]
        assert answers == ["re: Hi"] * 3 + [TOO_FAST]
        bot.app.access._pace._since -= 60
        assert (await bot.says("Hi", "ann", "ann")).text == "re: Hi"
        for _ in range(5):
            assert (await bot.says("Hi", OWNER, OWNER)).text == "re: Hi"
        await bot.says("/config messages_per_minute 0", OWNER, OWNER)
        for _ in range(5):
            assert (await bot.says("Hi", "ann", "ann")).text == "re: Hi"


def test_each_has_a_pace_of_their_own() -> None:
    now = 0.0
    pace = MessageRate(lambda: now)
    assert [pace.allows("ann", 2) for _ in range(3)] == [True, True, False]
    assert pace.allows("bob", 2)
    now = 60.0
    assert pace.allows("ann", 2)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await Store.open(tmp_path / "parley.db")
    yield store
    await store.close()
