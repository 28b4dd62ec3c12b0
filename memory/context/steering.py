"""The changes by people to the context after a turn, as far as they concern the turns up to that
one.

A question that is asked again goes on in a branch that begins before it. What a person has pinned,
dropped, cut or taken back since holds there, too; what a strategy did by itself is planned anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from memory.context.change import Change, ViewEvent

_BY_THE_WAY = ("rebase", "reframe")
_BACK_AND_FORTH = ("undo", "redo")
_FORGETS = ("clear", "new")
_SETS = ("keep", "drop", "squeeze", "pin", "unpin", "fold", "back")


def find_steering(
    later: Sequence[ViewEvent], shared: Collection[int], turn: int
) -> list[ViewEvent]:
    """Return the events that a branch has besides the `shared` (by id), which begins after `turn`:
    those of the `later` by which a person has changed what is seen of the turns up to it, with
    those that they took back or brought back, in order."""
    judged = {event.change.target for event in later if event.kind in _BACK_AND_FORTH}
    known, found = set(shared), list[ViewEvent]()
    for event in later:
        is_a_persons = event.actor == "person" and event.kind not in _BY_THE_WAY
        is_late_summary = event.kind == "inject" and event.change.target in known
        if not (is_a_persons or is_late_summary or event.id in judged):
            continue
        if event.change.target and event.change.target not in known:
            continue  # it speaks of what the branch does not have
        if limit(event, turn) is not None:
            known.add(event.id)
            found.append(event)
    return found


def limit(event: ViewEvent, turn: int, seq: int | None = None) -> ViewEvent | None:
    """Return the event as a branch has it that shares the turns up to `turn`, and the entries up to
    `seq`; None where it says nothing of these, or where its summary tells of later ones."""
    is_beyond = any(number > turn for number in event.leaving)
    if event.kind == "compact" and is_beyond:
        return None
    change = event.change
    if event.kind == "expand" and change.preface > 0 and not change.target:
        return None  # nobody knows what that summary tells of
    limited = _limit(change, turn, seq)
    says_nothing = replace(limited, preface=0, target=0, cut=0, roll=0).is_empty
    is_boundary = event.kind in (*_BACK_AND_FORTH, *_FORGETS, "compact", "hold", "edit", "inject")
    if says_nothing and not is_boundary:
        return None
    leaving = tuple(number for number in event.leaving if number <= turn)
    return replace(event, change=limited, turn=min(event.turn, turn), leaving=leaving)


def _limit(change: Change, turn: int, seq: int | None) -> Change:
    sets: dict[str, Any] = {name: frozenset(_up_to(getattr(change, name), turn)) for name in _SETS}
    limited = replace(change, roll=min(change.roll, turn + 1), **sets)
    if change.folded:
        keep = frozenset(_up_to(change.folded.keep, turn))
        limited = replace(limited, folded=replace(change.folded, keep=keep))
    if seq is None:
        return limited
    folded = limited.folded and replace(limited.folded, cut=min(limited.folded.cut, seq + 1))
    return replace(
        limited,
        cut=min(limited.cut, seq + 1),
        clip={place: clip for place, clip in limited.clip.items() if place <= seq},
        stub={place: size for place, size in limited.stub.items() if place <= seq},
        folded=folded,
    )


def _up_to(numbers: Iterable[int], turn: int) -> Iterable[int]:
    return (number for number in numbers if number <= turn)
