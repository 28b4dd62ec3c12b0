"""Messages to an owner about faults that only an owner can fix: a refused key, an empty account, an
unreachable channel.

Notices of cuts: a cut waits for approval, or was made.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from functools import partial

from bot.access import LOCAL, Access
from bot.delivery import Delivery
from bot.logs import is_off_record
from bot.sending import address_of
from channels.language import _, explain
from channels.message import Address, Outbound
from channels.retry import MessageSkipped, reason_of
from memory.keys import ConversationKey
from memory.record import mailbox, people
from memory.record.store import Store, StoreError
from memory.services import CutNotice
from memory.tasks import BackgroundTasks
from plugins.api import InForce
from plugins.builtin.context.approval import describe
from plugins.builtin.context.receipts import add_in_force


class CutNotices:
    """The sender of notices of cuts to the conversation's chat, at the address of its last
    message."""

    def __init__(self, store: Store, delivery: Delivery, in_force: Sequence[InForce] = ()) -> None:
        self._store, self._delivery, self._in_force = store, delivery, in_force

    async def notify(self, key: ConversationKey, notice: CutNotice) -> None:
        """Notify the people in a conversation of a cut. If that is impossible, the cut is in the
        log and in `/context`."""
        try:
            place = await self._store.read(lambda db: mailbox.last_place(db, key.id))
            if place is None:
                log.info("%s: nobody is there to be told of a cut", key.id)
                return
            with self._delivery.speaking_to(address_of(place), key.id):
                reply = add_in_force(describe(notice), key, self._in_force)
            await self._delivery.notify(address_of(place), reply.text, reply.actions)
        except StoreError:
            log.exception("%s: nobody could be told of a cut", key.id)


log = logging.getLogger(__name__)

QUIET = 3600.0
"""Seconds for which a reported cause is not reported again."""


class Alerts:
    """The sender of messages to an owner, at the address of their last message in a chat alone with
    the bot."""

    def __init__(self, store: Store, delivery: Delivery, access: Access) -> None:
        self._store, self._delivery, self._access = store, delivery, access
        self._clock = time.monotonic
        self._notified: dict[str, float] = {}
        self._places: dict[str, Address] = {}
        self.tasks = BackgroundTasks()

    def model_refused(self, sentence: str, reported_at: Address | None) -> None:
        """Note that a provider refused the key or the account; `sentence` was the answer at
        `reported_at`. A private conversation is not reported: the provider's words may quote the
        question."""
        if not is_off_record.get():
            self.tasks.start(self._notify_owner(sentence, sentence, reported_at=reported_at))

    def channel_unreachable(self, channel: str, error: BaseException) -> None:
        """Note that a channel could not reach its platform for a while, or has skipped a
        message."""
        if isinstance(error, MessageSkipped):
            sentence = (
                f"A message on {channel} was left out: the bot stopped twice while it read it. It "
                "is still there; the log says which one it is (`python main.py logs`)."
            )
            self.tasks.start(self._notify_owner(f"left out {error}", sentence))
            return
        sentence = (
            f"The channel {channel} can't be reached ({_reason_of(error)}). The bot keeps trying, "
            "and will go on where it left off."
        )
        self.tasks.start(self._notify_owner(f"no way to {channel}", sentence, without=channel))

    async def report_damage(self, sentence: str) -> None:
        """Report that stored data is damaged, or was put aside."""
        await self._notify_owner(sentence, sentence)

    async def clock_jumped(self, sentence: str) -> bool:
        """Note that the clock is not trusted; return whether an owner was notified."""
        return await self._notify_owner("clock", sentence)

    def channel_down(self, channel: str, error: BaseException) -> None:
        """Note that a channel has ended with an error, or rejected a reply."""
        sentence = (
            f"The channel {channel} does not work ({_reason_of(error)}). Unsent messages go out at "
            "the next start."
        )
        self.tasks.start(self._notify_owner(_down(channel), sentence, without=channel))

    def find_notified(self, channel: str) -> Address | None:
        """Return the address at which an owner was notified that this channel is down, or None."""
        return self._places.get(_down(channel))

    def reply_put_aside(self, outbound: Outbound) -> None:
        """Note that a reply was put aside: the bot crashed or could not send it, time after
        time."""
        where = outbound.address
        sentence = (
            f"An answer to the chat {where.chat} on {where.channel} could not be sent after many "
            "attempts, so it was put aside. What the model said is still in the conversation's "
            "transcript; the log says why (`python main.py logs`)."
        )
        self.tasks.start(self._notify_owner(f"outbox {outbound.id}", sentence))

    def report(self, cause: str, sentence: str) -> None:
        """Send a feature's message to an owner, as soon as possible."""
        self.tasks.start(self._notify_owner(cause, sentence))

    async def job_failed(self, job: int, sentence: str, reported_at: Address) -> None:
        """Note that a job has failed for good; `sentence` was sent to `reported_at`."""
        await self._notify_owner(f"job {job}", sentence, reported_at=reported_at)

    async def _notify_owner(
        self, cause: str, sentence: str, without: str = "", reported_at: Address | None = None
    ) -> bool:
        """Notify an owner, unless that was done lately; return whether an owner was reachable."""
        now = self._clock()
        if now - self._notified.get(cause, -QUIET) < QUIET:
            return True
        self._notified[cause] = now
        try:
            address = await self._owners_address(without)
            if address is None:
                del self._notified[cause]  # no owner was reachable
            elif address != reported_at:
                with self._delivery.speaking_to(address):
                    text = _("To you as an owner: {sentence}", sentence=explain(sentence))
                await self._delivery.notify(address, text)
                self._places[cause] = address
            return address is not None
        except StoreError:
            log.exception("the owner could not be told")
            return False

    async def _owners_address(self, without: str) -> Address | None:
        """Return the address at which an owner wrote last, on a running channel. The web is used
        only if there is no other, since its page may be closed."""
        names = [*(f"{channel}/" for channel in LOCAL), *self._access.owners]
        running = self._delivery.channels - {without}
        for channels in (running - {"web"}, running & {"web"}):
            reachable = [name for name in names if name.partition("/")[0] in channels]
            if place := await self._store.read(partial(people.last_place, people=reachable)):
                return address_of(place)
        return None


def _down(channel: str) -> str:
    return f"channel {channel}"


def _reason_of(error: BaseException) -> str:
    """Return a description of an error that is safe to send: a platform's message about a private
    answer may quote it."""
    return type(error).__name__ if is_off_record.get() else reason_of(error).removesuffix(".")
