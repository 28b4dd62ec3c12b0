"""Processes of a cluster die, stand still, come and go, and nobody who writes to it notices."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster_processes import (
    HASTY,
    Processes,
    answered,
    cluster_of,
    says_all,
    send_signal,
    until_shared,
)
from tests.cluster.rabbitmq_server import RabbitMQServer
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
        await until_shared(postgresql, 2)  # who owns nothing is not shut out
        await gateway.tell("hello", id="hello")
        await says_all(gateway, CHATS)
        await gateway.until(lambda: len(gateway.replies) > 3)
        send_signal(stopped, signal.SIGSTOP)
        await gateway.until(lambda: len(gateway.replies) >= ALL)
        await until_shared(postgresql, 1)  # so the other took everything over
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
        gateway = await processes.add_gateway()
        await gateway.says("hello")
        await says_all(gateway, CHATS)
        await gateway.until(lambda: len(gateway.replies) > 3)
        await asyncio.to_thread(own_broker.restart)
        await gateway.until(lambda: len(gateway.replies) > 9)
        await asyncio.to_thread(restart_database)
        await gateway.until(lambda: len(gateway.replies) >= ALL)
        await gateway.ended()
        assert answered(CHATS | {"main": 1}, gateway) == expected()
