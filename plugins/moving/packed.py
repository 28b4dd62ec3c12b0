"""Unpacking within limits of data that zstd has packed."""

from __future__ import annotations

import sys
from typing import IO

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


BROKEN_ZSTD = (zstd.ZstdError, EOFError)


def open_packed(file: IO[bytes]) -> zstd.ZstdFile:
    """Return a file as it was before it was packed; reading it may raise BROKEN_ZSTD."""
    return zstd.ZstdFile(file)


def unpack(data: bytes, most: int) -> bytes | None:
    """Return what was packed; None where it is damaged, or larger than that."""
    unpacker = zstd.ZstdDecompressor()
    try:
        found = unpacker.decompress(data, max_length=most + 1)
    except (*BROKEN_ZSTD, MemoryError):
        return None
    return found if unpacker.eof and len(found) <= most else None
