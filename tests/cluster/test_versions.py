"""Processes of different versions are never one bot at the same time."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bot.app import VERSION
from memory.record.cluster import SCHEMA
from tests.cluster.cluster_processes import Processes, cluster_of, read, send_signal, until_joined
from tests.fakes.openai_server import OpenAIServer, Say
from tests.whole.process import BotProcess, talking

OLD = "0.0.9"


async def start_changed(processes: Processes, change: str, *arguments: str) -> BotProcess:
    """A process of a Parley to which this was done before it started."""
    program = f"import sys, bot.app; {change}; import main; sys.exit(main.main())"
    shell = f'python=$1; shift 2; exec "$python" -c "{program}" "$@"'
    starting = talking(
        processes.folder, processes.endpoint, processes.settings, arguments=arguments, shell=shell
    )
    return await processes.stack.enter_async_context(starting)


async def start_old(processes: Processes, *arguments: str) -> BotProcess:
    return await start_changed(processes, f"bot.app.VERSION = '{OLD}'", *arguments)


async def test_another_version_is_refused_while_the_old_one_runs_and_starts_when_it_has_ended(
    tmp_path: Path, servers: Mapping[str, Any], postgresql: str
) -> None:
    async with (
        OpenAIServer([Say("Hello!"), Say("Hello again!")]) as endpoint,
        cluster_of(tmp_path, endpoint, servers, workers=0) as processes,
    ):
        old = await start_old(processes, "--jsonl")
        assert (await old.says("Hi"))["text"] == "Hello!"
        for arguments in (("--role", "worker"), ("--role", "gateway", "--jsonl"), ("--jsonl",)):
            new = await processes.start(*arguments)
            assert await new.gone() == 1
            assert f"run with Parley {OLD} (" in new.errors
            assert f"this one is Parley {VERSION}. All must be of one version: stop" in new.errors
            assert "Traceback" not in new.errors
        assert {row[0] for row in read(postgresql, "SELECT version FROM process")} == {OLD}
        assert await old.ended() == 0
        new = await processes.start("--jsonl")
        assert (await new.says("Hi again"))["text"] == "Hello again!"
        assert await new.ended() == 0


async def test_processes_that_were_killed_or_stand_still_do_not_keep_a_new_version_out(
    tmp_path: Path, servers: Mapping[str, Any], postgresql: str
) -> None:
    async with (
        OpenAIServer([Say("Hello!"), Say("Hello again!")]) as endpoint,
        cluster_of(tmp_path, endpoint, servers, workers=0) as processes,
    ):
        killed = await start_old(processes, "--jsonl")
        assert (await killed.says("Hi"))["text"] == "Hello!"
        frozen = await start_old(processes, "--role", "gateway", "--jsonl")
        await until_joined(postgresql, 3)
        await killed.kill()
        send_signal(frozen, signal.SIGSTOP)
        new = await processes.start("--jsonl")
        assert (await new.says("Hi again"))["text"] == "Hello again!"
        send_signal(frozen, signal.SIGCONT)
        query = f"SELECT is_fenced FROM process WHERE version = '{OLD}'"
        assert {row[0] for row in read(postgresql, query)} <= {1}
        assert await new.ended() == 0


async def test_a_version_with_other_tables_does_not_change_them_under_those_that_run(
    tmp_path: Path, servers: Mapping[str, Any], postgresql: str
) -> None:
    change = "from memory.record.migrations import MIGRATIONS; MIGRATIONS.append(lambda db: None)"
    async with (
        OpenAIServer([Say("Hello!"), Say("Hello again!")]) as endpoint,
        cluster_of(tmp_path, endpoint, servers, workers=0) as processes,
    ):
        running = await processes.start("--jsonl")
        assert (await running.says("Hi"))["text"] == "Hello!"
        new = await start_changed(processes, change, "--role", "worker")
        assert await new.gone() == 1
        assert f"{VERSION} with tables of version {SCHEMA} (" in new.errors
        assert f"{VERSION} with tables of version {SCHEMA + 1}." in new.errors
        assert read(postgresql, "SELECT version FROM schema_version") == [(SCHEMA,)]
        assert await running.ended() == 0
        new = await start_changed(processes, change, "--jsonl")
        assert (await new.says("Hi again"))["text"] == "Hello again!"
        assert await new.ended() == 0
        assert read(postgresql, "SELECT version FROM schema_version") == [(SCHEMA + 1,)]
