"""Turns as they grow."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from memory import turns
from memory.context_state import with_entries
from memory.messages import Message, ToolCall
from memory.turns import Entry, in_order_of_calls

_AT = datetime(2026, 5, 1, tzinfo=UTC)


def told(*messages: Message, turn: int = 1, start: int = 1) -> list[Entry]:
    return [Entry(seq, turn, message, 1, _AT) for seq, message in enumerate(messages, start)]


def calling(*ids: str) -> Message:
    return Message("assistant", tool_calls=tuple(ToolCall(one, "calculate", "{}") for one in ids))


def test_what_is_added_at_once_is_what_it_is_one_by_one() -> None:
    first = told(Message("user", "Go"), calling("a", "b"), Message("tool", "2", call_id="b"))
    more = told(Message("tool", "1", call_id="a"), Message("assistant", "Done."), start=4)
    entries = [*first, *more, *told(Message("user", "And?"), turn=2, start=6)]
    one_by_one: tuple[turns.Turn, ...] = ()
    for entry in entries:
        one_by_one = with_entries(one_by_one, [entry])
    assert with_entries((), entries) == one_by_one
    assert with_entries(with_entries((), first), entries[3:]) == one_by_one
    assert [entry.seq for entry in one_by_one[0].entries] == [1, 2, 4, 3, 5]


def test_a_turn_is_put_in_order_once_however_much_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    ordered: list[int] = []

    def counted(entries: Sequence[Entry]) -> tuple[Entry, ...]:
        ordered.append(len(entries))
        return in_order_of_calls(entries)

    monkeypatch.setattr(turns, "in_order_of_calls", counted)
    ids = [str(number) for number in range(1_000)]
    results = (Message("tool", "1", call_id=one) for one in ids)
    (turn,) = with_entries((), told(Message("user", "Go"), calling(*ids), *results))
    assert len(turn.entries) == 1_002
    assert ordered == [1_002]
