"""Reminders and jobs where several workers are one bot: each is told and run once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import aiohttp

from channels.web import Web, WebConfig
from memory.record import tables
from memory.record.database import Database
from plugins.jobs import record as jobs
from plugins.jobs.firing import Jobs
from tests.cluster.cluster_testbot import channel, clustered
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.fakes.openai_server import OpenAIServer, Say

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
        workers = cluster.workers  # two, of which one has the chat
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
