"""The check that all processes of a cluster have the same version, since each must be able to read
the others' data.

A process checks the others before it upgrades the tables. Recorded processes, which may have died
(a killed process announces no end), have a few seconds to send a heartbeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress

from bot.app import VERSION
from channels.base import ChannelError
from memory.record.database import DatabaseEngine
from plugins.cluster import record, wire
from plugins.cluster.ownership import SILENCE
from plugins.cluster.rabbit import BrokerListener, RabbitMQ
from plugins.cluster.record import ProcessRow

BEATS = "beat"
"""The topic of heartbeats."""


class MixedVersionsError(ChannelError):
    """Processes of another version are alive; the text names both versions."""


async def check_versions(engine: DatabaseEngine, broker: RabbitMQ) -> None:
    """Check whether processes of another version are alive, over a separate connection. Those that
    are not are fenced, so that a suspended one writes nothing more. Raises MixedVersionsError,
    BrokerError and StoreError."""
    strangers, tables = await asyncio.to_thread(_list_strangers, engine)
    if not strangers:
        return
    names = {row.id for row in strangers}
    alive = await wait_for_heartbeats(broker, names, 1)
    if alive:
        raise MixedVersionsError(describe([row for row in strangers if row.id in alive], tables))
    await asyncio.to_thread(_fence_processes, engine, names)


async def wait_for_heartbeats(broker: RabbitMQ, awaited: Collection[str], enough: int) -> set[str]:
    """Return the processes among `awaited` that send a heartbeat, until there are `enough`, or any
    live one would have sent one. Opens and closes the connection. Raises BrokerError."""
    alive: set[str] = set()
    are_enough = asyncio.Event()

    class Heartbeats(BrokerListener):
        def handle_message(self, topic: str, body: bytes) -> None:
            beat = wire.parse(body)
            if topic == BEATS and beat.get("version") and beat.get("me") in awaited:
                alive.add(str(beat["me"]))
                if len(alive) >= enough:
                    are_enough.set()

    broker.listener = Heartbeats()
    await broker.start()
    try:
        await broker.listen(BEATS)
        with suppress(TimeoutError):
            async with asyncio.timeout(SILENCE):
                await are_enough.wait()
    finally:
        await broker.close()
    return alive


def describe(strangers: Sequence[ProcessRow], tables: int) -> str:
    """Describe the incompatible versions, with advice."""
    theirs = ", ".join(sorted({row.version for row in strangers}))
    ours = VERSION
    if theirs == ours:
        theirs, ours = (
            f"{VERSION} with tables of version {number}" for number in (tables, record.SCHEMA)
        )
    names = ", ".join(row.id for row in strangers)
    return (
        f"Processes of this bot run with Parley {theirs} ({names}), and this one is Parley {ours}. "
        "All must be of one version: stop all of them, then start the new ones."
    )


def _list_strangers(engine: DatabaseEngine) -> tuple[list[ProcessRow], int]:
    with engine.visit() as database:
        return record.list_strangers(database, VERSION), database.schema_version()


def _fence_processes(engine: DatabaseEngine, processes: Collection[str]) -> None:
    with engine.visit() as database, database.atomic():
        record.fence(database, processes)
