"""Tests of a person's changes to the context: they are copied to a branch, and the newest events
describe them."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from memory.context.change import Actor, Change, Clip, Kind, ViewEvent
from memory.context.forms import (
    CLEARED,
    DROPPED,
    OWN,
    SUMMARY,
    WHOLE,
    Forms,
    TurnForm,
    assign_form,
    overlay,
    turns_of,
)
from memory.context.layout import find_steering, limit, replay, undoable

TURNS = st.frozensets(st.integers(1, 9))
KINDS: st.SearchStrategy[Kind] = st.sampled_from(["view", "text", "edit", "hold"])
FORM = st.sampled_from(
    [WHOLE, SUMMARY, TurnForm("gone", 1), TurnForm("line", 3), TurnForm("tail", 30)]
)


@st.composite
def forms(draw: st.DrawFn) -> Forms:
    made: Forms = ()
    for _ in range(draw(st.integers(0, 3))):
        made = overlay(made, assign_form(draw(TURNS), draw(FORM)))
    return made


CHANGES = st.builds(
    Change,
    forms(),
    clip=st.dictionaries(st.integers(1, 90), st.just(Clip(9, 9)), max_size=2),
    pin=TURNS,
    unpin=TURNS,
)


def event(
    kind: Kind,
    change: Change,
    actor: Actor = "person",
    id: int = 1,
    leaving: frozenset[int] = frozenset(),
) -> ViewEvent:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return ViewEvent(
        at, kind, actor, "", change, "trim", turn=9, leaving=tuple(sorted(leaving)), id=id
    )


@given(kind=KINDS, change=CHANGES, leaving=TURNS, turn=st.integers(0, 9), seq=st.integers(0, 90))
def test_what_is_limited_to_some_turns_speaks_of_no_later_one_and_is_so_for_good(
    kind: Kind, change: Change, leaving: frozenset[int], turn: int, seq: int
) -> None:
    limited = limit(event(kind, change, leaving=leaving), turn, seq)
    if limited is None:
        return
    now = limited.change
    named = {*turns_of(now.forms), *now.pin, *now.unpin}
    assert max([*named, *limited.leaving, limited.turn, 0]) <= turn
    assert max(now.clip, default=0) <= seq
    assert limit(limited, turn, seq) == limited


@given(kind=KINDS, change=CHANGES)
def test_nothing_changes_of_what_speaks_of_earlier_turns_alone(kind: Kind, change: Change) -> None:
    whole = event(kind, change)
    limited = limit(whole, 9, 90)
    assert limited is None or limited == whole


REMOVED = Change(assign_form({1, 2}, SUMMARY))


def test_what_a_strategy_did_comes_along_only_where_a_person_has_judged_it() -> None:
    planned = event("view", REMOVED, "strategy", 7, frozenset({1, 2}))
    undone = event("undo", Change(target=7), id=8)
    of_nothing = event("undo", Change(target=99), id=9)
    assert find_steering([planned], (), 4) == []
    assert find_steering([planned, undone, of_nothing], (), 4) == [planned, undone]
    assert find_steering([planned, undone], (), 1) == []


def test_a_summary_that_came_late_comes_along_with_what_it_is_of() -> None:
    cut = event("view", Change(assign_form({1}, SUMMARY)), id=3, leaving=frozenset({1}))
    late = event("text", Change(texts={3: 1}), "strategy", 4)
    assert find_steering([cut, late], (), 2) == [cut, late]
    assert find_steering([late], (3,), 2) == [late]
    assert find_steering([late], (), 2) == []
    own = event(
        "view", Change(assign_form({1}, SUMMARY), texts={OWN: 1}), id=5, leaving=frozenset({1})
    )
    assert find_steering([own], (), 2) == [own]


NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
KNOWN_CHANGES = (
    Change(assign_form({1}, SUMMARY)),
    Change(assign_form({1}, TurnForm("gone", CLEARED))),
    Change(assign_form({1}, TurnForm("gone", DROPPED))),
    Change(pin=frozenset({1})),
    Change(unpin=frozenset({1})),
    Change(assign_form({1}, TurnForm("line", 3)), folded=0),
)


@st.composite
def histories(draw: st.DrawFn) -> list[ViewEvent]:
    """Events of any kind, some of which refer to earlier ones."""
    events: list[ViewEvent] = []
    for id in range(1, draw(st.integers(0, 12)) + 1):
        kinds: list[Kind] = ["view", "undo", "redo", "text", "edit"] if events else ["view"]
        kind = draw(st.sampled_from(kinds))
        other = draw(st.integers(1, id - 1)) if kind != "view" else 0
        change = draw(st.sampled_from(KNOWN_CHANGES))
        if kind in ("undo", "redo"):
            change = Change(target=other)
        elif kind in ("text", "edit"):
            change = Change(texts={other: 1})
        events.append(ViewEvent(NOON, kind, "person", "", change, "trim", turn=id, id=id))
    return events


@given(histories())
def test_the_last_change_that_holds_is_known(events: list[ViewEvent]) -> None:
    held = [event.id for event in undoable(events) if event.name not in ("pin", "unpin")]
    state = replay(events, "trim")
    assert [state.last.id if state.last else 0] == (held or [0])[-1:]
    assert state.can_undo == bool(undoable(events))
