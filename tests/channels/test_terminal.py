"""The terminal: first its pure parts, then the whole channel as a person sees it."""

from __future__ import annotations

import asyncio
import re
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from agent.models.embedded import SHOWN
from channels.base import Activity, ContextUsage, Delta, StepRestarted, ToolEnded, ToolStarted
from channels.message import Action, Address, Attachment, LocalFileError, Outbound, Reply
from channels.terminal import display
from channels.terminal.completion import (
    Suggestion,
    Vocabulary,
    by_use,
    choices,
    find_kind,
    is_known,
    offers_in,
)
from channels.terminal.display import (
    StreamedAnswer,
    bar_style,
    bar_text,
    one_line,
    without_controls,
)
from channels.terminal.line import fitted
from channels.terminal.markdown import clip_to_end, measure_finished
from channels.terminal.screen import DrawnRows
from channels.terminal.terminal import ADDRESS
from tests.channels.at_terminal import at_terminal, says, silent
from tests.fakes.fake_bot import COMMANDS, deltas
from tests.waiting import PATIENCE

USAGE = ContextUsage(
    12_400, 50_000, 7, 20, 0.02, is_measured=True, model="acme/gpt-9-mini", share=0.248
)


# The bar


def test_a_narrow_terminal_shortens_the_bar() -> None:
    for width, text in [
        (52, "gpt-9-mini · 12.4k/50k ▓▓░░░░░░ · 7/20 turns · $0.02"),
        (45, "12.4k/50k ▓▓░░░░░░ · 7/20 turns · $0.02"),
        (32, "12.4k/50k · 7/20 turns · $0.02"),
        (24, "12.4k/50k · 7/20 turns"),
        (10, "12.4k/50k"),
        (5, ""),
    ]:
        assert bar_text(USAGE, width) == text, width


def test_the_small_model_is_known_by_its_name_where_there_is_little_room() -> None:
    small = replace(USAGE, model=SHOWN, tokens=40, max_tokens=1536, turns=1, max_turns=0, cost=0.0)
    small = replace(small, share=0.026)
    assert bar_text(small, 80) == "demo model · 40/1.5k ▓░░░░░░░ · 1 turn · $0"


def test_nothing_is_claimed_that_is_not_known() -> None:
    assert "· ~12.4k/50k" in bar_text(replace(USAGE, is_measured=False), 80)
    assert bar_text(replace(USAGE, cost=None), 80).endswith("7/20 turns")
    assert bar_text(replace(USAGE, turns=0, cost=0.0), 80).endswith("0/20 turns")


def test_the_cost_is_said_plainly() -> None:
    for cost, shown in [(0.0, "$0"), (0.001, "<$0.01"), (0.126, "$0.13"), (12.0, "$12.00")]:
        assert bar_text(replace(USAGE, cost=cost), 80).endswith(f"turns · {shown}"), cost


def test_numbers_are_short() -> None:
    for tokens, shown in [
        (0, "0"),
        (999, "999"),
        (1_000, "1k"),
        (99_960, "100k"),
        (128_000, "128k"),
        (999_900, "1M"),
    ]:
        assert bar_text(replace(USAGE, tokens=tokens, max_tokens=0), 80).startswith(
            f"acme/gpt-9-mini · {shown} "
        ), tokens


def test_the_bar_turns_yellow_and_then_red() -> None:
    for share, style in [
        (0.7499, "class:bar"),
        (0.75, "class:bar.warm"),
        (0.9, "class:bar.hot"),
        (1.2, "class:bar.hot"),
    ]:
        assert bar_style(replace(USAGE, share=share)) == style, share


def test_the_limit_that_is_reached_first_stands_first_with_the_meter() -> None:
    full = replace(USAGE, turns=19, nearest="turns", share=0.95)
    shown = "acme/gpt-9-mini · 19/20 turns ▓▓▓▓▓▓▓▓ · 12.4k/50k · $0.02"
    assert bar_text(full, 80) == shown
    assert [bar_text(full, width) for width in (24, 12)] == [
        "19/20 turns · 12.4k/50k",
        "19/20 turns",
    ]


