"""Processes of a cluster die, stand still, come and go, and nobody who writes to it notices."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.cluster.cluster_processes import (
    Processes,
    answered,
    cluster_of,
    says_all,
    send_signal,
    until_shared,
)
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.fakes import openai_server
from tests.fakes.openai_server import OpenAIServer, Received, Say
from tests.servers.postgresql import PostgresqlServer

CHATS = {f"chat{number}": 3 for number in range(8)}


class Slow(OpenAIServer):
    """An endpoint that takes a while, and answers each message with itself."""

    pause = 0.3

    async def _respond(self, request: web.Request, received: Received) -> web.StreamResponse:
        await asyncio.sleep(self.pause)  # the time that a model takes
        text = received.body["messages"][-1]["content"]
        return await openai_server._act(request, received, Say(f"re: {text}"), (1, 0))


@asynccontextmanager
async def run_bot(
    folder: Path, servers: Mapping[str, Any], workers: int = 2
) -> AsyncIterator[Processes]:
    async with (
        Slow() as endpoint,
        cluster_of(folder, endpoint, servers, workers) as processes,
    ):
        yield processes


def expected() -> dict[str, list[str]]:
    return {chat: [f"re: {number}" for number in range(count)] for chat, count in CHATS.items()}


async def test_a_gateway_and_workers_answer_and_end_in_good_order(
    tmp_path: Path, servers: Mapping[str, Any]
) -> None:
    async with run_bot(tmp_path, servers) as processes:
        gateway = await processes.add_gateway()
        await says_all(gateway, CHATS)
        assert await gateway.ended() == 0, gateway.errors
        assert answered(gateway, CHATS) == expected()
        for worker in processes.workers:
            send_signal(worker, signal.SIGTERM)
            assert await worker.gone() == 0, worker.errors
        for process in (gateway, *processes.workers):
            assert "Traceback" not in process.errors


async def test_a_worker_that_is_killed_is_followed_by_another(
    tmp_path: Path, servers: Mapping[str, Any]
) -> None:
    async with run_bot(tmp_path, servers) as processes:
        gateway = await processes.add_gateway()
        await gateway.says("hello")
        await says_all(gateway, CHATS)
        await gateway.until(lambda: len(gateway.replies) > 3)
        await processes.workers[0].kill()
        await gateway.until(lambda: len(gateway.replies) >= 1 + 3 * len(CHATS))
        await gateway.ended()
        replies = answered(gateway, CHATS | {"main": 1})
        assert {chat: replies[chat] for chat in CHATS} == expected()


async def test_a_worker_that_stood_still_writes_nothing_and_begins_anew(
    tmp_path: Path, servers: Mapping[str, Any], postgresql: str
) -> None:
    async with run_bot(tmp_path, servers) as processes:
        gateway = await processes.add_gateway()
        await until_shared(postgresql, 2)  # who owns nothing is not shut out
        await says_all(gateway, CHATS | {"main": 1})
        await gateway.until(lambda: len(gateway.replies) > 3)
        stopped = processes.workers[0]
        send_signal(stopped, signal.SIGSTOP)
        await gateway.until(lambda: len(gateway.replies) >= 1 + 3 * len(CHATS))
        await until_shared(postgresql, 1)  # so the other took everything over
        send_signal(stopped, signal.SIGCONT)
        log = tmp_path / "data" / "logs"

        async with asyncio.timeout(60):
            while not _mentions(log, "begins anew"):  # noqa: ASYNC110 - it is in a file
                await asyncio.sleep(0.1)
        await gateway.ended()
        replies = answered(gateway, CHATS | {"main": 1})
        assert {chat: replies[chat] for chat in CHATS} == expected()
        assert not any(line.get("resent") for line in gateway.replies)


def _mentions(folder: Path, words: str) -> bool:
    return any(re.search(words, file.read_text()) for file in folder.rglob("*.log*"))


async def test_a_gateway_that_is_killed_is_followed_by_another(
    tmp_path: Path, servers: Mapping[str, Any]
) -> None:
    async with run_bot(tmp_path, servers, workers=1) as processes:
        first = await processes.add_gateway()
        await first.says("hello")
        await says_all(first, CHATS)
        await first.until(lambda: sum("accepted" in line for line in first.lines) > 3 * len(CHATS))
        await first.kill()
        second = await processes.add_gateway()
        await second.until(lambda: len(first.replies) + len(second.replies) >= 1 + 3 * len(CHATS))
        await second.ended()
        texts: dict[str, list[str]] = {chat: [] for chat in CHATS}
        for line in (*first.replies, *second.replies):
            if line["chat"] in texts and not (
                line.get("resent") and line["text"] in texts[line["chat"]]
            ):
                texts[line["chat"]].append(line["text"])
        assert texts == expected()


async def test_a_worker_hands_over_when_it_is_told_to_stop(
    tmp_path: Path, servers: Mapping[str, Any]
) -> None:
    async with run_bot(tmp_path, servers) as processes:
        gateway = await processes.add_gateway()
        await gateway.says("hello")
        await says_all(gateway, CHATS)
        await gateway.until(lambda: len(gateway.replies) > 3)
        send_signal(processes.workers[0], signal.SIGTERM)
        assert await processes.workers[0].gone() == 0, processes.workers[0].errors
        await gateway.until(lambda: len(gateway.replies) >= 1 + 3 * len(CHATS))
        await gateway.ended()
        replies = answered(gateway, CHATS | {"main": 1})
        assert {chat: replies[chat] for chat in CHATS} == expected()


async def test_servers_that_are_killed_and_come_back_cost_a_delay(
    tmp_path: Path,
    servers: Mapping[str, Any],
    broker: RabbitMQServer,
    postgresql_server: PostgresqlServer,
) -> None:
    def restart_database() -> None:
        postgresql_server.stop(signal.SIGQUIT)
        postgresql_server.start()

    async with run_bot(tmp_path, servers) as processes:
        gateway = await processes.add_gateway()
        await gateway.says("hello")
        await says_all(gateway, CHATS)
        await gateway.until(lambda: len(gateway.replies) > 3)
        await asyncio.to_thread(broker.restart)
        await gateway.until(lambda: len(gateway.replies) > 9)
        await asyncio.to_thread(restart_database)
        await gateway.until(lambda: len(gateway.replies) >= 1 + 3 * len(CHATS))
        await gateway.ended()
        replies = answered(gateway, CHATS | {"main": 1})
        assert {chat: replies[chat] for chat in CHATS} == expected()
