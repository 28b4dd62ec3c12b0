"""Files of other programs, read within limits: whatever their content, reading ends, and errors are
sentences.

Nothing is unpacked to disk: a ZIP is read member by member, so that no name in it can escape. JSON
is read incrementally, so that its length costs no memory.
"""

from __future__ import annotations

import lzma
import os
import re
import stat
import sys
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path, PurePath, PurePosixPath
from typing import IO, Any, Protocol

import orjson

from memory.faults import describe_fault
from memory.record.folders import NO_WAIT
from plugins.moving.source import TOO_LARGE, MovingError, UnreadableChat, UnreadableFile

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


BROKEN_ZSTD = (zstd.ZstdError, EOFError)


def open_packed(file: IO[bytes]) -> zstd.ZstdFile:
    """Return a decompressed file; reading it may raise BROKEN_ZSTD."""
    return zstd.ZstdFile(file)


def unpack(data: bytes, most: int) -> bytes | None:
    """Return the decompressed data; None if it is damaged, or larger than `most` bytes."""
    unpacker = zstd.ZstdDecompressor()
    try:
        found = unpacker.decompress(data, max_length=most + 1)
    except (*BROKEN_ZSTD, MemoryError):
        return None
    return found if unpacker.eof and len(found) <= most else None


MOST_JSON = 8_000_000_000
"""The maximum size of a JSON file in bytes; one with a million long messages has two thousand
million."""
MOST_PIECE = 150_000_000
"""The maximum memory in bytes for one entry of a JSON file (`estimate_memory`); larger ones are
skipped."""
MOST_LINES = 2 * MOST_PIECE
"""The maximum memory in bytes for the lines of a file together, with an overhead for each."""
_LINE = 100
MOST_TEXT = 2_000_000
"""The maximum size of any other text in bytes."""
MOST_PICTURE = 20_000_000
MOST_FILES = 200_000
_MOST_RATIO = 400  # of unpacked to packed size; of texts it is 5 to 30
LEVELS = 4  # of folders that are searched
_PASSED_OVER = frozenset({".git", "node_modules", "venv", ".venv", "__pycache__"})
"""Folders of tools, with more files than the data to import."""
_BROKEN_ZIP = (
    *BROKEN_ZSTD,
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    RuntimeError,  # it requires a password
    NotImplementedError,
    zlib.error,
    lzma.LZMAError,
    ValueError,
    OSError,
    MemoryError,
)


class Readable(Protocol):
    """A file whose next bytes can be read."""

    def read(self, size: int, /) -> bytes: ...