@given(
    st.builds(
        ContextUsage,
        st.integers(0, 10**9),
        st.integers(0, 10**9),
        st.integers(0, 10**6),
        st.integers(0, 10**6),
        st.none() | st.floats(0, 10**6),
        st.booleans(),
        st.text(max_size=40),
    ),
    st.integers(0, 120),
)
def test_the_bar_never_wraps(usage: ContextUsage, width: int) -> None:
    assert cell_len(bar_text(usage, width)) <= width


# Completion

VOCABULARY = Vocabulary(
    (COMMANDS["help"].data or {})["commands"], (COMMANDS["config"].data or {})["settings"]
)


def texts(line: str) -> list[str]:
    return [choice.text for choice in choices(line, VOCABULARY)]


def test_commands_and_subcommands_are_offered_with_their_meaning() -> None:
    assert choices("/cont", VOCABULARY) == [
        Suggestion("/context", 5, "what the model sees [clear]")
    ]
    assert texts("/context ") == ["clear"]
    assert texts("/help con") == ["context", "config"]


def test_commands_are_offered_by_use_with_their_arguments() -> None:
    known = [{"name": name, "summary": name.upper(), "usage": "[N]"} for name in "abcd"]
    groups = [{"name": "G", "commands": ["d", "b"]}, {"name": "H", "commands": ["a", "c"]}]
    found = by_use({"commands": known, "groups": groups, "first": ["c", "d"]})
    offered = choices("/", Vocabulary(found))
    assert [one.text for one in offered] == ["/c", "/d", "/b", "/a"]
    assert offered[0].meaning == "C [N]"
    assert by_use({"commands": known}) == known  # a bot that names no groups


def test_settings_are_found_by_any_part_of_their_name_and_offer_what_they_can_be() -> None:
    assert texts("/config turns") == ["agent_max_context_turns"]
    assert choices("/config turns", VOCABULARY)[0].meaning == "most turns in context (now 20)"
    wants = "a whole number from 1 to 1000"
    assert choices("/config agent_max_context_turns ", VOCABULARY) == [Suggestion("20", 0, wants)]
    strategy = {"key": "s", "value": "trim", "meaning": "", "wants": "x"}
    flag = {"key": "f", "value": False, "meaning": "", "wants": "x", "choices": []}
    known = Vocabulary((), [{**strategy, "choices": ["trim", "slim"]}, flag])
    assert [c.text for c in choices("/config s ", known)] == ["trim", "slim"]
    assert [c.text for c in choices("/config s sl", known)] == ["slim"]
    assert [c.text for c in choices("/config f ", known)] == ["false", "true"]


def test_what_a_command_takes_is_known() -> None:
    for line, kind in [
        ("/context drop t", "turns"),
        ("/context drop t3 t", "turns"),
        ("/context drop", ""),
        ("/context clear ", ""),
        ("/forget ", "turns"),
        ("/memory 2026", "days"),
        ("/memory search 2026", ""),
        ("/agent ", "agents"),
        ("/model gpt", "models"),
        ("/config model ", "models"),
        ("/resume tr", "conversations"),
        ("/branches ", "branches"),
        ("hello t", ""),
    ]:
        assert find_kind(line) == kind, line


def test_the_newest_turns_are_offered_first_with_their_words() -> None:
    listed = [
        {"turn": f"t{n}", "tokens": 9, "state": ["in context"], "words": f"word {n}"}
        for n in (1, 2)
    ]
    known = Vocabulary(lists={"turns": offers_in("turns", listed)})
    assert choices("/context drop t", known) == [
        Suggestion("t2", 1, "in context · word 2"),
        Suggestion("t1", 1, "in context · word 1"),
    ]


def test_things_that_are_not_as_expected_are_not_offered() -> None:
    for kind in ("turns", "models", "agents", "days", "branches", "summaries", "other"):
        assert offers_in(kind, [None, {}, 5, {"name": 5}]) == []


def test_a_subcommand_that_a_bot_does_not_know_is_not_asked_for() -> None:
    known = Vocabulary([{"name": "model", "summary": "", "subcommands": []}])
    assert not is_known("/model list", known)
    assert is_known("/model", known)
    assert not is_known("/agent", known)


def test_a_message_to_the_model_is_not_completed() -> None:
    for line in ["", "hello", " /context", "//context", "/context\nmore"]:
        assert texts(line) == [], line


# Text that would act on the terminal


