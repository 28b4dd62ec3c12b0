"""The bot's own rows: settings changed while it runs (`/config`); facts learnt about models from
refusals (`agent/models/learnt.py`), as JSON, by address and model name, and each model's
calibration; the time of the clock when it ran last, one row, used to detect jumps of the clock; and
the short texts that channels keep across restarts, by name, such as the position in a mailbox."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import asdict
from peewee import fn

from memory.record import tables
from memory.record.database import Database, DatabaseEngine

EVERYWHERE = ""
"""The scope of an override for all conversations; other scopes are conversation ids."""


def load_overrides(database: Database) -> dict[str, dict[str, Any]]:
    """Return all overrides: scope -> key -> value."""
    columns = tables.Override
    found: dict[str, dict[str, Any]] = {}
    query = columns.select(columns.scope, columns.key, columns.value)
    for scope, key, value in query.tuples().execute(database):
        for data in tables.readable([value], orjson.loads):
            found.setdefault(scope, {})[key] = data
    return found


def save_override(
    database: Database, scope: str, key: str, value: Any, instead_of: Sequence[str] = ()
) -> None:
    """Set one override, and remove those of the same key in other scopes."""
    remove_overrides(database, instead_of, key)
    data = {"value": orjson.dumps(value).decode(), "at": time.time()}
    tables.put(database, tables.Override, ("scope", "key"), scope=scope, key=key, **data)


def remove_overrides(database: Database, scopes: Sequence[str], key: str) -> None:
    """Remove overrides of a key; missing ones are ignored."""
    columns = tables.Override
    columns.delete().where(columns.scope.in_(scopes) & (columns.key == key)).execute(database)


def put_facts(database: Database, place: str, model: str, facts: str) -> None:
    """Store all facts about a model; "" deletes them."""
    columns = tables.LearntModel
    if facts:
        tables.put(database, columns, ("place", "model"), place=place, model=model, facts=facts)
        return
    where = (columns.place == place) & (columns.model == model)
    columns.delete().where(where).execute(database)


def read_facts(database: Database) -> list[tuple[str, str, str]]:
    """Return the facts about all models, as (address, name, facts)."""
    columns = tables.LearntModel
    query = columns.select(columns.place, columns.model, columns.facts)
    return list(query.order_by(columns.place, columns.model).tuples().execute(database))


def read_facts_separately(engine: DatabaseEngine) -> list[tuple[str, str, str]]:
    """Return the same from the record of a bot that may be running. Raises StoreError."""
    with engine.visit() as database:
        return read_facts(database) if "learnt_model" in database.get_tables() else []


def ratios(database: Database) -> dict[str, float]:
    """Return the ratio of reported to counted tokens, by model."""
    columns = tables.Calibration
    return dict(columns.select(columns.model, columns.ratio).tuples().execute(database))


def save_ratio(database: Database, model: str, ratio: float) -> None:
    """Store a model's ratio across restarts."""
    tables.put(database, tables.Calibration, ("model",), model=model, ratio=ratio)


_ONLY = 1


class Clock(Struct, frozen=True):
    """Times in seconds since 1970. `believed` is the last time accepted as correct, plus the time
    that the bot has run since; `seen` is the clock's last reading. While the two are far apart,
    `waited` counts the seconds that the bot has run like this. `is_told` is true once an owner was
    notified."""

    believed: float
    seen: float
    waited: float = 0.0
    is_told: bool = False


def load_clock(database: Database) -> Clock | None:
    """Load the stored time. In a database without such a row, return the time of its newest record;
    None if it has none."""
    row = tables.Clock
    query = row.select(row.believed, row.seen, row.waited, row.is_told)
    for believed, seen, waited, is_told in query.tuples().execute(database):
        return Clock(believed, seen, waited, bool(is_told))
    happened = _newest(database)
    return Clock(happened, happened) if happened else None


def save_clock(database: Database, clock: Clock) -> None:
    """Store this clock, replacing the previous one."""
    tables.put(database, tables.Clock, ("id",), id=_ONLY, **asdict(clock))


def _newest(database: Database) -> float:
    times = {
        tables.Conversation: tables.Conversation.active_at,
        tables.Inbox: tables.Inbox.at,
        tables.Usage: tables.Usage.at,
    }
    newest = [table.select(fn.MAX(at)).scalar(database) for table, at in times.items()]
    return max((float(time) for time in newest if time is not None), default=0.0)


def find_text(database: Database, channel: str, name: str) -> str:
    """Return the text of a channel; "" without one."""
    columns = tables.ChannelState
    query = columns.select(columns.text).where(
        (columns.channel == channel) & (columns.name == name)
    )
    return next((text for (text,) in query.tuples().execute(database)), "")


def put_text(database: Database, channel: str, name: str, text: str) -> None:
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
            put_text(database, channel, name, "")
