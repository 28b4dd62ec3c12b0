"""Tests of parsing an MCP server's messages: valid messages are unchanged, and unreadable or too
large ones give a correct error."""

from __future__ import annotations

import json
from itertools import chain, product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp_types import CallToolResult, ListToolsResult, ReadResourceResult
from mcp_types.jsonrpc import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from mcp_types.methods import validate_server_result

from plugins.mcp.layers import LARGE
from plugins.mcp.messages import (
    UNREADABLE,
    ServerAnswers,
    StreamLines,
    TooMuchError,
    encode,
    read_messages,
)
from tests.tables import each_row

FEW = settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(TEXT, inside, max_size=4),
    max_leaves=15,
)
IDS = st.integers(0, 2**31) | st.text(st.sampled_from("abc-9"), min_size=1, max_size=9)
RESULTS = st.dictionaries(TEXT.filter(lambda name: name != "content"), JSON, max_size=4)
ANSWERS = st.builds(lambda id, result: {"jsonrpc": "2.0", "id": id, "result": result}, IDS, RESULTS)


def ask(*ids: int | str) -> ServerAnswers:
    answers = ServerAnswers()
    for one in ids:
        answers.sent(JSONRPCRequest(jsonrpc="2.0", id=one, method="tools/call"))
    return answers


def failed(messages: list[JSONRPCMessage]) -> dict[Any, str]:
    """Return the reasons for unreadable answers, by the calls that get them."""
    errors = [one for one in messages if isinstance(one, JSONRPCError)]
    assert len(errors) == len(messages)
    assert all(one.error.code == UNREADABLE for one in errors)
    return {one.id: one.error.message for one in errors}


@FEW
@given(answer=ANSWERS, sorted_keys=st.booleans(), indent=st.none() | st.just(1))
def test_an_answer_is_read_as_it_is_however_it_is_written(
    answer: dict[str, Any], sorted_keys: bool, indent: int | None
) -> None:
    written = json.dumps(answer, sort_keys=sorted_keys, indent=indent).encode()
    (read,) = read_messages(b"\xef\xbb\xbf " + written + b"\r")
    assert isinstance(read, JSONRPCResponse)
    assert (read.id, read.result) == (answer["id"], answer["result"])
    assert json.loads(encode([read])[0]) == answer
    assert read_messages(written + written) == [read, read]
    assert read_messages(b"[" + written + b"]") == [read]


@FEW
@given(answer=ANSWERS, data=st.data())
def test_a_part_of_an_answer_fails_the_call_that_waits_at_once(
    answer: dict[str, Any], data: st.DataObject
) -> None:
    """Truncate it anywhere, with any key first."""
    keys = data.draw(st.permutations(list(answer)))
    written = json.dumps({key: answer[key] for key in keys}).encode()
    end = data.draw(st.integers(len('{"jsonrpc":'), len(written) - 1))
    told = failed(ask(answer["id"]).read(written[:end]))
    assert told == {answer["id"]: "its answer can't be read: it is no valid JSON"}


NOT_OF_THE_PROTOCOL = {
    '{"jsonrpc": "2.0", "id": 7}': "it has neither a result nor an error",
    '{"jsonrpc": "2.0", "id": 7, "result": [1]}': "its result is not of the protocol",
    '{"jsonrpc": "2.0", "id": 7, "result": "x"}': "its result is not of the protocol",
    '{"jsonrpc": "2.0", "id": null, "result": {}}': "it does not say which call it answers",
    '{"jsonrpc": "2.0", "result": {}}': "it does not say which call it answers",
    '{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "No."}}': "answers (No.)",
    '{"jsonrpc": "2.0", "id": 7, "result": {"a": tru}}': "it is no valid JSON",
    '{"id": 7, "result": {"a": \'b\'}}': "it is no valid JSON",
    '{"jsonrpc":"2.0","result":{"x":[1,]},"id":7}': "it is no valid JSON",
    '  "jsonrpc": "2.0",': "it is no valid JSON",
    '{"jsonrpc": "2.0", "id": 7, "result": ' + "[" * 100_000: "it is nested too deeply",
    '{"jsonrpc": "2.0", "id": 7, "result": ' + "[" * 99_000: "it is nested too deeply",
}


@each_row(("written", "why"), NOT_OF_THE_PROTOCOL.items())
def test_an_answer_that_is_none_says_why(written: str, why: str) -> None:
    told = failed(ask(7).read(written.encode()))
    assert list(told) == [7]
    assert why in told[7]


def test_where_nothing_says_which_call_an_answer_is_for_all_that_wait_hear_of_it() -> None:
    answers = ask(1, "b", 3)
    assert len(answers.read(b'{"jsonrpc": "2.0", "id": 3, "result": {}}')) == 1
    broken = b'{"result": {"content": [{"id": 3, "type": "te'
    assert set(failed(answers.read(broken))) == {1, "b"}
    assert answers.read(broken) == [], "nobody waits any more"


