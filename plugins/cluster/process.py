"""The start of a process that is one of several forming one bot (the setting broker)."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bot import process
from bot.checks import Finding
from bot.command_line import CommandRefused
from bot.data_folder import check_moved, find_database
from bot.process import announced
from bot.settings import Settings, SettingsStore
from bot.start import BotStart
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


if TYPE_CHECKING:
    from plugins.cluster.run import ProcessTask


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a cluster's process."""
    parser.add_argument(
        "--role",
        action="append",
        choices=("gateway", "worker", "all"),
        help="role of this process where several are one bot (the setting broker): a gateway "
        "has the channels, a worker the conversations",
    )


def run_bot(start: BotStart) -> bool:
    """Run one of several processes that form one bot, on a shared data folder, if the setting
    broker is set. Raises CommandRefused."""
    options, settings = start.options, start.settings
    if not settings.broker:
        if options.role:
            raise CommandRefused(
                "--role is for a bot of several processes; set broker in the configuration."
            )
        return False
    if not options.new:
        check_moved(find_database(start.layers, options.data), options.data)
    if not settings.database:
        raise CommandRefused(
            "The setting broker is for several processes, which can't share an SQLite file; set "
            "database, too."
        )
    try:
        from plugins.cluster import run  # noqa: PLC0415 - its client is an optional package
    except ModuleNotFoundError as error:
        raise CommandRefused(
            f"The setting broker needs a package that is not installed ({error.name}); install it "
            f"with `{INSTALL}`."
        ) from None
    roles = set(options.role or ("all",))
    is_gateway = bool(roles & {"gateway", "all"})
    book = SettingsStore(start.layers)
    standing = start.make_main_channel(book) if is_gateway else None
    plan = run.ProcessTask(
        start,
        settings.broker,
        is_gateway,
        bool(roles & {"worker", "all"}),
        standing,
    )
    options.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = f"{'-'.join(sorted(roles))}-{socket.gethostname()}-{os.getpid()}"
    close_logs = start.set_up_logs(options.data / "logs" / folder)
    try:
        process.run(_live(start, plan))
    finally:
        close_logs()
    return True


async def _live(start: BotStart, plan: ProcessTask) -> None:
    from plugins.cluster.run import live  # noqa: PLC0415 - as above

    has_page = plan.is_gateway and start.has_page
    async with start.watch.serving(has_page=has_page), announced(os.environ):
        await live(plan)
