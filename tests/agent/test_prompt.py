"""The system prompt and the tools beside it."""

from __future__ import annotations

from agent.prompt import Prompt, base
from agent.tools.toolbox import Toolbox
from plugins.builtin.agents import delegate
from plugins.builtin.context_search import context_search
from tests.memory.rooms import KEY

PROMPT, TOOLS = Prompt(), Toolbox([context_search, delegate]).wire


def test_a_model_that_takes_no_tools_is_offered_none_and_told_of_none() -> None:
    frame = PROMPT.prefix(KEY, base("", is_small=True), ())
    assert frame.tools == ()
    assert "context_search" not in frame.system


def test_a_model_with_tools_is_told_when_to_look_things_up() -> None:
    frame = PROMPT.prefix(KEY, base("You are a pirate."), TOOLS)
    assert frame.system.startswith("You are a pirate.")
    assert "look them up with context_search" in frame.system
    assert [tool["function"]["name"] for tool in frame.tools] == ["context_search", "delegate"]
