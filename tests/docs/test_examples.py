"""Tests of the examples on all pages: code runs as written, and typed lines are understood."""

from __future__ import annotations

import asyncio
import builtins
import dis
import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from channels.terminal.completion import COMMANDS
from tests.docs.commands import builtin
from tests.docs.pages import PAGES, ROOT, example
from tests.fakes.openai_server import Say
from tests.web.site import serving
from tests.whole.testbot import run_bot

BLOCK = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TYPED = re.compile(r"`(/[a-z]+(?: [^`]*)?)`")
ELSEWHERE = {
    *("/buy", "/split"),
    *("/data", "/backups", "/etc", "/proc", "/tmp"),  # folders
    *("/props", "/metrics", "/health", "/ready"),  # addresses
    *("/roll", "/note", "/parley", "/newbot", "/imagine"),  # of a plugin, and of other programs
}
"""Words that begin with a slash but are not commands of the bot."""


PLAYED = {"first-hour.md", "first-plugin.md"}
"""Pages that test_tutorials.py types from the first line to the last."""


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return the language and the text of each block of a page."""
    return BLOCK.findall(page.read_text("utf-8"))


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from codes(inner)


PYTHON = [
    pytest.param(page, text, id=f"{page.name}-{number}")
    for page in PAGES
    for number, (language, text) in enumerate(blocks(page))
    if language.startswith("py")
]


@pytest.mark.parametrize(("page", "text"), PYTHON)
async def test_each_example_in_python_runs_by_itself(page: Path, text: str, tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": page.stem}
    if "127.0.0.1:8080" not in text:
        exec(compile(text, page.name, "exec", dont_inherit=True), names)
    else:
        async with serving(tmp_path, lambda _: Say("Hello!")) as site:
            text = text.replace("http://127.0.0.1:8080", site.url)
            code = compile(text, page.name, "exec", dont_inherit=True)
            await asyncio.to_thread(exec, code, names)
            assert "Hello!" in str(names.get("answer"))
    loaded = {
        one.argval
        for inner in codes(compile(text, "", "exec"))
        for one in dis.get_instructions(inner)
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    unknown = loaded - names.keys() - vars(builtins).keys()
    assert not [name for name in unknown if not name.startswith("__")]


def test_each_command_that_a_page_names_is_one() -> None:
    known = {command.name: {sub.name for sub in command.subs} for command in builtin()}
    own = {name for name, _ in COMMANDS}
    with_subs = {"context", "jobs", "mcp", "memory"}
    for page in set(PAGES) - {ROOT / "CHANGELOG.md"}:  # it mentions former commands
        for line in TYPED.findall(page.read_text("utf-8")):
            name, *words = line.removeprefix("/").split()
            assert name in known or name in own or f"/{name}" in ELSEWHERE, (page, line)
            if name in with_subs and words and words[0].isalpha() and words[0].islower():
                assert words[0] in known[name], (page, line)


def typed_in_blocks(page: Path) -> list[str]:
    lines = [line.removeprefix("> ") for _, text in blocks(page) for line in text.splitlines()]
    return [line for line in lines if re.match(r"/[a-z]+( |$)", line) and "shell:" not in line]


async def test_each_command_on_a_line_of_its_own_is_carried_out_after_those_before(
    tmp_path: Path,
) -> None:
    settings = {"tools": {"web_fetch": True, "shell": True}, "agent_max_context_turns": 40}
    async with run_bot(tmp_path, lambda _: Say("Well."), settings) as bot:
        pages = [page for page in PAGES if page.name not in PLAYED]
        typed = [(page, line) for page in pages for line in typed_in_blocks(page)]
        assert len(typed) > 15
        for chat in {page.stem for page, _ in typed}:
            for number in range(9):
                await bot.says(f"What about hotel {number}, and the sprint?", chat=chat)
        for page, line in typed:
            reply = await bot.says(line, chat=page.stem)
            assert not reply.problem, (page.relative_to(ROOT), line, reply.text)


def test_the_example_of_a_pure_rule_passes() -> None:
    names: dict[str, Any] = {}
    exec(example("testing.md", "python"), names)
    names["test_the_tag_at_the_end_of_a_reply_becomes_its_line"]()


async def test_the_example_of_a_whole_bot_passes(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(example("testing.md", "python3"), names)
    await names["test_a_tool_writes_into_the_files_of_its_chat"](tmp_path)
