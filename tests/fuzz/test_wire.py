"""Tests of lines, headers and model responses in any shape: the bot answers, and never crashes."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.settings.schema import SETTINGS
from plugins.loader import load
from tests.fakes.openai_server import Answer, Body, Call, Received, Say
from tests.fuzz.lasting import FEW, Lasting, lasting
from tests.web.site import asked_raw, serving

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
    """Return objects in which each field may be missing, or have an invalid value."""
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
    """An endpoint that answers with each of `bodies` in turn, and correctly afterwards."""

    def __init__(self) -> None:
        self.bodies: list[Body] = []

    def __call__(self, request: Received) -> Answer:
        return self.bodies.pop(0) if self.bodies else Say("As it should be.")


@pytest.fixture(scope="module")
def at_the_end(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Wire, Lasting]]:
    """Yield the endpoint, and the bot that uses it."""
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
    """Yield a bot with content in its memory. It answers with a tool call first, and then with
    text."""

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


TOKEN = "a long random text"
NAMES = st.sampled_from(
    [
        *(b"Host", b"Origin", b"Cookie", b"Authorization", b"Sec-Fetch-Site", b"X-Forwarded-For"),
        *(b"X-Forwarded-Proto", b"Forwarded", b"Via", b"Prefer", b"Accept", b"Last-Event-ID"),
        *(b"Content-Length", b"Content-Type", b"Upgrade", b"Expect", b"X-Parley-Session"),
    ]
) | st.binary(min_size=1, max_size=6)
PIECES = st.sampled_from(
    [
        *(b"http://", b"localhost", b"[", b"]", b"::1", b":", b"@", b"/", b"%", b"\xff", b"\xc3"),
        *(b"Bearer ", b"parley=", b'"', b";", b"\\377", b",", b"127.0.0.1", b"99999", b"0"),
        *(b"text/event-stream", b"\t", b"a" * 300),
    ]
)
VALUES = st.lists(PIECES, max_size=6).map(b"".join) | st.binary(max_size=20)
HEADERS = st.lists(st.tuples(NAMES, VALUES), max_size=5)
PATHS = st.sampled_from(
    [*(b"/api/sessions", b"/api/login", b"/", b"/page", b"/nowhere", b"/v1/models", b"//[")]
)


@dataclass(frozen=True)
class Served:
    url: str
    runner: asyncio.Runner

    def answers(self, request: bytes) -> bytes:
        return self.runner.run(asked_raw(self.url, request))


@pytest.fixture(scope="module", params=["", TOKEN], ids=["open", "with a token"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        folder: Path = tmp_path_factory.mktemp("web")
        serves = serving(folder, token=request.param, trusted_proxies=("127.0.0.1",))
        site = runner.run(stack.enter_async_context(serves))
        try:
            yield Served(site.url, runner)
        finally:
            runner.run(stack.aclose())


@given(path=PATHS, method=st.sampled_from([b"GET", b"POST"]), headers=HEADERS)
@example(path=b"/api/sessions", method=b"GET", headers=[(b"Host", b"[")])
@example(path=b"/api/sessions", method=b"GET", headers=[(b"Origin", b"http://[")])
@example(path=b"/api/sessions", method=b"GET", headers=[(b"Cookie", b"parley=\xff")])
def test_no_header_breaks_the_web_channel(
    served: Served, path: bytes, method: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    lines = [b"%s: %s\r\n" % header for header in headers]
    if not any(name.lower() == b"host" for name, _ in headers):
        lines.append(b"Host: localhost\r\n")
    request = b"%s %s HTTP/1.1\r\n%sConnection: close\r\n\r\n" % (method, path, b"".join(lines))
    said = served.answers(request + b"\0" * 64)
    status = re.match(rb"HTTP/1\.1 (\d{3}) ", said)
    assert status is not None, (request, said)
    assert int(status[1]) < 500, (request, said)
