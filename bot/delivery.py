"""Inbox and outbox: a message is on disk before it is acknowledged, a reply before it is sent.

Accepted messages without an answer are resumed after a crash. `sending.py` sends the replies.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Protocol

from msgspec import Struct

from bot.attachments import Stored, dump, load
from bot.received import CommandLine, Links, Received, Signal, command_line, key_of
from bot.sending import address_of, dump_reply, set_aside
from bot.settings import SettingsStore
from channels.base import Channel, LengthLimited, WithSound
from channels.language import ENGLISH, LANGUAGES, asked_in, choose, explain, speaking
from channels.limited import LimitedDict
from channels.message import Action, Address, Inbound, Outbound, Reply
from memory.keys import ConversationKey, Scope, everything
from memory.record import mailbox
from memory.record.database import Database
from memory.record.mailbox import AddressColumns, InboxRow, OutboxRow
from memory.record.store import Store, StoreError
from memory.record.tables import UNREADABLE
from memory.tasks import KeyedQueues

log = logging.getLogger(__name__)


MOST_LANGUAGES = 10_000
"""The maximum number of people whose language is remembered."""


class Languages:
    """The languages of people: the setting `language`, or else the language of their platform or
    browser, which is remembered until the bot stops."""

    def __init__(self, book: SettingsStore, links: Links) -> None:
        self._book, self._links = book, links
        self._reported = LimitedDict[Address, str](MOST_LANGUAGES)

    def remember_language(self, address: Address) -> None:
        """Remember the language that the platform reports in this context."""
        language = choose(asked_in.get()) if asked_in.get() else ""
        if language and self._reported.get(address) != language:
            self._reported[address] = language

    def of(self, address: Address, conversation: str = "") -> str:
        """Return the language of the person at an address, in this conversation ("": the current
        one)."""
        where = conversation or self._links.key_of(address).id
        chosen = self._book.effective(where).language
        if chosen in LANGUAGES:
            return chosen
        return self._reported.get(address, ENGLISH)


class ReplySender(Protocol):
    """The sender of replies (`bot.sending.Sender`)."""

    queues: KeyedQueues

    def send(self, outbound: Outbound) -> None:
        """Send a reply, after the earlier replies to the same chat."""
        ...

    def close_question(self, address: Address, question: str, how: str) -> None:
        """Edit the message with this question to show its outcome, after the earlier replies to
        that chat."""
        ...

    async def mark_clean_stop(self) -> None:
        """Note that the bot stops in an orderly way: replies cut short did not fail."""
        ...


class PreparedAnswer(Struct):
    """An answer on its way into the outbox: its parts, and their rows there. `ids` are set once it
    is inserted."""

    received: Received
    turn: str | None
    parts: Sequence[Reply]
    rows: Sequence[OutboxRow]
    ids: Sequence[int] = ()

    def insert(self, database: Database) -> None:
        """Put it into the outbox, and remove the message from the inbox."""
        self.ids = mailbox.answer(database, self.received.row, self.rows)


class Delivery:
    """The inbox and outbox for all channels. `sender` sends the replies in the outbox.
    `on_listened` is notified once no channel listens: from then on a question can't be answered."""

    def __init__(
        self,
        store: Store,
        channels: Mapping[str, Channel],
        sender: ReplySender,
        links: Links,
        languages: Languages,
    ) -> None:
        self._store, self._channels, self.sender = store, channels, sender
        self._links, self._languages = links, languages
        self._in_parts: dict[
            str, LengthLimited | None
        ] = {}  # a lookup takes as long as some writes
        self.troubles: list[str] = []
        self.on_listened = Signal[[]]()

    @property
    def channels(self) -> frozenset[str]:
        """The names of the running channels."""
        return frozenset(self._channels)

    def find_sound_form(self, channel: str) -> str:
        """Return the sound format that a channel plays; "" if it plays none."""
        found: object = self._channels.get(channel)
        return found.sound if isinstance(found, WithSound) else ""

    def speaking_to(self, address: Address, conversation: str = "") -> AbstractContextManager[None]:
        """Return a context in which the bot uses the language of the person at this address, in
        this conversation ("": the current one)."""
        return speaking(self._languages.of(address, conversation))

    async def receive(
        self,
        inbound: Inbound,
        key: ConversationKey,
        line: CommandLine | None,
        files: tuple[Stored, ...] = (),
        form: str | None = None,
        is_outside: bool = False,
    ) -> tuple[Received, bool]:
        """Put a message into the inbox; its files are on disk already. Return the message and
        whether it is new: the same id with the same text and files, in the same chat, is the same
        message. A message that ends a form has `form` set: the command that it is the argument of,
        or "". `is_outside` is as in `Received`. Raises StoreError."""
        message = InboxRow(
            0,
            columns_of(inbound.address),
            inbound.id,
            f"{form} {inbound.text}" if form else inbound.text,
            inbound.sender,
            time.time(),
            attachments=dump(files),
            branch=key.id if key.id != key_of(inbound.address).id else "",
            is_outside=is_outside,
        )
        content = "\0".join((inbound.text, *(file.path for file in files)))
        digest = hashlib.sha256(content.encode()).hexdigest()[:32]
        row, is_new = await self._store.write(
            lambda db: mailbox.receive(db, message, digest, form is not None)
        )
        return to_received(row, key, line), is_new

    async def answer(
        self,
        received: Received,
        reply: Reply,
        turn: str | None = None,
        also: Callable[[Database, Sequence[int]], None] | None = None,
    ) -> None:
        """Put a reply into the outbox and remove the message from the inbox, in one transaction,
        and send it. `also` is called in it with the ids of the reply's parts."""
        answer = await self.prepare(received, reply, turn)

        def work(db: Database) -> None:
            answer.insert(db)
            if also is not None:
                also(db, answer.ids)

        try:
            await self._store.write(work)
        except StoreError as error:
            log.exception("the reply to %s could not be saved", received.id)
            why = explain(str(error))  # it may be the reply's whole text
            answer.parts = [Reply(reply.text if why in reply.text else f"{reply.text}\n\n({why})")]
            answer.ids = [0]
        self.send_prepared(answer)

    async def prepare(
        self, received: Received, reply: Reply, turn: str | None = None
    ) -> PreparedAnswer:
        """Return an answer that can be put into the outbox together with other rows, and then
        sent."""
        parts = await self._parts(received.address, reply)
        place = columns_of(received.address)
        rows = [
            OutboxRow(place, received.id, turn, dump_reply(part, n)) for n, part in enumerate(parts)
        ]
        return PreparedAnswer(received, turn, parts, rows)

    def send_prepared(self, answer: PreparedAnswer) -> None:
        """Send an answer that is in the outbox."""
        received, turn = answer.received, answer.turn
        for number, (row, part) in enumerate(zip(answer.ids, answer.parts, strict=True)):
            whole = Outbound(row, received.address, part, received.id, turn, part=number)
            self.sender.send(whole)

    async def _parts(self, address: Address, reply: Reply) -> Sequence[Reply]:
        """Return the reply split as its channel sends it. A short one is not split; one that can't
        be split stays whole."""
        if address.channel not in self._in_parts:
            found: object = self._channels.get(address.channel)
            self._in_parts[address.channel] = found if isinstance(found, LengthLimited) else None
        channel = self._in_parts[address.channel]
        if channel is None or len(reply.text) <= channel.longest // 4:
            return [reply]
        try:
            return await asyncio.to_thread(channel.parts, reply)
        except Exception:
            log.exception("a reply of %s characters stays in one piece", len(reply.text))
            return [reply]

    async def begin(self, received: Received) -> None:
        """Store that a command is being executed: if the process dies before its answer is on disk,
        it is not executed again."""
        # Not synced: the command's writes come later, and are not on disk without it.
        await self._store.write(lambda db: mailbox.begin(db, received.row), is_synced=False)

    async def count_resume(self, received: Received, progress: int, is_call: bool) -> int:
        """Count that a turn of `progress` messages is resumed after a crash, during a tool call if
        `is_call`; return the number of resumes since it last progressed without such a call."""
        return await self._store.write(
            lambda db: mailbox.count_resume(db, received.row, progress, is_call)
        )

    async def mark_clean_stop(self, is_selected: Scope = everything) -> None:
        """Note that the bot stops in an orderly way: turns and replies cut short did not fail."""
        with suppress(StoreError):
            begun = [row for row in await self._store.read(mailbox.list_inbox) if row.attempts]
            rows = [row.id for row in begun if is_selected(self._key_of(row).id)]
            await self._store.write(lambda db: mailbox.mark_clean_stop(db, rows))
            await self.sender.mark_clean_stop()

    async def notify(self, address: Address, text: str, actions: tuple[Action, ...] = ()) -> None:
        """Send an unsolicited message through the outbox. Raises StoreError."""
        reply = Reply(text, actions=actions)
        row = OutboxRow(columns_of(address), "", None, dump_reply(reply))
        row_id = await self._store.write(lambda db: mailbox.enqueue_reply(db, row))
        self.send(Outbound(row_id, address, reply, ""))

    async def notify_if(
        self, address: Address, reply: Reply, put: Callable[[Database, list[OutboxRow]], list[int]]
    ) -> bool:
        """Send an unsolicited message if `put` puts it into the outbox: it returns the ids there,
        or none if nothing is to be sent. Return whether it was sent. Raises StoreError."""
        parts, place = await self._parts(address, reply), columns_of(address)
        rows = [OutboxRow(place, "", None, dump_reply(part, n)) for n, part in enumerate(parts)]
        ids = await self._store.write(lambda db: put(db, rows))
        for number, (row, part) in enumerate(zip(ids, parts, strict=bool(ids))):
            self.send(Outbound(row, address, part, "", part=number))
        return bool(ids)

    @property
    def queues(self) -> KeyedQueues:
        """The queues of replies."""
        return self.sender.queues

    def send(self, outbound: Outbound) -> None:
        """Pass a reply to its channel, after the earlier replies to the same chat."""
        self.sender.send(outbound)

    def close_question(self, address: Address, question: str, how: str) -> None:
        """Edit the message with this question to show its outcome and remove its buttons."""
        self.sender.close_question(address, question, how)

    async def list_unanswered(self, is_selected: Scope = everything) -> list[Received]:
        """Return the messages that the previous process accepted and did not answer."""
        found = []
        for row in await self._store.read(mailbox.list_inbox):
            try:
                key, line = self._key_of(row), command_line(row.text)
                if not is_selected(key.id):
                    continue
                found.append(to_received(row, key, line))
            except UNREADABLE as error:
                self.troubles.append(
                    await set_aside(self._store, "inbox", row.id, row.place, error)
                )
        return found

    def _key_of(self, row: InboxRow) -> ConversationKey:
        """Return the conversation that a message was accepted for. The row may come from a foreign
        backup, and name a conversation of others."""
        return self._links.find_kept(address_of(row.place), row.branch)


def sendable(reply: object) -> Reply:
    """Return a plugin's reply if it can be stored. Raises TypeError."""
    if not isinstance(reply, Reply):
        raise TypeError(f"a command must return a Reply, not {reply!r}")
    dump_reply(reply)
    return reply


def columns_of(address: Address) -> AddressColumns:
    """Return the columns of an address in the database."""
    return AddressColumns(address.channel, address.chat, address.thread, address.user)


def to_received(row: InboxRow, key: ConversationKey, line: CommandLine | None) -> Received:
    address, files = address_of(row.place), load(row.attachments)
    is_begun = row.attempts > 0
    fields = (row.id, row.platform_id, address, key, row.text, line, row.sender)
    return Received(*fields, files, is_begun, row.run, row.is_outside)
