"""Runs this process in a cluster, as a gateway, a worker, or both."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from msgspec import Struct

from bot.app import App
from bot.assembly import assemble
from bot.data_folder import find_database
from bot.process import stop_on_signals
from bot.settings import SettingsStore
from bot.start import BotStart
from channels.base import Bot, Channel, ChannelError
from channels.message import Outbound
from memory.record import engines
from memory.record.store import StoreError
from memory.tasks import cancel_and_wait
from plugins.cluster.gateway import Gateway
from plugins.cluster.node import ClusterSender, Node, name_process
from plugins.cluster.rabbit import RabbitMQ
from plugins.cluster.versions import check_versions
from plugins.cluster.wire import BrokerError
from plugins.cluster.worker import Worker

log = logging.getLogger(__name__)

AGAIN = 1.0
"""Seconds before a failed restart of a worker is retried."""
PASSED_OVER = (
    "This gateway stood still for so long that others took it for dead and took over what it did. "
    "Start it again."
)
UNREACHABLE = (
    "The message broker can't be reached; check that it runs, and the address in the setting "
    "broker."
)


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


class ProcessTask(Struct, frozen=True):
    """The task of this process. A gateway ends with the channel `standing`."""

    start: BotStart
    broker: str
    is_gateway: bool
    is_worker: bool
    standing: Channel | None = None


async def live(plan: ProcessTask) -> None:
    """Run until a signal arrives, or the channels have ended. Raises ChannelError."""
    stopping = asyncio.Event()
    stop_on_signals(stopping)
    worker = asyncio.create_task(_work(plan, stopping)) if plan.is_worker else None
    try:
        if worker is not None:
            worker.add_done_callback(lambda _: stopping.set())
        if plan.is_gateway:
            await _serve(plan, stopping)
            stopping.set()
        if worker is not None:
            await worker
    except BrokerError:
        raise ChannelError(UNREACHABLE) from None
    finally:
        if worker is not None:
            await cancel_and_wait(worker)


async def _work(plan: ProcessTask, stopping: asyncio.Event) -> None:
    """Run a worker; after others have considered it dead, start a new one. The cause of the
    separation may last, so this is retried."""
    is_over = await _work_once(plan, stopping)
    while not is_over and not stopping.is_set():
        try:
            is_over = await _work_once(plan, stopping)
        except (BrokerError, StoreError) as error:
            log.warning("this worker can't begin anew yet: %s", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN):
                    await stopping.wait()


async def _work_once(plan: ProcessTask, stopping: asyncio.Event) -> bool:
    """Work until the end; return False if others have considered this worker dead."""
    app, node = await _join(plan, "worker", stopping)
    try:
        return await Worker(app, node).run()
    except (BrokerError, StoreError):
        await node.abandon()
        await app.abandon()
        raise


async def _serve(plan: ProcessTask, stopping: asyncio.Event) -> None:
    app, node = await _join(plan, "gateway", stopping)
    if not await Gateway(app, node).run(plan.standing.name if plan.standing else ""):
        raise ChannelError(PASSED_OVER)


async def _join(plan: ProcessTask, role: str, stopping: asyncio.Event) -> tuple[App, Node]:
    start, data = plan.start, plan.start.options.data
    engine = engines.engine_for(find_database(start.layers, data))
    await check_versions(engine, RabbitMQ(plan.broker, name_process("start")))
    book, recent = SettingsStore(start.layers), start.watch.recent
    is_gateway = role == "gateway"
    channels = (
        start.make_channels(plan.standing, book) if is_gateway else _make_channel_views(start, book)
    )
    app = await assemble(start.layers, data, channels, ClusterSender, recent, book)
    return app, Node(app, RabbitMQ(plan.broker, name_process(role)), role, stopping)


def _make_channel_views(start: BotStart, book: SettingsStore) -> list[Channel]:
    """Make a worker's view of the channels: what it needs to know to answer over them."""
    page = RemoteChannel("web", has_fields=True, sound="mp3")
    faces: list[Channel] = [
        RemoteChannel("pipe"),
        RemoteChannel("terminal"),
        page,
        *start.make_messengers(),
    ]
    return [*faces, start.make_telegram(book)] if start.has_telegram else faces
