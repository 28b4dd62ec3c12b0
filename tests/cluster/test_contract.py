"""Tests that the promises of sessions, delivery and turns are kept when several processes are one
bot, with its record on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from memory.record import engines
from memory.record.database import DatabaseEngine
from tests.cluster.cluster_testbot import clustered
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.contracts.lives import Lives, clustered_over
from tests.contracts.test_delivery import *  # noqa: F403 - the tests, which are collected here, too
from tests.contracts.test_turns import *  # noqa: F403 - the same
from tests.contracts.test_turns import Gated, Live, Living
from tests.servers.postgresql import PostgresqlServer
from tests.whole.testbot import TestChannel

pytestmark = pytest.mark.usefixtures("on_postgresql")


@pytest.fixture
def on_postgresql(postgresql_server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the file of the record by a database."""
    made: dict[object, DatabaseEngine] = {}

    def engine_for(place: Path | str) -> DatabaseEngine:
        if place not in made:
            made[place] = postgresql_server.make_engine()
        return made[place]

    monkeypatch.setattr(engines, "engine_for", engine_for)


@pytest.fixture  # type: ignore[no-redef]
def lives(broker: RabbitMQServer) -> Lives:
    return clustered_over(broker)


@pytest.fixture  # type: ignore[no-redef]
def live(broker: RabbitMQServer, tmp_path: Path) -> Live:
    """Run a cluster repeatedly on the same folder."""

    @asynccontextmanager
    async def in_parts(**settings: Any) -> AsyncIterator[Living]:
        async with Gated() as endpoint, clustered(tmp_path, broker, endpoint, settings) as cluster:
            channel = TestChannel()
            await cluster.add_gateway(channel)
            await channel.api()
            yield Living(channel, endpoint, cluster.kill_all)

    return in_parts
