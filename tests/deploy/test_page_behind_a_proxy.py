"""The services of `deploy/cluster/`, started from Debian's packages, act as one bot: nginx sends
each request to either of two gateways, and the page is open in a real browser."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import aiohttp
import pytest
from playwright.async_api import Browser, expect

from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.deploy.deployment import TOKEN, deploy, needs_servers, until_served
from tests.fakes.openai_server import Answer, OpenAIServer, Received, Say
from tests.servers.postgresql import PostgresqlServer
from tests.waiting import PATIENCE
from tests.web.browser import browsing, needs_chromium
from tests.web.conftest import browser

__all__ = ["browser"]  # a fixture

pytestmark = [needs_servers, needs_chromium, pytest.mark.asyncio(loop_scope="session")]


async def test_an_answer_goes_on_streaming_when_the_gateway_dies_and_nobody_signs_in_again(
    tmp_path: Path, broker: RabbitMQServer, postgresql_server: PostgresqlServer, browser: Browser
) -> None:
    gate, database = asyncio.Event(), postgresql_server.make_database("template1")

    def script(request: Received) -> Answer:
        question = str(request.body["messages"][-1]["content"])
        if "long" in question and request.is_turn:
            return Say("It begins here, and this is where it ends.", gate=gate)
        return Say(f"re: {question}")

    async with (
        OpenAIServer(script) as endpoint,
        deploy(tmp_path, broker, database, endpoint) as (deployment, gateways),
        browsing(browser) as tab,
        browsing(browser) as other,
    ):
        await until_served(deployment.are_ready)
        for one in (tab, other):
            await one.page.goto(f"{deployment.proxy}/#trip")
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

        gateways.append(await deployment.start("gateway", deployment.ports[0]))
        await until_served(deployment.are_ready)
        gateways[1].send_signal(signal.SIGKILL)
        await gateways[1].wait()
        await other.asks("three", "re: three")
        for one in (tab, other):
            await one.sees("#log .turn[data-turn=t3] .text:has-text('re: three')")
            await expect(one.page.locator("#log .turn[data-turn]")).to_have_count(3)
            await expect(one.page.locator(".question")).to_have_count(3)
        async with aiohttp.ClientSession(deployment.proxy) as http:
            url, body = "/api/sessions/trip/messages", {"text": "four", "id": "four"}
            async with http.post(url, json=body) as response:
                assert response.status == 401
            for _ in range(2):  # the same message is accepted once
                headers = {"Authorization": f"Bearer {TOKEN}"}
                async with http.post(url, json=body, headers=headers) as response:
                    assert (await response.json())["text"] == "re: four"
        gateways[-1].send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(gateways[-1].wait(), PATIENCE) == 0
        for one in (tab, other):
            await one.page.close()  # otherwise it keeps sending requests that no gateway answers
            one.faults.clear()  # the browser logs each 401, and each response of a dead gateway
    asked = [str(one.body["messages"][-1]["content"]) for one in endpoint.requests]
    assert sum("long" in question for question in asked) == 1, asked
    assert sum("four" in question for question in asked) == 1, asked
