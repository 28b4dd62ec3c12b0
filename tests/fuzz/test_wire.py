"""Tests of a model's answers in any shape: the turn ends with a reply or a plain sentence, and the
next message works."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fakes.openai_server import Answer, Body, Received, Say
from tests.fuzz.lasting import FEW, Lasting, lasting

NUMBERS = st.integers(-5, 5) | st.sampled_from([2**63, -(2**63), 10**40, 1.5, True])
LEAVES = st.none() | NUMBERS | st.text(max_size=8) | st.sampled_from(["stop", "tool_calls", "{"])
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def fields(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object in which each field may be missing, or hold what it should not."""
    return st.fixed_dictionaries({}, optional={k: v | ANYTHING for k, v in values.items()})


FUNCTION = fields(
    name=st.sampled_from(["list_files", "calculate", "a[b", "no such tool", ""]),
    arguments=st.sampled_from(["{}", "", "[", '{"expression": "1+1"}', '{"a": ' * 50, "null"]),
)
CALL = fields(index=NUMBERS, id=st.text(max_size=3), type=st.just("function"), function=FUNCTION)
DELTA = fields(
    role=st.just("assistant"),
    content=st.text(max_size=12),
    reasoning_content=st.text(max_size=5),
    tool_calls=st.lists(CALL, max_size=2),
)
CHOICE = fields(
    index=NUMBERS,
    delta=DELTA,
    message=DELTA,
    finish_reason=st.sampled_from(["stop", "tool_calls", "length", "content_filter"]),
)
USAGE = fields(
    prompt_tokens=NUMBERS,
    completion_tokens=NUMBERS,
    total_tokens=NUMBERS,
    prompt_tokens_details=fields(cached_tokens=NUMBERS),
)
CHUNK = fields(
    id=st.text(max_size=3),
    model=st.text(max_size=5),
    choices=st.lists(CHOICE, max_size=2),
    usage=USAGE,
    error=fields(message=st.text(max_size=9), code=NUMBERS),
)
EVENT = st.one_of(
    CHUNK.map(lambda chunk: f"data: {json.dumps(chunk)}\n\n"),
    ANYTHING.map(lambda value: f"data: {json.dumps(value)}\n\n"),
    st.sampled_from(["data: [DONE]\n\n", ": a comment\n\n", "event: error\n", "\n\n", "data:\n\n"]),
    st.text(max_size=20),
)


class Wire:
    """An endpoint that answers with `bodies`, one after the other, and then as it should."""

    def __init__(self) -> None:
        self.bodies: list[Body] = []

    def __call__(self, request: Received) -> Answer:
        return self.bodies.pop(0) if self.bodies else Say("As it should be.")


@pytest.fixture(scope="module")
def at_the_end(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Wire, Lasting]]:
    """The wire, and the bot at its other end."""
    wire = Wire()
    folder: Path = tmp_path_factory.mktemp("bot")
    with lasting(folder, wire, messages_per_minute=0) as bot:
        yield wire, bot


def chunk(**fields: Any) -> str:
    return f"data: {json.dumps({'choices': [{'delta': {'content': 'x'}}], **fields})}\n\n"


@FEW
@given(st.lists(st.lists(EVENT, max_size=4).map("".join), min_size=1, max_size=2))
@example([chunk(usage={"prompt_tokens": 10**40, "completion_tokens": -1})])
@example([chunk(usage={"prompt_tokens": 2**63, "completion_tokens": 2**63})])
@example([chunk(usage={"prompt_tokens": -7, "completion_tokens": -7})])
@example([chunk(usage={"prompt_tokens": True, "completion_tokens": 1})])
@example([chunk(model="\ud800")])
@example(['data: {"error": {"message": "\\ud800", "code": 1' + "0" * 40 + "}}\n\n"])
@example(['data: {"choices":' + "[" * 100_000])
def test_whatever_streams_the_turn_ends_and_the_next_one_works(
    at_the_end: tuple[Wire, Lasting], bodies: list[str]
) -> None:
    wire, bot = at_the_end
    wire.bodies = [Body(body, "text/event-stream") for body in bodies]
    bot.says("What do you see?")
    wire.bodies = []
    assert bot.says("And now?").text.endswith("As it should be.")


@FEW
@given(CHUNK | ANYTHING)
def test_whatever_comes_whole_the_turn_ends(
    at_the_end: tuple[Wire, Lasting], answer: object
) -> None:
    wire, bot = at_the_end
    wire.bodies = [Body(json.dumps(answer), "application/json")]
    bot.says("What do you see?")
    wire.bodies = []
    bot.says("/context")
