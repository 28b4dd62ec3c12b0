"""`MEMORY.md` as a value: reading, changing and forgetting its lines."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from memory.long_term.document import (
    DeletedTurns,
    LineOperation,
    Lines,
    Source,
    add_line,
    apply,
    compose,
    diff_lines,
    drop_forgotten,
    fact,
    facts,
    parse,
    render,
)
from memory.record.daily import Note

DAY = date(2026, 11, 20)


def section(job: int, conversation: str = "pipe/main", turns: str = "t1 to t3") -> Source:
    return Source("section", "2026-11-20", "10:00", "", conversation, turns, job)


def note(text: str, job: int = 1, day: date = DAY) -> Note:
    return Note(day, text, "10:00", "pipe/main", "t1 to t3", job)


HAND = Source("file", "2026-11-21")


def texts(lines: Lines) -> list[str]:
    return [line.text for line in facts(lines)]


# --- the document --------------------------------------------------------------------------


@given(st.text())
@example("# Title\n\n- 2026-11-20: Ann.\nfree text\n")
@example("\n")
@example("\r\n\x0b\u2028")
def test_a_text_that_a_person_wrote_stays_as_it_is(text: str) -> None:
    whole = render(parse(text))
    assert whole.rstrip("\n") == text.replace("\r\n", "\n").rstrip("\n")
    assert render(parse(whole)) == whole, "and is known again"


def test_a_new_line_stands_by_its_date_under_its_heading() -> None:
    lines = add_line((), fact("Ben cooks.", "2026-11-21"))
    lines = add_line(lines, fact("Ann sings.", "2026-11-20"))
    lines = add_line(lines, fact("Ann is allergic to nuts.", "2026-11-22"), is_important=True)
    assert render(lines) == (
        "# What is remembered\n\n## Important\n\n- 2026-11-22: Ann is allergic to nuts.\n\n"
        "## Notes\n\n- 2026-11-21: Ben cooks.\n- 2026-11-20: Ann sings.\n"
    )


def test_a_line_that_says_the_same_only_adds_where_it_comes_from() -> None:
    lines = add_line((), fact("Ann sings.", "2026-11-20", section(1)))
    again = add_line(lines, fact("ann sings!", "2026-11-21", section(2)))
    assert render(again) == render(lines)
    assert facts(again)[0].sources == (section(1), section(2))


def test_a_sign_makes_another_word_and_so_another_line() -> None:
    for one, other in (
        ("Ann writes C++.", "Ann writes C#."),
        ("Set it to 5 degrees.", "Set it to -5 degrees."),
        ("Ben gets 50%.", "Ben gets 50€."),
        ("Ann ❤️ Ben", "Ann 💔 Ben"),
    ):
        lines = add_line(add_line((), fact(one, "2026-11-20")), fact(other, "2026-11-20"))
        assert sorted(texts(lines)) == sorted((one, other))


def test_a_line_that_a_person_changes_keeps_where_it_came_from() -> None:
    lines = add_line((), fact("Ann lives in Lisbon.", "2026-11-20", section(1)))
    edited = parse(render(lines).replace("Lisbon", "Lisbon, near the port"), lines, HAND)
    assert facts(edited)[0].sources == (section(1), HAND)
    new = parse(f"{render(lines)}- Ben cooks.\n", lines, HAND)
    assert [line.sources for line in facts(new)] == [(section(1),), (HAND,)]


def test_what_comes_from_what_is_forgotten_goes() -> None:
    lines = add_line((), fact("Ann sings.", "2026-11-20", section(7)))
    for forgotten, is_hit in (
        (DeletedTurns("pipe/main"), True),
        (DeletedTurns("pipe/main", (2,)), True),
        (DeletedTurns("pipe/main", (4,)), False),
        (DeletedTurns("pipe/main", (4,), (7,)), True),
        (DeletedTurns("pipe/other"), False),
        (DeletedTurns("pipe/other", None, (8,)), False),
    ):
        assert texts(drop_forgotten(lines, forgotten)) == ([] if is_hit else ["Ann sings."])
    made_up = section(1, turns="t1 to t999999999")  # which must take no time
    assert made_up.is_of(DeletedTurns("pipe/main", (5,)))


# --- operations ------------------------------------------------------------------------------

LINES = parse("- 2026-11-01: Ann lives in Lisbon.\n- 2026-11-02: Ben cooks.\n")


def operation(do: Any, old: str = "", new: str = "") -> LineOperation:
    line = fact(new, "2026-11-20", section(1)) if new else None
    return LineOperation(do, line, old, sources=(section(1),))


def test_an_operation_on_a_line_that_a_person_has_changed_meanwhile_does_nothing() -> None:
    move = operation("replace", "- 2026-11-01: Ann lives in Lisbon.", "Ann lives in Porto.")
    changed = parse("- 2026-11-01: Ann lives in Rome.\n")
    assert apply(changed, [move]) == changed
    assert texts(apply(LINES, [move])) == ["Ann lives in Porto.", "Ben cooks."]
    new = apply(LINES, [move])
    assert ("-", LINES[0].raw) in diff_lines(LINES, new)
    assert ("+", "- 2026-11-20: Ann lives in Porto.") in diff_lines(LINES, new)
    assert len(diff_lines(LINES, new)) == 2


def test_operations_on_lines_that_nobody_approved_yet_become_one() -> None:
    first = operation("add", new="Cat is ill.")
    better = operation("replace", "- 2026-11-20: Cat is ill.", "Cat is well.")
    gone = operation("remove", "- 2026-11-20: Cat is well.")
    two = compose((first,), better)
    assert [(one.do, one.line and one.line.text) for one in two] == [("add", "Cat is well.")]
    assert compose(two, gone) == ()
    moved = operation("replace", "- 2026-11-02: Ben cooks.", "Ben bakes.")
    taken = compose((moved,), operation("remove", "- 2026-11-20: Ben bakes."))
    assert texts(apply(LINES, taken)) == ["Ann lives in Lisbon."]


_TEXTS = ["Ann lives in Lisbon.", "Ben cooks.", "Cat is ill.", "Dan reads.", "Eve runs."]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "replace", "remove"]),
            st.integers(0, 9),
            st.sampled_from(_TEXTS),
        ),
        max_size=12,
    )
)
def test_what_is_proposed_in_pieces_adds_up(steps: list[tuple[str, int, str]]) -> None:
    proposed: tuple[LineOperation, ...] = ()
    step_by_step = LINES
    for number, (do, which, text) in enumerate(steps):
        there = facts(apply(LINES, proposed))
        if do != "add" and not there:
            continue
        old = "" if do == "add" else there[which % len(there)].raw
        one = operation(do, old, "" if do == "remove" else f"{text[:-1]} {number}.")
        proposed = compose(proposed, one)
        step_by_step = apply(step_by_step, [one])
    assert sorted(texts(apply(LINES, proposed))) == sorted(texts(step_by_step))
    kept = tuple(LineOperation.from_json(json.loads(json.dumps(one.to_json()))) for one in proposed)
    assert kept == proposed
