"""The findings of `python main.py doctor` on a cluster: its broker, processes and backlog."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence

from bot.app import VERSION
from bot.checks import Finding
from memory.record.database import DatabaseEngine
from memory.record.store import StoreError
from plugins.cluster import record
from plugins.cluster.node import name_process
from plugins.cluster.rabbit import RabbitMQ
from plugins.cluster.versions import wait_for_heartbeats
from plugins.cluster.wire import BrokerError
from plugins.health import ClusterInfo, describe_backlog, describe_queues, format_versions
from plugins.wording import count, duration

OLDEST = (3, 10)
"""The oldest supported version of the broker."""


async def examine(url: str, engine: DatabaseEngine) -> list[Finding]:
    """Query the broker, and listen for some seconds for heartbeats of the recorded processes."""
    broker = RabbitMQ(url, name_process("doctor"))
    try:
        await broker.start()
        version, queued = broker.version, await broker.count_waiting(record.SLICE_NAMES)
        await broker.close()
        recorded = await asyncio.to_thread(_read, engine)
        if recorded is None:
            return [check_broker(version)]
        names = [row.id for row in recorded.processes]
        listening = RabbitMQ(url, name_process("doctor"))
        alive = await wait_for_heartbeats(listening, names, len(names)) if names else set()
    except BrokerError:
        advice = "Start it, or correct the address in the setting broker."
        return [Finding("broker", "broken", "The message broker can't be reached.", advice)]
    finally:
        await broker.close()
    now = time.time()
    info = record.sum_up(recorded, queued, alive, now)
    return [check_broker(version), check_processes(info, now), check_queues(info)]


def _read(engine: DatabaseEngine) -> record.ClusterRows | None:
    """Return the recorded state; None if it can't be read, which the check of the database
    reports."""
    try:
        with engine.visit() as database:
            return record.read_all(database) if "process" in database.get_tables() else None
    except StoreError:
        return None


def check_broker(version: str) -> Finding:
    found = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if found >= OLDEST:
        return Finding("broker", "ok", f"RabbitMQ {version} answers.")
    oldest = ".".join(map(str, OLDEST))
    sentence = f"The message broker is of version {version or 'unknown'}, which is too old."
    return Finding("broker", "broken", sentence, f"Install RabbitMQ {oldest} or newer.")


def check_processes(info: ClusterInfo, now: float) -> Finding:
    """Describe the processes; `now` in seconds since 1970."""
    alive = [one for one in info.processes if one.is_heard]
    silent = [one.name for one in info.processes if not one.is_heard]
    lines = [
        f"{one.name}: Parley {one.version}, {count(one.slices, 'slice')}, up for "
        f"{duration(max(0.0, now - one.since))}"
        for one in alive
    ]
    if silent:
        lines.append(f"Without a sign of life: {', '.join(silent)}")
    are = "process is" if len(alive) == 1 else "processes are"
    sentence = "\n".join([f"{len(alive)} {are} alive.", *lines])
    advice = _advise(info.versions, {one.role for one in alive})
    return Finding("cluster", "broken" if advice else "ok", sentence, advice)


def _advise(versions: Sequence[str], roles: set[str]) -> str:
    if not roles:
        return ""  # it is stopped
    if versions != (VERSION,):
        return (
            f"They run Parley {format_versions(versions)}, and this is {VERSION}: stop all of "
            "them, then start the new ones."
        )
    missing = {"worker": "nobody answers", "gateway": "nobody can write to it"}
    return "\n".join(
        f"No {role} runs, so {why}; start one with `python main.py --role {role}`."
        for role, why in missing.items()
        if role not in roles
    )


def check_queues(info: ClusterInfo) -> Finding:
    return Finding("queues", "ok", f"{describe_queues(info)} {describe_backlog(info)}")
