"""Runs this process in a cluster, as a gateway, a worker, or both."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from bot.app import App
from bot.assembly import assemble
from bot.data_folder import find_database
from bot.process import stop_on_signals
from bot.recent import RecentActivity
from bot.settings import Layers, Settings
from channels.base import Channel, ChannelError
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


class ProcessTask(Struct, frozen=True):
    """The task of this process. `faces` makes a worker's view of the channels, `channels` those
    that a gateway runs; the gateway ends with the one that `until` names. Both get a function that
    returns the current settings. `recent` records this process's events."""

    layers: Layers
    data: Path
    broker: str
    is_gateway: bool
    is_worker: bool
    faces: Callable[[Callable[[], Settings]], Sequence[Channel]]
    channels: Callable[[Callable[[], Settings]], Sequence[Channel]]
    until: str = ""
    recent: RecentActivity = field(default_factory=RecentActivity)


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
    app, node = await _join(plan, "worker", plan.faces, stopping)
    try:
        return await Worker(app, node).run()
    except (BrokerError, StoreError):
        await node.abandon()
        await app.abandon()
        raise


async def _serve(plan: ProcessTask, stopping: asyncio.Event) -> None:
    app, node = await _join(plan, "gateway", plan.channels, stopping)
    if not await Gateway(app, node).run(plan.until):
        raise ChannelError(PASSED_OVER)


async def _join(
    plan: ProcessTask,
    role: str,
    channels: Callable[[Callable[[], Settings]], Sequence[Channel]],
    stopping: asyncio.Event,
) -> tuple[App, Node]:
    app: App
    engine = engines.engine_for(find_database(plan.layers, plan.data))
    await check_versions(engine, RabbitMQ(plan.broker, name_process("start")))
    made = [*channels(lambda: app.config.book.effective())]
    app = await assemble(plan.layers, plan.data, made, ClusterSender, plan.recent)
    return app, Node(app, RabbitMQ(plan.broker, name_process(role)), role, stopping)
