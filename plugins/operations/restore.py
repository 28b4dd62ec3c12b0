"""`python main.py restore FILE`: a backup is treated as if a stranger had made it.

The manifest shows that no data was lost or damaged. It can't show who made the backup: anyone who
makes one also makes its manifest. So data that grants power over the bot and its machine (code,
instructions, settings) is restored only with a person's consent.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import shlex
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
from memory.faults import NO_MEMORY
from memory.keys import find_fault_here, find_same
from memory.record.store import StoreError
from memory.tasks import SILENT, TaskProgress
from plugins.operations.backup import FORMAT, LEFT_OUT, MANIFEST, BackupError, find_fault, reason
from plugins.operations.record import (
    CarriedSettings,
    delete_settings,
    delete_waiting_commands,
    pause_jobs,
    read_carried,
)

SET_ASIDE = "set-aside"
"""The folder in the data folder for restored data without consent."""
POWERFUL = (
    *("channels.", "hooks", "mcp.", "owners", "plugins_dir", "tools.", "users_may_set"),
    *("telegram.base_url", "telegram.webhook", "web.host", "web.trusted_proxies", "web.url"),
)
"""Settings, or prefixes of their names, that decide which code runs, who controls it, and where
texts and tokens are sent (the bot's token is sent to telegram.base_url)."""
UNREADABLE = (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError)
LEAST_FREE = 100_000_000  # bytes that must remain free on the disk after a restore
MOST_UNPACKED = 300
"""The maximum ratio of a backup's unpacked size to its own, beyond 100 MB."""
_WORK = ".parley-restore-"
_OWN = (
    *("audiences", "cache", "logs", "plugins", "quarantine", SET_ASIDE, "skills", "versions"),
    *(DATABASE, MOVED_ASIDE, "terminal_history"),
)
"""The prefixes of the names that a bot creates in its data folder."""
_STAYING = ("lock", "lost+found")
"""The names that stay in a folder that is itself kept: the bot's, and the file system's."""
_CHUNK = 1 << 20
_LARGEST_READ = 64 << 20  # the maximum of bytes held in memory at once


class Contents(Struct, frozen=True):
    """The content of a backup besides messages: files that the bot would run or follow, with their
    SHA-256, and the powerful parts of its database."""

    code: Mapping[str, str] = field(default_factory=dict)
    carried: CarriedSettings = field(default_factory=CarriedSettings)

    @property
    def powers(self) -> tuple[tuple[str, str, str], ...]:
        """Settings (scope, key, value) that decide which code runs, and who controls it."""
        return tuple(one for one in self.carried.settings if one[1].startswith(POWERFUL))

    @property
    def needs_consent(self) -> bool:
        return bool(self.code or self.powers or self.carried.commands or self.carried.jobs)


class RestoreResult(Struct, frozen=True):
    """The number of restored files, the place of the previous data (None: there was none), the
    backup's content, and whether it was set aside."""

    files: int
    moved_aside: Path | None
    contents: Contents
    is_set_aside: bool


def restore(
    source: Path, data: Path, consent: Callable[[Contents], bool], progress: TaskProgress = SILENT
) -> RestoreResult:
    """Replace the data folder by a backup; `progress` gets the number of bytes read. Raises
    BackupError.

    The existing folder is not overwritten but moved aside, beside itself, or, if it can't be moved,
    its content is moved within it. No bot may be running on it. Everything is checked before
    anything is changed, and all restored files are readable by their owner only. Code and similar
    data are set aside without `consent`.
    """
    data = data.resolve()  # a link to another disk stays a link
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
            sums = unpack(source, unpacked, progress)
            contents = _contents(unpacked, sums)
            if DATABASE in sums and find_fault(unpacked / DATABASE):
                raise BackupError(
                    f"The database in {source} is damaged; nothing was changed. Take an earlier "
                    "backup. If you have none, unpack this one into a new folder: `tar -xzf "
                    f"{shlex.quote(str(source))} -C FOLDER`. Its other files are whole, and "
                    f"`sqlite3 FOLDER/{DATABASE} .dump` prints what can be read of the database. "
                    "The page “Troubleshooting” lists all steps."
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
    return RestoreResult(len(sums), moved_aside, contents, is_set_aside)


def _contents(folder: Path, sums: Mapping[str, str]) -> Contents:
    code = {name: sums[name] for name in sorted(sums) if _is_code(name)}
    database = folder / DATABASE
    return Contents(code, read_carried(database) if database.exists() else CarriedSettings())


def _is_code(name: str) -> bool:
    """Return whether the bot would run a file, or tell the model to follow it."""
    top, *rest = Path(name.casefold()).parts  # some disks treat "Plugins" as the same name
    return top in ("plugins", "skills") or (top == "audiences" and rest[1:2] == ["skills"])


def _set_aside(folder: Path, contents: Contents) -> None:
    aside = folder / SET_ASIDE
    while aside.exists():  # the backup itself was made after a restore
        aside = aside.with_name(f"{aside.name}-before")
    for name in contents.code:
        _make_folder((aside / name).parent, folder)
        (folder / name).rename(aside / name)
    if powers := contents.powers:
        text = json.dumps([list(one) for one in powers], indent=1)
        _write(io.BytesIO(text.encode()), folder, aside / "settings.json")
        delete_settings(folder / DATABASE, {key for _, key, _ in powers})
    if commands := contents.carried.commands:
        text = json.dumps([list(one) for one in commands], indent=1)
        _write(io.BytesIO(text.encode("utf-8", "replace")), folder, aside / "commands.json")
        delete_waiting_commands(folder / DATABASE)
    if contents.carried.jobs:
        pause_jobs(folder / DATABASE)


def _is_foreign(data: Path) -> bool:
    """Return whether a folder has files, but none of a bot: probably the wrong folder."""
    found = [path.name for path in data.iterdir()] if data.is_dir() else []
    names = [name for name in found if name not in _STAYING and not name.startswith(".")]
    return bool(names) and not any(name.startswith(_OWN) for name in names)


def _move_aside(data: Path) -> Path | None:
    if not data.exists():
        return None
    if data.is_dir() and not {path.name for path in data.iterdir()} - {"lock"}:
        shutil.rmtree(data)  # created by the process that locks it
        return None
    aside = data.with_name(f"{data.name}.{MOVED_ASIDE}{_now()}")
    data.rename(aside)
    return aside


def _now() -> str:
    return f"{datetime.now():%Y%m%d-%H%M%S-%f}"


def _can_be_moved(folder: Path) -> bool:
    """Return whether a folder can be renamed: not if a disk or a volume is mounted there, or if its
    parent can't be written, as in a container."""
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
    """Move the content of the folder into a folder within it, and the unpacked data in its place.
    The database is moved out first and in last, so that after an interruption no bot silently
    starts with an empty one."""
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
    """The unpacked stream, with a limit on the size of a read."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _LARGEST_READ:
            raise tarfile.ReadError("a header of this size is none")
        return self._stream.read(size)


def unpack(source: Path, folder: Path, progress: TaskProgress = SILENT) -> dict[str, str]:
    """Write all members below `folder`, checked; return their SHA-256 by name. `progress` is called
    with the number of bytes read. Raises BackupError, and the errors in UNREADABLE for a damaged
    file."""
    sums: dict[str, str] = {}
    manifest = b""
    room, size = _UnpackedSize(source, folder), source.stat().st_size
    with (
        source.open("rb") as file,
        gzip.GzipFile(fileobj=file) as stream,
        tarfile.open(fileobj=_BoundedReads(stream), mode="r:") as archive,  # type: ignore[call-overload]  # it is only read from
    ):
        for member in archive:
            archive.members = []  # a million of them would fill the memory
            content = archive.extractfile(member) if member.isreg() else None
            if content is None or not _is_inside(member.name, folder) or member.name in sums:
                raise BackupError(
                    f"{source} holds {member.name!r}, which no backup of Parley's does; "
                    "nothing was changed."
                )
            if fault := find_fault_here(Path(member.name).parts):
                raise BackupError(
                    f"{source} has the file {member.name!r}, which can't be one on Windows: "
                    f"{fault}. Rename it where the backup was made, and make another; nothing was "
                    "changed."
                )
            room.take(member.size)
            if member.name == MANIFEST:
                manifest = content.read(_LARGEST_READ)
            else:
                try:
                    sums[member.name] = _write(content, folder, folder / member.name)
                except FileExistsError:
                    if not (other := find_same(member.name, sums)):
                        raise
                    raise BackupError(
                        f"{source} has the files {other!r} and {member.name!r}, which are one file "
                        "on this disk. Rename one where the backup was made, and make another; "
                        "nothing was changed."
                    ) from None
            progress.show_progress(file.tell(), size)
    _check(source, sums, manifest)
    return sums


class _UnpackedSize:
    """Counts the unpacked bytes, and refuses a backup that exceeds the disk or a plausible size."""

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
    is_inside = is_plain and (folder / path).is_relative_to(folder)
    return is_inside and path.parts[0] not in _NEVER_SAVED


_NEVER_SAVED = frozenset((*LEFT_OUT, *(DATABASE + ending for ending in ENDINGS if ending)))


def _make_folder(folder: Path, top: Path) -> None:
    """Create a folder below `top` and its parents, each accessible to its owner only."""
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
        data: Any = json.loads(manifest)
        is_known, expected = data["format"] == FORMAT, data["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BackupError(f"{source} is not a complete backup; nothing was changed.") from None
    if not is_known:
        raise BackupError(f"{source} was made by a newer Parley; install that version first.")
    if expected != sums:
        raise BackupError(f"{source} was changed since it was made; nothing was changed here.")
