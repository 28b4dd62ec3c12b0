"""Alerts to the owner about causes that only an owner can fix: once an hour per cause, to no one
else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import _base_client

from bot.alerts import QUIET
from bot.assembly import assemble
from bot.settings import SettingsStore, load_layers
from channels import retry
from channels.base import Bot, ChannelError
from channels.kit import pace
from channels.message import Outbound
from channels.telegram import Intervals, telegram_channel
from tests.fakes.openai_server import Answer, Fail, OpenAIServer, Received, Say, Script
from tests.waiting import PATIENCE
from tests.whole.testbot import TestBot, TestChannel, run_bot

OWNER = "boss"
REFUSED = Fail(401, {"message": "Incorrect API key", "code": "invalid_api_key"})
EMPTY = Fail(429, {"message": "You exceeded your quota", "code": "insufficient_quota"})


def failing(answers: list[Answer]) -> Script:
    """Answer as specified if the word is "fail"."""
    return lambda request: (
        answers[0] if "fail" in request.body["messages"][-1]["content"] else Say("Yes.")
    )


@asynccontextmanager
async def afar(folder: Path, script: Script, **settings: Any) -> AsyncIterator[TestBot]:
    """A bot whose owner and user have both written to it in private."""
    settings = {"owners": [f"afar/{OWNER}"], **settings}
    async with run_bot(folder, script, settings, channel="afar") as bot:
        await bot.says("Hello", OWNER, OWNER)
        await bot.says("/pair here", "family", OWNER)
        yield bot


def alerts(bot: TestChannel) -> list[tuple[str, str]]:
    """Return the unsolicited messages as (chat, text)."""
    return [(o.address.chat, o.reply.text) for o in bot.sent if o.reply_to == ""]


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make OpenAI's SDK retry at once."""
    monkeypatch.setattr(_base_client, "INITIAL_RETRY_DELAY", 0.0)


@pytest.mark.parametrize(("answer", "words"), [(REFUSED, "API key"), (EMPTY, "no credit left")])
async def test_the_owner_hears_of_a_refused_key_and_of_an_empty_account(
    tmp_path: Path, answer: Answer, words: str
) -> None:
    async with afar(tmp_path, failing([answer])) as bot:
        assert words in (await bot.says("fail", "family", "kid")).text
        assert words in (await bot.reply_to("")).reply.text
        ((chat, text),) = alerts(bot)
    assert chat == OWNER, "where they write alone, though they wrote last in a group"
    assert text.startswith("To you as an owner: ")


async def test_the_owner_hears_of_a_refused_key_also_where_another_model_answers(
    tmp_path: Path,
) -> None:
    def script(request: Received) -> Answer:
        is_second = request.body["model"] == "second"
        return Say("Yes.") if is_second or "fail" not in str(request.body["messages"]) else REFUSED

    async with afar(tmp_path, script, fallback_models=["second"]) as bot:
        assert (await bot.says("fail", "family", "kid")).text == "Yes."
        assert "API key" in (await bot.reply_to("")).reply.text
        assert [chat for chat, _ in alerts(bot)] == [OWNER]


async def test_the_owner_hears_of_a_key_that_is_refused_for_summaries(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        return Say("Yes.") if request.is_turn else REFUSED

    async with afar(tmp_path, script, agent_max_context_turns=4) as bot:
        for number in range(6):
            await bot.says(f"question {number}", "family", "kid")
        assert "API key" in (await bot.reply_to("")).reply.text
        assert [chat for chat, _ in alerts(bot)] == [OWNER]


async def test_one_cause_is_told_of_once_an_hour(tmp_path: Path) -> None:
    answers: list[Answer] = [REFUSED]
    async with afar(tmp_path, failing(answers)) as bot:
        for _ in range(5):
            await bot.says("fail", "family", "kid")
        await bot.app.idle()
        assert len(alerts(bot)) == 1
        answers[0] = EMPTY
        await bot.says("fail", "family", "kid")
        await bot.app.idle()
        assert len(alerts(bot)) == 2
        later = bot.app.alerts._clock() + QUIET
        bot.app.alerts._clock = lambda: later
        await bot.says("fail", "family", "kid")
        await bot.app.idle()
        assert len(alerts(bot)) == 3


async def test_what_nobody_could_be_told_is_told_when_somebody_is_there(tmp_path: Path) -> None:
    settings = {"owners": [f"afar/{OWNER}"]}
    async with run_bot(tmp_path, lambda _: REFUSED, settings, channel="afar") as bot:
        bot.app.alerts.channel_down("page", OSError("gone"))
        await bot.app.alerts.tasks.idle()
        await bot.says("/version", OWNER, OWNER)
        bot.app.alerts.channel_down("page", OSError("gone"))
        bot.app.alerts.channel_down("page", OSError("gone"))
        await bot.reply_to("")
        assert len(alerts(bot)) == 1


async def test_an_owner_is_not_told_of_what_they_were_answered_with_or_cannot_mend(
    tmp_path: Path,
) -> None:
    answers: list[Answer] = [REFUSED]
    async with afar(tmp_path, failing(answers)) as bot:
        assert "API key" in (await bot.says("fail", OWNER, OWNER)).text
        answers[0] = Fail(400, {"message": "bad", "type": "x"})
        assert "bad" in (await bot.says("fail", "family", "kid")).text
        await bot.app.delivery.queues.idle()
        assert alerts(bot) == []


async def test_the_owner_does_not_hear_of_it_on_a_page_that_may_be_closed(tmp_path: Path) -> None:
    """The alert goes to the place where they usually write, although they last wrote on the
    page."""
    async with OpenAIServer(lambda _: REFUSED) as endpoint:
        environ = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "test-key"}
        (tmp_path / "config.json").write_text('{"model": "any", "owners": ["afar/boss"]}')
        layers = load_layers(tmp_path / "config.json", environ)
        page, phone = TestChannel("web"), TestChannel("afar")
        app = await assemble(layers, tmp_path / "data", [page, phone])
        task = asyncio.create_task(app.run())
        try:
            await phone.says("/pair here", "family", OWNER)
            await phone.says("/version", OWNER, OWNER)
            await page.says("/version")
            await phone.says("fail", "family", "kid")
            assert (await phone.reply_to("")).address.chat == OWNER
            assert alerts(page) == []
        finally:
            page.leave()
            phone.leave()
            await asyncio.wait_for(task, PATIENCE)


