"""The tables, as peewee builds queries with them.

Their columns are written down once, in `migrations.py`: any name asked for here is a column.
They are bound to no database: queries are executed on the one that a `Store` hands to the work
(`query.execute(database)`), so that several can be open. Rows come as SQLite has them: what is
true or false is 1 or 0.
"""

from __future__ import annotations

from peewee import Column, Table


class _Table(Table):
    def __getattr__(self, name: str) -> Column:
        if name.startswith("_"):
            raise AttributeError(name)
        column = Column(self, name)
        setattr(self, name, column)  # made once
        return column


Conversation = _Table("conversation")
Message = _Table("message")
ViewEvent = _Table("view_event")
Summary = _Table("summary")
Job = _Table("job")
CallStart = _Table("call_start")
Usage = _Table("usage")
Clock = _Table("clock")
Aside = _Table("aside")
SpendingNote = _Table("spending_note")
Calibration = _Table("calibration")
Override = _Table("override")
User = _Table("user")
Pairing = _Table("pairing")
ApiKey = _Table("api_key")
Inbox = _Table("inbox")
Outbox = _Table("outbox")
