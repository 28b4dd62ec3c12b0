"""`python main.py backup FILE` and `restore FILE`: all that is kept, in one file.

The file is a .tar.gz. Its last member is the manifest, which names every other member with its
SHA-256: half a file has none, and is never restored.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

MANIFEST = ".parley-backup.json"
FORMAT = 1
LEFT_OUT = ("logs", "cache", "lock")
"""What stays behind, at the top of the data folder: it has no worth elsewhere."""
_CHUNK = 1 << 20


class BackupError(Exception):
    """Nothing was saved or restored. The text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Saved:
    """How many files a backup holds, its size in bytes, and what is not in it: links and the like,
    which point to what may not be there where it is restored."""

    files: int
    size: int
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Restored:
    """How many files came back, and where the data of before is now (None: there was none)."""

    files: int
    moved_aside: Path | None


@dataclass(frozen=True, slots=True)
class Database:
    """The database file in the data folder, by its name, and what copies it consistently to a
    path while the bot may be running."""

    name: str
    copy_to: Callable[[Path], None]


def backup(data: Path, target: Path, database: Database, version: str) -> Saved:
    """Save a data folder, also under a bot that runs; raises BackupError."""
    if not data.is_dir():
        raise BackupError(f"There is no data folder {data}; name it with --data DIR.")
    if target.exists():
        raise BackupError(f"{target} is there already; choose another name.")
    if target.resolve().is_relative_to(data.resolve()):
        raise BackupError(f"{target} is inside the data folder; choose a place outside of it.")
    try:
        plain, special = _sorted_out(data, database.name)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".parley-backup-") as work:
            unfinished = Path(work, "archive")
            files = _pack(unfinished, {**_copied(data, database, Path(work)), **plain}, version)
            size = unfinished.stat().st_size
            unfinished.replace(target)
    except OSError as error:
        raise BackupError(f"The backup was not made: {_reason(error)}.") from None
    return Saved(files, size, special)


def _sorted_out(data: Path, database: str) -> tuple[dict[str, Path], tuple[str, ...]]:
    """The files of the folder by name, without the database's; and the names of what is no file."""
    skipped = {*LEFT_OUT, *(database + ending for ending in ("", "-wal", "-shm", "-journal"))}
    found = {path.relative_to(data): path for path in _walked(data)}
    kept = {name.as_posix(): found[name] for name in found if name.parts[0] not in skipped}
    plain = {name: path for name, path in kept.items() if path.is_file() and not path.is_symlink()}
    return plain, tuple(name for name in kept if name not in plain)


def _walked(folder: Path) -> list[Path]:
    """All below a folder but its folders; a link to a folder is not followed."""

    def refuse(error: OSError) -> None:
        raise error

    return sorted(
        Path(place, name)
        for place, folders, files in os.walk(folder, onerror=refuse)
        for name in (*files, *(name for name in folders if Path(place, name).is_symlink()))
    )


def _copied(data: Path, database: Database, work: Path) -> dict[str, Path]:
    if not (data / database.name).exists():
        return {}
    database.copy_to(work / "database")
    return {database.name: work / "database"}


def _pack(target: Path, members: Mapping[str, Path], version: str) -> int:
    sums: dict[str, str] = {}
    with target.open("xb") as file:
        os.fchmod(file.fileno(), 0o600)  # it holds what was said
        with tarfile.open(fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
            for name, path in members.items():
                try:
                    sums[name] = _add(archive, name, path)
                except FileNotFoundError:
                    continue  # deleted meanwhile by the bot that runs
            manifest = _manifest(sums, version)
            _add_stream(archive, MANIFEST, io.BytesIO(manifest), len(manifest))
        file.flush()
        os.fsync(file.fileno())
    return len(sums)


def _manifest(sums: Mapping[str, str], version: str) -> bytes:
    made = datetime.now(UTC).isoformat(timespec="seconds")
    content = {"format": FORMAT, "parley": version, "made": made, "sha256": sums}
    return json.dumps(content, indent=1).encode()


def _add(archive: tarfile.TarFile, name: str, path: Path) -> str:
    with path.open("rb") as stream:
        return _add_stream(archive, name, stream, os.fstat(stream.fileno()).st_size)


def _add_stream(archive: tarfile.TarFile, name: str, stream: IO[bytes], size: int) -> str:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    hashing = _Hashing(stream)
    archive.addfile(member, hashing)  # type: ignore[arg-type]  # it is only read from
    return hashing.sha256.hexdigest()


class _Hashing:
    """A stream that hashes what is read of it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self.sha256 = stream, hashlib.sha256()

    def read(self, size: int) -> bytes:
        content = self._stream.read(size)
        self.sha256.update(content)
        return content


def restore(source: Path, data: Path) -> Restored:
    """Put a backup in the place of the data folder; raises BackupError.

    What is in the folder is not overwritten but moved aside. No bot may be running on it. All is
    checked before anything is changed.
    """
    data = data.absolute()
    try:
        data.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=data.parent, prefix=".parley-restore-") as work:
            unpacked = Path(work, "data")
            unpacked.mkdir()
            files = _unpack(source, unpacked)
            moved_aside = _move_aside(data)
            unpacked.rename(data)
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError):
        raise BackupError(f"{source} is damaged or no backup; nothing was changed.") from None
    except OSError as error:
        raise BackupError(f"The backup was not restored: {_reason(error)}.") from None
    return Restored(files, moved_aside)


def _move_aside(data: Path) -> Path | None:
    if not data.exists():
        return None
    if data.is_dir() and not any(data.iterdir()):
        data.rmdir()
        return None
    aside = data.with_name(f"{data.name}.before-restore-{datetime.now():%Y%m%d-%H%M%S-%f}")
    data.rename(aside)
    return aside


def _unpack(source: Path, folder: Path) -> int:
    """Write all members below `folder`, checked; returns how many."""
    sums: dict[str, str] = {}
    manifest = b""
    with tarfile.open(source, "r:gz") as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isreg() else None
            if stream is None or not _is_inside(member.name, folder) or member.name in sums:
                raise BackupError(f"{source} holds {member.name!r}, which no backup does; refused.")
            if member.name == MANIFEST:
                manifest = stream.read()
            else:
                sums[member.name] = _write(stream, folder / member.name)
    _check(source, sums, manifest)
    return len(sums)


def _is_inside(name: str, folder: Path) -> bool:
    path = Path(name)
    is_plain = path.name != "" and ".." not in path.parts and path.as_posix() == name
    return is_plain and (folder / path).is_relative_to(folder)  # an absolute one would not be


def _write(stream: IO[bytes], path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    sha256 = hashlib.sha256()
    with path.open("xb") as file:
        while content := stream.read(_CHUNK):
            sha256.update(content)
            file.write(content)
    return sha256.hexdigest()


def _check(source: Path, sums: Mapping[str, str], manifest: bytes) -> None:
    try:
        told: Any = json.loads(manifest)
        is_known, expected = told["format"] == FORMAT, told["sha256"]
    except (ValueError, KeyError, TypeError):
        raise BackupError(f"{source} is not a whole backup; nothing was changed.") from None
    if not is_known:
        raise BackupError(f"{source} was made by a newer Parley; install that one first.")
    if expected != sums:
        raise BackupError(f"{source} was changed since it was made; nothing was changed here.")


def _reason(error: OSError) -> str:
    what = error.strerror or str(error)
    return f"{error.filename}: {what}" if error.filename else what
