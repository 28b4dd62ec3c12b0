"""Bodies of odd shape, as a platform could sign them: each part of a valid one is removed, or
replaced by something else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

ODD: Sequence[Any] = (None, True, 7, -1e300, "", "odd", [], [None], {}, {"odd": {}})
UNREADABLE = (b"", b"{", b"null", b"7", b"[]", b'"a"', b"\xff", b"[" * 9_000, b"{}", b"\x00")


def odd_bodies(good: Mapping[str, Any]) -> Iterator[bytes]:
    """Return all of them, as JSON."""
    yield from UNREADABLE
    for odd in _changed(good):
        yield orjson.dumps(odd)


def _changed(value: Any) -> Iterator[Any]:
    """Yield the same with one change each."""
    yield from ODD
    if isinstance(value, Mapping):
        for name in value:
            yield {key: inner for key, inner in value.items() if key != name}
            for inner in _changed(value[name]):
                yield {**value, name: inner}
    elif isinstance(value, list):
        for number, one in enumerate(value):
            for inner in _changed(one):
                yield [*value[:number], inner, *value[number + 1 :]]
