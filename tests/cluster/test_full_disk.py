"""The disk of the PostgreSQL server is full for a while."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster_processes import cluster_of, read, send_signal
from tests.fakes.openai_server import OpenAIServer, Received, Say
from tests.servers.postgresql import running_server
from tests.servers.small_disk import SmallDisk, small_disk

FULL = "could not be saved: the disk of the PostgreSQL server is full; free some space there"


def long() -> str:
    """What no database stores in much less."""
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
            await processes.add_worker()
            assert (await gateway.says("after"))["text"] == "re: after"
            accepted = {line["accepted"] for line in gateway.lines if "accepted" in line}
            assert accepted == {"hello", "fill it", "again", "after"}
            answered = [line["reply_to"] for line in gateway.replies]
            assert sorted(map(str, answered)) == sorted(map(str, {*answered})), "none twice"
            assert accepted <= {*answered}
        asked = read(url, "SELECT text FROM message WHERE role = 'user' ORDER BY id")
        assert [text for (text,) in asked] == ["hello", "fill it", "again", "after"]
