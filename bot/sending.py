"""The sending of replies: each to its channel, in the order of its chat, until the platform has it.

A stored reply that is not marked as sent is sent again, with a mark, since it may have arrived. The
number of attempts is on disk before each one: a reply that crashes its sender is next sent as plain
text, and finally put aside.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import orjson
from msgspec.structs import astuple, replace

from bot.logs import is_off_record, off_record
from bot.recent import RecentActivity
from channels.base import Channel, ChannelError, WithCards
from channels.message import Action, Address, Form, Outbound, Reply
from memory.record import mailbox
from memory.record.mailbox import AddressColumns, Kind, OutboxRow
from memory.record.store import Store, StoreError
from memory.record.tables import UNREADABLE
from memory.tasks import KeyedQueues

log = logging.getLogger(__name__)

PLAIN_AFTER, ASIDE_AFTER = 2, 5
"""Failed attempts, besides the first, after which a reply is sent as plain text, or put aside."""
PATIENCE = 30.0
"""Seconds in which an attempt may crash the bot; a longer attempt waits for its platform."""


class Sender:
    """The sender of replies to their channels; `recent` is notified of the results."""

    def __init__(
        self, store: Store, channels: Mapping[str, Channel], data: Path, recent: RecentActivity
    ) -> None:
        self._store, self._channels, self._data = store, channels, data
        self.queues = KeyedQueues("send")
        self.troubles: list[str] = []
        self._held: set[tuple[Address, str]] = set()
        self._trying: dict[int, int] = {}  # retried replies, with their earlier tries
        self.recent = recent

    def send(self, outbound: Outbound, tries: int = 0) -> None:
        """Pass a reply to its channel, after the earlier replies to the same chat; `tries` is the
        number of failed retries."""
        channel = self._channels.get(outbound.address.channel)
        if channel is None:
            return  # that channel is not running; the outbox keeps the reply for it
        chat = (outbound.address.channel, outbound.address.chat, outbound.address.thread)
        is_private = is_off_record.get()

        async def send() -> None:
            with off_record() if is_private else nullcontext():
                await self._send(channel, outbound, tries)

        self.queues.put(chat, send)

    def close_question(self, address: Address, question: str, how: str) -> None:
        """Edit the message with this question to show its outcome, after the earlier replies to
        that chat, if the channel can edit messages."""
        channel: object = self._channels.get(address.channel)
        if not isinstance(channel, WithCards):
            return
        has_cards = channel

        async def close() -> None:
            try:
                await has_cards.close_question(address, question, how)
            except Exception as error:  # noqa: BLE001 - an SDK may raise anything
                log.warning("a question still offers its answers: %s", type(error).__name__)

        self.queues.put((address.channel, address.chat, address.thread), close)

    async def _send(self, channel: Channel, outbound: Outbound, tries: int) -> None:
        whole = (outbound.address, outbound.reply_to)
        if outbound.part and whole in self._held:
            return  # an earlier part waits for the next start, and so does this
        try:
            if tries >= ASIDE_AFTER:
                self._put_aside(outbound)
            else:
                if tries >= PLAIN_AFTER:
                    outbound = replace(outbound, is_plain=True)
                await self._attempt(channel, outbound, tries)
                self.recent.reply_sent(channel.name)
        except Exception as error:
            self._held.add(whole)
            log.exception("the reply to %s waits for the next start", outbound.reply_to)
            self.recent.channel_down(channel.name, error)
            return
        if outbound.id:
            await self._mark_sent(outbound)

    async def _mark_sent(self, outbound: Outbound) -> None:
        """Store that the platform has a reply. Raises StoreError."""
        # Synced or not: a power cut just before it would have the reply sent again as well.
        await self._store.write(lambda db: mailbox.mark_sent(db, outbound.id), is_synced=False)

    async def _attempt(self, channel: Channel, outbound: Outbound, tries: int) -> None:
        """Send a reply. A resent one may have crashed the previous process, so the attempt is
        counted on disk first. The count is taken back if it only waits for its platform."""
        excusing: asyncio.Task[None] | None = None
        if outbound.is_resent:
            self._trying[outbound.id] = tries
            await self._count({outbound.id: tries + 1})
            excusing = asyncio.create_task(self._count_when_slow(outbound.id))
        try:
            await channel.send(outbound)
        except ChannelError:
            await self._count({outbound.id: tries})  # no reply could have been sent there
            raise
        except Exception:
            self._trying.pop(outbound.id, None)
            await self._count({outbound.id: tries + 1})
            raise
        finally:
            if excusing is not None:
                excusing.cancel()
        self._trying.pop(outbound.id, None)

    async def _count_when_slow(self, outbox: int) -> None:
        await asyncio.sleep(PATIENCE)
        if outbox in self._trying:
            await self._count({outbox: self._trying[outbox]})

    async def _count(self, tries: Mapping[int, int]) -> None:
        counted = {outbox: count for outbox, count in tries.items() if outbox}
        with suppress(StoreError):  # it is sent nevertheless
            await self._store.write(lambda db: mailbox.count_tries(db, counted), is_synced=False)

    def _put_aside(self, outbound: Outbound) -> None:
        log.error(
            "the reply to %s (outbox %s) is put aside after %s attempts in vain",
            outbound.reply_to,
            outbound.id,
            ASIDE_AFTER + 1,
        )
        self.recent.reply_put_aside(outbound)

    async def mark_clean_stop(self) -> None:
        """Note that the bot stops in an orderly way: replies cut short did not fail."""
        await self._count(self._trying)

    async def send_unsent(self) -> None:
        """Send the replies that the previous process may not have sent, marked as resent."""
        for row in await self._store.read(mailbox.list_outbox):
            if (again := await self.read(row, is_resent=True)) is not None:
                self.send(again, row.tries)

    async def read(self, row: OutboxRow, is_resent: bool) -> Outbound | None:
        """Return a reply of the outbox; None for an unreadable one, which is put aside."""
        try:
            reply, part = load_reply(row.reply, self._data)
        except UNREADABLE as error:
            self.troubles.append(await set_aside(self._store, "outbox", row.id, row.place, error))
            return None
        place = address_of(row.place)
        return Outbound(row.id, place, reply, row.reply_to, row.turn, is_resent, part)


async def set_aside(
    store: Store, kind: Kind, row: int, place: AddressColumns, error: Exception
) -> str:
    """Put an unreadable message or reply aside, so that it is neither processed nor lost; return a
    sentence that says so."""
    await store.write(lambda db: mailbox.put_aside(db, kind, row, repr(error)))
    what = "A message" if kind == "inbox" else "A reply"
    sentence = (
        f"{what} in the chat {place.channel}/{place.chat} is damaged on the disk and was put "
        "aside; `python main.py doctor` says how many such messages there are."
    )
    log.error("%s", sentence)
    return sentence


def address_of(place: AddressColumns) -> Address:
    """Return the address stored in these columns."""
    return Address(place.channel, place.chat, place.thread, place.user)


def dump_reply(reply: Reply, part: int = 0) -> str:
    """Return a reply in the form stored in the outbox."""
    actions = [astuple(action) for action in reply.actions]
    whole: dict[str, Any] = {"text": reply.text, "data": reply.data, "actions": actions}
    if reply.images:
        whole["images"] = reply.images
    if reply.sound:
        whole["sound"] = reply.sound
    if reply.problem:
        whole["problem"] = reply.problem
    if reply.form:
        whole["form"] = [reply.form.command, reply.form.text]
    if part:
        whole["part"] = part
    return orjson.dumps(whole, default=str).decode()


def load_reply(text: str, data: Path) -> tuple[Reply, int]:
    """Return a reply from the outbox. Only pictures in the data folder are accepted: the row may
    come from a foreign backup, and name any file of this machine."""
    whole = orjson.loads(text)
    images = tuple(path for path in whole.get("images", ()) if _is_below(data, path))
    actions = tuple(Action(*action) for action in whole["actions"])
    reply = Reply(
        whole["text"],
        whole["data"],
        actions,
        images,
        whole.get("problem", ""),
        Form(*whole["form"]) if "form" in whole else None,
        next((path for path in (whole.get("sound"),) if path and _is_below(data, path)), ""),
    )
    return reply, whole.get("part", 0)


def _is_below(folder: Path, path: str) -> bool:
    if Path(path).resolve().is_relative_to(folder.resolve()):
        return True
    log.warning("the file %s is not sent again: it is not in the data folder", path)
    return False
