"""Processes of a cluster are killed, stopped, added and removed, and all have one version."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.app import VERSION
from memory.record.engines.sqlite import SqliteEngine
from plugins.cluster import record, versions
from plugins.cluster.rabbit import RabbitMQ
from plugins.cluster.record import SCHEMA
from plugins.cluster.versions import check_versions
from tests.cluster.cluster_processes import (
    HASTY,
    PATIENT,
    Processes,
    answered,
    cluster_of,
    read,
    says_all,
    send_signal,
    until_shared,
)
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.fakes.openai_server import OpenAIServer, Say
from tests.fakes.payments import Echo
from tests.servers.postgresql import PostgresqlServer
from tests.waiting import until

CHATS = {f"chat{number}": 3 for number in range(8)}
ALL = 1 + sum(CHATS.values())
"""Replies to "hello" and to all messages of the chats."""


@asynccontextmanager
async def run_bot(
    folder: Path, servers: Mapping[str, Any], workers: int = 2
) -> AsyncIterator[Processes]:
    async with (
        Echo(0.3) as endpoint,
        cluster_of(folder, endpoint, servers, workers) as processes,
    ):
        yield processes


def expected() -> dict[str, list[str]]:
    chats = {chat: [f"re: {number}" for number in range(count)] for chat, count in CHATS.items()}
    return {"main": ["re: hello"], **chats}


async def test_workers_and_a_gateway_that_are_killed_or_told_to_stop_are_followed_by_others(
    tmp_path: Path, servers: Mapping[str, Any]
) -> None:
    async with run_bot(tmp_path, servers) as processes:
        first = await processes.add_gateway()
        await first.says("hello")
        await says_all(first, CHATS)
        await first.until(lambda: sum("accepted" in line for line in first.lines) == ALL)
        killed, stopped = processes.workers
        await killed.kill()
        third = await processes.add_worker()
        await first.until(lambda: len(first.replies) > 6)
        send_signal(stopped, signal.SIGTERM)
        await first.kill()
        second = await processes.add_gateway()
        await second.until(lambda: len(first.replies) + len(second.replies) >= ALL)
        assert await second.ended() == 0, second.errors
        assert answered(CHATS | {"main": 1}, first, second) == expected()
        send_signal(third, signal.SIGTERM)
        for process in (stopped, third):
            assert await process.gone() == 0, process.errors
        for process in (second, stopped, third):
            assert "Traceback" not in process.errors


async def test_a_worker_that_stood_still_writes_nothing_and_begins_anew(
    tmp_path: Path, servers: Mapping[str, Any], postgresql: str
) -> None:
    async with run_bot(tmp_path, servers, workers=1) as processes:
        stopped = await processes.start("--role", "worker", change=HASTY)
        gateway = await processes.add_gateway()
        await until_shared(postgresql, 2)  # a process that owns nothing is not fenced
        await gateway.tell("hello", id="hello")
        await says_all(gateway, CHATS)
        await gateway.until(lambda: len(gateway.replies) > 3)
        send_signal(stopped, signal.SIGSTOP)
        await gateway.until(lambda: len(gateway.replies) >= ALL)
        await until_shared(postgresql, 1)  # so the other took over everything
        send_signal(stopped, signal.SIGCONT)
        await until(lambda: "begins anew" in stopped.errors)
        await gateway.ended()
        assert answered(CHATS | {"main": 1}, gateway) == expected()
        assert not any(line.get("resent") for line in gateway.replies)


async def test_servers_that_are_killed_and_come_back_cost_a_delay(
    tmp_path: Path,
    servers: Mapping[str, Any],
    own_broker: RabbitMQServer,
    postgresql_server: PostgresqlServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BROKER_URL", own_broker.url)

    def restart_database() -> None:
        postgresql_server.stop(signal.SIGQUIT)
        postgresql_server.start()

    async with run_bot(tmp_path, servers) as processes:
        gateway = await processes.add_gateway(PATIENT)
        await gateway.says("hello")
        await says_all(gateway, CHATS)
        await gateway.until(lambda: len(gateway.replies) > 3)
        await asyncio.to_thread(own_broker.restart)
        await gateway.until(lambda: len(gateway.replies) > 9)
        await asyncio.to_thread(restart_database)
        await gateway.until(lambda: len(gateway.replies) >= ALL)
        await gateway.ended()
        assert answered(CHATS | {"main": 1}, gateway) == expected()


OLD = "0.0.9"
OLDER = f"import bot.app; bot.app.VERSION = {OLD!r}"
NEWER_TABLES = "from memory.record.migrations import MIGRATIONS; MIGRATIONS.append(lambda db: None)"


async def test_other_versions_and_other_tables_are_refused_until_the_processes_have_ended(
    tmp_path: Path, servers: Mapping[str, Any], postgresql: str
) -> None:
    async with (
        OpenAIServer([Say("Hello!"), Say("Hello again!"), Say("And again!")]) as endpoint,
        cluster_of(tmp_path, endpoint, servers, workers=0) as processes,
    ):
        old = await processes.start("--jsonl", change=OLDER)
        assert (await old.says("Hi"))["text"] == "Hello!"
        new = await processes.start("--role", "worker")
        assert await new.gone() == 1
        assert f"run with Parley {OLD} (" in new.errors
        assert f"this one is Parley {VERSION}. All must be of one version: stop" in new.errors
        assert "Traceback" not in new.errors
        assert {row[0] for row in read(postgresql, "SELECT version FROM process")} == {OLD}
        assert await old.ended() == 0

        running = await processes.start("--jsonl")
        assert (await running.says("Hi again"))["text"] == "Hello again!"
        new = await processes.start("--role", "gateway", "--jsonl", change=NEWER_TABLES)
        assert await new.gone() == 1
        assert f"{VERSION} with tables of version {SCHEMA} (" in new.errors
        assert f"{VERSION} with tables of version {SCHEMA + 1}." in new.errors
        assert read(postgresql, "SELECT version FROM schema_version") == [(SCHEMA,)]
        assert await running.ended() == 0
        new = await processes.start("--jsonl", change=NEWER_TABLES)
        assert (await new.says("Once more"))["text"] == "And again!"
        assert await new.ended() == 0
        assert read(postgresql, "SELECT version FROM schema_version") == [(SCHEMA + 1,)]


async def test_processes_that_were_killed_or_stand_still_do_not_keep_a_new_version_out(
    tmp_path: Path, broker: RabbitMQServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in the record, send no heartbeat, and may write nothing more."""
    monkeypatch.setattr(versions, "SILENCE", 0.3)
    engine = SqliteEngine(tmp_path / "parley.db")
    engine.prepare()
    with engine.visit() as database, database.atomic():
        for role in ("gateway", "worker"):
            record.join(database, f"{role}-old", role, OLD)
    await check_versions(engine, RabbitMQ(broker.url, "new"))
    with engine.visit() as database:
        assert all(row.is_fenced for row in record.list_processes(database))
