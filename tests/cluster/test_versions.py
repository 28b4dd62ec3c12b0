"""Processes of different versions are never one bot at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bot.app import VERSION
from memory.record.engines.sqlite import SqliteEngine
from plugins.cluster import record, versions
from plugins.cluster.rabbit import RabbitMQ
from plugins.cluster.record import SCHEMA
from plugins.cluster.versions import check_versions
from tests.cluster.cluster_processes import cluster_of, read
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.fakes.openai_server import OpenAIServer, Say

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
    """They stand in the record, give no sign of life, and may write nothing more."""
    monkeypatch.setattr(versions, "SILENCE", 0.3)
    engine = SqliteEngine(tmp_path / "parley.db")
    engine.prepare()
    with engine.visit() as database, database.atomic():
        for role in ("gateway", "worker"):
            record.join(database, f"{role}-old", role, OLD)
    await check_versions(engine, RabbitMQ(broker.url, "new"))
    with engine.visit() as database:
        assert all(row.is_fenced for row in record.list_processes(database))
