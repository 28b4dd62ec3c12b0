"""`python main.py upgrade`: upgrades the data of an older version, after a backup was made, read
back, and upgraded first. With `--check`, only that rehearsal is done."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from bot.app import VERSION
from bot.command_line import write_line
from bot.data_folder import DATABASE, FolderError, check_not_emptied, has_bot
from bot.paragraphs import count
from bot.progress import BYTES, progress
from bot.settings import SettingsStore
from memory.record.engines import engine_for
from memory.record.rehearsal import NEWEST, Rehearsal, Step, find_schema, rehearse
from memory.record.store import StoreError
from plugins.operations.backup import BackupError, BackupResult, SavedDatabase, backup
from plugins.operations.restore import UNREADABLE, unpack

_HAS_CONSENT = 18
"""Before this version of the schema, `restore` restored everything without consent."""


class UpgradePlan(Struct, frozen=True):
    """The data to upgrade: its folder, the place of its record, its settings (`book`), the file for
    the backup (None: beside the data folder), a lock against every bot during a change, and the
    command line of this bot."""

    data: Path
    place: Path | str
    book: SettingsStore
    target: Path | None
    hold: Callable[[], AbstractContextManager[None]]
    program: str


def upgrade(plan: UpgradePlan, is_check: bool) -> None:
    """Rehearse the upgrade, and apply it unless this is a check. Raises FolderError, StoreError and
    BackupError; then nothing was changed."""
    if isinstance(plan.place, Path):
        check_not_emptied(plan.data)
    if not has_bot(plan.place):
        raise FolderError(f"There is no bot in {plan.data}; name its folder with --data DIR.")
    if is_check:
        if _prepare(plan):
            write_line("Your data was not changed. To upgrade it, stop the bot, and run:")
            write_line(f"  {plan.program} upgrade")
        return
    with plan.hold():
        if _prepare(plan):
            engine_for(plan.place).prepare()
            write_line("Upgraded. Start the bot; if anything is wrong, roll back as shown above.")


def _prepare(plan: UpgradePlan) -> bool:
    """Make a backup, rehearse on it, and print how to roll back; return whether an upgrade is
    needed."""
    engine = engine_for(plan.place)
    schema = find_schema(engine)
    if schema == NEWEST:
        write_line(
            f"Parley {VERSION} reads this data as it is (schema {schema}): nothing to upgrade."
        )
        return False
    now = f"{datetime.now():%Y%m%d-%H%M%S}"
    name = f"{plan.data.absolute().name}-before-{VERSION}-{now}.tar.gz"
    target = plan.target or plan.data.absolute().with_name(name)
    write_line(f"The data has schema {schema}; Parley {VERSION} has {NEWEST}.")
    database = SavedDatabase(DATABASE, engine.save_to, not isinstance(plan.place, Path))
    with progress("Backing up", BYTES) as shown:
        saved = backup(plan.data, target, database, VERSION, shown)
    write_line(f"Backup: {target} ({count(saved.files, 'file')}, {saved.size / 1e6:.1f} MB).")
    for line in describe(_rehearse(target, saved), plan.book):
        write_line(line)
    flag = " --with-code" if schema >= _HAS_CONSENT else ""
    command = f"{plan.program} restore {shlex.quote(str(target))}{flag}"
    write_line(f"To roll back, install the previous version, and run: {command}")
    return True


def _rehearse(target: Path, saved: BackupResult) -> Rehearsal:
    """Read a backup back, and upgrade its record."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".parley-upgrade-") as work:
        try:
            with progress("Reading the backup", BYTES) as shown:
                there = len(unpack(target, Path(work), shown))
        except UNREADABLE as error:
            raise BackupError(f"{target} can't be read back ({error}); check the disk.") from None
        if there != saved.files:
            held = count(there, "file")
            raise BackupError(f"{target} holds {held} of {saved.files}; check the disk.")
        try:
            with progress("Rehearsing", "steps") as shown:
                return rehearse(Path(work, DATABASE), shown)
        except StoreError as error:
            raise StoreError(f"{error} Nothing was changed; {target} has all of it.") from error


def describe(rehearsal: Rehearsal, book: SettingsStore) -> Iterator[str]:
    """Describe the result of the rehearsal to a person; `book` adopts the settings of chats."""
    seconds = sum(step.seconds for step in rehearsal.steps)
    yield f"Rehearsed on the backup: {count(len(rehearsal.steps), 'step')} in {seconds:.2f} s."
    yield from map(_describe_step, rehearsal.steps)
    yield f"All {rehearsal.messages} messages are there afterwards, and the database is sound."
    yield from book.adopt(rehearsal.overrides)


def _describe_step(step: Step) -> str:
    changes = [
        *(f"new table {name}" for name in step.tables),
        *(f"new column {name}" for name in step.columns),
    ]
    if step.rows:
        changes.append(f"{step.rows} rows written")
    return f"  {step.version}  {step.name}: {', '.join(changes) or 'no table, no row'}"
