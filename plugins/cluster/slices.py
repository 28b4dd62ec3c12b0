"""The slice of a conversation, and the process that should own it. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from msgspec import Struct

SLICES = 64
"""The number of slices that conversations are divided into. It affects stored data: never change
it."""
_SLICE = "slice."


def slice_of(identity: str) -> int:
    """Return the slice of a conversation by its id. It is that of its chat, whose threads and
    branches share a memory."""
    chat = "/".join(identity.split("/")[:2])
    return int.from_bytes(_digest(chat), "big") % SLICES


def name_of_slice(number: int) -> str:
    """Return the name of a slice's ownership, and of its queue."""
    return f"{_SLICE}{number}"


def number_of_slice(name: str) -> int:
    return int(name.removeprefix(_SLICE))


class Allotment(Struct, frozen=True):
    """The process that should own an item, and its standby, which takes over if the owner dies ("":
    none)."""

    owner: str
    standby: str


def allot(names: Sequence[str], processes: Iterable[str]) -> dict[str, Allotment]:
    """Return the intended owners of these names among these processes. All processes compute the
    same result independently; their shares differ by at most one, and when one joins or leaves, few
    other names move. Empty without processes.

    Rendezvous hashing with a bounded load: each name goes to its highest-ranked process with
    capacity.
    """
    known = sorted(set(processes))
    if not known:
        return {}
    room = _shares(len(names), known)
    places = {}
    for name in names:
        ranked = sorted(known, key=lambda one: _digest(f"{name} {one}"), reverse=True)
        owner = next(one for one in ranked if room[one])
        room[owner] -= 1
        places[name] = Allotment(owner, next((one for one in ranked if one != owner), ""))
    return places


def _shares(count: int, processes: list[str]) -> dict[str, int]:
    """Return the capacity of each process: equal shares, or one more."""
    each, rest = divmod(count, len(processes))
    lucky = set(sorted(processes, key=_digest)[:rest])
    return {one: each + (one in lucky) for one in processes}


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8]
