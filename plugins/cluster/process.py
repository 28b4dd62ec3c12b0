"""The start of a process that is one of several forming one bot (the setting broker)."""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from bot import process
from bot.command_line import CommandRefused
from bot.data_folder import check_moved, find_database
from bot.process import announced
from bot.settings import Settings
from bot.start import BotStart
from channels.base import Bot, Channel
from channels.message import Outbound
from plugins.cluster.checks import INSTALL


class RemoteChannel(Struct):
    """A placeholder for a channel that runs elsewhere: the gateways that run it send."""

    name: str
    has_fields: bool = False
    sound: str = ""

    async def listen(self, bot: Bot) -> None:
        """Wait forever: no messages arrive here."""
        await asyncio.Event().wait()

    async def send(self, outbound: Outbound) -> None:
        """Raise NotImplementedError: outgoing replies are sent to the gateways."""
        raise NotImplementedError


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
    standing = start.make_main_channel() if is_gateway else None
    plan = run.ProcessTask(
        start.layers,
        options.data,
        settings.broker,
        is_gateway,
        bool(roles & {"worker", "all"}),
        faces=lambda settings: _make_channel_views(start, settings),
        channels=lambda settings: start.make_channels(standing, settings),
        until=standing.name if standing else "",
        recent=start.watch.recent,
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


def _make_channel_views(start: BotStart, settings: Callable[[], Settings]) -> list[Channel]:
    """Make a worker's view of the channels: what it needs to know to answer over them."""

    page = RemoteChannel("web", has_fields=True, sound="mp3")
    faces: list[Channel] = [
        RemoteChannel("pipe"),
        RemoteChannel("terminal"),
        page,
        *start.make_messengers(),
    ]
    return [*faces, start.make_telegram(settings)] if start.has_telegram else faces
