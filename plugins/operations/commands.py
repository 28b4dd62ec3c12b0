"""The commands on an installation: check, back up, restore and move it."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bot.app import VERSION
from bot.checks import exit_code
from bot.command_line import call_of, with_places, write_line
from bot.data_folder import DATABASE, FolderError, find_database, lock_data_folder
from bot.paragraphs import count
from bot.progress import BYTES, progress
from bot.settings import SettingsStore, load_layers
from memory.keys import BRANCH, home_of
from memory.record.engines import engine_for
from memory.record.search.index import catch_up_all
from memory.record.store import StoreError
from memory.record.transfer import copy_in, copy_out
from plugins.loader import load
from plugins.operations import audit, doctor, service
from plugins.operations.backup import SavedDatabase, backup
from plugins.operations.restore import SET_ASIDE, Contents, RestoreResult, restore
from plugins.operations.upgrade import UpgradePlan, upgrade

_MOST_SHOWN = 40


def examine(options: argparse.Namespace) -> int:
    """Check the installation, and print what to do."""
    probes = doctor.Probes(options.config, options.data, os.environ)
    findings = asyncio.run(doctor.examine(probes))
    write_line(f"Parley {VERSION}\n{with_places(doctor.report(findings), options)}")
    write_line(f"To check the security of this installation, run `{call_of(options)} audit`.")
    return exit_code(findings)


def _place(options: argparse.Namespace) -> Path | str:
    """Return the place of the record. Raises SettingError."""
    return find_database(load_layers(options.config, os.environ), options.data)


def _know_tables() -> None:
    """Load the built-in plugins: copying a record needs their tables."""
    load(Path(os.devnull))


@contextmanager
def _lock_data(data: Path, place: Path | str) -> Iterator[None]:
    """Lock the data folder and the database against every bot. Several processes may be one bot
    that does not lock the folder. Raises FolderError and StoreError."""
    with lock_data_folder(data):
        if isinstance(place, Path):
            yield
            return
        with engine_for(place).visit(claim="alone"):
            yield


def print_risks(options: argparse.Namespace) -> int:
    """Print the open, weak or shared parts of this installation."""
    risks = audit.audit(audit.installation(options.config, options.data, os.environ))
    write_line(audit.report(risks, sys.stdout.isatty() and "NO_COLOR" not in os.environ))
    return exit_code(risks)


def save(options: argparse.Namespace) -> int:
    """Save the data folder; the bot may be running."""
    place = _place(options)
    _know_tables()
    is_on_server = not isinstance(place, Path)
    database = SavedDatabase(DATABASE, engine_for(place).save_to, is_on_server)
    with progress("Backing up", BYTES) as shown:
        saved = backup(options.data, options.file, database, VERSION, shown)
    write_line(f"Saved {count(saved.files, 'file')} in {options.file} ({saved.size / 1e6:.1f} MB).")
    if saved.left_out:
        write_line(f"Skipped, because they are not regular files: {', '.join(saved.left_out)}.")
    if saved.fault:
        write_line(
            "The database is damaged, and so is this backup: keep the earlier ones. To see more: "
            f"{call_of(options)} doctor"
        )
    return 1 if saved.fault else 0


def upgrade_data(options: argparse.Namespace) -> int:
    """Upgrade the data of an older version, or print what that would change."""
    layers = load_layers(options.config, os.environ)
    _know_tables()
    place = find_database(layers, options.data)
    hold = partial(_lock_data, options.data, place)
    book, program = SettingsStore(layers), call_of(options)
    plan = UpgradePlan(options.data, place, book, options.backup, hold, program)
    upgrade(plan, options.check)
    return 0


def manage_service(options: argparse.Namespace) -> int:
    """Install the bot as a service, print the service's status, or uninstall it."""
    units = service.UserUnits(os.environ)
    if options.action == "status":
        is_running, lines = service.report(service.clean_name(options.name), units)
        for line in lines:
            write_line(with_places(line, options))
        return 0 if is_running else 1
    if options.action == "uninstall":
        service.uninstall(service.clean_name(options.name), units)
        return 0
    load_layers(options.config, os.environ)  # raises SettingError
    service.install(service.describe_bot(options), units)
    return 0


def restore_backup(options: argparse.Namespace) -> int:
    """Restore a backup; the current data folder is moved aside, never deleted."""
    consent = (lambda contents: True) if options.with_code else _confirm
    place = _place(options)
    _know_tables()
    with _lock_data(options.data, place):
        if not isinstance(place, Path) and not engine_for(place).is_pristine():
            raise StoreError(
                "The setting database names a database that holds a bot already; name an empty "
                "one there, and restore again. Nothing was changed."
            )
        restored = _unpack_all(options, consent)
        if not isinstance(place, Path) and (options.data / DATABASE).exists():
            _fill(options.data / DATABASE, place)
            (options.data / DATABASE).unlink()  # it is still in the backup
    write_line(f"Restored {count(restored.files, 'file')} to {options.data}.")
    if restored.moved_aside:
        write_line(f"The previous data is in {restored.moved_aside}.")
    write_line(_describe_contents(restored.contents))
    if restored.is_set_aside:
        for line in _describe_set_aside(restored.contents, options):
            write_line(line)
    return 0


def _unpack_all(options: argparse.Namespace, consent: Callable[[Contents], bool]) -> RestoreResult:
    with progress("Restoring", BYTES) as shown:

        def ask(contents: Contents) -> bool:
            shown.close()
            return consent(contents)

        return restore(options.file, options.data, ask, shown)


def _fill(file: Path, place: str) -> int:
    """Copy a record from a file to a server; return the number of its rows."""
    with progress("Copying", "rows") as shown:
        rows = copy_in(file, engine_for(place), shown)
    _index(place)
    return rows