def test_sequences_and_control_characters_are_taken_out() -> None:
    for text, words in [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07a\x1b]52;c;aGk=\x1b\\b", "ab"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\a\x1bcb\x1b(0c", "abc"),
        ("a\r\x08\x00\x7f\x9b5nb", "a5nb"),
        ("safe\u202etxt.exe \ud800", "safetxt.exe "),
        ("tab\tand\nline 👩‍👩‍👧 中", "tab\tand\nline 👩‍👩‍👧 中"),
    ]:
        assert without_controls(text) == words, text


@given(st.text(st.sampled_from("\x1b[]0;mP\\\x07\x9b\x9cab\n")))
def test_nothing_that_acts_gets_through(text: str) -> None:
    assert not set(without_controls(text)) & set("\x1b\x07\x9b\x9c")


def test_one_line_is_one_line() -> None:
    assert one_line(" a\n\tb\x1b[2J  c ") == "a b c"


# The answer while it streams

DOCUMENT = """# Title

A paragraph
of two lines.

1. one
2. two

   still two

```python
# not a heading

x = 1
```

| a | b |
|---|---|
| 1 | 2 |

> the end
"""


def test_blocks_are_finished_when_no_line_can_change_them() -> None:
    for source, done in [
        ("a paragraph\n", ""),
        ("a paragraph\n\nanother\n", "a paragraph\n\n"),
        ("a paragraph\n\n", "a paragraph\n\n"),
        ("a title\n---\n", "a title\n---\n"),
        ("1. one\n2. two\n\n", ""),
        ("1. one\n\n   more\n", ""),
        ("1. one\n\nafter\n", "1. one\n\n"),
        ("```\n# code\n\n", ""),
        ("```\ncode\n```\nafter\n", "```\ncode\n```\n"),
        ("| a |\n|---|\n| 1 |\n", ""),
        ("# head\ntext\n", "# head\n"),
        ("# head\n", "# head\n"),
        ("> quote\n\n", ""),
    ]:
        assert source[: measure_finished(source)] == done, source


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_blocks_leave_in_order_and_whole_however_the_text_arrives(sizes: list[int]) -> None:
    answer, taken, start = StreamedAnswer(), "", 0
    for size in sizes:
        answer.add(DOCUMENT[start : start + size])
        taken += answer.take()
        start += size
    so_far = DOCUMENT[:start]
    assert taken + answer.tail == so_far
    assert not taken or measure_finished(so_far[: so_far.rindex("\n") + 1]) == len(taken)
    rest = answer.rest_of(DOCUMENT)
    assert rest is not None
    assert taken.strip() + rest == DOCUMENT.strip()


def test_half_a_line_decides_nothing_and_half_a_sequence_does_not_get_through() -> None:
    answer = StreamedAnswer()
    answer.add("a paragraph\n#")
    assert answer.take() == ""
    answer.add("hashtag\n")
    assert (answer.take(), answer.tail) == ("", "a paragraph\n#hashtag\n")
    answer = StreamedAnswer()
    for piece in ("a\x1b[3", "1mb\x1b]0;ti", "tle\x07c\n"):
        answer.add(piece)
    assert answer.tail == "abc\n"


def test_a_final_text_that_begins_differently_has_no_rest() -> None:
    answer = StreamedAnswer()
    answer.add("first\n\nsecond\n")
    answer.take()
    assert answer.rest_of("first\n\nother") == "\n\nother"
    assert answer.rest_of("something else") is None


def test_the_end_of_a_long_block_is_still_what_it_was() -> None:
    for source, shown in [
        ("```python\na\nb\nc", "```python\nb\nc"),
        ("| h |\n|---|\n| 1 |\n| 2 |\n| 3 |", "| h |\n|---|\n| 2 |\n| 3 |"),
        ("- a\n- b\n- c", "- b\n- c"),
        ("x" * 50, "x" * 20),
    ]:
        assert clip_to_end(source, width=10, height=2) == shown, source


# What things look like


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_what_a_terminal_can_not_show_is_shown_as_text() -> None:
    for markdown, width, text in (
        (
            *("a <b>tag</b> [here](http://x.y) <http://z.z> ![dog](http://d.g)", 80),
            "a <b>tag</b> here (http://x.y) http://z.z dog (http://d.g)\n",
        ),
        ("roses\nviolets", 80, "roses\nviolets\n"),
    ):
        assert plain(display.markdown(markdown, width)) == text
    assert plain(display.markdown("> " * 30 + "deep", 40)).split()[-1] == "deep"
    wide = plain(display.markdown(f"| a | b |\n|---|---|\n| {'long' * 20} | x |", 30))
    assert "".join(wide.split()).count("l") == 20


