"""The running bot: resume unfinished work, listen, shut down; and the kernel's parts, as passed to
features (`parley_open`). `bot.assembly` builds it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from agent.models import catalogue
from agent.models.base import ModelError
from bot.access import Access
from bot.activity import EventBus
from bot.alerts import Alerts
from bot.choices import choice_of
from bot.completions import clear_up
from bot.delivery import Delivery
from bot.forms import Forms
from bot.ports import Processes
from bot.process import stop_on_signals
from bot.received import Links, Signal, key_of
from bot.running import RunningBot
from bot.runtime import RuntimeConfig
from bot.schedule import ClockWatch, Schedule
from bot.sending import Sender
from bot.settings.layers import Layers, Secrets
from bot.turns import Turns
from channels.base import Channel, ChannelError, Notice, WithConnections
from memory.conversations import Conversations
from memory.keys import Scope, everything
from memory.record.store import Store, StoreError
from memory.tasks import KeyedQueues, cancel_and_wait
from plugins.loader import LoadedPlugins


class Kernel(Struct, frozen=True):
    """The parts of the bot that a feature may use. `data` is the data folder; `secrets` are those
    of the environment and `.env`, by name; `layers` are the settings read before the start.
    `reread` reloads `.env` and the configuration, and raises SettingError. `changes` is notified if
    settings, people or limits were changed in this process."""

    data: Path
    secrets: Secrets
    layers: Layers
    reread: Callable[[], None]
    config: RuntimeConfig
    store: Store
    access: Access
    links: Links
    conversations: Conversations
    delivery: Delivery
    turns: Turns
    bot: RunningBot
    bus: EventBus
    alerts: Alerts
    schedule: Schedule
    clock: ClockWatch
    changes: Signal[[]]
    processes: Processes
    channels: Mapping[str, Channel]


log = logging.getLogger(__name__)

VERSION = "0.3.0"
"""The version, defined here alone; the wheel reads it from here."""
EXAMINED = 60.0
"""The maximum number of seconds for checking the database after the start."""


async def _write_nothing() -> None:
    """Write nothing."""


class App(Kernel, frozen=True):
    """The bot, ready to run."""

    sender: Sender
    losses: tuple[str, ...]
    features: LoadedPlugins
    forms: Forms

    async def run(self, until: str = "") -> None:
        """Resume unfinished work, listen until the channels end (or the channel `until`) or a
        signal comes, then shut down. Raises the error that a channel failed with."""
        stopping = asyncio.Event()
        stop_on_signals(stopping)
        await asyncio.to_thread(clear_up, self.config.data)
        await self.begin()
        await self.load_conversations()
        await self.sender.send_unsent()
        for received in await self.delivery.list_unanswered():
            self.bot.dispatch(received)
        listeners = {
            name: asyncio.create_task(self._listen(channel), name=f"listen {name}")
            for name, channel in self.channels.items()
        }
        log.info("started: Parley %s on %s", VERSION, ", ".join(self.channels))
        warming = asyncio.create_task(self.warm_up())
        awaited = [listeners[until]] if until else [*listeners.values()]
        await _first_of(stopping, awaited, [*listeners.values()])
        is_stopped = stopping.is_set()
        await self._finish(stopping, warming, until)
        log.info("stopped")
        for channel, task in listeners.items():
            if task.done() and not task.cancelled() and until in ("", channel) and not is_stopped:
                task.result()

    async def _listen(self, channel: Channel) -> None:
        """Listen to one channel. If it fails, the others continue, and owners and watchers are
        notified."""
        try:
            await channel.listen(self.bot)
        except ChannelError as error:
            await self._report_end(channel.name, error, str(error))
            raise
        except Exception as error:
            log.exception("the channel %s has ended", channel.name)
            sentence = (
                f"The channel {channel.name} has ended because of a fault ({error}); the log has "
                "the details (`python main.py logs`)."
            )
            await self._report_end(channel.name, error, sentence)
            raise ChannelError(sentence) from error

    async def _report_end(self, channel: str, error: BaseException, sentence: str) -> None:
        """Notify an owner that a channel has ended, and the watchers of all other chats."""
        self.sender.recent.channel_down(channel, error)
        await self.alerts.tasks.idle()
        owners = self.alerts.find_notified(channel)
        self._announce(sentence, key_of(owners).id if owners else "")

    async def begin(self) -> None:
        """Load the state that all conversations share."""
        await self.clock.check()  # before any new event, which would become the newest one
        await self.access.load()
        await self.links.load()
        await self.bot.private.load()
        await self.config.spending.load()

    async def load_conversations(self, is_selected: Scope = everything) -> None:
        """Resume the work of the previous process in these conversations."""
        await self.links.load()  # the previous process may have linked chats
        await self.conversations.load(is_selected)
        await self.forms.load(is_selected)

    async def warm_up(self) -> None:
        """Load the slow parts while the person reads the greeting."""
        await self.conversations.services.meter.ready()
        choice = choice_of(self.config.book.effective())
        try:
            if self.config.models.uses_embedded(choice):
                await self.config.models.start_embedded(self._announce)
        except ModelError as error:
            self._announce(str(error))
        await asyncio.to_thread(catalogue.load)
        await self._report_damage()
        await self.schedule.start()

    async def _report_damage(self) -> None:
        """Report damaged or put-aside data of the database to an owner. The check takes long for a
        large database, so it runs beside the bot's work."""
        sentences = [
            *self.losses,
            *self.conversations.troubles,
            *self.delivery.troubles,
            *self.sender.troubles,
        ]
        found = await asyncio.to_thread(self.store.engine.find_damage, EXAMINED)
        if found:
            sentences.append(f"{found} Stop the bot, and restore a backup.")
            log.error("%s", found)
        for sentence in sentences:
            await self.alerts.report_damage(sentence)

    def _announce(self, text: str, but: str = "") -> None:
        log.info("%s", text)
        self.bus.announce(Notice(text), but)

    @property
    def _work(self) -> tuple[KeyedQueues, ...]:
        private = self.bot.private.queues
        return (self.bot.commands.queues, private, self.turns.queues, self.delivery.queues)

    async def idle(self, is_awaited: Callable[[Hashable], bool] = lambda _: True) -> None:
        """Wait until no work is left, and the replies to the awaited chats are sent."""
        for background in self.features.background:
            await background.idle()
        await self.bot.commands.queues.idle()
        await self.bot.private.queues.idle()
        await self.turns.queues.idle()
        await self.alerts.tasks.idle()
        await self.delivery.queues.idle_in(is_awaited)
        await self.conversations.flush()

    async def _finish(
        self, stopping: asyncio.Event, warming: asyncio.Task[None], until: str
    ) -> None:
        """Let running work end without a limit, or after a signal within `shutdown_timeout`; then
        close. Replies to other channels than `until` get no more than that either: those channels
        no longer listen, and their platforms may be unreachable for days. Unfinished work resumes
        at the next start."""
        if not stopping.is_set():  # otherwise waiting questions are asked again at the next start
            self.delivery.on_listened()
        here = self.idle(lambda chat: isinstance(chat, tuple) and chat[0] == until)
        ending, stopped = map(asyncio.create_task, (here, stopping.wait()))
        await asyncio.wait((ending, stopped), return_when=asyncio.FIRST_COMPLETED)
        sending = asyncio.create_task(self.delivery.queues.idle())
        await asyncio.wait((ending, sending), timeout=self.config.shutdown_timeout)
        if left := self.delivery.queues.size:
            log.info("replies that can't be sent now and wait for the next start: %d", left)
        await cancel_and_wait(ending, sending, stopped, warming)
        await self.close()

    async def finish(self, is_selected: Scope, first: Collection[asyncio.Task[None]] = ()) -> None:
        """Let these tasks end, and then the running work of these conversations, within
        `shutdown_timeout`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.config.shutdown_timeout):
                if first:
                    await asyncio.wait(first)
                for queues in (self.bot.commands.queues, self.turns.queues):
                    await queues.idle_in(_queues_of(is_selected))

    async def cut_short(self, is_selected: Scope) -> None:
        """Drop the running work of these conversations without counting a failure: another process
        resumes it."""
        await self._drop(is_selected)
        await self.delivery.mark_clean_stop(is_selected)
        with suppress(StoreError):
            await self.conversations.mark_clean_stop(is_selected)

    async def _drop(self, is_selected: Scope) -> None:
        await self.bot.commands.queues.drop(_queues_of(is_selected))
        await self.turns.drop(is_selected)

    async def evict(self, is_selected: Scope) -> None:
        """Stop the work of these conversations and evict them from memory."""
        await self._drop(is_selected)
        self.forms.drop(is_selected)
        await self.conversations.evict(is_selected)

    async def _stop_features(self) -> None:
        for background in self.features.background:
            await background.stop()

    async def abandon(self) -> None:
        """End all work without writing: other processes have taken it over."""
        await self.schedule.stop()
        await self._stop_features()
        for queues in self._work:
            await queues.close()
        await self.conversations.abandon()
        for channel in self.channels.values():
            if isinstance(channel, WithConnections):
                await channel.close()
        await self.features.close()
        await self.config.models.close()
        await self.store.close()

    async def close(self, farewell: Callable[[], Awaitable[None]] = _write_nothing) -> None:
        """End all work, and close; `farewell` is the last function that may write."""
        await self.schedule.stop()
        await self._stop_features()
        for queues in self._work:
            await queues.close()
        await self.delivery.mark_clean_stop(self.conversations.is_ours)
        with suppress(StoreError):
            await self.conversations.mark_clean_stop()
        for channel in self.channels.values():
            if isinstance(channel, WithConnections):
                await channel.close()
        await self.conversations.close()
        with suppress(StoreError):
            await self.clock.check()  # it counts how long the bot has run
        await farewell()
        await self.features.close()
        await self.config.models.close()
        await self.store.close()


def _queues_of(is_selected: Scope) -> Callable[[Hashable], bool]:
    """Return a predicate that selects the queues of these conversations."""
    return lambda queue: is_selected(str(queue[0] if isinstance(queue, tuple) else queue))


async def _first_of(
    stopping: asyncio.Event, awaited: list[asyncio.Task[None]], listeners: list[asyncio.Task[None]]
) -> None:
    """Wait for a signal or for the end of the awaited channels; then end all listeners."""
    waiting = asyncio.create_task(stopping.wait())
    everything = asyncio.create_task(asyncio.wait(awaited))
    await asyncio.wait((waiting, everything), return_when=asyncio.FIRST_COMPLETED)
    await cancel_and_wait(waiting, everything, *listeners)
