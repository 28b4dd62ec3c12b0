"""`python main.py backup FILE` and `restore FILE`: all that is kept, in one file.

The file is a .tar.gz. Its last member is the manifest, which names every other member with its
SHA-256: half a file has none, and is never restored. What is restored, and how, is in
`plugins/operations/restore.py`.
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
from bot.progress import Tell, silently
from memory.record.engines import engine_for

MANIFEST = ".parley-backup.json"
FORMAT = 1
LEFT_OUT = ("logs", "cache", "lock", "lost+found")
"""The names at the top of the data folder that stay behind: they have no worth elsewhere."""


class BackupError(CommandRefused):
    """Nothing was saved or restored. The text says why, and what to do."""


class Saved(Struct, frozen=True):
    """The number of files in a backup, its size in bytes, and what is not in it: links and the
    like, which point to what may not be there where it is restored. `fault` is the damage of the
    database that was copied ("": none)."""

    files: int
    size: int
    left_out: tuple[str, ...]
    fault: str = ""


class SavedDatabase(Struct, frozen=True):
    """The database: the name of its file in the data folder (and in the backup, also where it is
    on a server), and what copies it consistently to a path while the bot may be running."""

    name: str
    copy_to: Callable[[Path], object]
    is_on_server: bool = False


def backup(
    data: Path, target: Path, database: SavedDatabase, version: str, tell: Tell = silently
) -> Saved:
    """Save a data folder, also under a bot that runs; `tell` hears how many bytes are saved. Raises
    BackupError."""
    if not data.is_dir():
        raise BackupError(f"There is no data folder {data}; name it with --data DIR.")
    if target.exists():
        raise BackupError(f"{target} already exists; choose another name.")
    if target.resolve().is_relative_to(data.resolve()):
        raise BackupError(f"{target} is inside the data folder; choose a place outside it.")
    try:
        plain, special = _sort_out(data, database.name)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".parley-backup-") as work:
            unfinished = Path(work, "archive")
            copied = _copy(data, database, Path(work))
            fault = find_fault(Path(work, "database")) if copied else ""
            members = {**copied, **plain}
            files = _pack(unfinished, members, version, tell)
            size = unfinished.stat().st_size
            unfinished.replace(target)
    except OSError as error:
        raise BackupError(f"The backup was not made: {reason(error)}.") from None
    return Saved(files, size, special, fault)


def find_fault(database: Path) -> str:
    """Return the damage of the copy of a database; "" for none."""
    return engine_for(database).find_damage(float("inf"))


def _sort_out(data: Path, database: str) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Return the files of the folder by name, without the database's; and the names of what is no
    file."""
    # A manifest is there where somebody has unpacked a backup by hand; one that is named twice in
    # the next backup would make that one useless.
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
    """All below the data folder but folders, and what stays behind; a link to a folder is not
    followed."""

    def refuse(error: OSError) -> None:
        raise error

    found = []
    for place, folders, files in os.walk(folder, onerror=refuse):
        if Path(place) == folder:  # lost+found is for root alone to look into
            folders[:] = [n for n in folders if not (n in LEFT_OUT or n.startswith(MOVED_ASIDE))]
        links = [name for name in folders if Path(place, name).is_symlink()]
        found += [Path(place, name) for name in (*files, *links)]
    return sorted(found)


def _copy(data: Path, database: SavedDatabase, work: Path) -> dict[str, Path]:
    if not (database.is_on_server or (data / database.name).exists()):
        return {}
    database.copy_to(work / "database")
    return {database.name: work / "database"}


def _pack(target: Path, members: Mapping[str, Path], version: str, tell: Tell) -> int:
    sums: dict[str, str] = {}
    read = _Counting(sum(map(_size, members.values())), tell)
    with target.open("xb") as file:
        target.chmod(0o600)  # it holds what was said
        with tarfile.open(fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
            for name, path in members.items():
                try:
                    sums[name] = _add(archive, name, path, read)
                except FileNotFoundError:
                    continue  # deleted meanwhile by the bot that runs
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
        return 0  # deleted meanwhile


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
    """A stream that hashes and counts what is read of it."""

    def __init__(self, stream: IO[bytes], read: _Counting) -> None:
        self._stream, self._read, self.sha256 = stream, read, hashlib.sha256()

    def read(self, size: int) -> bytes:
        content = self._stream.read(size)
        self.sha256.update(content)
        self._read.add(len(content))
        return content


class _Counting:
    """The bytes that were read so far, of so many."""

    def __init__(self, total: int, tell: Tell) -> None:
        self._done, self._total, self._tell = 0, total, tell

    def add(self, size: int) -> None:
        self._done += size
        self._tell(self._done, self._total)


def reason(error: OSError) -> str:
    """Return why the system refused something, and of which file."""
    what = error.strerror or str(error)
    return f"{error.filename}: {what}" if error.filename else what
