"""Features with several workers as one bot: approvals, jobs, links, voice and remote tools."""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bot.app import App
from channels.base import Activity, TurnStarted
from channels.message import Attachment
from channels.web import Web, WebConfig
from memory.keys import ConversationKey
from memory.record import tables
from memory.record.database import Database
from plugins.accounts.logins import PageLogins
from plugins.cluster import worker
from plugins.cluster.node import CHANGES, Node
from plugins.cluster.wire import SPOOL, slice_of
from plugins.jobs import record as jobs
from plugins.jobs.firing import Jobs
from plugins.shell import feature as plugin
from plugins.spending.saving import MonthSpending
from tests.cluster.cluster_testbot import Cluster, channel, clustered
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.cluster.test_cluster_gateways import Everywhere
from tests.fakes.openai_server import Call, OpenAIServer, Received, Say
from tests.fakes.voice_server import OGG
from tests.mcp.testbot import calls_in, notes, script, with_servers
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


SECRET = "9f2c6b1e-a-long-random-text"


def let_all_be_due(database: Database) -> None:
    tables.ScheduledJob.update(next_at=time.time() - 30).execute(database)


async def test_what_is_due_is_told_and_run_once_by_the_owner_of_its_chat(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    async with (
        OpenAIServer([Say("All quiet.")]) as endpoint,
        clustered(tmp_path, broker, endpoint) as cluster,
    ):
        bot = channel()
        await cluster.add_gateway(bot)
        workers = cluster.workers  # two, one of which owns the chat
        assert "1 is set" in (await bot.says("/remind tomorrow 9:00 Call Mom")).text
        assert "2 is set" in (await bot.says("/jobs add tomorrow 9:00 Look")).text
        store = workers[0].app.store
        await store.write(let_all_be_due)
        await asyncio.gather(*(one.app.features.service(Jobs).tick() for one in workers * 2))
        await bot.reply_to("job-2-2")
        for worker in workers:
            await worker.app.features.service(Jobs).tick()
            await worker.app.idle()
        told = [o.reply.text for o in bot.sent if "Reminder:" in o.reply.text]
        assert told == ["**Reminder:** Call Mom"]
        reminder = await store.read(lambda db: jobs.list_runs(db, 1))
        job = await store.read(lambda db: jobs.list_runs(db, 2))
        assert [run.outcome for run in (*reminder, *job)] == ["told", "done"]


async def test_a_hook_may_be_called_at_every_gateway_and_runs_once(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    (tmp_path / ".env").write_text(f"PARLEY_HOOK_SECRET_GITHUB={SECRET}\n")
    async with (
        OpenAIServer([Say("Ann mended the roof.")]) as endpoint,
        clustered(tmp_path, broker, endpoint) as cluster,
        aiohttp.ClientSession() as http,
    ):
        bot = channel()
        pages = [Web(WebConfig("127.0.0.1", 0, "", 1_000_000)) for _ in range(2)]
        await cluster.add_gateway(bot, pages[0])
        await cluster.add_gateway(pages[1])
        await bot.says("/jobs hook github Say what {who} did")

        async def call(page: Web, secret: str = SECRET) -> int:
            headers = {"Authorization": f"Bearer {secret}", "Idempotency-Key": "one"}
            url = f"{page.url}/api/hooks/github"
            async with http.post(url, json={"who": "Ann"}, headers=headers) as response:
                return response.status

        answers = await asyncio.gather(*(call(page) for page in pages * 2))
        assert sorted(answers) == [200, 200, 200, 202]
        assert [await call(page, "something else") for page in pages] == [401, 401]
        for worker in cluster.workers:
            await worker.app.idle()
        (run,) = await cluster.workers[0].app.store.read(lambda db: jobs.list_runs(db, 1))
        assert run.outcome == "done"
        assert len(endpoint.requests) == 1


CODE = re.compile(r"`/link ([A-Z2-9]{4}-[A-Z2-9]{4})`")


def count(request: Received) -> Say:
    said = [m["content"] for m in request.body["messages"] if m["role"] == "user"]
    return Say(f"{len(said)}: {said[-1]}")


def chats_of_two_owners(cluster: Cluster) -> tuple[str, str]:
    """Return two chats whose slices different workers own."""
    first = cluster.workers[0].app.conversations.is_ours
    names = [f"c{number}" for number in range(200)]
    here = next(name for name in names if first(f"pipe/{name}"))
    there = next(name for name in names if not first(f"afar/{name}"))
    return here, there


def make_deaf(node: Node) -> None:
    """Drop all messages to this node that chats were linked: such messages may be lost."""
    handle_message = node.handle_message
    node.handle_message = lambda topic, body: (  # type: ignore[method-assign]
        None if topic == CHANGES else handle_message(topic, body)
    )


async def test_who_is_signed_out_on_one_gateway_is_out_on_all(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    async with OpenAIServer() as endpoint, clustered(tmp_path, broker, endpoint) as cluster:
        doors = [Everywhere("pipe"), Everywhere("pipe")]
        gateways = [await cluster.add_gateway(door) for door in doors]
        for door in doors:
            await door.api()
        here, there = (member.app.features.service(PageLogins) for member in gateways)
        code = await here.invite("ann", "user", "a test")
        secret = await here.join(code, "", "a browser")
        assert secret is not None
        login = await there.find(secret, "")
        assert login is not None
        assert login.user == "ann"
        told = there.changed
        await here.end(login.number)
        assert await there.find(secret, "") is None
        await until(told.is_set)


async def test_chats_of_two_owners_have_one_after_link_and_their_own_after_unlink(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    settings = {"owners": [f"afar/c{number}" for number in range(200)]}
    async with (
        OpenAIServer(count) as endpoint,
        clustered(tmp_path, broker, endpoint, settings) as cluster,
    ):
        pipe, afar = TestChannel("pipe"), TestChannel("afar")
        afar.count = 1000
        await cluster.add_gateway(pipe)
        other = await cluster.add_gateway(afar)
        make_deaf(other.node)
        here, there = chats_of_two_owners(cluster)
        assert slice_of(f"pipe/{here}") != slice_of(f"afar/{there}")
        assert (await pipe.says("one", here)).text == "1: one"
        assert (await afar.says("elsewhere", there, there)).text == "1: elsewhere"
        found = CODE.search((await pipe.says("/link", here)).text)
        assert found is not None

        events: list[Activity] = []
        watching = await pipe.watches(events, here)
        await afar.says(f"/link {found[1]}", there, there)
        assert "is linked" in (await pipe.says(f"/link yes afar/{there}", here)).text
        assert (await afar.says("two", there, there)).text == "2: two"
        assert (await pipe.says("three", here)).text == "3: three"
        await until(lambda: any(isinstance(one, TurnStarted) for one in events))
        watching.cancel()

        await cluster.stop(cluster.workers[0])  # the other one takes over its slices and the link
        await cluster.add_worker()
        assert (await afar.says("four", there, there)).text == "4: four"
        await pipe.says("/unlink all", here)
        assert (await afar.says("five", there, there)).text == "2: five"


def sounds(data: Path) -> list[bytes]:
    """Return the stored voice messages."""
    return [file.read_bytes() for file in data.glob("audiences/*/data/*.ogg")]


def files_in(folder: Path) -> list[Path]:
    assert folder.exists()
    return [*folder.iterdir()]


async def test_a_voice_message_is_heard_once_by_the_owner_and_answered_aloud(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    settings = {"voice": {"model": "whisper-1", "speech_model": "tts-1", "reply": "always"}}
    async with (
        OpenAIServer([Say("Green.")]) as endpoint,
        clustered(tmp_path, broker, endpoint, settings) as cluster,
    ):
        endpoint.voice.transcripts.append("Which tea?")
        endpoint.voice.sound = OGG
        bot = channel()
        await cluster.add_gateway(bot)
        assert (await bot.says("", files=(Attachment("v.ogg", "audio/ogg", OGG),))).text
        assert len(endpoint.voice.uploads) == 1
        (request,) = endpoint.requests
        assert "[heard] Which tea?" in str(request.body["messages"][-1]["content"])
        assert sounds(tmp_path / "data") == [OGG]
        assert not files_in(tmp_path / "data" / SPOOL), "nothing is left on its way"


async def test_servers_of_tools_are_used_on_every_worker_and_each_call_is_made_once(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    async with (
        OpenAIServer(script) as endpoint,
        clustered(tmp_path, broker, endpoint, with_servers(notes=notes(tmp_path))) as cluster,
    ):
        bot = channel()
        await cluster.add_gateway(bot)
        chats = [f"chat{number}" for number in range(8)]  # on both workers
        for chat in chats:
            await bot.says('use notes__find_notes {"words": "milk"}', chat)
            (*_, result) = (
                one for one in endpoint.turns[-1].body["messages"] if one["role"] == "tool"
            )
            assert "One note." in result["content"]
        loaded = [len(one.app.conversations.list_loaded()) for one in cluster.workers]
        assert min(loaded) > 0
        assert calls_in(tmp_path).count("find_notes milk") == len(chats)
        await cluster.workers[0].app.idle()
        assert "notes" in (await bot.says("/mcp", chats[0])).text
