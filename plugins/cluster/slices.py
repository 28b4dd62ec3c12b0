"""The slice that a conversation is in, and the process that should own it. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from msgspec import Struct

SLICES = 64
"""Into how many slices all conversations are divided. It is part of what is stored: never change
it."""
_SLICE = "slice."


def slice_of(identity: str) -> int:
    """Return the slice of a conversation, by its id: that of its chat, whose threads and branches
    share a memory."""
    chat = "/".join(identity.split("/")[:2])
    return int.from_bytes(_digest(chat), "big") % SLICES


def name_of_slice(number: int) -> str:
    """Return the name by which a slice is owned, which is its queue's, too."""
    return f"{_SLICE}{number}"


def number_of_slice(name: str) -> int:
    return int(name.removeprefix(_SLICE))


class Allotment(Struct, frozen=True):
    """The process that should own something, and the one that takes it over first should that one
    die ("": nobody)."""

    owner: str
    standby: str


def allot(names: Sequence[str], processes: Iterable[str]) -> dict[str, Allotment]:
    """Return which of these processes should own each of these. All of them work out the same by
    themselves; none has more than one more than another, and when one comes or goes, few others
    move. Empty where there is no process.

    Rendezvous hashing with a bounded load: each goes to the process that it ranks highest of those
    that have room.
    """
    known = sorted(set(processes))
    if not known:
        return {}
    room = _room(len(names), known)
    places = {}
    for name in names:
        ranked = sorted(known, key=lambda one: _digest(f"{name} {one}"), reverse=True)
        owner = next(one for one in ranked if room[one])
        room[owner] -= 1
        places[name] = Allotment(owner, next((one for one in ranked if one != owner), ""))
    return places


def _room(count: int, processes: list[str]) -> dict[str, int]:
    """Return how many each may have: as many as any other, or one more."""
    each, rest = divmod(count, len(processes))
    lucky = set(sorted(processes, key=_digest)[:rest])
    return {one: each + (one in lucky) for one in processes}


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8]
