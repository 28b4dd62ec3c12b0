"""The page in a real browser, behind nginx, which gives each request to any of two gateways."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.deploy.by_hand import TOKEN, by_hand, needs_servers, until
from tests.fakes.openai_server import Answer, OpenAIServer, Received, Say
from tests.servers.postgresql import PostgresqlServer
from tests.web.browser import browsing, needs_chromium
from tests.web.conftest import browser

__all__ = ["browser"]  # a fixture

pytestmark = [needs_servers, needs_chromium, pytest.mark.asyncio(loop_scope="session")]


async def test_an_answer_goes_on_streaming_when_the_gateway_dies_and_nobody_signs_in_again(
    tmp_path: Path, postgresql_server: PostgresqlServer, browser: Browser
) -> None:
    gate = asyncio.Event()

    def script(request: Received) -> Answer:
        question = str(request.body["messages"][-1]["content"])
        if "long" in question and "tools" in request.body:
            return Say("It begins here, and this is where it ends.", gate=gate)
        return Say(f"re: {question}")

    async with (
        OpenAIServer(script) as endpoint,
        by_hand(tmp_path, postgresql_server, endpoint) as (hands, gateways),
        browsing(browser) as tab,
        browsing(browser) as other,
    ):
        await until(hands.are_ready)
        for one in (tab, other):
            await one.page.goto(f"{hands.proxy}/#trip")
            await one.page.fill("dialog input[name=password]", TOKEN)
            await one.presses("Sign in", "dialog")
        await tab.asks("one", "re: one")
        await other.sees("#log .turn[data-turn] .text:has-text('re: one')")

        await tab.writes("a long one")
        for one in (tab, other):
            await one.sees(".pending:has-text('It begins')")
        gateways[0].send_signal(signal.SIGKILL)
        await gateways[0].wait()
        gate.set()
        for one in (tab, other):
            await one.sees("#log .turn[data-turn=t2] .text:has-text('where it ends.')")

        gateways.append(await hands.start("gateway", hands.ports[0]))
        await until(hands.are_ready)
        gateways[1].send_signal(signal.SIGKILL)
        await gateways[1].wait()
        await other.asks("three", "re: three")
        for one in (tab, other):
            await one.sees("#log .turn[data-turn=t3] .text:has-text('re: three')")
            await expect(one.page.locator("#log .turn[data-turn]")).to_have_count(3)
            await expect(one.page.locator(".question")).to_have_count(3)
            one.faults.clear()  # the browser notes each 401, and each answer of a dead gateway
    asked = [str(one.body["messages"][-1]["content"]) for one in endpoint.requests]
    assert sum("long" in question for question in asked) == 1, asked
