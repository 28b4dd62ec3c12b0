"""The record of conversations: the store, its tables, search and files."""

import sys

# peewee imports every driver that it finds, and psycopg takes longer to import than all of peewee.
# `memory/record/engines/postgresql.py` imports it when needed.
_WITHHELD = [name for name in ("psycopg", "psycopg2") if name not in sys.modules]
for _name in _WITHHELD:
    sys.modules[_name] = None  # type: ignore[assignment]  # the documented way to have none

import peewee  # noqa: E402, F401

for _name in _WITHHELD:
    del sys.modules[_name]