class Archive:
    """Files by their names: in a folder, in a ZIP, or a single one. Links are not followed."""

    def __init__(self, path: Path, levels: int = LEVELS) -> None:
        self.path = path
        self._zip: zipfile.ZipFile | None = None
        self._files: dict[str, Path] = {}
        self._members: dict[str, zipfile.ZipInfo] = {}
        try:
            if path.is_dir():
                self._files = dict(_walk(path.resolve(), levels))
            elif not path.is_file():
                raise MovingError(f"There is nothing at {path}; name the file or the folder.")
            elif zipfile.is_zipfile(path):
                self._zip = zipfile.ZipFile(path)
                infos = self._zip.infolist()
                _check_number(len(infos), path)
                named = ((one.filename.replace("\\", "/"), one) for one in infos)  # from Windows
                self._members = {
                    name: one
                    for name, one in named
                    if not (name.endswith("/") or _is_macos_sidecar(PurePosixPath(name)))
                }
            elif _begins_as_zip(path):
                raise MovingError(
                    f"{path} is an incomplete or damaged ZIP; download or copy it again."
                )
            else:
                self._files = {path.name: path.resolve()}
        except _BROKEN_ZIP as error:
            raise MovingError(f"{path} can't be read: {describe_fault(error)}.") from None

    @property
    def names(self) -> Sequence[str]:
        """Return the names of all files, with slashes, sorted."""
        return sorted([*self._files, *self._members])

    def has(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        return name in self._files or name in self._members

    def find(self, name: str) -> str:
        """Return the file of this name that is nearest to the top; "" if there is none."""
        found = [one for one in self.names if PurePosixPath(one).name.lower() == name.lower()]
        return min(found, key=lambda one: (one.count("/"), one), default="")

    def place(self, name: str) -> Path | None:
        """Return the path of a file; None for one in a ZIP."""
        return self._files.get(name)

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file of the archive. Raises MovingError, also while the file is read."""
        try:
            if self._zip is not None:
                info = self._members[name]
                _check_ratio(info)
                with self._zip.open(info) as member:
                    yield member
            else:
                with open(os.open(self._files[name], os.O_RDONLY | NO_WAIT), "rb") as file:
                    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                        raise MovingError(f"{name} in {self.path} is not a regular file.")
                    yield file
        except _BROKEN_ZIP as error:
            why = describe_fault(error)
            raise UnreadableFile(f"{name} in {self.path} can't be read: {why}.", why) from None

    def read(self, name: str, most: int) -> bytes | None:
        """Return the content of a small file; None if it is larger. Raises MovingError."""
        with self.open(name) as file:
            content = file.read(most + 1)
        return content if len(content) <= most else None

    def text(self, name: str) -> str | None:
        """Return the text of a small file; None if it is larger, or not text."""
        content = self.read(name, MOST_TEXT)
        try:
            return None if content is None else content.decode("utf-8-sig")
        except UnicodeDecodeError:
            return None

    def json(self, name: str) -> Any:
        """Parse a small JSON file; return None if it is larger, or not JSON."""
        content = self.read(name, MOST_TEXT)
        return None if content is None else load_json(content.removeprefix(b"\xef\xbb\xbf"))

    def entries(self, name: str) -> Iterator[Any]:
        """Yield the entries of a JSON list, one by one; None for an unreadable entry,
        UnreadableChat for one that is too large. Any other JSON value is the only entry. Raises
        MovingError."""
        where = f"{name} in {self.path}" if name != self.path.name else str(self.path)
        with self.open(name) as file:
            for piece in _split(_Metered(file, where), where):
                yield UnreadableChat(TOO_LARGE) if piece is None else load_json(piece)

    def count_entries(self, names: Sequence[str]) -> int:
        """Return the number of entries of some JSON lists, for a progress line: an unreadable file
        has none. They are not parsed, so it takes little of the time of an import."""
        number = 0
        for name in names:
            with suppress(MovingError), self.open(name) as file:
                number += sum(1 for _ in _split(_Metered(file, name), name))
        return number

    def lines(self, name: str) -> Iterator[Any]:
        """Yield the objects of a file with one per line, compressed by zstd or not; None for a
        damaged line, and UnreadableChat, as the last item, if the file is too large or can't be
        read. Raises MovingError."""
        try:
            yield from self._lines(name)
        except UnreadableFile as error:
            yield UnreadableChat(error.why)

    def _lines(self, name: str) -> Iterator[Any]:
        with self.open(name) as packed:
            file: Readable = open_packed(packed) if name.endswith(".zst") else packed
            piece, weight = bytearray(), 0
            for chunk in chain(_Metered(file, name).chunks(), [b"\n"]):
                weight += estimate_memory(chunk) + _LINE * chunk.count(b"\n")
                if weight > MOST_LINES:
                    yield UnreadableChat(TOO_LARGE)
                    return
                *whole, rest = chunk.split(b"\n")
                if whole:
                    yield from map(_load_object, filter(bytes.strip, [bytes(piece + whole[0])]))
                    yield from map(_load_object, filter(bytes.strip, whole[1:]))
                    piece.clear()
                piece += rest

    def close(self) -> None:
        if self._zip is not None:
            self._zip.close()


class _Metered:
    """A file without its byte order mark, of which a limited amount is read."""

    def __init__(self, file: Readable, name: str) -> None:
        self._file, self._name = file, name
        self._whole = 0

    def chunks(self) -> Iterator[bytes]:
        """Yield its content in pieces. Raises MovingError."""
        while data := self._file.read(_CHUNK):
            if not self._whole:
                data = data.removeprefix(b"\xef\xbb\xbf").lstrip() or b" "
            self._whole += len(data)
            if self._whole > MOST_JSON:
                raise MovingError(f"{self._name} can't be imported: it is {TOO_LARGE} there.")
            yield data


_CHUNK = 262_144
_IN_TEXT = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_OUTSIDE = re.compile(rb'["\[\]{}]')
_AT_TOP = re.compile(rb'["\[\]{},]')


def _split(file: _Metered, name: str) -> Iterator[bytes | None]:
    """Yield the encoded entries of a list, each as soon as it is complete, and None for one that is
    too large. For any other value, yield all of it. Raises MovingError."""
    chunks, splitter = file.chunks(), _ListSplitter()
    first = next(chunks, b"")
    if not first.startswith(b"["):
        whole = _join(first, chunks)
        if whole is None:
            yield None
            return
        if load_json(whole) is None:
            raise _damaged(name, "damaged")
        yield whole
        return
    for chunk in chain([first[1:]], chunks):
        yield from splitter.feed(chunk)
    if not splitter.is_over:
        raise _damaged(name, "incomplete")


def _damaged(name: str, how: str) -> UnreadableFile:
    return UnreadableFile(f"{name} is {how}, or not a JSON file. Export it again.", f"it is {how}")


def _join(first: bytes, chunks: Iterator[bytes]) -> bytes | None:
    """Return the content of a file; None if it is too large."""
    whole, weight = bytearray(first), estimate_memory(first)
    for chunk in chunks:
        whole += chunk
        weight += estimate_memory(chunk)
        if weight > MOST_PIECE:
            return None
    return bytes(whole)


class _ListSplitter:
    """A parser that finds the ends of a list's entries in linear time, however deep the nesting and
    however long a text. (ijson's memory grows with the square of the depth, and its time with that
    of a text's length.) An entry that is too large is not kept in memory."""

    def __init__(self) -> None:
        self._piece, self._weight = bytearray(), 0
        self._depth, self._is_in_text, self._is_escaped = 0, False, False
        self.is_over = False

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        """Yield the entries that are complete with this piece of the file; None for one that is too
        large."""
        at = start = 0
        while at < len(chunk) and not self.is_over:
            if self._is_in_text:
                at = self._skip_text(chunk, at)
                continue
            token = (_OUTSIDE if self._depth else _AT_TOP).search(chunk, at)
            if token is None:
                break
            at = token.end()
            if self._ends_entry(token[0]):
                self._keep(chunk[start : at - 1])
                if self._weight > MOST_PIECE:
                    yield None
                elif self._piece.strip():
                    yield bytes(self._piece)
                self._piece.clear()
                self._weight = 0
                start, self.is_over = at, token[0] != b","
        self._keep(chunk[start:])

    def _keep(self, part: bytes) -> None:
        self._weight += estimate_memory(part)
        if self._weight > MOST_PIECE:
            self._piece = bytearray()
        else:
            self._piece += part

    def _skip_text(self, chunk: bytes, at: int) -> int:
        """Return the position after the end of the text that continues here, or the end of the
        chunk."""
        found = _IN_TEXT.match(chunk, at + self._is_escaped)
        end = found.end() if found else len(chunk)
        self._is_escaped = False
        if end < len(chunk):
            self._is_in_text = chunk[end : end + 1] != b'"'
            self._is_escaped = self._is_in_text  # by a backslash at the end of the chunk
        return end + 1

    def _ends_entry(self, sign: bytes) -> bool:
        if sign == b'"':
            self._is_in_text = True
        elif sign in b"[{":
            self._depth += 1
        elif self._depth:
            self._depth -= 1
        else:
            return True
        return False


def _load_object(line: bytes) -> Any:
    found = load_json(line)
    return found if isinstance(found, dict) else None


def load_json(data: object) -> Any:
    """Parse JSON from bytes or text; return None if it is too large, too deep, or invalid. (A
    database may contain a number where a text is expected.)"""
    content = data.encode("utf-8", "replace") if isinstance(data, str) else data
    if not isinstance(content, bytes) or estimate_memory(content) > MOST_PIECE:
        return None
    try:
        return orjson.loads(content)
    except (orjson.JSONDecodeError, MemoryError):
        pass
    try:
        return orjson.loads(_ESCAPE.sub(_replace_half, content))
    except (orjson.JSONDecodeError, MemoryError):
        return None


_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)


def _replace_half(escape: re.Match[bytes]) -> bytes:
    """Return the replacement of a lone surrogate, which remains if a program truncates a text
    within an emoji."""
    return rb"\ufffd" if escape["half"] else escape[0]


def estimate_memory(data: bytes) -> int:
    """Return an upper estimate of the memory in bytes that a piece of JSON takes."""
    return len(data) + 150 * (data.count(b"[") + data.count(b"{")) + 30 * data.count(b'"')


def _walk(folder: Path, levels: int) -> Iterator[tuple[str, Path]]:
    """Yield the files in a folder and its subfolders, without links."""
    waiting, count = [(folder, 0)], 0
    while waiting:
        place, level = waiting.pop()
        with os.scandir(place) as found:
            for entry in found:
                count += 1
                _check_number(count, folder)
                path = Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    if level < levels and entry.name not in _PASSED_OVER:
                        waiting.append((path, level + 1))
                elif entry.is_file(follow_symlinks=False) and not _is_macos_sidecar(path):
                    yield path.relative_to(folder).as_posix(), path


def _is_macos_sidecar(path: PurePath) -> bool:
    """Return whether a file is one that macOS has added to store another file's attributes."""
    return path.name.startswith("._") or "__MACOSX" in path.parts


def _begins_as_zip(path: Path) -> bool:
    """Return whether a file was once a ZIP; the directory of a ZIP is at its end."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _check_number(count: int, path: Path) -> None:
    if count > MOST_FILES:
        raise MovingError(
            f"{path} holds more than {MOST_FILES:,} files, so it is not what a program has "
            "exported; name the right folder."
        )


def _check_ratio(info: zipfile.ZipInfo) -> None:
    if info.file_size > MOST_PICTURE and info.file_size > _MOST_RATIO * info.compress_size:
        raise MovingError(
            f"{info.filename} would be {info.file_size / 1e6:,.0f} MB unpacked, out of "
            f"{info.compress_size / 1e6:,.1f} MB: that is no export, so nothing more is read."
        )