def test_a_table_that_is_too_wide_for_its_words_is_shown_row_by_row() -> None:
    table = "| turn | tokens | words |\n|---|---:|---|\n| t1 | 136 | extraordinary |\n| t2 | | |"
    assert plain(display.markdown(table, 40)).split() == [
        *("turn", "tokens", "words"),
        "─" * 27,
        *("t1", "136", "extraordinary", "t2"),
    ]
    shown = plain(display.markdown(table, 20))
    assert shown == "turn · tokens ·\nwords\nt1 · 136 ·\nextraordinary\nt2\n"
    without_rows = plain(display.markdown("| alphabetical | order |\n|---|---|", 12))
    assert without_rows.split() == ["alphabetical", "·", "order"]


WORDS = st.lists(
    st.sampled_from(
        [*"\n\t\\`_", "word", "中文字", "\n\n", "    ", "- ", "1. ", "> ", "# ", "***\n"]
    )
    | st.sampled_from(
        ["**", "~~", "[a](b)", "![a](b)", "<div>", "[x]: y\n", "| ", "|---|\n", "```\n"]
    ),
    max_size=40,
).map("".join)


@settings(max_examples=200)
@given(WORDS, st.integers(20, 100))
def test_no_word_of_an_answer_is_lost_at_any_width(source: str, width: int) -> None:
    # The language of a fence is no word of the answer, nor are superfluous cells of a table's row.
    source = re.sub(r"(`{3,}|~{3,}|\|).*", "", source)
    shown = plain(display.markdown(source, width))
    assert shown.count("w") == source.count("w")
    assert shown.count("中") == source.count("中")
    assert all(cell_len(line) <= width for line in shown.split("\n"))


@given(st.text(max_size=60), st.text(max_size=200), st.sampled_from(["ok", "failed", ""]))
def test_a_tool_call_is_one_line(name: str, arguments: str, outcome: str) -> None:
    shown = plain(display.tool(name, arguments, outcome, 40))
    assert shown.count("\n") == 1
    assert cell_len(shown) <= 40


@given(
    st.lists(
        st.lists(st.sampled_from(["word", "a", "中文", "Inhabitants", "wwwwwwwww"]), max_size=9),
        min_size=1,
        max_size=5,
    ),
    st.integers(15, 70),
)
def test_no_cell_of_a_table_is_cut_and_no_word_in_it_broken(
    cells: list[list[str]], width: int
) -> None:
    row = "|".join(map(" ".join, cells))
    table = f"{'| head ' * len(cells)}|\n{'|---' * len(cells)}|\n|{row}|\n"
    shown = plain(display.markdown(table, width))
    words = [word for cell in cells for word in cell]
    assert sorted(re.findall(r"\w+", shown)) == sorted([*words, *["head"] * len(cells)])
    assert all(cell_len(line) <= width for line in shown.split("\n"))


@given(
    st.lists(st.sampled_from(["Enter öffnet", "↑ ↓ 选择", "Esc"]), min_size=1), st.integers(12, 90)
)
def test_hints_that_do_not_fit_are_left_out_and_the_last_one_stays(
    hints: list[str], width: int
) -> None:
    shown = fitted(" · ".join(hints), width)
    assert cell_len(shown) <= width
    assert shown.split(" · ")[-1] == hints[-1]
    assert set(shown.split(" · ")) <= set(hints)


def test_a_tool_call_shows_what_it_works_on() -> None:
    shown = display.tool("read_file", '{"path": "notes.txt", "limit": 20}', "ok", 80)
    assert plain(shown) == "⚙ read_file notes.txt 20 … ok\n"


def test_a_long_question_is_echoed_in_part() -> None:
    shown = plain(display.question("line\n" * 200_000, 80))
    assert shown.count("\n") == 13
    assert shown.endswith("  … (1,000,000 characters)\n")


