"""The faults of a file or a server, in words of our own. What a library says ("[Errno 28]
…", "file is not a database", "xmlCtxtSetMaxAmplification") is for the log, and reaches nobody else.
"""

from __future__ import annotations

import errno
import logging
import socket
import sqlite3
import ssl
import zipfile
from collections.abc import Callable, Iterator, Sequence

log = logging.getLogger(__name__)

NO_MEMORY = "there is not enough memory for it"
TOO_LARGE = "it is too large"
DAMAGED = "it is damaged"
LOCKED = "it wants a password"
NOT_PERMITTED = "the system does not permit it"
DISK_FULL = "the disk is full"
NO_DISK = "the disk does not work as it should"
TOO_SLOW = "it took too long"
IN_USE = "another program is using it"
NOT_THERE = "there is no such file"
NO_FILE = "it is not a regular file"
NO_NAME = "there is no server of this name"
NOT_TRUSTED = "its certificate can't be trusted"
UNREACHABLE = "it can't be reached"
BROKE_OFF = "the connection broke"
UNKNOWN_PACKING = "it is packed in a way that Parley does not know"
STRANGE_ANSWER = "its answer can't be understood"

_NUMBERS: dict[int, str] = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), DISK_FULL),
    **dict.fromkeys((errno.EIO, errno.EUCLEAN, errno.ESTALE), NO_DISK),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), NOT_PERMITTED),
    **dict.fromkeys((errno.ENOENT, errno.ENXIO), NOT_THERE),
    **dict.fromkeys((errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG), NO_FILE),
    **dict.fromkeys((errno.EFBIG, errno.EOVERFLOW), TOO_LARGE),
    **dict.fromkeys((errno.EBUSY, errno.ETXTBSY), IN_USE),
    **dict.fromkeys((errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED), BROKE_OFF),
    **dict.fromkeys((errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH), UNREACHABLE),
    errno.ENOMEM: NO_MEMORY,
    errno.ETIMEDOUT: TOO_SLOW,
}
_OF_SQLITE: dict[int, str] = {
    sqlite3.SQLITE_NOMEM: NO_MEMORY,
    sqlite3.SQLITE_FULL: DISK_FULL,
    sqlite3.SQLITE_IOERR: NO_DISK,
    sqlite3.SQLITE_TOOBIG: TOO_LARGE,
    sqlite3.SQLITE_INTERRUPT: TOO_SLOW,
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
    **dict.fromkeys((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED), IN_USE),
    **dict.fromkeys((sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_SCHEMA), IN_USE),
    **dict.fromkeys((sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY), NOT_PERMITTED),
    **dict.fromkeys((sqlite3.SQLITE_AUTH, sqlite3.SQLITE_CANTOPEN), NOT_PERMITTED),
}
_KINDS: Sequence[tuple[tuple[type[BaseException], ...], str]] = (
    ((MemoryError,), NO_MEMORY),
    ((TimeoutError,), TOO_SLOW),
    ((socket.gaierror,), NO_NAME),
    ((ssl.SSLError,), NOT_TRUSTED),
    ((PermissionError,), NOT_PERMITTED),
    ((FileNotFoundError,), NOT_THERE),
    ((IsADirectoryError, NotADirectoryError), NO_FILE),
    ((ConnectionRefusedError,), UNREACHABLE),
    ((ConnectionError,), BROKE_OFF),
    ((NotImplementedError,), UNKNOWN_PACKING),
    ((zipfile.LargeZipFile, sqlite3.DataError, OverflowError), TOO_LARGE),
    ((zipfile.BadZipFile, EOFError, UnicodeError), DAMAGED),
)
_NAMED: Sequence[tuple[str, str]] = (
    ("Timeout", TOO_SLOW),
    ("Certificate", NOT_TRUSTED),
    ("TooLarge", TOO_LARGE),
    ("Disconnected", BROKE_OFF),
    ("ReadError", BROKE_OFF),
    ("WriteError", BROKE_OFF),
    ("Payload", BROKE_OFF),
    ("Connect", UNREACHABLE),
)
"""Parts of the names of errors of libraries that are not imported here (aiohttp, httpx)."""
_SAID: Sequence[tuple[str, str]] = (
    ("password", LOCKED),
    ("encrypted", LOCKED),
    ("memory", NO_MEMORY),
    ("database or disk is full", DISK_FULL),
    ("database is locked", IN_USE),
    ("amplification", TOO_LARGE),
    ("could not decode", DAMAGED),
    ("too big", TOO_LARGE),
)
"""Words of errors whose type is used for everything."""
_DEEPEST = 8


def describe_fault(error: BaseException, otherwise: str = DAMAGED) -> str:
    """Return a sentence, without its end, about an error of a library or of the system; `otherwise`
    says what is wrong where that is not known by its kind. What the library says goes to the log.
    """
    log.info("a file, a database or an answer can't be used", exc_info=error)
    ways: Sequence[Callable[[BaseException], str]] = (_by_type, _by_name, _by_words)
    return next(
        (reason for way in ways for one in _behind(error) if (reason := way(one))), otherwise
    )


def _behind(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, and those that it comes from; last those that only pass another one on,
    whose number they have taken, whatever its kind."""
    one: BaseException | None = error
    wrappers: list[BaseException] = []
    for _ in range(_DEEPEST):
        if one is None:
            break
        if isinstance(one, BaseExceptionGroup):
            one = one.exceptions[0]
            continue
        passed_on = getattr(one, "os_error", None)
        if isinstance(passed_on, BaseException):
            wrappers.append(one)
            one = passed_on
            continue
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    yield from wrappers


def _by_type(error: BaseException) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(code, int) and (reason := _OF_SQLITE.get(code & 0xFF)):
        return reason
    for kinds, reason in _KINDS:
        if isinstance(error, kinds):
            return reason
    return _NUMBERS.get(error.errno or 0, "") if isinstance(error, OSError) else ""


def _by_name(error: BaseException) -> str:
    names = " ".join(one.__name__ for one in type(error).__mro__)
    return next((reason for part, reason in _NAMED if part in names), "")


def _by_words(error: BaseException) -> str:
    words = str(error).lower()
    return next((reason for part, reason in _SAID if part in words), "")
