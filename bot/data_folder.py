"""The data folder: used by one bot at a time, and never restarted empty after a loss of data.

Also the lock that keeps a second bot off a data folder, which is the only code that locks files.

The lock is on the folder itself, so that it survives deletions in it. The file `lock` is for
systems and file systems that can't lock a folder (Windows), and for an older Parley.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from bot.settings import Layers, Settings, SettingsStore
from memory.record import engines
from memory.record.engines.soundness import is_unused

if sys.platform != "win32":
    import fcntl


@contextmanager
def lock_exclusively(folder: Path) -> Iterator[None]:
    """Lock an existing folder. Raises BlockingIOError if another process holds it, and OSError."""
    with ExitStack() as stack:
        try:
            stack.enter_context(FileLock(folder / "lock", timeout=0))
        except Timeout:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK)) from None
        stack.enter_context(_lock(folder))
        yield


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise BlockingIOError(error.errno, error.strerror) from None
        yield
    finally:
        os.close(descriptor)


DATABASE = "parley.db"
"""The file of the record, unless another database is set."""
ENDINGS = ("", "-wal", "-shm", "-journal")
"""The endings of the names of a database's files."""
MOVED_ASIDE = "before-restore-"
"""The name prefix of the folder in the data folder to which a restore moved the previous files."""
_SIGNS = ("audiences", "quarantine", "terminal_history")


def find_database(layers: Layers, data: Path) -> Path | str:
    """Return the place of the record: the address in the setting `database`, or else a file."""
    return SettingsStore(layers).effective().database or data / DATABASE


def plugins_folder(settings: Settings, data: Path) -> Path:
    """Return the folder of the person's own plugins and channels."""
    return Path(settings.plugins_dir) if settings.plugins_dir else data / "plugins"


def has_bot(place: Path | str) -> bool:
    """Return whether there may be a bot whose record is stored there."""
    return isinstance(place, str) or place.exists()


def check_moved(place: Path | str, data: Path) -> None:
    """Refuse to start with an empty server database while the data folder holds a bot, which would
    seem to have forgotten everything. Raises FolderError and StoreError."""
    if isinstance(place, Path) or _is_unfinished(data / DATABASE):
        return
    if engines.engine_for(place).is_pristine():
        raise FolderError(
            f"The setting database names an empty database, and {data / DATABASE} holds a bot. "
            "Move it over with `python main.py migrate --to postgresql`, or start afresh with "
            "`python main.py --new`."
        )


class FolderError(Exception):
    """Raised if the data folder can't be used; the text says why, and what to do."""


@contextmanager
def lock_data_folder(data: Path) -> Iterator[None]:
    """Lock a data folder, and create it if it is missing; two bots on one would answer everything
    twice. Raises FolderError."""
    with ExitStack() as stack:
        try:
            data.mkdir(mode=0o700, parents=True, exist_ok=True)  # messages are for one person
            stack.enter_context(lock_exclusively(data))
            check_files(data)
        except BlockingIOError:
            raise FolderError(
                f"Another Parley is running on the data folder {data}; stop it, or choose another "
                "one with --data DIR."
            ) from None
        except (FileExistsError, NotADirectoryError):
            raise FolderError(
                f"The data folder {data} can't be made: a file is in its place. Choose another one "
                "with --data DIR."
            ) from None
        except OSError as error:
            if (file := Path(os.fsdecode(error.filename or data))).is_file():
                raise FolderError(
                    f"The file {file} of the bot can't be written ({error.strerror}); give it back "
                    "to this account (chown), or choose another data folder with --data DIR."
                ) from None
            raise FolderError(
                f"The data folder {data} can't be written ({error.strerror}); correct its "
                "permissions, or choose another one with --data DIR."
            ) from None
        yield


def check_files(data: Path) -> None:
    """Check that this account can write the files of the database and the lock, which another
    account may have made (sudo). Raises OSError that names the file."""
    for name in ("lock", *(f"{DATABASE}{ending}" for ending in ENDINGS)):
        with suppress(FileNotFoundError), (data / name).open("r+b"):
            pass


def check_not_emptied(data: Path) -> None:
    """Refuse a folder in which a bot has run, and whose database is missing or empty: a silent
    start would lose all messages. Raises FolderError."""
    database = data / DATABASE
    if not (signs := _find_bot_files(data)) or not _is_unfinished(database):
        return
    state = "is empty" if database.exists() else "is gone"
    raise FolderError(
        f"The database {database} {state}, although there was a bot here ({', '.join(signs)}). "
        "Restore a backup with `python main.py restore FILE`, or start afresh beside the remaining "
        "files with `python main.py --new`."
    )


def start_fresh(data: Path) -> None:
    """Prepare a start with a new database: the files of the old one are renamed, never deleted.
    Raises FolderError if the old one holds data and is sound, StoreError, and OSError."""
    database = data / DATABASE
    if not _is_unfinished(database) and not engines.engine_for(database).examine():
        raise FolderError(
            f"The database {database} holds a bot, so it is not started afresh; omit --new, "
            "or choose another folder with --data DIR."
        )
    now = f"{datetime.now():%Y%m%d-%H%M%S-%f}"
    for ending in ENDINGS:
        with suppress(FileNotFoundError):
            old = database.with_name(f"{DATABASE}{ending}")
            old.rename(old.with_name(f"{old.name}.before-{now}"))


def _is_unfinished(database: Path) -> bool:
    """Return whether the creation of a database was never finished. Raises FolderError if that
    can't be read."""
    try:
        return is_unused(database)
    except OSError as error:
        raise FolderError(
            f"The database {database} can't be read ({error.strerror}); check that file and its "
            "permissions, or restore a backup with `python main.py restore FILE`."
        ) from None


def _find_bot_files(data: Path) -> list[str]:
    """Return the names in the folder that a bot has left, besides its database."""
    wal = data / f"{DATABASE}-wal"
    names = (*_SIGNS, *(path.name for path in data.glob(f"{MOVED_ASIDE}*")))
    found = [name for name in names if _has_content(data / name)]
    return [*found, wal.name] if _has_content(wal) else found


def _has_content(path: Path) -> bool:
    if path.is_dir():
        return any(path.iterdir())
    return path.is_file() and path.stat().st_size > 0
