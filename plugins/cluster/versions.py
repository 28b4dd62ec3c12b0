"""All processes of a cluster are of one version: what one writes the others must be able to read.

A process looks who is there before it brings the tables up to date. Whoever stands in the record
and may have died (there is no farewell after kill -9) has a few seconds to give a sign of life.
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
from plugins.cluster.rabbit import RabbitMQ
from plugins.cluster.record import ProcessRow

BEATS = "beat"
"""The topic of signs of life."""


class MixedVersionsError(ChannelError):
    """Processes of another version are alive; the text names both versions."""


async def check_versions(engine: DatabaseEngine, broker: RabbitMQ) -> None:
    """Look whether processes of another version are alive, over a connection of one's own. Those
    that are not are shut out: should one of them only have stood still, it writes nothing more.
    Raises MixedVersionsError, BrokerError and StoreError."""
    strangers, tables = await asyncio.to_thread(_list_strangers, engine)
    if not strangers:
        return
    names = {row.id for row in strangers}
    heard = await hear_beats(broker, names, 1)
    if heard:
        raise MixedVersionsError(describe([row for row in strangers if row.id in heard], tables))
    await asyncio.to_thread(_shut_out, engine, names)


async def hear_beats(broker: RabbitMQ, awaited: Collection[str], enough: int) -> set[str]:
    """Return which of these processes give a sign of life, until there are `enough` of them, or
    somebody alive would have given one. Opens and closes the connection. Raises BrokerError."""
    heard: set[str] = set()
    are_enough = asyncio.Event()

    def hear(topic: str, body: bytes) -> None:
        said = wire.parse(body)
        if topic == BEATS and said.get("version") and said.get("me") in awaited:
            heard.add(str(said["me"]))
            if len(heard) >= enough:
                are_enough.set()

    broker.hear = hear
    await broker.start()
    try:
        await broker.listen(BEATS)
        with suppress(TimeoutError):
            async with asyncio.timeout(SILENCE):
                await are_enough.wait()
    finally:
        await broker.close()
    return heard


def describe(strangers: Sequence[ProcessRow], tables: int) -> str:
    """Say which versions don't go together, and what to do."""
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


def _shut_out(engine: DatabaseEngine, processes: Collection[str]) -> None:
    with engine.visit() as database, database.atomic():
        record.shut_out(database, processes)
