"""`python main.py backup FILE` and `restore FILE`: all stored data in one file.

The file is a .tar.gz. Its last member is the manifest, which names every other member with its
SHA-256. An incomplete file has no manifest and is never restored. `plugins/operations/restore.py`
describes what is restored, and how.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from msgspec import Struct

from bot.command_line import CommandRefused
from bot.data_folder import MOVED_ASIDE
from memory.record.engines import engine_for
from memory.tasks import SILENT, TaskProgress

MANIFEST = ".parley-backup.json"
FORMAT = 1
LEFT_OUT = ("logs", "cache", "lock", "lost+found")
"""The top-level names in the data folder that are not saved: they are useless elsewhere."""


class BackupError(CommandRefused):
    """Nothing was saved or restored. The text says why, and what to do."""


class BackupResult(Struct, frozen=True):
    """The number of files in a backup, its size in bytes, and the omitted paths: links and other
    special files, whose targets may be missing after a restore. `fault` is the damage of the copied
    database ("": none)."""

    files: int
    size: int
    left_out: tuple[str, ...]
    fault: str = ""


class SavedDatabase(Struct, frozen=True):
    """The database: the name of its file in the data folder (and in the backup, even if it is on a
    server), and a function that copies it consistently to a path while the bot may be running."""

    name: str
    copy_to: Callable[[Path], object]
    is_on_server: bool = False


def backup(
    data: Path, target: Path, database: SavedDatabase, version: str, progress: TaskProgress = SILENT
) -> BackupResult:
    """Save a data folder, also of a running bot; `progress` gets the number of bytes saved.
    Raises BackupError."""
    if not data.is_dir():
        raise BackupError(f"There is no data folder {data}; name it with --data DIR.")
    if target.exists():
        raise BackupError(f"{target} already exists; choose another name.")
    if not target.parent.is_dir():
        raise BackupError(f"There is no folder {target.parent}; create it, or name another.")
    if target.resolve().is_relative_to(data.resolve()):
        raise BackupError(f"{target} is inside the data folder; choose a place outside it.")
    try:
        plain, special = _classify_files(data, database.name)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".parley-backup-") as work:
            unfinished = Path(work, "archive")
            copied = _copy(data, database, Path(work))
            fault = find_fault(Path(work, "database")) if copied else ""
            members = {**copied, **plain}
            files = _pack(unfinished, members, version, progress)
            size = unfinished.stat().st_size
            unfinished.replace(target)
    except OSError as error:
        raise BackupError(f"The backup was not made: {reason(error)}.") from None
    return BackupResult(files, size, special, fault)


def find_fault(database: Path) -> str:
    """Return the damage of a database copy; "" for none."""
    return engine_for(database).find_damage(float("inf"))


def _classify_files(data: Path, database: str) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Return the files of the folder by name, without the database's, and the names of paths that
    are not regular files."""
    # There is a manifest if somebody has unpacked a backup by hand; a second one in the next backup
    # would make that backup useless.
    skipped = {
        MANIFEST,
        *LEFT_OUT,
        *(database + ending for ending in ("", "-wal", "-shm", "-journal")),
    }
    found = {path.relative_to(data): path for path in _walk(data)}
    kept = {name.as_posix(): found[name] for name in found if name.parts[0] not in skipped}
    plain = {name: path for name, path in kept.items() if path.is_file() and not path.is_symlink()}
    return plain, tuple(name for name in kept if name not in plain)


def _walk(folder: Path) -> list[Path]:
    """Return all files below the data folder, without the omitted names; links to folders are not
    followed."""

    def refuse(error: OSError) -> None:
        raise error

    found = []
    for place, folders, files in os.walk(folder, onerror=refuse):
        if Path(place) == folder:  # only root may read lost+found
            folders[:] = [n for n in folders if not (n in LEFT_OUT or n.startswith(MOVED_ASIDE))]
        links = [name for name in folders if Path(place, name).is_symlink()]
        found += [Path(place, name) for name in (*files, *links)]
    return sorted(found)


def _copy(data: Path, database: SavedDatabase, work: Path) -> dict[str, Path]:
    if not (database.is_on_server or (data / database.name).exists()):
        return {}
    database.copy_to(work / "database")
    return {database.name: work / "database"}


def _pack(target: Path, members: Mapping[str, Path], version: str, progress: TaskProgress) -> int:
    sums: dict[str, str] = {}
    read = _Counting(sum(map(_size, members.values())), progress)
    with target.open("xb") as file:
        target.chmod(0o600)  # it contains messages
        with tarfile.open(fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
            for name, path in members.items():
                try:
                    sums[name] = _add(archive, name, path, read)
                except FileNotFoundError:
                    continue  # deleted by the running bot
            manifest = _manifest(sums, version)
            _add_stream(archive, MANIFEST, io.BytesIO(manifest), len(manifest), read)
        file.flush()
        os.fsync(file.fileno())
    return len(sums)


def _manifest(sums: Mapping[str, str], version: str) -> bytes:
    made = datetime.now(UTC).isoformat(timespec="seconds")
    content = {"format": FORMAT, "parley": version, "made": made, "sha256": sums}
    return json.dumps(content, indent=1).encode()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # deleted in the meantime


def _add(archive: tarfile.TarFile, name: str, path: Path, read: _Counting) -> str:
    with path.open("rb") as stream:
        return _add_stream(archive, name, stream, os.fstat(stream.fileno()).st_size, read)


def _add_stream(
    archive: tarfile.TarFile, name: str, stream: IO[bytes], size: int, read: _Counting
) -> str:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    hashing = _Hashing(stream, read)
    archive.addfile(member, hashing)  # type: ignore[arg-type]  # it is only read from
    return hashing.sha256.hexdigest()


class _Hashing:
    """A stream that hashes and counts the bytes read from it."""

    def __init__(self, stream: IO[bytes], read: _Counting) -> None:
        self._stream, self._read, self.sha256 = stream, read, hashlib.sha256()

    def read(self, size: int) -> bytes:
        content = self._stream.read(size)
        self.sha256.update(content)
        self._read.add(len(content))
        return content


class _Counting:
    """The progress of the bytes read so far."""

    def __init__(self, total: int, progress: TaskProgress) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def add(self, size: int) -> None:
        self._done += size
        self._progress.show_progress(self._done, self._total)


def reason(error: OSError) -> str:
    """Return the reason of a system error, with its file."""
    what = error.strerror or str(error)
    return f"{error.filename}: {what}" if error.filename else what