class Broken(TestChannel):
    """A channel that fails on request."""

    async def listen(self, bot: Bot) -> None:
        await super().listen(bot)
        raise ConnectionError("the platform is gone")

    async def send(self, outbound: Outbound) -> None:
        raise ConnectionError("it takes nothing")


@pytest.mark.parametrize("way", ["listen", "send"])
async def test_the_owner_hears_on_another_channel_that_one_is_down(
    tmp_path: Path, way: str
) -> None:
    (tmp_path / "config.json").write_text('{"model": "none", "owners": ["broken/boss"]}')
    handler, broken = TestChannel("pipe"), Broken("broken")
    layers = load_layers(tmp_path / "config.json", {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    app = await assemble(layers, tmp_path / "data", [handler, broken])
    task = asyncio.create_task(app.run())
    try:
        await handler.says("/version")
        if way == "listen":
            broken.leave()
        else:
            await broken.writes("/version", user=OWNER, chat=OWNER)
        text = (await handler.reply_to("")).reply.text
        assert text.startswith("To you as an owner: The channel broken does not work (")
        assert (await handler.says("/version")).text.startswith("Parley"), "the others go on"
        await app.delivery.queues.idle()
        assert len(alerts(handler)) == 1
    finally:
        broken.leave()
        handler.leave()
        with pytest.raises(ChannelError, match="the platform is gone"):
            await asyncio.wait_for(task, PATIENCE)


@pytest.mark.parametrize("tries_before", [0, 4])
async def test_the_owner_hears_elsewhere_that_telegram_is_out_of_reach_for_a_while(
    tmp_path: Path, tries_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alerts also reach an owner who first writes long after the failure began; each gets one."""
    for module in (retry, pace):
        monkeypatch.setattr(module, "TROUBLE", 2)
    slept, has_tried, is_known, leaves_unfinished = (
        0,
        asyncio.Event(),
        asyncio.Event(),
        asyncio.Event(),
    )

    async def sleep(_: float) -> None:
        nonlocal slept
        slept += 1
        if slept > tries_before:
            has_tried.set()
            await is_known.wait()
        if slept > tries_before + 4:
            leaves_unfinished.set()
            await asyncio.Event().wait()

    (tmp_path / "config.json").write_text(
        '{"model": "none", "telegram": {"base_url": "http://127.0.0.1:9"}}'
    )
    layers = load_layers(tmp_path / "config.json", {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    book = SettingsStore(layers)
    phone = telegram_channel("1:token", lambda: book.effective().telegram, Intervals(sleep=sleep))
    handler = TestChannel("pipe")
    app = await assemble(layers, tmp_path / "data", [handler, phone])
    task = asyncio.create_task(app.run("pipe"))
    try:
        await asyncio.wait_for(has_tried.wait(), PATIENCE)
        await handler.says("/version")
        is_known.set()
        text = (await handler.reply_to("")).reply.text
        assert text.startswith("To you as an owner: The channel telegram can't be reached (")
        await asyncio.wait_for(leaves_unfinished.wait(), PATIENCE)
        assert len(alerts(handler)) == 1
    finally:
        handler.leave()
        await asyncio.wait_for(task, PATIENCE)
