"""Inbox and outbox: a message is on disk before it is acknowledged, a reply before it is sent.

What was taken in and not answered is worked on again after a crash; what was written and not
marked as sent is sent again, with a mark, since nobody knows whether it arrived. How often that was
tried is on disk before each attempt: what breaks its sender goes as plain text next, and is put
aside at last.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from bot.attachments import Stored, dump, load
from bot.queues import KeyedQueues
from bot.received import CommandLine, Received, command_line, key_of
from channels.base import Channel, ChannelError, InParts
from channels.message import Action, Address, Form, Inbound, Outbound, Reply
from memory.keys import ConversationKey
from memory.record import mailbox
from memory.record.mailbox import AddressColumns, InboxRow, Kind, OutboxRow
from memory.record.store import Store, StoreError
from memory.record.tables import UNREADABLE

log = logging.getLogger(__name__)

PLAIN_AFTER, ASIDE_AFTER = 2, 5
"""Attempts in vain, besides the first, after which a reply goes as plain text, or not at all."""
PATIENCE = 30.0
"""Seconds that an attempt may break the bot in; one that lasts longer waits for its platform."""


class Delivery:
    """The mail room: one inbox and one outbox for all channels. `on_trouble` hears of a channel
    that takes no reply, `on_aside` of a reply that is given up."""

    def __init__(self, store: Store, channels: Mapping[str, Channel], data: Path) -> None:
        self._store, self._channels, self._data = store, channels, data
        self.queues = KeyedQueues("send")
        self.troubles: list[str] = []
        self._held: set[tuple[Address, str]] = set()
        self._trying: dict[int, int] = {}  # replies on their way again, with their tries before
        self.on_trouble: Callable[[str, Exception], Awaitable[None]] = _unheard
        self.on_aside: Callable[[Outbound], Awaitable[None]] = _untold

    @property
    def channels(self) -> frozenset[str]:
        """The names of the channels that run."""
        return frozenset(self._channels)

    async def receive(
        self,
        inbound: Inbound,
        key: ConversationKey,
        line: CommandLine | None,
        files: tuple[Stored, ...] = (),
        form: str | None = None,
    ) -> tuple[Received, bool]:
        """Put a message into the inbox, with its files, which are on disk; says whether it is new.
        The same id with the same text and files, in the same chat, is the same message. Where a
        form waited for it, the message ends that; `form` is the command that it is the argument of,
        "" where it is none. Raises StoreError."""
        message = InboxRow(
            0,
            columns_of(inbound.address),
            inbound.id,
            f"{form} {inbound.text}" if form else inbound.text,
            inbound.sender,
            time.time(),
            attachments=dump(files),
            branch=key.id if key.is_branch else "",
        )
        said = "\0".join((inbound.text, *(file.path for file in files)))
        digest = hashlib.sha256(said.encode()).hexdigest()[:32]
        row, is_new = await self._store.write(
            lambda db: mailbox.receive(db, message, digest, form is not None)
        )
        return _to_received(row, key, line), is_new

    async def answer(self, received: Received, reply: Reply, turn: str | None = None) -> None:
        """Put a reply into the outbox and the message off the inbox, at once, and send it."""
        parts = await self._parts(received.address, reply)
        place = columns_of(received.address)
        rows = [OutboxRow(place, received.id, turn, _dump(part, n)) for n, part in enumerate(parts)]
        try:
            ids = await self._store.write(lambda db: mailbox.answer(db, received.row, rows))
        except StoreError as error:
            log.exception("the reply to %s could not be saved", received.id)
            parts, ids = [Reply(f"{reply.text}\n\n({error})")], [0]
        for number, (row, part) in enumerate(zip(ids, parts, strict=True)):
            self.send(Outbound(row, received.address, part, received.id, turn, part=number))

    async def _parts(self, address: Address, reply: Reply) -> Sequence[Reply]:
        """The reply as its channel will send it. One that is surely short enough need not be asked
        about; one that can't be taken apart goes as it is."""
        channel: object = self._channels.get(address.channel)
        if not isinstance(channel, InParts) or len(reply.text) <= channel.longest // 4:
            return [reply]
        try:
            return await asyncio.to_thread(channel.parts, reply)
        except Exception:
            log.exception("a reply of %s characters stays in one piece", len(reply.text))
            return [reply]

    async def begin(self, received: Received) -> None:
        """Keep that a command is being carried out: if the process dies before its answer is on
        disk, it is not carried out again."""
        # Not synced: what the command writes comes after it, and is not on disk without it.
        await self._store.write(lambda db: mailbox.begin(db, received.row), is_synced=False)

    async def count_resume(self, received: Received, progress: int, is_call: bool) -> int:
        """A turn of `progress` messages is taken up after a crash, which `is_call` if one of its
        tools ran; returns how often it was since it last got any further without that."""
        return await self._store.write(
            lambda db: mailbox.count_resume(db, received.row, progress, is_call)
        )

    async def excuse(self) -> None:
        """The bot stops in good order: what it cuts short, turns and replies on their way, did not
        fail."""
        with suppress(StoreError):
            await self._store.write(mailbox.excuse)
            await self._count(self._trying)

    async def tell(self, address: Address, text: str, actions: tuple[Action, ...] = ()) -> None:
        """Say something that nobody asked for, through the outbox. Raises StoreError."""
        reply = Reply(text, actions=actions)
        row = OutboxRow(columns_of(address), "", None, _dump(reply))
        row_id = await self._store.write(lambda db: mailbox.put_out(db, row))
        self.send(Outbound(row_id, address, reply, ""))

    def send(self, outbound: Outbound, tries: int = 0) -> None:
        """Hand a reply to its channel, after those that go to the same chat before it; `tries` says
        how often it was sent again in vain."""
        channel = self._channels.get(outbound.address.channel)
        if channel is None:
            return  # that channel does not run today; the outbox keeps the reply for it
        chat = (outbound.address.channel, outbound.address.chat, outbound.address.thread)
        self.queues.put(chat, lambda: self._send(channel, outbound, tries))

    async def _send(self, channel: Channel, outbound: Outbound, tries: int) -> None:
        whole = (outbound.address, outbound.reply_to)
        if outbound.part and whole in self._held:
            return  # a part before this one waits for the next start, and so does this
        try:
            if tries >= ASIDE_AFTER:
                await self._put_aside(outbound)
            else:
                outbound = replace(outbound, is_plain=tries >= PLAIN_AFTER)
                await self._attempt(channel, outbound, tries)
        except Exception as error:
            self._held.add(whole)
            log.exception("the reply to %s waits for the next start", outbound.reply_to)
            await self.on_trouble(channel.name, error)
            return
        if outbound.id:
            # Synced or not: a power cut just before it would have the reply sent again as well.
            await self._store.write(lambda db: mailbox.mark_sent(db, outbound.id), is_synced=False)

    async def _attempt(self, channel: Channel, outbound: Outbound, tries: int) -> None:
        """Send a reply. One that is sent again may have broken the process before this one, so the
        attempt is on disk first; what only waits for its platform is excused."""
        if outbound.is_resent:
            self._trying[outbound.id] = tries
            await self._count({outbound.id: tries + 1})
        excusing = asyncio.get_running_loop().create_task(self._excuse_later(outbound.id))
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
            excusing.cancel()
        self._trying.pop(outbound.id, None)

    async def _excuse_later(self, outbox: int) -> None:
        await asyncio.sleep(PATIENCE)
        if outbox in self._trying:
            await self._count({outbox: self._trying[outbox]})

    async def _count(self, tries: Mapping[int, int]) -> None:
        counted = {outbox: count for outbox, count in tries.items() if outbox}
        with suppress(StoreError):  # it is sent nevertheless
            await self._store.write(lambda db: mailbox.count_tries(db, counted), is_synced=False)

    async def _put_aside(self, outbound: Outbound) -> None:
        log.error(
            "the reply to %s (outbox %s) is put aside after %s attempts in vain",
            outbound.reply_to,
            outbound.id,
            ASIDE_AFTER + 1,
        )
        await self.on_aside(outbound)

    async def list_unanswered(self) -> list[Received]:
        """Messages that were taken in and not answered by the process before this one."""
        found = []
        for row in await self._store.read(mailbox.list_inbox):
            try:
                key, line = _key_of(row), command_line(row.text)
                found.append(_to_received(row, key, line))
            except UNREADABLE as error:
                await self._set_aside("inbox", row.id, row.place, error)
        return found

    async def send_unsent(self) -> None:
        """Send what the process before this one may not have sent, marked as such."""
        for row in await self._store.read(mailbox.list_outbox):
            address = address_of(row.place)
            try:
                reply, part = _load(row.reply, self._data)
            except UNREADABLE as error:
                await self._set_aside("outbox", row.id, row.place, error)
                continue
            again = Outbound(row.id, address, reply, row.reply_to, row.turn, True, part)
            self.send(again, row.tries)

    async def _set_aside(
        self, kind: Kind, row: int, place: AddressColumns, error: Exception
    ) -> None:
        """A message or a reply that can't be read any more is not worked on, and not lost."""
        await self._store.write(lambda db: mailbox.put_aside(db, kind, row, repr(error)))
        what = "A message" if kind == "inbox" else "A reply"
        sentence = (
            f"{what} in the chat {place.channel}/{place.chat} is damaged on the disk and was put "
            "aside; `python main.py doctor` says how many such messages there are."
        )
        log.error("%s", sentence)
        self.troubles.append(sentence)


