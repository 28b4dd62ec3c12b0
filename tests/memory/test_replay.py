"""Tests that the newest events tell what all of them tell."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from memory.context.change import Change, Kind, ViewEvent
from memory.context.forms import CLEARED, DROPPED, SUMMARY, TurnForm, give
from memory.context.replay import newest_move, undoable

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
CHANGES = (
    Change(give({1}, SUMMARY)),
    Change(give({1}, TurnForm("gone", CLEARED))),
    Change(give({1}, TurnForm("gone", DROPPED))),
    Change(pin=frozenset({1})),
    Change(unpin=frozenset({1})),
    Change(give({1}, TurnForm("line", 3)), folded=0),
)


@st.composite
def histories(draw: st.DrawFn) -> list[ViewEvent]:
    """Events of any kind, of which some speak of earlier ones."""
    events: list[ViewEvent] = []
    for id in range(1, draw(st.integers(0, 12)) + 1):
        kinds: list[Kind] = ["view", "undo", "redo", "text", "edit"] if events else ["view"]
        kind = draw(st.sampled_from(kinds))
        other = draw(st.integers(1, id - 1)) if kind != "view" else 0
        change = draw(st.sampled_from(CHANGES))
        if kind in ("undo", "redo"):
            change = Change(target=other)
        elif kind in ("text", "edit"):
            change = Change(texts={other: 1})
        events.append(ViewEvent(NOON, kind, "person", "", change, "trim", turn=id, id=id))
    return events


@given(histories(), st.integers(1, 12))
def test_the_last_move_is_the_same_by_the_newest_events_where_they_tell(
    events: list[ViewEvent], count: int
) -> None:
    held = [event for event in undoable(events) if event.name not in ("pin", "unpin")]
    expected = held[-1] if held else None
    assert newest_move(events, are_all=True) == expected
    by_newest = newest_move(events[-count:], are_all=False)
    assert by_newest in (None, expected)
    window = events[-count:]
    if expected in window and all(event.kind != "edit" for event in window):
        assert by_newest == expected
