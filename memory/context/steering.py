"""The changes by people to the context after a turn, as far as they concern the turns up to that
one.

A question that is asked again goes on in a branch that begins before it. What a person has pinned,
dropped, cut or taken back since holds there, too; what a strategy did by itself is planned anew.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from memory.context.change import ViewEvent
from memory.context.forms import up_to


def find_steering(
    later: Sequence[ViewEvent], shared: Collection[int], turn: int
) -> list[ViewEvent]:
    """Return the events that a branch has besides the `shared` (by id), which begins after `turn`:
    those of the `later` by which a person has changed what is seen of the turns up to it, with
    those that they took back or brought back, in order."""
    judged = {event.change.target for event in later if event.kind in ("undo", "redo")}
    known, found = set(shared), list[ViewEvent]()
    for event in later:
        is_a_persons = event.actor == "person" and event.kind not in ("setting", "prompt")
        is_late_summary = event.kind == "text"
        if not (is_a_persons or is_late_summary or event.id in judged):
            continue
        named = {event.change.target, event.change.after, *event.change.texts} - {0}
        if not named <= known:
            continue  # it speaks of what the branch does not have
        if limit(event, turn) is not None:
            known.add(event.id)
            found.append(event)
    return found


def limit(event: ViewEvent, turn: int, seq: int | None = None) -> ViewEvent | None:
    """Return the event as a branch has it that shares the turns up to `turn`, and the entries up to
    `seq`; None where it says nothing of these, or where its summary tells of later ones."""
    change = event.change
    makes = change.makes("summary") or change.makes("range")
    if makes and any(number > turn for number in event.leaving):
        return None
    limited = replace(
        change,
        forms=up_to(change.forms, turn),
        pin=frozenset(number for number in change.pin if number <= turn),
        unpin=frozenset(number for number in change.unpin if number <= turn),
    )
    if event.kind == "view" and limited.forms == () and not (limited.pin or limited.unpin):
        return None
    if seq is not None:
        clip = {place: clip for place, clip in change.clip.items() if place <= seq}
        stub = {place: size for place, size in change.stub.items() if place <= seq}
        limited = replace(limited, clip=clip, stub=stub)
    leaving = tuple(number for number in event.leaving if number <= turn)
    return replace(event, change=limited, turn=min(event.turn, turn), leaving=leaving)
