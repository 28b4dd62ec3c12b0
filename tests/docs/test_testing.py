"""The page on tests: its examples are tests, and pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.docs.pages import example


def test_the_example_of_a_pure_rule_passes() -> None:
    names: dict[str, Any] = {}
    exec(example("testing.md", "python"), names)
    names["test_the_tag_at_the_end_of_a_reply_becomes_its_line"]()


async def test_the_example_of_a_whole_bot_passes(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(example("testing.md", "python3"), names)
    await names["test_a_tool_writes_into_the_files_of_its_chat"](tmp_path)
