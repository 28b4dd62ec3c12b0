"""The checks of a bot of several processes, for `python main.py doctor`."""

from __future__ import annotations

from collections.abc import Sequence

from bot.checks import Finding
from bot.settings import Settings
from memory.record.engines import engine_for

INSTALL = "python main.py add rabbitmq"


async def examine(settings: Settings, may_connect: bool) -> Sequence[Finding]:
    """Check the broker, the processes and the queues, if the setting broker is set."""
    if not settings.broker:
        return ()
    if not settings.database:
        advice = "Set database, too: several processes can't share an SQLite file."
        return [Finding("cluster", "broken", "broker is set without database.", advice)]
    try:
        from plugins.cluster import checkup  # noqa: PLC0415 - its client is an optional package
    except ModuleNotFoundError as error:
        sentence = f"The setting broker needs a package that is not installed ({error.name})."
        return [Finding("broker", "broken", sentence, f"Install it: {INSTALL}")]
    if not may_connect:
        return ()
    return await checkup.examine(settings.broker, engine_for(settings.database))
