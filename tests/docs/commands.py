"""`docs/commands.md`, generated from the built-in commands: `python -m tests.docs.commands`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from plugins.api import Command
from plugins.loader import load
from plugins.wording import cell

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"

_INTRODUCTION = """\
# Commands

<!-- Made by `make docs` from the commands in the code; changes made here by hand are lost. -->

A message that begins with a slash and a word is a command. It is answered at once, even while the
model is still writing, and does not become part of the context. `/help COMMAND` explains a command
in the chat. `//text` sends the model a text that begins with a slash.

`[Brackets]` are optional, CAPITALS are yours to fill in. In every command, turns are
named t1, t2, and so on.
"""


def page() -> str:
    """Return the whole page, as Markdown."""
    rows = [row for command in builtin() for row in _rows(command)]
    return "\n".join([_INTRODUCTION, "| command | what it does |", "|---|---|", *rows, ""])


def builtin() -> list[Command]:
    """Return the built-in commands by name, without those of other installed plugins."""
    commands = load(Path(os.devnull)).commands.values()
    own = [c for c in commands if c.run.__module__.startswith("plugins.")]
    return sorted(own, key=lambda command: command.name)


def _rows(command: Command) -> Iterable[str]:
    yield _row(f"/{command.name} {command.usage}", command.summary)
    for sub in command.subs:
        yield _row(f"/{command.name} {sub.name}", f"{sub.summary[:1].upper()}{sub.summary[1:]}")


def _row(usage: str, summary: str) -> str:
    return f"| `{cell(usage)}` | {cell(summary)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
