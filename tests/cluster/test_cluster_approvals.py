"""Tests that what is said in one chat holds for another, whose owner is another worker: an owner's
yes to what a tool asks there, and that a limit rests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bot.app import App
from memory.keys import ConversationKey
from plugins.cluster import worker
from plugins.shell import feature as plugin
from plugins.spending.saving import MonthSpending
from tests.cluster.cluster_testbot import clustered
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.cluster.test_cluster_link import chats_of_two_owners
from tests.fakes.openai_server import Call, OpenAIServer, Say
from tests.waiting import until
from tests.whole.testbot import TestChannel

OWNERS = {"owners": [f"afar/c{number}" for number in range(200)]}
SHELL: dict[str, Any] = {"tools": {"shell": True, "shell_unboxed": True}}


async def test_an_owner_says_yes_from_a_chat_that_another_worker_has(
    tmp_path: Path, broker: RabbitMQServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "_BOX", [False])
    wanted = Call("shell", json.dumps({"command": "echo hi"}), "c1")
    async with (
        OpenAIServer([Say(calls=(wanted,)), Say("Done.")]) as endpoint,
        clustered(tmp_path, broker, endpoint, OWNERS | SHELL) as cluster,
    ):
        pipe, afar = TestChannel("pipe"), TestChannel("afar")
        afar.count = 1000
        await cluster.add_gateway(pipe)
        await cluster.add_gateway(afar)
        here, there = chats_of_two_owners(cluster)
        await pipe.says("/pair here", here)
        await pipe.writes("Do it", here, "ann", id="q")
        asked = (await pipe.reply_to("")).reply
        yes = asked.actions[0].command
        assert "Only an owner may allow this" in (await pipe.says(yes, here, "ann")).text
        assert (await afar.says(yes, there, there)).text == "Allowed once."
        assert (await pipe.reply_to("q")).reply.text == "Done."
        await until(lambda: bool(pipe.closed))
        assert pipe.closed == [(yes.split()[1], "✓ Allow once")]
        assert afar.closed == []
        assert "No question is waiting" in (await afar.says(yes, there, there)).text


async def test_a_limit_that_is_lifted_in_one_chat_rests_on_every_worker(
    tmp_path: Path, broker: RabbitMQServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "REFRESH", 3600)
    async with (
        OpenAIServer([Say("One."), Say("Two."), Say("Three.")]) as endpoint,
        clustered(tmp_path, broker, endpoint, OWNERS | {"spend_limit_total": 1e-7}) as cluster,
    ):
        pipe, afar = TestChannel("pipe"), TestChannel("afar")
        afar.count = 1000
        await cluster.add_gateway(pipe)
        await cluster.add_gateway(afar)
        here, there = chats_of_two_owners(cluster)
        assert "One." in (await pipe.says("Hi", here)).text
        assert "Two." in (await afar.says("Hi", there, there)).text
        assert (await afar.says("Hi", there, there)).problem == "spent"
        await pipe.says("/usage lift", here)
        key = ConversationKey("pipe/main", "pipe-main")
        await until(lambda: all(is_lifted(one.app, key) for one in cluster.workers))
        assert (await afar.says("Hi", there, there)).text == "Three."


def is_lifted(app: App, key: ConversationKey) -> bool:
    accounts = app.features.service(MonthSpending).accounts(key)
    return any(account.is_lifted for account in accounts)
