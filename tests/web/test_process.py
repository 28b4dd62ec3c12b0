"""`python main.py --web`: the process, started, stopped, killed and refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.fakes.openai_server import Answer, Hang, OpenAIServer, Received, Say
from tests.whole.process import BotProcess, talking

pytestmark = pytest.mark.usefixtures("processes")

ANYWHERE = {"web": {"port": 0}}


async def url_of(bot: BotProcess) -> str:
    """Return the address that it prints."""
    await bot.until(lambda: bot.out)
    found = re.search(rb"http://\S+", bot.out[0])
    assert found
    return found[0].decode()


async def fetched(bot: BotProcess, path: str) -> Any:
    async with aiohttp.ClientSession() as http, http.get(f"{await url_of(bot)}{path}") as response:
        return await response.json()


async def hands_over(bot: BotProcess, message: Mapping[str, str]) -> tuple[int, Any]:
    """Send a message without waiting for the answer."""
    url, prefer = f"{await url_of(bot)}/api/sessions/main/messages", {"Prefer": "respond-async"}
    async with (
        aiohttp.ClientSession() as http,
        http.post(url, json=message, headers=prefer) as response,
    ):
        return response.status, await response.json()


async def test_it_says_where_it_is_and_ends_in_order_while_a_page_is_open(tmp_path: Path) -> None:
    async with talking(tmp_path, None, ANYWHERE, arguments=("--web",)) as bot:
        url = f"{await url_of(bot)}/api/sessions/main/events"
        async with aiohttp.ClientSession() as http, http.get(url) as events:
            assert (await events.content.readline()).startswith(b"retry")
            bot.process.terminate()
            assert await bot.gone() == 0
            assert b"snapshot" in await events.content.read()


async def test_a_message_is_answered_though_the_process_is_killed_meanwhile(
    tmp_path: Path,
) -> None:
    answers: list[Answer] = [Hang("Half"), Say("Whole.")]

    def script(request: Received) -> Answer:
        del request
        return answers.pop(0)

    async with OpenAIServer(script) as endpoint:
        async with talking(tmp_path, endpoint, ANYWHERE, arguments=("--web",)) as bot:
            assert await hands_over(bot, {"text": "Hi", "id": "m1"}) == (
                202,
                {"id": "m1", "is_answered": False},
            )
            await endpoint.reached.acquire()
            await bot.kill()
        async with talking(tmp_path, endpoint, ANYWHERE, arguments=("--web",)) as bot:
            await endpoint.reached.acquire()
            texts: list[str] = []
            while "Whole." not in texts:
                said = await fetched(bot, "/api/sessions/main/messages")
                texts = [message["text"] for message in said["messages"]]
    assert texts == ["Hi", "Whole."]


async def test_a_place_that_it_may_not_have_is_refused_in_a_sentence(tmp_path: Path) -> None:
    web = {"web": {"host": "0.0.0.0"}}
    async with talking(tmp_path, None, web, arguments=("--web",)) as bot:
        assert await bot.gone() in (1, 2)
    assert "no token is set; put PARLEY_WEB_TOKEN=" in bot.errors
    assert "Traceback" not in bot.errors


async def test_the_web_page_runs_beside_the_pipe_where_a_setting_says_so(tmp_path: Path) -> None:
    settings = {**ANYWHERE, "channels": {"web": True}}
    async with talking(tmp_path, None, settings) as bot:
        status = await bot.says("/status")
    assert status["data"]["channels"] == ["pipe", "web"]
