"""A turn in a line: the one that was written, or its own first words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from memory.context.lines import Line, brief_logs, lines_of
from memory.messages import Message, ToolCall
from memory.turns import Entry, Turn

START = datetime(2024, 1, 15, 10, 30, tzinfo=UTC)


def turn(*messages: Message) -> Turn:
    """Turn t7 with these messages, a minute apart."""
    return Turn(
        7,
        tuple(
            Entry(seq, 7, message, 0, START + timedelta(minutes=seq))
            for seq, message in enumerate(messages)
        ),
    )


def test_a_written_line_stands_for_its_turn() -> None:
    done = turn(Message("user", "make it"), Message("assistant", "Made.", terse="created it"))

    assert lines_of(done) == (Line(7, START + timedelta(minutes=1), "assistant", "created it"),)


def test_the_last_written_line_counts_also_where_it_stands_before_a_call() -> None:
    call = ToolCall("c", "look", "{}")
    done = turn(
        Message("user", "look"),
        Message("assistant", "First.", (call,), terse="one\ntwo"),
        Message("tool", "seen", call_id="c", tool="look"),
        Message("assistant", "Done."),
    )

    assert [line.text for line in lines_of(done)] == ["one two"]


def test_the_lines_of_subagents_stand_before_the_turns_own_line() -> None:
    calls = (ToolCall("a", "delegate", "{}"), ToolCall("b", "delegate", "{}"))
    done = turn(
        Message("user", "do both"),
        Message("assistant", "", calls),
        Message("tool", "42", call_id="a", tool="delegate", terse="counted to 42"),
        Message("tool", "no", call_id="b", tool="delegate", terse="found nothing"),
        Message("assistant", "Both done.", terse="did both"),
    )

    assert [(line.role, line.text) for line in lines_of(done)] == [
        ("subagent", "counted to 42"),
        ("subagent", "found nothing"),
        ("assistant", "did both"),
    ]


def test_a_turn_without_a_line_gets_one_of_its_own_first_words() -> None:
    done = turn(Message("user", "where is\nit?"), Message("assistant", "On the  shelf."))

    assert [line.text for line in lines_of(done)] == ["where is it? → On the shelf."]


def test_a_line_of_first_words_is_at_most_160_characters_long() -> None:
    done = turn(Message("user", "why? " * 100), Message("assistant", "because " * 100))

    (line,) = lines_of(done)

    assert len(line.text) == 160
    assert line.text.startswith("why? why?")
    assert "… → because" in line.text
    assert line.text.endswith("…")


def test_a_turn_that_never_got_a_reply_says_so() -> None:
    assert [line.text for line in lines_of(turn(Message("user", "hello?")))] == [
        "hello? → (no reply)"
    ]


def test_brief_logs_tell_the_time_once_an_hour_and_who_where_that_was_a_subagent() -> None:
    call = ToolCall("a", "delegate", "{}")
    first = turn(
        Message("user", "look"),
        Message("assistant", "", (call,)),
        Message("tool", "42", call_id="a", tool="delegate", terse="counted"),
        Message("assistant", "Done.", terse="looked"),
    )
    at = START + timedelta(hours=1)
    reply = Message("assistant", "Yes.", terse="agreed")
    entries = (Entry(9, 8, Message("user", "so?"), 0, at), Entry(10, 8, reply, 0, at))

    assert brief_logs([first, Turn(8, entries)]) == {
        7: "[t7 2024-01-15T10:32] subagent: counted\nt7 looked",
        8: "[t8 2024-01-15T11:30] assistant: agreed",
    }
