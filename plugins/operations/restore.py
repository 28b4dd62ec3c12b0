"""`python main.py restore FILE`: a backup is read as if a stranger had made it.

The manifest shows that nothing was lost or damaged on the way. It can't show who made the backup:
whoever makes a whole one makes its manifest too. So what would give somebody power over the bot
and its machine (code, instructions, settings) comes back only where a person agrees to it.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from msgspec import Struct, field

from bot.data_folder import DATABASE, ENDINGS, MOVED_ASIDE
from bot.progress import Tell, silently
from memory.faults import NO_MEMORY
from memory.file_names import find_fault_here
from memory.record.store import StoreError
from plugins.operations.backup import FORMAT, LEFT_OUT, MANIFEST, BackupError, find_fault, reason
from plugins.operations.record import (
    Carried,
    pause_jobs,
    read_carried,
    take_commands_out,
    take_settings_out,
)

SET_ASIDE = "set-aside"
"""The folder in the data folder for what a backup brought along and nobody agreed to."""
POWERFUL = (
    *("channels.", "hooks", "mcp.", "owners", "plugins_dir", "tools.", "users_may_set"),
    *("telegram.base_url", "telegram.webhook", "web.host", "web.trusted_proxies", "web.url"),
)
"""Settings, or beginnings of their names, that decide what code runs, who may say so, and where
words and tokens go (a telegram.base_url is sent the bot's token)."""
UNREADABLE = (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError)
LEAST_FREE = 100_000_000  # bytes that a restored backup must leave free on the disk
MOST_UNPACKED = 300
"""Times its own size that a backup may have when it is unpacked, beyond 100 MB."""
_WORK = ".parley-restore-"
_OWN = (
    *("audiences", "cache", "logs", "plugins", "quarantine", SET_ASIDE, "skills", "versions"),
    *(DATABASE, MOVED_ASIDE, "terminal_history"),
)
"""The beginnings of the names that a bot gives in its data folder."""
_STAYING = ("lock", "lost+found")
"""The names that stay in a folder that is itself kept: ours, and the file system's own."""
_CHUNK = 1 << 20
_LARGEST_READ = 64 << 20  # bytes that are held in memory at once


class Contents(Struct, frozen=True):
    """The content of a backup besides what was said: files that the bot would run or follow,
    with their SHA-256, and what stands in its database."""

    code: Mapping[str, str] = field(default_factory=dict)
    carried: Carried = field(default_factory=Carried)

    @property
    def powers(self) -> tuple[tuple[str, str, str], ...]:
        """Settings (scope, key, value) that decide what code runs, and who may say so."""
        return tuple(one for one in self.carried.settings if one[1].startswith(POWERFUL))

    @property
    def needs_consent(self) -> bool:
        return bool(self.code or self.powers or self.carried.commands or self.carried.jobs)


class Restored(Struct, frozen=True):
    """The number of files that came back, where the data of before is now (None: there was none),
    what came along, and whether that was set aside."""

    files: int
    moved_aside: Path | None
    contents: Contents
    is_set_aside: bool


def restore(
    source: Path, data: Path, consent: Callable[[Contents], bool], tell: Tell = silently
) -> Restored:
    """Put a backup in the place of the data folder; `tell` hears how many bytes of it are read.
    Raises BackupError.

    What is in the folder is not overwritten but moved aside, beside it, or within it where it can't
    be moved itself. No bot may be running on it. All is checked before anything is changed, and all
    that comes back is for its owner alone. Code and the like are set aside unless whoever restores
    agrees.
    """
    data = data.resolve()  # where it is a link to another disk, it stays one
    try:
        data.parent.mkdir(parents=True, exist_ok=True)
        if _is_foreign(data):
            raise BackupError(
                f"{data} holds files, and no bot's among them, so nothing was restored; name the "
                "folder of the bot, or a new one, with --data DIR."
            )
        stays = data.is_dir() and not _can_be_moved(data)
        place = data if stays else data.parent
        with tempfile.TemporaryDirectory(dir=place, prefix=_WORK) as work:
            unpacked = Path(work, "data")
            unpacked.mkdir(mode=0o700)
            sums = unpack(source, unpacked, tell)
            contents = _contents(unpacked, sums)
            if DATABASE in sums and find_fault(unpacked / DATABASE):
                raise BackupError(
                    f"The database in {source} is damaged; nothing was changed. Take an earlier "
                    "backup."
                )
            is_set_aside = contents.needs_consent and not consent(contents)
            if is_set_aside:
                _set_aside(unpacked, contents)
            if stays:
                moved_aside = _exchange(data, unpacked)
            else:
                moved_aside = _move_aside(data)
                unpacked.rename(data)
    except UNREADABLE:
        raise BackupError(f"{source} is damaged, or not a backup; nothing was changed.") from None
    except MemoryError:
        raise BackupError(f"{source} was not restored: {NO_MEMORY}; nothing was changed.") from None
    except StoreError as error:
        raise BackupError(f"{source} was not restored: {error}; nothing was changed.") from None
    except OSError as error:
        raise BackupError(f"The backup was not restored: {reason(error)}.") from None
    return Restored(len(sums), moved_aside, contents, is_set_aside)


def _contents(folder: Path, sums: Mapping[str, str]) -> Contents:
    code = {name: sums[name] for name in sorted(sums) if _is_code(name)}
    database = folder / DATABASE
    return Contents(code, read_carried(database) if database.exists() else Carried())


def _is_code(name: str) -> bool:
    """Return whether the bot would run a file, or tell the model to follow it."""
    top, *rest = Path(name.casefold()).parts  # there are disks that take "Plugins" for the same
    return top in ("plugins", "skills") or (top == "audiences" and rest[1:2] == ["skills"])


def _set_aside(folder: Path, contents: Contents) -> None:
    aside = folder / SET_ASIDE
    while aside.exists():  # the backup was made where another one had been restored
        aside = aside.with_name(f"{aside.name}-before")
    for name in contents.code:
        _make_folder((aside / name).parent, folder)
        (folder / name).rename(aside / name)
    if powers := contents.powers:
        text = json.dumps([list(one) for one in powers], indent=1)
        _write(io.BytesIO(text.encode()), folder, aside / "settings.json")
        take_settings_out(folder / DATABASE, {key for _, key, _ in powers})
    if commands := contents.carried.commands:
        text = json.dumps([list(one) for one in commands], indent=1)
        _write(io.BytesIO(text.encode("utf-8", "replace")), folder, aside / "commands.json")
        take_commands_out(folder / DATABASE)
    if contents.carried.jobs:
        pause_jobs(folder / DATABASE)


def _is_foreign(data: Path) -> bool:
    """Return whether a folder holds something, and nothing of a bot: somebody meant another one."""
    found = [path.name for path in data.iterdir()] if data.is_dir() else []
    names = [name for name in found if name not in _STAYING and not name.startswith(".")]
    return bool(names) and not any(name.startswith(_OWN) for name in names)


def _move_aside(data: Path) -> Path | None:
    if not data.exists():
        return None
    if data.is_dir() and not {path.name for path in data.iterdir()} - {"lock"}:
        shutil.rmtree(data)  # made by whoever holds it
        return None
    aside = data.with_name(f"{data.name}.{MOVED_ASIDE}{_now()}")
    data.rename(aside)
    return aside


def _now() -> str:
    return f"{datetime.now():%Y%m%d-%H%M%S-%f}"


def _can_be_moved(folder: Path) -> bool:
    """Return whether a folder can get another name: not where a disk or a volume is mounted there,
    nor where nothing may be written beside it, as in a container."""
    try:
        handle, name = tempfile.mkstemp(dir=folder.parent, prefix=_WORK)
    except OSError:
        return False
    os.close(handle)
    beside, within = Path(name), folder / Path(name).name
    try:
        beside.rename(within)
    except OSError as error:
        beside.unlink()
        return error.errno != errno.EXDEV
    within.unlink()
    return True


def _exchange(data: Path, unpacked: Path) -> Path | None:
    """Move all that is in the folder into one within it, and what is unpacked in its place. The
    database goes first and comes last: where this is cut off, no bot begins anew without a word."""
    kept = (MOVED_ASIDE, _WORK)
    old = [p for p in data.iterdir() if p.name not in _STAYING and not p.name.startswith(kept)]
    aside = data / f"{MOVED_ASIDE}{_now()}"
    out = [(path, aside / path.name) for path in sorted(old, key=_is_no_database)]
    new = sorted(unpacked.iterdir(), key=_is_no_database, reverse=True)
    aside.mkdir(mode=0o700)
    done: list[tuple[Path, Path]] = []
    try:
        for move in (*out, *((path, data / path.name) for path in new)):
            move[0].rename(move[1])
            done.append(move)
    except OSError:
        for there, here in reversed(done):
            here.rename(there)
        raise
    finally:
        if not any(aside.iterdir()):
            aside.rmdir()
    return aside if out else None


def _is_no_database(path: Path) -> bool:
    return path.name != DATABASE


class _BoundedReads:
    """The unpacked stream, of which nobody reads more at once than memory has room for."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _LARGEST_READ:
            raise tarfile.ReadError("a header of this size is none")
        return self._stream.read(size)


def unpack(source: Path, folder: Path, tell: Tell = silently) -> dict[str, str]:
    """Write all members below `folder`, checked; return their SHA-256 by name. `tell` hears how
    many bytes are read. Raises BackupError, and what is in UNREADABLE for a file that is
    damaged."""
    sums: dict[str, str] = {}
    manifest = b""
    room, size = _Room(source, folder), source.stat().st_size
    with (
        source.open("rb") as file,
        gzip.GzipFile(fileobj=file) as stream,
        tarfile.open(fileobj=_BoundedReads(stream), mode="r:") as archive,  # type: ignore[call-overload]  # it is only read from
    ):
        for member in archive:
            archive.members = []  # or a million of them fill the memory
            content = archive.extractfile(member) if member.isreg() else None
            if content is None or not _is_inside(member.name, folder) or member.name in sums:
                raise BackupError(
                    f"{source} holds {member.name!r}, which no backup of Parley's does; "
                    "nothing was changed."
                )
            room.take(member.size)
            if member.name == MANIFEST:
                manifest = content.read(_LARGEST_READ)
            else:
                sums[member.name] = _write(content, folder, folder / member.name)
            tell(file.tell(), size)
    _check(source, sums, manifest)
    return sums


class _Room:
    """Counts what is unpacked, and refuses what the disk has no room for, or what no backup is."""

    def __init__(self, source: Path, folder: Path) -> None:
        self._source = source
        self._free = shutil.disk_usage(folder).free - LEAST_FREE
        self._most = source.stat().st_size * MOST_UNPACKED + 100_000_000
        self._taken = 0

    def take(self, size: int) -> None:
        """Count a member. Raises BackupError."""
        self._taken += size + 512
        if self._taken > self._most:
            raise BackupError(
                f"{self._source} unpacks to more than {MOST_UNPACKED} times its size, which no "
                "backup of Parley's does; nothing was changed."
            )
        if self._taken > self._free:
            raise BackupError(
                f"{self._source} needs more space than the disk has. Free some, and try again; "
                "nothing was changed."
            )


def _is_inside(name: str, folder: Path) -> bool:
    path = Path(name)
    is_plain = path.name != "" and ".." not in path.parts and "\0" not in name
    is_plain = is_plain and path.as_posix() == name
    is_inside = is_plain and (folder / path).is_relative_to(folder)  # an absolute one would not be
    return is_inside and path.parts[0] not in _NEVER_SAVED and not find_fault_here(path.parts)


_NEVER_SAVED = frozenset((*LEFT_OUT, *(DATABASE + ending for ending in ENDINGS if ending)))


def _make_folder(folder: Path, top: Path) -> None:
    """Make a folder below `top` and those above it, each for its owner alone."""
    for path in reversed([folder, *folder.parents]):
        if path.is_relative_to(top) and path != top:
            path.mkdir(mode=0o700, exist_ok=True)


def _write(stream: IO[bytes], top: Path, path: Path) -> str:
    _make_folder(path.parent, top)
    sha256 = hashlib.sha256()
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        while content := stream.read(_CHUNK):
            sha256.update(content)
            file.write(content)
    return sha256.hexdigest()


def _check(source: Path, sums: Mapping[str, str], manifest: bytes) -> None:
    try:
        told: Any = json.loads(manifest)
        is_known, expected = told["format"] == FORMAT, told["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BackupError(f"{source} is not a complete backup; nothing was changed.") from None
    if not is_known:
        raise BackupError(f"{source} was made by a newer Parley; install that version first.")
    if expected != sums:
        raise BackupError(f"{source} was changed since it was made; nothing was changed here.")
