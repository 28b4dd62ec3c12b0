"""Tests of what is not asked any further, because a look shows that all is far from any limit."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import event, given
from hypothesis import strategies as st

from memory.context import emergency
from memory.context.forecast import certain, is_far
from memory.context.limits import Limits
from memory.context.meter import PrefixTokens
from memory.context.strategies import STRATEGIES
from memory.context.view import LogLine, Scale, View
from memory.messages import Message, ToolCall
from memory.turns import Entry, Turn

NOW = datetime.fromtimestamp(0, UTC)
SIZES = st.tuples(st.integers(1, 800), st.integers(0, 800), st.integers(1, 800))
LIMITS = st.fixed_dictionaries(
    {
        "strategy": st.sampled_from(sorted(STRATEGIES)),
        "max_turns": st.integers(1, 12),
        "max_tokens": st.integers(500, 8_000),
        "window": st.sampled_from([2_000, 4_000, 16_000]),
        "output_reserved": st.sampled_from([0, 500]),
        "keep_recent": st.integers(1, 8),
        "stub_tools": st.booleans(),
        "compression_trigger": st.sampled_from([0.0, 0.5, 0.75]),
    }
)


def turn(number: int, question: int, result: int, reply: int) -> Turn:
    """A turn of entries with so many tokens; without a result, no tool was called."""
    call = ToolCall("c", "look", "{}")
    entries = [Entry(number * 4, number, Message("user", "q" * 8 * question), question, NOW)]
    if result:
        found = Message("tool", "r" * 8 * result, call_id="c", tool="look")
        entries.append(Entry(number * 4 + 1, number, Message("assistant", "", (call,)), 9, NOW))
        entries.append(Entry(number * 4 + 2, number, found, result, NOW))
    entries.append(Entry(number * 4 + 3, number, Message("assistant", "a"), reply, NOW))
    return Turn(number, tuple(entries))


@st.composite
def views(draw: st.DrawFn) -> View:
    sizes = draw(st.lists(SIZES, min_size=0, max_size=10))
    turns = tuple(turn(number, *size) for number, size in enumerate(sizes, 1))
    lines = tuple(LogLine(one.number, "", 20) for one in turns)
    scale = Scale(draw(st.sampled_from([0.7, 1.0, 1.6])), draw(st.integers(-200, 200)))
    prefix = PrefixTokens(draw(st.integers(0, 600)), 50)
    is_logged = draw(st.booleans())
    return View(
        turns,
        turns,
        prefix,
        scale=scale,
        lines=lines if is_logged else (),
        rendering="exchange" if is_logged else "block",
        newest=len(turns),
    )


@given(views(), LIMITS, st.integers(1, 5))
def test_no_cut_is_near_where_a_look_shows_none(
    view: View, given_limits: dict[str, object], within: int
) -> None:
    limits = Limits().but(**given_limits)
    cut = certain(view, limits, within)
    is_cut = cut is not None and bool(cut.leaving)
    event(f"far: {is_far(view, limits, within)}, cut: {is_cut}")
    assert not (is_far(view, limits, within) and is_cut)


@given(views(), LIMITS)
def test_nothing_is_clipped_where_the_request_fits(
    view: View, given_limits: dict[str, object]
) -> None:
    limits = Limits().but(**given_limits)
    if view.tokens <= limits.ceiling and not view.lines:
        assert emergency.plan(view, limits, 0).change.is_empty


def test_a_young_conversation_is_far_from_any_limit() -> None:
    turns = tuple(turn(number, 30, 0, 30) for number in range(1, 6))
    view = View(turns, turns, PrefixTokens(500, 500), newest=5)
    assert is_far(view, Limits(), 2)
    assert not is_far(view, Limits().but(max_turns=6), 2)