def test_the_id_of_a_broken_answer_is_its_own() -> None:
    inside = b'{"result": {"content": [{"id": 1}, "x]}, "jsonrpc": "2.0", "id": 2}'
    assert set(failed(ask(1, 2).read(inside))) == {2}
    assert set(failed(ask(1, 2).read(b'{"jsonrpc": "2.0", "id": 1, "result": {"id": 2'))) == {1}


LOG = (
    "Server started",
    "",
    "{'jsonrpc': '2.0', 'id': 7}",
    'DEBUG got {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}',
    'sent: {"jsonrpc": "2.0", "id": 7, "result": {"a": 1}',
    '{"level": "error", "id": 7, "msg": "result"}',
    '{ level: "error" }',
    "[1, 2]",
    "7",
    '{"jsonrpc": "2.0"}',
    "\x00\xff",
    "{" * 5_000,
    "x" * 5_000_000,
)


@each_row("line", LOG)
def test_a_line_of_a_log_is_no_answer(line: str) -> None:
    assert ask(7).read(line.encode("latin-1")) == []
    for piece, is_whole in StreamLines().feed(line.encode("latin-1") + b"\n"):
        assert is_whole or ask(7).read_begin(piece) == []


@FEW
@given(value=JSON | st.binary(max_size=50).map(lambda raw: raw.decode("latin-1")))
def test_nothing_that_is_sent_raises(value: Any) -> None:
    ask(1).read(json.dumps(value).encode())
    ask(1).read(str(value).encode())


def test_what_is_nearly_right_is_taken() -> None:
    def read(written: str) -> JSONRPCMessage:
        (found,) = read_messages(written.encode())
        return found

    refused = read('{"jsonrpc": "2.0", "id": 1, "error": "No."}')
    assert isinstance(refused, JSONRPCError)
    assert refused.error.message == "No."
    strange = read('{"id": 1, "error": {"message": {"a": 1}}}')
    assert isinstance(strange, JSONRPCError)
    assert '"a": 1' in strange.error.message
    told = (
        '{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"x","data":{"supported":["1"]}}}'
    )
    assert json.loads(encode([read(told)])[0]) == json.loads(told)
    number = read('{"jsonrpc": "2.0", "id": 1, "result": {"a": NaN, "b": "\\ud800", "c": "a\nb"}}')
    assert isinstance(number, JSONRPCResponse)
    assert number.result["b"] == "?"
    encode([read('{"jsonrpc": "2.0", "method": "x", "params": [1]}')])
    assert isinstance(read('{"jsonrpc": "2.0", "method": "x"}'), JSONRPCNotification)
    assert isinstance(read('{"jsonrpc": "2.0", "method": "x", "id": 2}'), JSONRPCRequest)


# --- large ones -----------------------------------------------------------------------------------


def large(result: str) -> JSONRPCResponse:
    (read,) = read_messages(b'{"result":%s,"jsonrpc":"2.0","id":1}' % result.encode())
    assert isinstance(read, JSONRPCResponse)
    assert len(encode([read])[0]) < 1_000_000, "the SDK takes no longer event"
    return read


FILLS = ("x", "\\n", "\\u0001", "é", "\N{GRINNING FACE}", "a,b{[", '\\"')


