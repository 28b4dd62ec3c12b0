"""Reminders and jobs where several workers are one bot: each is told and run once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from memory.record import jobs, tables
from memory.record.database import Database
from tests.cluster.cluster_house import clustered, hands
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.fakes.openai_server import OpenAIServer, Say


def let_all_be_due(database: Database) -> None:
    tables.ScheduledJob.update(next_at=time.time() - 30).execute(database)


async def test_what_is_due_is_told_and_run_once_by_the_owner_of_its_chat(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    async with (
        OpenAIServer([Say("All quiet.")]) as endpoint,
        clustered(tmp_path, broker, endpoint) as cluster,
    ):
        house = hands()
        await cluster.add_gateway(house)
        workers = cluster.workers  # two, of which one has the chat
        assert "1 is set" in (await house.says("/remind tomorrow 9:00 Call Mom")).text
        assert "2 is set" in (await house.says("/jobs add tomorrow 9:00 Look")).text
        store = workers[0].app.store
        await store.write(let_all_be_due)
        await asyncio.gather(*(one.app.jobs.tick() for one in workers * 2))
        await house.reply_to("job-2-2")
        for worker in workers:
            await worker.app.jobs.tick()
            await worker.app.idle()
        told = [o.reply.text for o in house.sent if "Reminder:" in o.reply.text]
        assert told == ["**Reminder:** Call Mom"]
        reminder = await store.read(lambda db: jobs.list_runs(db, 1))
        job = await store.read(lambda db: jobs.list_runs(db, 2))
        assert [run.outcome for run in (*reminder, *job)] == ["told", "done"]
