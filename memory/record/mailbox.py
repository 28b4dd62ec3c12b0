"""Inbox and outbox on disk: received messages without an answer, and replies that are not sent;
also rows that were put aside because they are unreadable or crashed the bot repeatedly.

The rows are plain data; `bot/delivery` interprets them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any, Literal
from urllib.parse import unquote

import orjson
from msgspec import Struct
from msgspec.structs import asdict, replace
from peewee import fn

from memory.keys import BRANCH, home_of
from memory.record import tables
from memory.record.branches import list_rows
from memory.record.database import Database


class AddressColumns(Struct, frozen=True):
    """The columns of an address."""

    channel: str
    chat: str
    thread: str
    user: str


class InboxRow(Struct, frozen=True):
    """A received message. `attachments` is JSON text: an object for each file, with its place as
    `path`. `attempts` counts how often work on it was begun: once for a command, for a turn at each
    resume after a crash. `branch` is the id of its conversation unless that is the first one of its
    chat: a branch, or the conversation that the chat is linked to. `run` is the run of a job whose
    prompt it is (`jobs.py`; 0: a person's message). With `is_outside`, the text may be a
    stranger's."""

    id: int
    place: AddressColumns
    platform_id: str
    text: str
    sender: str
    at: float
    is_done: bool = False
    attachments: str = "[]"
    attempts: int = 0
    branch: str = ""
    run: int = 0
    is_outside: bool = False


class OutboxRow(Struct, frozen=True):
    """A reply to send. `reply` is JSON text; `id` is 0 until it is stored. `tries` counts the
    failed retries."""

    place: AddressColumns
    reply_to: str
    turn: str | None
    reply: str
    id: int = 0
    tries: int = 0


def receive(
    database: Database, message: InboxRow, digest: str, ends_form: bool = False
) -> tuple[InboxRow, bool]:
    """Store a message unless it is already there; return its row and whether it is new. With
    `ends_form`, a new one closes the form that waits for it."""
    table, place = tables.Inbox, message.place
    once = {
        "channel": place.channel,
        "chat": place.chat,
        "thread": place.thread,
        "platform_id": message.platform_id,
        "digest": digest,
    }
    rest = {
        "user": place.user,
        "text": message.text,
        "sender": message.sender,
        "at": message.at,
        "is_done": False,
        "attachments": message.attachments,
        "branch": message.branch,
        "run": message.run,
        "is_outside": message.is_outside,
    }
    row = tables.insert_new(database, table, **once, **rest)
    if not row:
        is_it = reduce(and_, (getattr(table, name) == value for name, value in once.items()))
        (known,) = table.select().where(is_it).tuples().execute(database)
        return _inbox_row(known), False
    if ends_form:
        close_form(database, place)
    return replace(message, id=row), True


def keep_files(database: Database, inbox: int, attachments: str) -> None:
    """Store the files of a received message."""
    tables.update(database, tables.Inbox, inbox, attachments=attachments)


def list_waiting_files(database: Database) -> frozenset[str]:
    """Return the files of all received messages without an answer."""
    waiting = [orjson.loads(row.attachments) for row in list_inbox(database)]
    return frozenset(file["path"] for files in waiting for file in files)


def list_inbox(database: Database) -> list[InboxRow]:
    """List the received messages without an answer, oldest first."""
    columns = tables.Inbox
    query = columns.select().where(columns.is_done == 0).order_by(columns.id)
    return [_inbox_row(row) for row in query.tuples().execute(database)]


def answer(database: Database, inbox: int, parts: Sequence[OutboxRow]) -> list[int]:
    """Store the parts of the reply to an inbox row and mark it done, in one transaction; return
    their ids."""
    close(database, inbox)
    return [enqueue_reply(database, part, inbox) for part in parts]


def enqueue_reply(database: Database, reply: OutboxRow, inbox: int = 0) -> int:
    """Store an outgoing reply; `inbox` is the row that it answers, if any. Return its id."""
    return tables.insert(
        database,
        tables.Outbox,
        inbox=inbox,
        channel=reply.place.channel,
        chat=reply.place.chat,
        thread=reply.place.thread,
        user=reply.place.user,
        reply_to=reply.reply_to,
        turn=reply.turn,
        reply=reply.reply,
        at=time.time(),
        is_sent=False,
        tries=0,
    )


def close(database: Database, inbox: int) -> None:
    """Mark a message as done."""
    tables.update(database, tables.Inbox, inbox, is_done=True)


def begin(database: Database, inbox: int) -> None:
    """Mark a command as begun."""
    tables.update(database, tables.Inbox, inbox, attempts=1)


def count_resume(database: Database, inbox: int, progress: int, is_call: bool) -> int:
    """Count a resume of a turn of `progress` messages after a crash; `is_call` if one of its tools
    was running. Return the number of resumes since the turn last made progress. A model that again
    calls the tool that kills the process has made none."""
    columns = tables.Inbox
    query = columns.select(columns.attempts, columns.progress).where(columns.id == inbox)
    attempts, before = next(iter(query.tuples().execute(database)), (0, 0))
    attempts = attempts + 1 if is_call or before == progress else 1
    tables.update(database, columns, inbox, attempts=attempts, progress=progress)
    return int(attempts)


def mark_clean_stop(database: Database, rows: Sequence[int]) -> None:
    """Reset the attempts of the turns for these messages before a clean stop, since the
    interruption is not their fault."""
    columns = tables.Inbox
    is_turn = (columns.progress > 0) & columns.id.in_([*rows])
    columns.update(attempts=0).where(is_turn).execute(database)


def is_waiting(database: Database, channels: Sequence[str], but: Collection[int]) -> bool:
    """Return whether a message of these channels has no answer, or a reply is not sent, except for
    the replies `but`."""
    inbox, outbox = tables.Inbox, tables.Outbox
    unanswered = inbox.select(inbox.id).where((inbox.is_done == 0) & inbox.channel.in_(channels))
    is_unsent = (outbox.is_sent == 0) & outbox.id.not_in([*but])
    unsent = outbox.select(outbox.id).where(is_unsent & outbox.channel.in_(channels))
    return any(list(query.limit(1).tuples().execute(database)) for query in (unanswered, unsent))


class Backlog(Struct, frozen=True):
    """The backlog: the number of messages without an answer, the time of the oldest (seconds since
    1970; 0 without one), and the number of unsent replies."""

    unanswered: int
    oldest: float
    unsent: int


def measure_backlog(database: Database) -> Backlog:
    """Count the messages without an answer and the unsent replies."""
    inbox, outbox = tables.Inbox, tables.Outbox
    waiting = inbox.select(fn.COUNT(inbox.id), fn.MIN(inbox.at)).where(inbox.is_done == 0)
    ((unanswered, oldest),) = waiting.tuples().execute(database)
    unsent = outbox.select(fn.COUNT(outbox.id)).where(outbox.is_sent == 0)
    return Backlog(unanswered, oldest or 0.0, next(iter(unsent.tuples().execute(database)))[0])


def list_outbox(database: Database) -> list[OutboxRow]:
    """List the replies that were not sent, or whose sending was not confirmed, oldest first."""
    columns = tables.Outbox
    query = columns.select().where(columns.is_sent == 0).order_by(columns.id)
    return [_outbox_row(row) for row in query.dicts().execute(database)]


def list_unsent_before(database: Database, place: AddressColumns, outbox: int) -> list[OutboxRow]:
    """List the unsent replies to the same chat that were written before this one, oldest first."""
    columns = tables.Outbox
    is_there = (columns.channel == place.channel) & (columns.chat == place.chat)
    is_due = (columns.is_sent == 0) & (columns.id < outbox) & (columns.thread == place.thread)
    query = columns.select().where(is_there & is_due).order_by(columns.id)
    return [_outbox_row(row) for row in query.dicts().execute(database)]


def count_tries(database: Database, tries: Mapping[int, int]) -> None:
    """Store the number of failed attempts to send, by reply id."""
    for outbox, count in tries.items():
        tables.update(database, tables.Outbox, outbox, tries=count)


def mark_sent(database: Database, outbox: int) -> None:
    """Mark a reply as received by the platform."""
    tables.update(database, tables.Outbox, outbox, is_sent=True)


def forget(database: Database, conversation: str) -> None:
    """Delete the answered rows of a conversation's chat, with their answers: commands, whose text
    may be about anything, and messages that are no longer in any branch of the chat. Unanswered
    messages are kept; of a command that is being executed, only its name."""
    inbox, outbox, message = tables.Inbox, tables.Outbox, tables.Message
    here = list_rows(database, home_of(conversation))
    answered = message.select(message.inbox).where(
        message.conversation.in_(here) & message.inbox.is_null(False)
    )
    stay = inbox.select(inbox.id).where(inbox.id.in_(answered) | (inbox.is_done == 0))
    mine = inbox.select(inbox.id).where(_is_of(conversation))
    unasked = outbox.inbox.not_in(inbox.select(inbox.id)) & _gets_unprompted(database, conversation)
    is_mine = (outbox.inbox.in_(mine) & outbox.inbox.not_in(stay)) | unasked
    outbox.delete().where(is_mine).execute(database)
    inbox.delete().where(_is_of(conversation) & inbox.id.not_in(stay)).execute(database)
    is_running = (inbox.is_done == 0) & (inbox.attempts > 0) & inbox.id.not_in(answered)
    running = inbox.select(inbox.id, inbox.text).where(_is_of(conversation) & is_running)
    for row, text in list(running.tuples().execute(database)):
        if text.lstrip().startswith("/"):
            tables.update(database, inbox, row, text=text.split(maxsplit=1)[0])
    tables.Form.delete().where(_is_at(tables.Form, conversation)).execute(database)
    chats = (conversation, mail_chat(*_place(conversation)))
    aside = tables.Aside
    aside.delete().where(aside.chat.in_(chats)).execute(database)


def last_place(database: Database, conversation: str) -> AddressColumns | None:
    """Return the address of the last message in a conversation's chat, with its author."""
    inbox = tables.Inbox
    query = inbox.select().where(_is_of(conversation)).order_by(inbox.id.desc()).limit(1)
    return next((_inbox_row(row).place for row in query.tuples().execute(database)), None)


def delete_before(database: Database, before: float) -> None:
    """Delete the rows that were answered and sent, or put aside, before a time (seconds since
    1970)."""
    inbox, outbox, aside = tables.Inbox, tables.Outbox, tables.Aside
    outbox.delete().where((outbox.is_sent == 1) & (outbox.at < before)).execute(database)
    inbox.delete().where((inbox.is_done == 1) & (inbox.at < before)).execute(database)
    aside.delete().where(aside.at < before).execute(database)


def _is_at(table: Any, conversation: str) -> Any:
    """Return the condition that a row's place belongs to a conversation, whose id is made of it
    (`bot.received.key_of`)."""
    channel, chat, thread = _place(conversation)
    return (table.channel == channel) & (table.chat == chat) & (table.thread == thread)


def _is_of(conversation: str) -> Any:
    """Return the condition that a message was received for a conversation, or for one of its
    chat."""
    inbox, home = tables.Inbox, home_of(conversation)
    start = f"{home}{BRANCH}"
    is_named = (inbox.branch == home) | (fn.substr(inbox.branch, 1, len(start)) == start)
    return is_named | (_is_at(inbox, conversation) & (inbox.branch == ""))


def _gets_unprompted(database: Database, conversation: str) -> Any:
    """Return the condition that a row is at an address that gets this conversation's unprompted
    messages: its own chat, and those linked to it."""
    link, outbox = tables.Link, tables.Outbox
    query = link.select(link.home).where(link.target == home_of(conversation))
    homes = [conversation, *(str(home) for (home,) in query.tuples().execute(database))]
    return reduce(or_, (_is_at(outbox, home) for home in homes))


def _place(conversation: str) -> tuple[str, str, str]:
    channel, chat, thread = map(unquote, f"{conversation}/".split("/")[:3])
    return channel, chat, thread


def _inbox_row(row: tuple[Any, ...]) -> InboxRow:
    identity, channel, chat, thread, user, platform_id, _, text, sender, at, is_done, *rest = row
    place = AddressColumns(channel, chat, thread, user)
    files, attempts, _, branch, run, is_outside = rest
    whole = (identity, place, platform_id, text, sender, at, bool(is_done), files, attempts)
    return InboxRow(*whole, branch=branch, run=run, is_outside=bool(is_outside))


def _outbox_row(row: dict[str, Any]) -> OutboxRow:
    place = AddressColumns(row["channel"], row["chat"], row["thread"], row["user"])
    return OutboxRow(place, row["reply_to"], row["turn"], row["reply"], row["id"], row["tries"])


# --- forms: input that follows a command --------------------------------------------------


def open_form(database: Database, place: AddressColumns, command: str, until: float) -> None:
    """Open a form: until this time, the next message from this place is the argument of a
    command."""
    columns = tables.Form
    columns.delete().where(columns.until < time.time()).execute(database)
    whose = asdict(place)
    tables.put(database, columns, tuple(whose), **whose, command=command, until=until)


def close_form(database: Database, place: AddressColumns) -> None:
    """Close the form of this place."""
    columns = tables.Form
    is_it = (getattr(columns, name) == value for name, value in asdict(place).items())
    columns.delete().where(reduce(and_, is_it)).execute(database)


def open_forms(database: Database) -> list[tuple[AddressColumns, str, float]]:
    """List the open forms, as (place, command, until)."""
    rows = tables.Form.select().tuples().execute(database)
    return [(AddressColumns(*place), command, until) for *place, command, until in rows]


# --- rows put aside -----------------------------------------------------------------------


Kind = Literal["job", "inbox", "outbox"]
_TABLES: dict[Kind, Any] = {"job": tables.Job, "inbox": tables.Inbox, "outbox": tables.Outbox}


def put_aside(database: Database, kind: Kind, row: int, why: str) -> bool:
    """Move a row to where it is no longer processed; return False if it no longer exists."""
    table = _TABLES[kind]
    query = table.select().where(table.id == row)
    for found in query.dicts().execute(database):
        tables.Aside.insert(
            kind=kind,
            chat=_chat(database, kind, found),
            content=json.dumps(found, default=str),
            why=why,
            at=time.time(),
        ).execute(database)
        table.delete().where(table.id == row).execute(database)
        return True
    return False


def _chat(database: Database, kind: Kind, row: dict[str, object]) -> str:
    """Return the chat that a row belongs to, so that it is deleted with the chat."""
    if kind != "job":
        return mail_chat(str(row["channel"]), str(row["chat"]), str(row["thread"]))
    columns = tables.Conversation
    query = columns.select(columns.key).where(columns.id == row["conversation"])
    return next((str(key) for (key,) in query.tuples().execute(database)), "")


def mail_chat(channel: str, chat: str, thread: str) -> str:
    """Return the name of the chat that mail belongs to."""
    return json.dumps([channel, chat, thread])
