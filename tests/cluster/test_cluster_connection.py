"""The client of the message broker, whose connection breaks at the worst moment."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from aiormq.abc import TaskWrapper
from aiormq.exceptions import AMQPConnectionError

from plugins.cluster.base import BrokerError
from plugins.cluster.rabbit import RabbitMQ


class Breaking:
    """An exchange of the client, whose connection breaks while something is published to it."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.under_way: TaskWrapper

    async def publish(self, *_: object, **__: object) -> None:
        self.under_way = TaskWrapper(asyncio.create_task(asyncio.Event().wait()))
        self.asked.set()
        await self.under_way

    def breaks(self) -> None:
        """As `aiormq` does it."""
        self.under_way.throw(AMQPConnectionError("gone"))


async def tell_over_a_breaking_connection(is_cancelled: bool) -> asyncio.Task[None]:
    """Return the task that told, which is over; somebody may cancel it just then."""
    broker, exchange = RabbitMQ("amqp://nowhere", "me"), Breaking()
    broker._link = SimpleNamespace(told=exchange)  # type: ignore[assignment]
    broker._is_up.set()
    telling = asyncio.create_task(broker.tell("topic", b""))
    await exchange.asked.wait()
    exchange.breaks()
    if is_cancelled:
        telling.cancel()
    await asyncio.wait({telling})
    return telling


async def test_who_is_cancelled_just_when_the_connection_breaks_is_over() -> None:
    """The client says then only that the connection broke; a loop would go on, and whoever waits
    for its end wait for ever."""
    assert (await tell_over_a_breaking_connection(is_cancelled=True)).cancelled()
    broken = await tell_over_a_breaking_connection(is_cancelled=False)
    assert isinstance(broken.exception(), BrokerError)