async def _unheard(channel: str, error: Exception) -> None:
    """Nobody is told."""


async def _untold(outbound: Outbound) -> None:
    """Nobody is told."""


def sendable(reply: object) -> Reply:
    """What a plugin returned, if it is a reply that can be put on disk; else raises TypeError."""
    if not isinstance(reply, Reply):
        raise TypeError(f"a command must return a Reply, not {reply!r}")
    _dump(reply)
    return reply


def address_of(place: AddressColumns) -> Address:
    """The address that a place on disk stands for."""
    return Address(place.channel, place.chat, place.thread, place.user)


def columns_of(address: Address) -> AddressColumns:
    """An address as it stands on disk."""
    return AddressColumns(address.channel, address.chat, address.thread, address.user)


def _key_of(row: InboxRow) -> ConversationKey:
    """The conversation that a message was taken in for. The row may have come with a backup that
    somebody else made, and name a conversation of others."""
    key = key_of(address_of(row.place))
    branch = replace(key, id=row.branch) if row.branch else key
    return branch if branch.home == key.id else key


def _to_received(row: InboxRow, key: ConversationKey, line: CommandLine | None) -> Received:
    address, files = address_of(row.place), load(row.attachments)
    is_begun = row.attempts > 0
    return Received(
        row.id, row.platform_id, address, key, row.text, line, row.sender, files, is_begun
    )


def _dump(reply: Reply, part: int = 0) -> str:
    actions = [[action.label, action.command, action.asks_first] for action in reply.actions]
    whole: dict[str, Any] = {"text": reply.text, "data": reply.data, "actions": actions}
    if reply.images:
        whole["images"] = reply.images
    if reply.problem:
        whole["problem"] = reply.problem
    if reply.form:
        whole["form"] = [reply.form.command, reply.form.text]
    if part:
        whole["part"] = part
    return orjson.dumps(whole, default=str).decode()


def _load(text: str, data: Path) -> tuple[Reply, int]:
    """A reply as the outbox has it. Its pictures are those in the data folder: the row may have
    come with a backup that somebody else made, and name any file of this machine."""
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
    )
    return reply, whole.get("part", 0)


def _is_below(folder: Path, path: str) -> bool:
    if Path(path).resolve().is_relative_to(folder.resolve()):
        return True
    log.warning("the picture %s is not sent again: it is not in the data folder", path)
    return False
