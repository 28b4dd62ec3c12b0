"""Small windows: a short prompt, and conversations that go on in 4,096 and 8,192 tokens."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from memory.keys import ConversationKey
from tests.whole.house import living

KEY = ConversationKey("pipe/main", "pipe-main")
ALL_TOOLS = {"shell": True, "web_fetch": True}
MOST = 1_500
"""Tokens that the prompt may have, with all built-in tools on."""


@pytest.mark.parametrize("strategy", ["trim", "slim"])
async def test_the_prompt_with_all_built_in_tools_has_at_most_1500_tokens(
    tmp_path: Path, strategy: str
) -> None:
    settings = {"tools": ALL_TOOLS, "context": {"strategy": strategy}}
    async with living(tmp_path, settings=settings) as house:
        await house.says("/context")
        prefix = house.app.config.prefix(KEY)
        tokens = house.app.conversations.services.meter.prefix(prefix)
    sys.stdout.write(f"{strategy}: {tokens.system} tokens of prompt, {tokens.tools} of tools\n")
    assert {"shell", "web_fetch"} < {tool["function"]["name"] for tool in prefix.tools}
    assert 0 < tokens.system + tokens.tools <= MOST
