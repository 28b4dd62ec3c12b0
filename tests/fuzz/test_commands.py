"""Command lines of every shape, through the whole bot: each is answered, and none breaks it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.settings.schema import SETTINGS
from plugins.loader import load
from tests.fakes.openai_server import Call, Received, Say
from tests.fuzz.lasting import FEW, Lasting, lasting

COMMANDS = load(Path(os.devnull)).commands
SUBCOMMANDS = [
    f"{command.name} {sub.name}" for command in COMMANDS.values() for sub in command.subs
]
HARD = [
    *("t0", "t1", "t3-t1", "t1-t99999999999999999999", "t-1", "x", "0", "-1", "9" * 40, "1e999"),
    *("NaN", "null", "true", "[", "((", "*", "^", "\\", '"', "'", "%s", "{}", '{"a": [', "AND OR"),
    *("NEAR(", "a*b", "read[file", ".*+?", "--here", "--unset", "--", "=", "yes", "here", "owner"),
    *("chat", "all", "today", "2026-02-30", "9999-99-99", "0000-00-00", "..", "../../etc/passwd"),
    *("/etc/passwd", "context.json", "lift", "\u202e", "😀", "\u0130", "a\u0301", "१२", "²", "t²"),
]
WORDS = st.one_of(
    st.sampled_from(HARD),
    st.sampled_from(list(SETTINGS)),
    st.text(max_size=12),
)
LINES = st.builds(
    "/{} {}".format,
    st.sampled_from([*COMMANDS, *SUBCOMMANDS]),
    st.lists(WORDS, max_size=4).map(" ".join),
)


@pytest.fixture(scope="module")
def bot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lasting]:
    """A bot with something in its memory. It answers with the tool once, and with words then."""

    def script(request: Received) -> Say:
        is_first = request.body["messages"][-1]["role"] == "user" and request.body.get("tools")
        calls = (Call("list_files", "{}", "a"),) if is_first else ()
        return Say("" if calls else "I see.", calls)

    folder = tmp_path_factory.mktemp("bot")
    with lasting(folder, script, messages_per_minute=0) as bot:
        for number in range(3):
            bot.says(f"The {number}th question, about Lisbon")
        yield bot


@FEW
@given(LINES)
@example("/context pin t0")
@example("/context search ((")
@example("/context import ../../etc/passwd")
@example("/config agent_max_steps 9" + "9" * 5_000)
@example("/undo " + "9" * 5_000)
@example("/context drop t" + "9" * 5_000)
def test_no_command_line_breaks_inside_the_bot(bot: Lasting, line: str) -> None:
    bot.says(line)


@given(line=st.text(max_size=40).map("/".__add__))
@FEW
def test_no_text_after_a_slash_breaks_inside_the_bot(bot: Lasting, line: str) -> None:
    bot.says(line)