@each_row(("fill", "length"), product(FILLS, [LARGE, 1_500_000, 3_900_000]))
def test_a_long_text_is_taken_up_to_what_the_sdk_takes(fill: str, length: int) -> None:
    text = fill * (length // len(fill.encode()))
    read = large(
        '{"content":[{"type":"text","text":"' + text + '"}],"isError":true,"_meta":{"a":1}}'
    )
    result = CallToolResult.model_validate(read.result)
    (piece,) = read.result["content"]
    assert result.is_error
    said = json.loads(f'"{text}"')
    whole = piece["text"] == said
    assert whole or f"[The rest is left out: {len(said):,} characters" in piece["text"]
    assert whole == (len(json.dumps(said, ensure_ascii=False).encode()) <= 900_000)
    assert piece["text"].startswith(said[:10_000])


SHAPES = {
    "lists": "[%s[]]" % ("[]," * 1_200_000),
    "objects": "[%s{}]" % ("{}," * 1_200_000),
    "deep": "[%s{}]" % ('{"a":{"b":{"c":[]}}},' * 180_000),
    "numbers": "[%s1]" % ("1," * 1_900_000),
    "texts": '[%s""]' % ('"",' * 1_200_000),
}


@each_row(
    ("shape", "field"),
    product(SHAPES, ["structuredContent", "content", "tools", "_meta", "contents"]),
)
def test_of_what_is_made_of_very_many_values_few_are_built(shape: str, field: str) -> None:
    messages = ask(1).read(
        b'{"jsonrpc":"2.0","id":1,"result":{"%s":%s}}' % (field.encode(), SHAPES[shape].encode())
    )
    assert len(encode(messages)[0]) < 1_000_000


def test_pieces_of_a_large_result_are_what_they_are_in_a_small_one() -> None:
    picture = "A" * 3_000_000
    read = large(
        json.dumps(
            {
                "content": [
                    {"type": "text", "text": "one"},
                    {"type": "image", "data": picture, "mimeType": "image/png"},
                    {"type": "resource_link", "uri": "a://b", "name": "b", "size": 1},
                    {"type": "resource", "resource": {"uri": "a://c", "text": "two"}},
                    {"type": "resource", "resource": {"uri": "a://c", "blob": "AA"}},
                    {"type": "hologram", "data": "x"},
                ]
            }
        )
    )
    CallToolResult.model_validate(read.result)
    assert [one.get("text", one.get("uri")) for one in read.result["content"]] == [
        "one",
        "[image/png is left out: it is no text]",
        "a://b",
        "two",
        "[data is left out: it is no text]",
        "[a part of the kind 'hologram' is left out]",
    ]
    structured = large(json.dumps({"content": [], "structuredContent": {"a": "x" * LARGE}}))
    assert structured.result["content"][0]["text"].startswith('{"a": "xxx')
    resource = {"contents": [{"uri": "a://b", "mimeType": "image/png", "blob": picture}]}
    assert ReadResourceResult.model_validate(large(json.dumps(resource)).result).contents


def test_a_long_list_of_tools_keeps_its_names_and_the_schemas_for_which_there_is_room() -> None:
    schema = {"type": "object", "properties": {"a": {"description": "x" * 2_000}}}
    tools = [{"name": f"t{n}", "description": "y", "inputSchema": schema} for n in range(900)]
    listed = ListToolsResult.model_validate(large(json.dumps({"tools": tools})).result)
    assert [one.name for one in listed.tools] == [f"t{n}" for n in range(900)]
    assert listed.tools[0].input_schema == schema
    assert listed.tools[-1].input_schema == {"type": "object"}


SCHEMAS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("type", "properties", "required", "anyOf", "$schema"), JSON),
)
TOOLS = st.fixed_dictionaries(
    {},
    optional={
        "name": TEXT | JSON,
        "inputSchema": SCHEMAS | JSON,
        "execution": st.fixed_dictionaries({}, optional={"taskSupport": JSON}) | JSON,
        **dict.fromkeys(("description", "title", "annotations", "icons", "_meta"), JSON),
        "outputSchema": SCHEMAS | JSON,
    },
)


@FEW
@given(tools=st.lists(TOOLS | JSON, max_size=5))
def test_a_tool_that_is_none_costs_itself_and_none_of_the_others(tools: list[Any]) -> None:
    good = {"name": "good", "description": "Good.", "inputSchema": {"type": "object", "x": 1}}
    message = {"jsonrpc": "2.0", "id": 1, "result": {"tools": [*tools, good]}}
    (read,) = ask(1).read(json.dumps(message).encode())
    assert isinstance(read, JSONRPCResponse)
    for version in ("2024-11-05", "2025-11-25"):
        validate_server_result("tools/list", version, read.result)  # or the SDK rejects all
    listed = ListToolsResult.model_validate(read.result).tools
    names = (one.get("name") for one in tools if isinstance(one, dict))
    assert [one.name for one in listed] == [*(n for n in names if isinstance(n, str)), "good"]
    assert listed[-1].input_schema == good["inputSchema"]


# --- lines ----------------------------------------------------------------------------------------


@FEW
@given(lines=st.lists(st.binary(max_size=60)), sizes=st.lists(st.integers(1, 30), min_size=1))
def test_lines_are_the_same_however_they_come(lines: list[bytes], sizes: list[int]) -> None:
    """A line that is too long is returned truncated, once."""
    clean = [one.replace(b"\n", b"").rstrip(b"\r") for one in lines]
    stream = b"".join(one + b"\r\n" for one in clean)
    reader, at = StreamLines(longest=40), 0
    found: list[tuple[bytes, bool]] = []
    while at < len(stream):
        size = sizes[at % len(sizes)]
        found += reader.feed(stream[at : at + size])
        at += size
    assert [is_whole for _, is_whole in found] == [len(one) < 40 for one in clean] or any(
        len(one) == 40 for one in clean
    )
    for one, (read, is_whole) in zip(clean, found, strict=True):
        assert read == one if is_whole else one.startswith(read[:40])


def test_a_line_that_never_ends_is_given_up() -> None:
    reader, piece = StreamLines(), b"x" * 1_000_000
    with pytest.raises(TooMuchError):
        list(chain.from_iterable(reader.feed(piece) for _ in range(100)))
