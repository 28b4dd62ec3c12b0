"""Unpacking within limits of data that zstd has packed."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def unpack(data: bytes, most: int) -> bytes | None:
    """Return what was packed; None where it is damaged, or larger than that."""
    unpacker = zstd.ZstdDecompressor()
    try:
        found = unpacker.decompress(data, max_length=most + 1)
    except (zstd.ZstdError, EOFError, MemoryError):
        return None
    return found if unpacker.eof and len(found) <= most else None
