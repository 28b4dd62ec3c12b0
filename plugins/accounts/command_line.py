"""`main.py key`: make, list and revoke keys to OpenAI's protocol; `main.py invite`: invite somebody
to the page. Both also work while the bot runs."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar, get_args

from bot.access import Access
from bot.command_line import Commands, write_line
from bot.data_folder import find_database, has_bot
from bot.paragraphs import write_paragraph
from bot.settings import Settings, SettingsStore, load_layers
from memory.record.engines import engine_for
from memory.record.people import Role
from memory.record.store import Store
from plugins.accounts.logins import ApiKeys, PageLogins, format_keys

T = TypeVar("T")
SHOWN_ONCE = (
    "This is the key {name}. Copy it now: it is shown only once, since only its hash is kept."
)

INVITED = (
    "Send this link to {name}, and to nobody else: whoever opens it first, within three days, gets "
    "access to the page."
)


def add_commands(commands: Commands) -> None:
    """Add `key` and its actions to the command line's."""
    parser = commands.add_parser("key", help="make, list and revoke keys to OpenAI's protocol")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="make a key; it is shown only once")
    add.add_argument("name")
    add.add_argument(
        "--role", choices=get_args(Role), default="user", help="its holder's role (user)"
    )
    add.add_argument(
        "--commands", action="store_true", help="text that begins with a slash is a command"
    )
    add.set_defaults(run=_add)
    show = actions.add_parser("list", help="list all keys, and when each was last used")
    show.set_defaults(run=_list)
    revoke = actions.add_parser("revoke", help="revoke a key")
    revoke.add_argument("name")
    revoke.set_defaults(run=_revoke)
    invite = commands.add_parser("invite", help="give somebody access to the page, by a link")
    invite.add_argument("name")
    invite.add_argument("--role", choices=get_args(Role), default="user", help="their role (user)")
    invite.set_defaults(run=_invite)


def _add(options: argparse.Namespace) -> int:
    """Make a key; the bot may be running, or have never run."""
    options.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = _with_keys(options, lambda keys: keys.add(options.name, options.role, options.commands))
    write_line(key)  # alone, so that a script can read it
    write_paragraph(SHOWN_ONCE.format(name=options.name), sys.stderr)
    return 0


def _list(options: argparse.Namespace) -> int:
    """List all keys, without the keys themselves."""
    layers = load_layers(options.config, os.environ)
    is_there = has_bot(find_database(layers, options.data))
    found = _with_keys(options, lambda keys: keys.all()) if is_there else []
    write_line(format_keys(found, SettingsStore(layers).effective().zone))
    return 0


def _revoke(options: argparse.Namespace) -> int:
    """Revoke a key."""
    _with_keys(options, lambda keys: keys.revoke(options.name))
    write_line(f"The key {options.name} is revoked.")
    return 0


def _invite(options: argparse.Namespace) -> int:
    """Make a single-use link that gives access to the page."""
    options.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    layers = load_layers(options.config, os.environ)

    async def make(store: Store) -> str:
        logins = PageLogins(store, Access(store, Settings))
        return await logins.invite(options.name, options.role, "main.py")

    code = _with_store(options, make)
    web = SettingsStore(layers).effective().web
    place = web.url.rstrip("/") or f"http://{web.host}:{web.port}"
    write_line(f"{place}/#join={code}")  # alone, so that a script can read it
    write_paragraph(INVITED.format(name=options.name), sys.stderr)
    return 0


def _with_store(options: argparse.Namespace, work: Callable[[Store], Awaitable[T]]) -> T:
    """Open the record of a bot for `work`. Raises CommandError, SettingError and StoreError."""
    place = find_database(load_layers(options.config, os.environ), options.data)

    async def execute() -> T:
        store = await Store.open(engine_for(place))
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(execute())


def _with_keys(options: argparse.Namespace, work: Callable[[ApiKeys], Awaitable[T]]) -> T:
    """Open the keys of a bot for `work`. Raises CommandError, SettingError and StoreError."""
    return _with_store(options, lambda store: work(ApiKeys(store, Access(store, Settings))))
