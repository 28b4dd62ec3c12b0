"""The short texts that channels keep across restarts, by name, such as the position in a
mailbox."""

from __future__ import annotations

from memory.record import tables
from memory.record.database import Database


def find(database: Database, channel: str, name: str) -> str:
    """Return the text of a channel; "" without one."""
    columns = tables.ChannelState
    query = columns.select(columns.text).where(
        (columns.channel == channel) & (columns.name == name)
    )
    return next((text for (text,) in query.tuples().execute(database)), "")


def put(database: Database, channel: str, name: str, text: str) -> None:
    """Store a text of a channel; "" deletes it."""
    columns = tables.ChannelState
    if text:
        tables.put(database, columns, ("channel", "name"), channel=channel, name=name, text=text)
        return
    where = (columns.channel == channel) & (columns.name == name)
    columns.delete().where(where).execute(database)


def list_named(database: Database, name: str) -> list[tuple[str, str]]:
    """List the texts that channels store under this name, as (channel, text)."""
    columns = tables.ChannelState
    query = columns.select(columns.channel, columns.text).where(columns.name == name)
    return [(channel, text) for channel, text in query.tuples().execute(database)]


def list_of(database: Database, word: str) -> list[tuple[str, str, str]]:
    """List the texts of all channels whose name begins with this word, as (channel, name, text)."""
    columns = tables.ChannelState
    rows = columns.select(columns.channel, columns.name, columns.text).tuples().execute(database)
    return [(channel, name, text) for channel, name, text in rows if name.split(" ")[0] == word]


def forget_chat(database: Database, channel: str, chat: str) -> None:
    """Delete the texts of a channel whose names contain the chat's id as a word."""
    columns = tables.ChannelState
    query = columns.select(columns.name).where(columns.channel == channel)
    for (name,) in list(query.tuples().execute(database)):
        if chat in name.split(" "):
            put(database, channel, name, "")
