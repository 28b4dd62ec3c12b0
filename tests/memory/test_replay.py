"""Tests that the newest events tell what all of them tell."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from memory.context.change import Change, Kind, ViewEvent
from memory.context.replay import newest_move, undoable

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
ABOUT_ANOTHER: tuple[Kind, ...] = ("undo", "redo", "inject", "edit")
KINDS: tuple[Kind, ...] = (*ABOUT_ANOTHER, "compact", "clear", "drop", "pin", "unpin", "fold")


@st.composite
def histories(draw: st.DrawFn) -> list[ViewEvent]:
    """Events of any kind, of which some speak of earlier ones."""
    events: list[ViewEvent] = []
    for id in range(1, draw(st.integers(0, 12)) + 1):
        kind = draw(st.sampled_from(KINDS if events else KINDS[len(ABOUT_ANOTHER) :]))
        target = draw(st.integers(1, id - 1)) if kind in ABOUT_ANOTHER else 0
        change = Change(target=target)
        events.append(ViewEvent(NOON, kind, "person", "", change, "trim", turn=id, id=id))
    return events


@given(histories(), st.integers(1, 12))
def test_the_last_move_is_the_same_by_the_newest_events_where_they_tell(
    events: list[ViewEvent], count: int
) -> None:
    held = [event for event in undoable(events) if event.kind not in ("pin", "unpin")]
    expected = held[-1] if held else None
    assert newest_move(events, are_all=True) == expected
    by_newest = newest_move(events[-count:], are_all=False)
    assert by_newest in (None, expected)
    if expected is not None and expected in events[-count:] and expected.kind != "edit":
        assert by_newest == expected
