"""Tests that an option that a command does not have is refused, and never treated as text."""

from __future__ import annotations

from pathlib import Path

from bot.commands import refuse_unknown
from plugins.api import Command, CommandError, HookContext
from plugins.loader import load
from tests.tables import each_row
from tests.whole.testbot import run_bot

COMMANDS = load(Path("/nonexistent"), HookContext()).commands
READ_THEMSELVES = {"btw", "edit", "help", "jobs", "mcp", "memory", "remember", "remind"}
READ_THEMSELVES |= {"rules", "shell"}
"""Commands that accept any words, or that parse their options themselves."""


def is_refused(command: Command, text: str) -> bool:
    try:
        refuse_unknown(command, text)
    except CommandError as error:
        said = str(error)
    else:
        said = ""
    return f"has no option {text.split()[-1]}," in said


@each_row("name", sorted(COMMANDS))
def test_an_unknown_option_is_refused_before_and_behind_a_subcommand(name: str) -> None:
    command, refused = COMMANDS[name], name not in READ_THEMSELVES
    assert is_refused(command, "--nonsense") == refused
    for sub in command.subs:
        takes_words = sub.name in ("search", "keep")
        assert is_refused(command, f"{sub.name} --nonsense") == (refused and not takes_words)
        assert not is_refused(command, f"{sub.name} words --nonsense")


def test_options_that_are_known_and_other_words_are_not_refused() -> None:
    for line in (
        *("title --unset", "title -- a dash", "title Plans --x", "config --here", "model --here"),
        *("context compact the --preview", "context compact t1-t2 words", "pin --unset"),
    ):
        name, _space, rest = line.partition(" ")
        assert not is_refused(COMMANDS[name], rest), line
    assert is_refused(COMMANDS["context"], "compact t3-t9 --preview")


async def test_a_compaction_with_an_unknown_option_changes_nothing(tmp_path: Path) -> None:
    async with run_bot(tmp_path) as bot:
        said = await bot.says("/context compact --preview")
        assert said.problem == "command_refused"
        assert said.text.startswith("/context has no option --preview, so nothing was done")


async def test_an_unknown_word_is_answered_with_the_command_or_subcommand_meant(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path) as bot:
        for line, hint in (
            ("context help", "did you mean /help context?"),
            ("context rules", "did you mean /rules?"),
            ("context compct", "did you mean /context compact?"),
            ("rules dismis 1", "did you mean /rules dismiss?"),
            ("mcp usage", "did you mean /usage?"),
            ("jobs xyz", "/help jobs lists what it can do."),
            ("usage lift me and Ann", "/help usage lists what it can do."),
        ):
            assert (await bot.says(f"/{line}")).text.endswith(hint), line