def test_of_many_next_steps_the_first_are_shown() -> None:
    steps = [Action(str(number), f"/do {number}") for number in range(1, 19)]
    assert plain(display.next_steps(steps[:2], 80)) == "  Next: /do 1 · /do 2\n"
    assert plain(display.next_steps(steps, 80)).endswith("/do 6 · …\n")
    assert plain(display.next_steps(steps[:2], 80, "Try `/do 1`.")) == "  Next: /do 2\n"
    assert not display.next_steps(steps[:1], 80, "Try `/do 1`.")
    answers = [Action("Allow once", "/approve K7QM once", question="K7QM")]
    assert plain(display.next_steps(answers, 80)) == "  Next: Allow once: /approve K7QM once\n"


def test_no_color_leaves_the_weight_and_takes_the_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    codes = re.findall(r"\x1b\[([0-9;]*)m", display.markdown("# a\n\n`b` **c**", 80))
    assert set(codes) <= {"0", "1", "1;4"}


def test_code_is_in_dark_colours_where_the_terminal_says_that_it_is_light(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for colours, is_bright in [("", True), ("15;0", True), ("0;15", False), ("0;default;7", False)]:
        monkeypatch.setenv("COLORFGBG", colours)
        shown = display.markdown("```python\ndef total(): return 1\n```", 80)
        numbers = {
            int(one) for codes in re.findall(r"\x1b\[([\d;]+)m", shown) for one in codes.split(";")
        }
        assert any(90 <= number <= 97 for number in numbers) == is_bright, shown
        assert numbers & {*range(30, 38), *range(90, 98)}, colours


def test_what_was_added_and_what_left_have_colours_of_their_own() -> None:
    shown = display.markdown("```diff\n+ new\n- gone\n  same\n```", 80)
    added, gone, same = (
        re.findall(r"\x1b\[([0-9;]*)m[^\x1b]*$", shown[: shown.index(word)])
        for word in ("new", "gone", "same")
    )
    assert added != gone
    assert same not in (added, gone)


def test_a_dumb_terminal_gets_no_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in display.markdown("# a\n\n`b` **c**", 80)


def test_a_narrower_window_wraps_what_is_drawn() -> None:
    assert DrawnRows(80, (80, 40, 0, 41, 3)).count_wrapped_rows(40) == 2


@pytest.mark.usefixtures("processes")
def test_the_first_prompt_waits_for_no_markdown() -> None:
    code = (
        "import sys, channels.terminal; print({'rich.markdown', 'pygments'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# The whole channel


async def test_an_answer_is_streamed_and_stands_there_once(tmp_path: Path) -> None:
    async with at_terminal(tmp_path, says(*deltas(DOCUMENT))) as person:
        person.types("tell me\r")
        await person.sees("the end")
        await person.leaves()
        shown = person.glass.text
        assert "› tell me\n\nTitle\n\nA paragraph\nof two lines.\n\n 1 one\n 2 two\n" in shown
        assert shown.count("A paragraph") == shown.count("x = 1") == shown.count("the end") == 1
        assert [inbound.text for inbound in person.bot.submitted] == ["tell me"]
        assert person.bot.submitted[0].address == ADDRESS


async def test_the_unfinished_block_is_seen_before_it_ends(tmp_path: Path) -> None:
    hold = asyncio.Event()
    async with at_terminal(tmp_path, says(Delta("A paragraph that is not"), hold)) as person:
        person.types("tell me\r")
        await person.sees("A paragraph that is not")
        await person.sees("answering… · Ctrl-C stops")
        hold.set()
        await person.leaves()


async def test_the_bar_shows_the_context_and_that_the_model_thinks(tmp_path: Path) -> None:
    hold = asyncio.Event()
    async with at_terminal(tmp_path, says(hold)) as person:
        await person.sees("gpt-9-mini · 12.4k/50k ▓▓░░░░░░ · 7/20 turns · $0.02")
        person.types("hi\r")
        await person.sees("thinking…")
        hold.set()
        await person.leaves()


async def test_tools_get_a_line_each(tmp_path: Path) -> None:
    script = says(
        Delta("Let me look."),
        ToolStarted("read_file", '{"path": "notes.txt"}'),
        ToolStarted("grep", '{"pattern": "x"}'),
        ToolEnded("grep", is_error=True),
        ToolEnded("read_file", is_error=False),
        Delta("It says hello."),
    )
    async with at_terminal(tmp_path, script) as person:
        person.types("look\r")
        await person.sees("It says hello.")
        await person.leaves()
        assert (
            "Let me look.\n\n⚙ grep x … failed\n⚙ read_file notes.txt … ok\n\nIt says hello."
        ) in person.glass.text


async def test_a_tool_is_seen_while_it_runs(tmp_path: Path) -> None:
    hold = asyncio.Event()
    async with at_terminal(tmp_path, says(ToolStarted("grep", '{"pattern": "x"}'), hold)) as person:
        person.types("look\r")
        await person.sees("⚙ grep x …")
        person.types("\x03")
        await person.sees("⚙ grep x … stopped")
        await person.leaves()


async def test_a_command_is_answered_while_an_answer_streams(tmp_path: Path) -> None:
    hold = asyncio.Event()
    script = says(Delta("First block.\n\nSecond "), hold, Delta("block."))
    async with at_terminal(tmp_path, script) as person:
        person.types("tell me\r")
        await person.sees("Second")
        person.types("/context\r")
        await person.sees("next cut at t21")
        hold.set()
        await person.sees("Second block.")
        await person.leaves()
        shown = person.glass.text
        assert "\n  Next: /context clear · /context detail\n\nSecond block.\n" in shown
        assert shown.count("First block.") == shown.count("Second") == 1


async def test_a_further_message_waits_and_is_shown_with_its_own_answer(tmp_path: Path) -> None:
    hold = asyncio.Event()

    def script(text: str) -> Sequence[Activity | asyncio.Event]:
        return [Delta("Answer one."), hold] if text == "one" else [Delta("Answer two.")]

    async with at_terminal(tmp_path, script) as person:
        person.types("one\r")
        await person.sees("Answer one.")
        person.types("two\r")
        await person.sees("› two")
        hold.set()
        await person.sees("Answer two.")
        await person.leaves()
        assert "› one\n\nAnswer one.\n\n› two\n\nAnswer two.\n" in person.glass.text


async def test_ctrl_c_stops_the_turn(tmp_path: Path) -> None:
    async with at_terminal(tmp_path, says(Delta("As far as this"), asyncio.Event())) as person:
        person.types("tell me\r")
        await person.sees("As far as this")
        person.types("\x03")
        await person.sees("(stopped)")
        await person.leaves()
        assert person.bot.commands.count("/stop") == 1
        assert "As far as this\n\n(stopped)" in person.glass.text


async def test_ctrl_c_clears_the_line_when_nothing_runs_and_says_how_to_leave(
    tmp_path: Path,
) -> None:
    async with at_terminal(tmp_path, silent) as person:
        person.types("half a thought")
        await person.sees("half a thought")
        person.types("\x03")
        await person.sees("Ctrl-D quits")
        assert "half a thought" not in person.glass.text
        await person.leaves()
        assert "/stop" not in person.bot.commands


async def test_leaving_while_a_turn_runs_stops_it_and_says_so(tmp_path: Path) -> None:
    async with at_terminal(tmp_path, says(Delta("As far as this"), asyncio.Event())) as person:
        person.types("tell me\r")
        await person.sees("As far as this")
        await person.leaves()
        assert "As far as this\n\nYou quit, so the running answer was stopped" in person.glass.text
        assert "(stopped)" in person.glass.text


async def test_leaving_can_be_typed(tmp_path: Path) -> None:
    for word in ("/quit", "/exit"):
        async with at_terminal(tmp_path, silent) as person:
            person.types(f"{word}\r")
            async with asyncio.timeout(PATIENCE):
                await person.talk
            assert person.bot.submitted == []


async def test_a_step_that_is_asked_again_is_not_shown(tmp_path: Path) -> None:
    script = says(Delta("A first try."), StepRestarted(), Delta("The second try."))
    async with at_terminal(tmp_path, script) as person:
        person.types("try\r")
        await person.sees("The second try.")
        await person.leaves()
        assert "A first" not in person.glass.text


async def test_what_was_printed_of_a_void_step_is_called_void(tmp_path: Path) -> None:
    hold = asyncio.Event()
    script = says(*deltas("First.\n\nMore.\n"), hold, StepRestarted(), Delta("Anew."))
    async with at_terminal(tmp_path, script) as person:
        person.types("try\r")
        await person.sees("First.\n\nMore.")
        hold.set()
        await person.sees("Anew.")
        await person.leaves()
        assert "First.\n\nThe model is being asked again; ignore the answer above.\n\nAnew.\n" in (
            person.glass.text
        )


async def test_a_final_text_that_did_not_stream_is_printed(tmp_path: Path) -> None:
    async with at_terminal(tmp_path, silent, finals={"hi": "Not **streamed**."}) as person:
        person.types("hi\r")
        await person.sees("› hi\n\nNot streamed.\n")
        await person.leaves()


async def test_a_final_text_that_differs_is_printed_whole(tmp_path: Path) -> None:
    hold = asyncio.Event()
    script = says(Delta("Wrong.\n\nVery wrong.\n"), hold)
    async with at_terminal(tmp_path, script, finals={"hi": "Right."}) as person:
        person.types("hi\r")
        await person.sees("Wrong.\n\nVery wrong.")
        hold.set()
        await person.sees("The final answer:\n\nRight.\n")
        await person.leaves()


async def test_a_reply_that_is_sent_again_is_marked_and_one_after_leaving_is_printed(
    tmp_path: Path,
) -> None:
    async with at_terminal(tmp_path, silent) as person:
        reply = Reply("From before.", actions=(Action("Again", "/retry"),))
        await person.terminal.send(Outbound(7, ADDRESS, reply, "x", "t3", is_resent=True))
        await person.sees("(sent again after a restart)\n\nFrom before.\n\n  Next: /retry\n")
        await person.leaves()
        await person.terminal.send(Outbound(7, ADDRESS, Reply("Late."), "x", "t3"))
        assert person.glass.text.endswith("\nLate.\n")


async def test_text_of_the_model_does_not_act_on_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[2Ja\x9b2Jb\n\n`\x1b[5m`\u202e"
    script = says(
        *deltas(evil, 3),
        ToolStarted("\x1b]0;owned\x07x", '{"a": "\\u001b[2J"}'),
        ToolEnded("\x1b]0;owned\x07x", is_error=False),
        *deltas(evil + "the end", 3),
    )
    async with at_terminal(tmp_path, script) as person:
        person.types("hi\r")
        await person.sees("the end")
        await person.leaves()
        raw = person.glass.raw.replace("\x1b]11;?\x1b\\", "")  # our question
        for sequence in ("\x1b]", "\x1b[2J", "\x1b[5m", "\x9b", "\u202e", "\x07"):
            assert sequence not in raw


async def test_commands_are_completed_with_their_meaning(tmp_path: Path) -> None:
    async with at_terminal(tmp_path, silent) as person:
        person.types("/cont")
        await person.sees("/context  what the model sees")
        person.types("\t\r")
        await person.sees("› /context\n\n  Context 12.4k of 50k tokens")
        await person.leaves()


async def test_lines_may_belong_to_one_message_and_an_empty_one_is_none(tmp_path: Path) -> None:
    async with at_terminal(tmp_path, lambda text: [Delta(f"Yes, {len(text)}.")]) as person:
        person.types("\r  \rone\x1b\rtwo\r")
        await person.sees("Yes, 7.")
        person.types("\x1b[200~one\r\ntwo\nthree\x1b[201~\r")
        await person.sees("Yes, 13.")
        await person.leaves()
        sent = [inbound.text for inbound in person.bot.submitted]
        assert sent == ["one\ntwo", "one\ntwo\nthree"]


async def test_a_pasted_megabyte_is_one_message_and_no_history(tmp_path: Path) -> None:
    pasted = "a line of some words\n" * 50_000
    async with at_terminal(tmp_path, says(Delta("Yes."))) as person:
        # A pipe holds 64 KB: the rest has to be read while it is written.
        await asyncio.to_thread(person.types, f"\x1b[200~{pasted}\x1b[201~\r")
        await person.sees("Yes.")
        await person.leaves()
        assert person.bot.submitted[0].text == pasted
        assert (tmp_path / "history").read_text() == ""


async def test_what_was_typed_comes_back_another_day_for_its_owner_alone(tmp_path: Path) -> None:
    for _ in range(2):
        async with at_terminal(tmp_path, says(Delta("Yes."))) as person:
            person.types("a question\r")
            await person.sees("Yes.")
            await person.leaves()
    async with at_terminal(tmp_path, says(Delta("Yes."))) as person:
        person.types("\x1b[A")
        await person.sees("› a question")
        person.types("\x03")
        await person.leaves()
    assert stat.S_IMODE((tmp_path / "history").stat().st_mode) == 0o600


@pytest.mark.parametrize("columns", [20, 80])
async def test_no_line_is_wider_than_the_terminal(tmp_path: Path, columns: int) -> None:
    text = f"{'word ' * 30}{'中文' * 60} {'long' * 50} 😀\n\n{DOCUMENT}"
    async with at_terminal(tmp_path, says(*deltas(text)), columns=columns) as person:
        person.types(f"{'中' * 50}\r")
        await person.sees("the end")
        await person.leaves()
        assert person.glass.text.replace("\n", "").count("中") == 50 + 60


async def test_a_new_width_holds_from_the_next_line_on(tmp_path: Path) -> None:
    hold = asyncio.Event()
    text = f"{'word ' * 40}\n\n"
    async with at_terminal(tmp_path, says(Delta(text + "x\n"), hold, Delta(text))) as person:
        person.types("hi\r")
        await person.sees("x")
        person.glass.columns = 40
        hold.set()
        await person.sees(f"{'word ' * 8}".rstrip() + "\n" + f"{'word ' * 8}".rstrip())
        await person.leaves()


async def test_a_dumb_terminal_gets_words_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    async with at_terminal(tmp_path, says(*deltas("A **bold**\n\nanswer."))) as person:
        person.types("hi\r")
        await person.sees("A bold\n\nanswer.")
        person.types("/context\r")
        await person.sees("next cut at t21")
        await person.leaves()
        assert "\x1b" not in person.glass.raw


async def test_a_dumb_terminal_goes_to_other_conversations_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    async with at_terminal(tmp_path, says(Delta("Yes."))) as person:
        person.types("/resume\r")
        await person.sees("Nothing was said here yet; /resume NAME begins one.")
        person.types("/resume trip\r")
        await person.sees("── trip · nothing was said here yet ──")
        person.types("hi\r")
        await person.sees("Yes.")
        await person.leaves()
        assert person.bot.submitted[-1].address == Address("terminal", "trip")


async def test_without_a_picture_in_the_clipboard_ctrl_v_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    async with at_terminal(tmp_path, silent) as person:
        person.types("\x16")
        await person.sees("There is no picture in the clipboard")
        await person.leaves()


async def test_a_file_that_can_t_be_read_keeps_the_message_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: Path) -> Attachment:
        raise LocalFileError(f"{str(file)!r} can't be read (Permission denied)")

    (tmp_path / "a.txt").write_text("x")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("channels.terminal.terminal.read_attachment", refuse)
    async with at_terminal(tmp_path, says(Delta("Yes."))) as person:
        person.types("look at @a.txt \r")
        await person.sees("so your message was not sent")
        assert person.bot.submitted == []
        person.types("hi\r")
        await person.sees("Yes.")
        await person.leaves()


async def test_a_form_is_filled_in_the_input_line(tmp_path: Path) -> None:
    async with at_terminal(tmp_path, silent) as person:
        person.types("/note\r")
        await person.sees("What shall it say?")
        await person.sees("it was")
        await person.sees("Enter saves · /keep")
        person.types(", and\x1b\rmore\r")
        await person.sees("There is no command /keep")
        assert person.bot.submitted[-1].text == "/keep as\nit was, and\nmore"
        await person.leaves()
        assert "it was" not in (tmp_path / "history").read_text()


async def test_ctrl_c_gives_a_form_up_and_what_was_being_typed_comes_back(tmp_path: Path) -> None:
    async with at_terminal(tmp_path, silent) as person:
        person.types("/note\runsent words")
        await person.sees("Enter saves · /keep")
        person.types("\x03")
        await person.sees("Cancelled; nothing was changed.")
        await person.sees("unsent words")
        person.types("\x15")
        person.types("/note\r")
        await person.sees("Enter saves · /keep")
        person.types("\x15\x7f\x15\r")
        await person.sees("The text is empty, so nothing was changed.")
        assert [inbound.text for inbound in person.bot.submitted] == ["/note", "/note"]
        await person.leaves()
