"""`/metrics` of a bot of several processes: each counts what it does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cluster.cluster_processes import cluster_of
from tests.fakes.openai_server import OpenAIServer, Say
from tests.metrics.test_metrics import free_port, named, parse, scrape


async def test_a_worker_has_the_turns_and_a_gateway_the_replies(
    tmp_path: Path, servers: Mapping[str, Any]
) -> None:
    settings = {**servers, "metrics": {"enabled": True}}
    ports = {"worker": free_port(), "gateway": free_port()}
    async with (
        OpenAIServer([Say("Hello.")]) as endpoint,
        cluster_of(tmp_path, endpoint, settings, workers=0) as processes,
    ):
        roles = {"worker": ("--role", "worker"), "gateway": ("--role", "gateway", "--jsonl")}
        started = {
            role: await processes.start(
                *arguments, environ={"PARLEY_METRICS__PORT": str(ports[role])}
            )
            for role, arguments in roles.items()
        }
        assert (await started["gateway"].says("Hi"))["text"] == "Hello."
        found = {role: parse((await scrape(port))[1]) for role, port in ports.items()}
    turn = named("parley_turns_total", channel="pipe", outcome="answered")
    reply = named("parley_replies_total", channel="pipe")
    assert found["worker"][turn] == 1
    assert turn not in found["gateway"]
    assert found["gateway"][reply] == 1
    assert reply not in found["worker"]
