"""The disk of the PostgreSQL server is full for a while."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster_processes import cluster_of, read, send_signal, slice_of, until_owned_by
from tests.fakes.openai_server import OpenAIServer, Received, Say
from tests.servers.postgresql import PostgresqlServer, find_binaries, running_server
from tests.servers.small_disk import SmallDisk, small_disk

FULL = "could not be saved: the disk of the PostgreSQL server is full; free some space there"


def long() -> str:
    """Return a text that no database can compress much."""
    return os.urandom(200_000).hex()


async def test_on_a_full_disk_nothing_is_confirmed_and_what_was_is_answered_once_it_is_freed(
    tmp_path: Path, servers: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk: SmallDisk

    def answer(request: Received) -> Say:
        text = request.body["messages"][-1]["content"]
        if text == "fill it":
            disk.fill()
            return Say(long())
        return Say(f"re: {text[:20]}")

    with running_server() as server, small_disk(server.folder / "disk", 48, "postgres") as disk:
        server.execute(f"CREATE TABLESPACE small LOCATION '{disk.folder}'")
        server.execute("CREATE DATABASE small TABLESPACE small")
        monkeypatch.setenv("DATABASE_URL", url := server.url("small"))
        async with (
            OpenAIServer(answer) as endpoint,
            cluster_of(tmp_path, endpoint, servers, workers=1) as processes,
        ):
            gateway = await processes.add_gateway()
            assert (await gateway.says("hello"))["text"] == "re: hello"
            filled = await gateway.says("fill it", chat="filler")
            assert FULL in filled["text"]
            told = [await gateway.says(long(), id=number) for number in range(3)]
            assert all(FULL in line["text"] for line in told)
            assert not {line.get("accepted") for line in gateway.lines} & {0, 1, 2}
            for process in (gateway, *processes.workers):
                assert "Traceback" not in process.errors

            disk.free()
            assert (await gateway.says("again"))["text"] == "re: again"
            send_signal(processes.workers[0], signal.SIGTERM)
            assert await processes.workers[0].gone() == 0
            await until_owned_by(url, slice_of("main"), await processes.add_worker())
            assert (await gateway.says("after"))["text"] == "re: after"
            accepted = {line["accepted"] for line in gateway.lines if "accepted" in line}
            assert accepted == {"hello", "fill it", "again", "after"}
            answered = [line["reply_to"] for line in gateway.replies]
            assert sorted(map(str, answered)) == sorted(map(str, {*answered})), "none twice"
            assert accepted <= {*answered}
        asked = read(url, "SELECT text FROM message WHERE role = 'user' ORDER BY id")
        assert [text for (text,) in asked] == ["hello", "fill it", "again", "after"]


@contextmanager
def server_with_little_room_for_its_log() -> Iterator[tuple[PostgresqlServer, SmallDisk]]:
    """A server whose write-ahead log is on a small disk."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL's server is not installed (Debian: apt install postgresql)")
    settings = ("shared_buffers=32MB", "min_wal_size=2MB", "max_wal_size=4MB")
    with tempfile.TemporaryDirectory(prefix="parley-pg-", ignore_cleanup_errors=True) as name:
        server = PostgresqlServer(Path(name), binaries, settings)
        server.initialize("--wal-segsize=1")
        with small_disk(server.folder / "disk", 24, "postgres") as disk:
            log = server.folder / "data" / "pg_wal"
            shutil.copytree(log, place := disk.folder / "wal")
            for path in (place, *place.rglob("*")):
                shutil.chown(path, "postgres")
            shutil.rmtree(log)
            log.symlink_to(place)
            server.start()
            try:
                yield server, disk
            finally:
                server.stop(signal.SIGQUIT)


async def _ends_before(server: PostgresqlServer, replying: Coroutine[Any, Any, object]) -> bool:
    """Return whether the server ends before this reply, which may then arrive when it is back."""
    reply = asyncio.create_task(replying)
    while server.process is not None and server.process.poll() is None:
        if (await asyncio.wait((reply,), timeout=0.05))[0]:
            await reply
            return False
    reply.cancel()
    await asyncio.wait((reply,))
    return True


async def test_when_the_servers_log_finds_no_room_nothing_confirmed_is_lost_and_all_goes_on_later(
    tmp_path: Path, servers: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server then ends itself, and does not start before there is space."""

    def answer(request: Received) -> Say:
        return Say(f"re: {request.body['messages'][-1]['content'][:20]}")

    with server_with_little_room_for_its_log() as (server, disk):
        server.execute("CREATE DATABASE parley")
        monkeypatch.setenv("DATABASE_URL", url := server.url("parley"))
        async with (
            OpenAIServer(answer) as endpoint,
            cluster_of(tmp_path, endpoint, servers, workers=1) as processes,
        ):
            gateway = await processes.add_gateway()
            assert (await gateway.says("hello"))["text"] == "re: hello"
            disk.fill()
            for number in range(1000):
                await gateway.tell(long(), id=f"n{number}", chat=f"chat{number}")
                if await _ends_before(server, gateway.reply_to(f"n{number}")):
                    break
            else:
                pytest.fail("there was room for all of it")
            refused = (await gateway.says("is it there?"))["text"]
            assert "PostgreSQL server" in refused or "took too long" in refused

            disk.free()
            server.start()
            assert (await gateway.says("again"))["text"] == "re: again"
            accepted = {line["accepted"] for line in gateway.lines if "accepted" in line}
            await gateway.until(lambda: accepted <= {line["reply_to"] for line in gateway.replies})
            assert {"hello", "again"} <= accepted
            for process in (gateway, *processes.workers):
                assert "Traceback" not in process.errors, process.errors
            texts = read(url, "SELECT platform_id FROM inbox WHERE is_done = 1")
        assert {f'"{name}"' for name in accepted} <= {text for (text,) in texts}