def _index(place: Path | str) -> None:
    """Fill the search index, which is not copied."""
    with engine_for(place).visit() as database, progress("Indexing", "messages") as shown:
        catch_up_all(database, shown)


def _describe_set_aside(contents: Contents, options: argparse.Namespace) -> Iterator[str]:
    """Describe the parts that were not restored as they were, and how to restore them."""
    jobs = len(contents.carried.jobs)
    if contents.code or contents.powers or contents.carried.commands:
        yield (
            "Everything that could run code or give others rights was set aside in "
            f"{options.data / SET_ASIDE}."
        )
    if jobs:
        yield (
            f"Its jobs ({jobs}) are paused, and may use no tool without approval: "
            "/jobs lists them in their chats, and /jobs resume N resumes one. Reminders still come."
        )
    yield (
        "If the backup is your own, restore everything with: "
        f"{call_of(options)} restore {shlex.quote(str(options.file))} --with-code"
    )


def move(options: argparse.Namespace) -> int:
    """Copy the record of a stopped bot to another database system; the old one is left
    unchanged."""
    address, file = _place(options), options.data / DATABASE
    _know_tables()
    if isinstance(address, Path):
        raise StoreError(
            "Set database first, to the address of a PostgreSQL database: put DATABASE_URL=… into "
            '.env, and "database": "{{secret.DATABASE_URL}}" into the configuration.'
        )
    with _lock_data(options.data, address), tempfile.TemporaryDirectory(dir=options.data) as work:
        if options.to == "sqlite":
            return _move_back(address, file, Path(work))
        if not file.exists():
            raise FolderError(
                f"There is no bot in {options.data}; name its folder with --data DIR."
            )
        engine_for(file).save_to(Path(work, DATABASE))
        rows = _fill(Path(work, DATABASE), address)
    write_line(
        f"Moved {rows} rows, and compared them. {file} is unchanged: keep it until everything "
        "works."
    )
    return 0


def _move_back(address: str, file: Path, work: Path) -> int:
    """Copy the record from a server to a file."""
    if not engine_for(file).is_pristine():
        raise FolderError(f"{file} holds a bot already; move it elsewhere first.")
    with progress("Copying", "rows") as shown:
        rows = copy_out(
            engine_for(address),
            work / DATABASE,
            progress=shown,
        )
    _index(work / DATABASE)
    (work / DATABASE).rename(file)
    write_line(f"Moved {rows} rows, and compared them. Remove database from the configuration now.")
    return 0


def _confirm(contents: Contents) -> bool:
    """Return whether the person at the terminal agrees to restore executable parts; False without
    one."""
    if not (sys.stdin and sys.stdin.isatty()):
        return False
    write_line(_dangers(contents))
    try:
        answer = input("Is this your own backup, and should all this be restored too? [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")


def _dangers(contents: Contents) -> str:
    files = [f"  {_plain(name)}  sha256 {digest}" for name, digest in contents.code.items()]
    settings = [_format_setting(*one) for one in contents.powers]
    return "\n".join(
        [
            "A manifest shows that a backup is whole, not who made it. This one holds things "
            "that would run inside the bot, or give others rights over it:",
            *_few(files),
            *_few(settings),
            *_few(_commands(contents)),
            *_few(_jobs(contents)),
        ]
    )


def _describe_contents(contents: Contents) -> str:
    """Describe who gets access by the restored data, and the settings of its chats."""
    carried, lines = contents.carried, []
    if contents.code:
        lines += ["Code and instructions in the backup:", *_few([*map(_plain, contents.code)])]
    keys = tuple(person for person, _, _ in carried.keys)
    for meaning, people in (
        ("Owners", carried.owners),
        ("Users and chats", carried.users),
        ("Holders of keys", keys),
    ):
        if people:
            lines.append(f"{meaning} in it: {', '.join(_few([*map(_plain, people)]))}")
    if carried.links:
        pairs = [f"{_plain(home)} in that of {_plain(there)}" for home, there in carried.links]
        lines.append(f"Linked chats: {', '.join(_few(pairs))}")
    if carried.settings:
        lines += [
            "Settings made in its chats:",
            *_few([_format_setting(*s) for s in carried.settings]),
        ]
    if carried.commands:
        lines += ["Commands waiting in it:", *_few(_commands(contents))]
    if carried.jobs:
        lines += ["Jobs in it:", *_few(_jobs(contents))]
    return "\n".join(lines) or "It gives nobody access, and holds no code and no settings."


def _commands(contents: Contents) -> list[str]:
    """Return the commands that would be executed at the next start."""
    return [
        f"  {_plain(text[:200])}  (waits in {_plain(to)})" for to, text in contents.carried.commands
    ]


def _jobs(contents: Contents) -> list[str]:
    """Return the jobs that would run at their times."""
    return [
        f"  {_plain(text[:200])}  (a job of {_plain(chat)})" for chat, text in contents.carried.jobs
    ]


def _format_setting(scope: str, key: str, value: str) -> str:
    home = home_of(scope)
    branch = scope.removeprefix(home).removeprefix(BRANCH)
    where = f" in {home}, branch {branch}" if branch else f" in {home}" if home else ""
    return f"  {_plain(key)} = {_plain(value)}{_plain(where)}"


def _few(lines: list[str]) -> list[str]:
    rest = len(lines) - _MOST_SHOWN
    return [*lines[:_MOST_SHOWN], f"  and {rest} more"] if rest > 0 else lines


def _plain(text: str) -> str:
    """Return a text that a stranger may have chosen, as one line without control characters."""
    shown = text if text.isprintable() else repr(text)[1:-1]
    return shown if len(shown) <= 2 * _MOST_SHOWN else f"{shown[: 2 * _MOST_SHOWN]}…"
