"""A turn as one line: the written one, or its own first words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from memory.context.terse import Line, TerseFilter, brief_logs, extract, lines_of
from memory.messages import Message, ToolCall
from memory.turns import Entry, Turn
from tests.tables import each_row

START = datetime(2024, 1, 15, 10, 30, tzinfo=UTC)


def turn(*messages: Message) -> Turn:
    """Return turn t7 with these messages, a minute apart."""
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


DASHBOARD = "I created the dashboard with three sections for shopping, todos, and schedule."
LINE = "created dashboard with shopping, todo, schedule sections"


def test_the_documents_own_example() -> None:
    assert extract(f"{DASHBOARD}\n<terse>{LINE}</terse>") == (DASHBOARD, LINE)


@each_row(
    ("text", "shown", "line"),
    [
        ("No tag at all.", "No tag at all.", ""),
        ("Done.\n<TERSE>did\n  it</Terse>", "Done.", "did it"),
        ("A <terse>first</terse> B\n<terse>second</terse>", "A  B", "second"),
        ("<terse>only a tag</terse>", "only a tag", "only a tag"),
        ("Done.\n<terse>cut off</ter", "Done.", "cut off"),
        ("<terse>never closed", "never closed", ""),
        ("Yes. <terse>lost\n\nA second paragraph.", "Yes. lost\n\nA second paragraph.", ""),
        ("Done. <terse></terse>", "Done. ", ""),
        ("Done. <terse>a <terse>b</terse>", "Done.", "a b"),
        ("```\n<terse>x</terse>\n```", "```\n<terse>x</terse>\n```", ""),
        ("```\ncode\n```\n<terse>wrote code</terse>", "```\ncode\n```", "wrote code"),
        ("a < b and <b>bold</b>, 1 <", "a < b and <b>bold</b>, 1 <", ""),
        ("Done.<terse/> And this.", "Done. And this.", ""),
        ('Done.\n<terse lang="en"/>\n<terse>did it</terse >', "Done.", "did it"),
        ("A <terse-mode> is <tersely> put", "A <terse-mode> is <tersely> put", ""),
        ("Say `x <terse>y</terse>`.\n<terse>z</terse>", "Say `x <terse>y</terse>`.", "z"),
        ("Say ``a ` <terse>`` now", "Say ``a ` <terse>`` now", ""),
        ("It`s done. <terse>did it</terse>\nand `more`", "It`s done. \nand `more`", "did it"),
        ("```<terse>x</terse>```\n<terse>y</terse>", "```<terse>x</terse>```", "y"),
        ("Done.\n<terse", "Done.\n", ""),
        ("```\ncode\n```<terse>wrote code</terse>", "```\ncode\n```", "wrote code"),
        ("```md\n    ```\n<terse>x</terse>\n```", "```md\n    ```\n<terse>x</terse>\n```", ""),
    ],
)
def test_what_a_person_sees_and_the_line(text: str, shown: str, line: str) -> None:
    assert extract(text) == (shown, line)


@given(
    first=st.sampled_from(["", "   ", "> ", "> > ", "- ", "* ", "1. ", "10) ", "> - ", "\t"]),
    fence=st.sampled_from(["```", "~~~", "`````"]),
    language=st.sampled_from(["", "html"]),
    between=st.sampled_from(["\n", "", "\n\nBye.\n"]),
)
def test_a_block_of_code_in_a_list_or_quotation_is_one(
    first: str, fence: str, language: str, between: str
) -> None:
    rest = "".join(sign if sign in ">\t" else " " for sign in first)
    code = f"{first}{fence}{language}\n{rest}<terse>x</terse>\n{rest}{fence}"
    shown = f"{code}{between}".rstrip()
    assert extract(f"{code}{between}<terse>y</terse>") == (shown, "y")


def test_a_tag_of_any_length_is_hidden_but_one_that_never_ends_hides_nothing() -> None:
    long = "word " * 40_000
    assert extract(f"Done.\n<terse>{long}</terse>") == ("Done.", long.strip())
    assert extract(f"Before. <terse>{long}") == (f"Before. {long}", "")


PIECES = st.sampled_from(
    [
        "<terse>",
        "</terse>",
        "<TERSE>",
        "<terse/>",
        '<terse a="b">',
        "<ter",
        "se>",
        "</",
        "<",
        ">",
        "text",
        " ",
        "\n",
        "```",
        "`",
    ]
)


@given(st.lists(PIECES, max_size=25), st.lists(st.integers(1, 9), max_size=30))
def test_pieces_of_any_size_show_the_same_as_the_whole(parts: list[str], sizes: list[int]) -> None:
    text = "".join(parts)
    whole, split = TerseFilter(), TerseFilter()
    expected = whole.feed(text) + whole.finish()
    shown, start = "", 0
    for size in [*sizes, len(text)]:
        shown += split.feed(text[start : start + size])
        start += size
    shown += split.feed(text[start:]) + split.finish()
    assert (shown, split.line) == (expected, whole.line)


@given(st.lists(PIECES, max_size=25))
def test_what_streams_is_what_is_kept(parts: list[str]) -> None:
    text = "".join(parts)
    stream = TerseFilter()
    streamed = "".join([*(stream.feed(sign) for sign in text), stream.finish()])
    assert (streamed, stream.line) == extract(text)
