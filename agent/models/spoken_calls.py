"""Tool calls that a server left in the text of an answer, in the dialect of its model. Pure.

A server without a parser for its model (Ollama, LM Studio, vLLM without a flag) forwards the
model's text: a block between marks, in which JSON, XML or Python names a tool and its arguments.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from json import JSONDecoder
from uuid import uuid4

import orjson
from msgspec import Struct

from agent.models.partial_calls import repair
from agent.models.shapes import as_mapping
from memory.messages import ToolCall
from memory.patterns import lazy

_LONGEST_TEXT, _MOST_CALLS = 200_000, 100  # of a text that is searched for calls
_TAG = r"(?:[a-z]+[:_]|｜DSML｜)?(?:tool|function)_?(?:calls?|use)"
_BLOCK = lazy(
    r"^[^\S\n]*(?:"  # within a line, these are only mentioned
    rf"<(?P<tag>{_TAG})>(?P<a>.*?)(?:</(?P=tag)>|\Z)"  # Hermes, Qwen, GLM, MiniMax, DeepSeek V3.2
    r"|(?P<b><function=.*?</function>)(?:\s*</tool_call>)?"  # Llama 3, Qwen 3 Coder
    r"|(?P<c><invoke name=.*?</invoke>)"
    r"|```tool_(?:code|calls?)\n(?P<d>.*?)(?:```|\Z)"  # Gemma
    r")|(?<![`\"'“])(?:\[TOOL_CALLS\](?P<e>.*?)(?=\[TOOL_CALLS\]|\Z)"  # Mistral
    r"|<\|tool_calls_section_begin\|>(?P<f>.*?)(?:<\|tool_calls_section_end\|>|\Z)"  # Kimi
    r"|(?P<g><\|tool_call_begin\|>.*?(?:<\|tool_call_end\|>|\Z))"
    r"|<｜tool▁calls▁begin｜>(?P<h>.*?)(?:<｜tool▁calls▁end｜>|\Z)"  # DeepSeek
    r"|<\|python_tag\|>(?P<i>.*?)(?:<\|eo[mt]_id\|>|\Z)"  # Llama 3
    r"|<\|tool_call(?:_start|s)?\|>(?P<j>.*?)(?:<\|/?tool_call(?:_end|s)?\|>|\Z)"  # LFM, Phi
    r"|(?:<\|start\|>assistant)?(?:<\|channel\|>commentary)? ?(?P<k>to=functions\..*?)"
    r"(?:<\|call\|>|\Z)"  # gpt-oss
    r"|<\|action_start\|>(?:<\|plugin\|>)?(?P<m>.*?)(?:<\|action_end\|>|\Z)"  # InternLM
    r"|(?:<\|tool_call>|<start_function_call>)(?P<l>call:.*?)"  # Gemma 4
    r"(?:<tool_call\|>|<end_function_call>|\Z))",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
_MARKS = lazy(
    rf"<(?:{_TAG}>|function=|invoke name=)|```tool_c|\[TOOL_CALLS\]|<\|tool_call|<｜tool▁calls"
    r"|<\|python_tag|to=functions\.|<\|action_start|<start_function_call>",
    re.IGNORECASE,
)
_SIGN = lazy(r"[<`\[={]")
"""The characters of which each mark, and each call in JSON, has one."""
_FUNCTION = lazy(
    r"<(?:function=\"?(?P<a>[^\s>\"]+)\"?|(?:｜DSML｜)?invoke name=\"(?P<b>[^\"]+)\")[^>]*>"
    r"(?P<body>.*?)(?=</(?:function|(?:｜DSML｜)?invoke)>|<function=|<(?:｜DSML｜)?invoke name=|"
    r"\Z)",
    re.DOTALL,
)
_PARAMETER = lazy(
    r"<(?:parameter=\"?(?P<a>[^\s>\"]+)\"?|(?:｜DSML｜)?parameter name=\"(?P<b>[^\"]+)\")[^>]*>"
    r"(?P<value>.*?)(?:</(?:｜DSML｜)?parameter>|(?=<parameter=)|\Z)",
    re.DOTALL,
)
_PAIR = lazy(r"<arg_key>\s*(.*?)\s*</arg_key>\s*<arg_value>(.*?)(?:</arg_value>|\Z)", re.DOTALL)
_NAMED = lazy(
    r"(?:\A|\n|>|｜)[^\S\n]*(?:to=)?(?:functions\.)?(?P<name>[\w.-]+?)(?::\d+)?\s*"
    r"(?:\[ARGS\]|\[CALL_ID\]\w+\[ARGS\]|<[|｜][^>]*?[|｜]>|```json|\s|json|commentary)*(?=\{)"
)
_QUOTE = lazy(r"<\|\"\|>|<escape>")
_KEY = lazy(r"([{,]\s*)(\w+):")
"""The signs for a quotation mark, and a name of an argument, in Gemma's arguments."""
_DECODER = JSONDecoder(strict=False)
_FENCE = lazy(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_ARGUMENTS = ("arguments", "parameters", "args", "input")


class _SpokenCall(Struct, frozen=True):
    """A call as written: its tool, and arguments as JSON, or values as text."""

    name: str
    json: str = ""
    values: Mapping[str, str] = {}


def is_code(text: str, place: int) -> bool:
    """Return whether a place in a text is in a code fence, where calls are only shown."""
    return len(_FENCE.findall(text, 0, place)) % 2 == 1


def may_have_calls(text: str) -> bool:
    """Return whether a text has a character with which a call may begin."""
    return _SIGN.search(text) is not None


def extract_calls(
    text: str, tools: Collection[str] | Mapping[str, Mapping[str, object]]
) -> tuple[str, tuple[ToolCall, ...]]:
    """Return a text without its calls of these tools, and the calls; calls in a code fence are only
    shown. `tools` may have the schemas of their arguments."""
    calls: list[ToolCall] = []

    def take(found: re.Match[str]) -> str:
        if is_code(text, found.start()):
            return found[0]
        spoken = [*_read_block(_body(found))]
        if not spoken or any(one.name not in tools for one in spoken):
            return found[0]
        calls.extend(_to_call(one, tools) for one in spoken)
        return ""

    if len(text) > _LONGEST_TEXT:
        return text, ()
    if spoken := [one for one in _whole(text) if one.name in tools]:
        return "", tuple(_to_call(one, tools) for one in spoken)
    if not _may_have_calls(text):
        return text, ()
    rest = _BLOCK.sub(take, text)
    return (rest.strip() if calls else text), tuple(calls)


def without_calls(text: str) -> str:
    """Return a text without calls of any tools."""
    if not _may_have_calls(text):
        return text

    def drop(found: re.Match[str]) -> str:
        is_shown = is_code(text, found.start()) or not any(_read_block(_body(found)))
        return found[0] if is_shown else ""

    return _BLOCK.sub(drop, text)


def _may_have_calls(text: str) -> bool:
    if len(text) > _LONGEST_TEXT:
        return False
    marks = sum(1 for _ in _MARKS.finditer(text))
    return 0 < marks <= 2 * _MOST_CALLS


def _body(found: re.Match[str]) -> str:
    groups = {name: body for name, body in found.groupdict().items() if name != "tag"}
    return next((body for body in groups.values() if body is not None), "")


def _whole(text: str) -> list[_SpokenCall]:
    """Return the calls of a text that consists only of calls in JSON (Llama 3, Qwen 2.5)."""
    text = text.strip()
    if not text.startswith(("{", "[{")) or '"name"' not in text:
        return []
    return [*_of_json(text)]


def _read_block(body: str) -> Iterator[_SpokenCall]:
    body = _QUOTE.sub('"', body.strip())
    if functions := [*_FUNCTION.finditer(body)]:
        yield from map(_of_function, functions)
    elif pairs := _PAIR.findall(body):
        name = body.split("<arg_key>")[0].strip()
        yield _SpokenCall(name, values=dict(pairs))
    elif found := [*_of_json(body)]:
        yield from found
    elif named := [*_of_named(body)]:
        yield from named
    else:
        yield from _of_python(body)


def _of_function(found: re.Match[str]) -> _SpokenCall:
    name, inner = found["a"] or found["b"], found["body"].strip()
    if inner.startswith("{"):
        return _SpokenCall(name, inner)
    values = {
        one["a"] or one["b"]: re.sub(r"\A\n|\n\Z", "", one["value"])
        for one in _PARAMETER.finditer(inner)
    }
    return _SpokenCall(name, values=values)


def _of_json(body: str) -> Iterator[_SpokenCall]:
    """Yield the calls that are objects with a name and arguments, consecutive or in lists; none if
    there is other text."""
    body = re.sub(r"\A```(?:json)?\s*|\s*```\Z", "", body.strip())
    found: list[_SpokenCall] = []
    place = 0
    while place < len(body) and len(found) < _MOST_CALLS:
        try:
            value, place = _DECODER.raw_decode(body, place)
        except (ValueError, RecursionError):
            return
        for one in value if isinstance(value, list) else [value]:
            fields = as_mapping(as_mapping(one).get("function")) or as_mapping(one)
            arguments: object = next((fields[key] for key in _ARGUMENTS if key in fields), {})
            if not isinstance(fields.get("name"), str) or not isinstance(arguments, dict | str):
                return
            if not isinstance(arguments, str):
                arguments = orjson.dumps(arguments).decode()
            found.append(_SpokenCall(fields["name"], arguments))
        place += len(body[place:]) - len(body[place:].lstrip(" \n\t;,"))
    yield from found


def _of_named(body: str) -> Iterator[_SpokenCall]:
    """Yield the calls that are a name before an object."""
    place = 0
    if body.startswith("call:"):
        body = _KEY.sub(r'\1"\2":', body.removeprefix("call:"))
    while found := _NAMED.search(body, place):
        try:
            value, place = _DECODER.raw_decode(body, found.end())
        except (ValueError, RecursionError):
            return
        yield _SpokenCall(found["name"], orjson.dumps(value).decode())


def _of_python(body: str) -> Iterator[_SpokenCall]:
    """Yield the calls in Python syntax, with keyword arguments that are literals."""
    try:
        tree = ast.parse(body.strip().strip("`").strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return
    for statement in tree.body:
        value = getattr(statement, "value", None)
        for one in value.elts if isinstance(value, ast.List) else [value]:
            if isinstance(one, ast.Call) and ast.unparse(one.func) == "print" and one.args:
                one = one.args[0]
            if not isinstance(one, ast.Call) or one.args:
                continue
            try:
                values = {word.arg or "": ast.literal_eval(word.value) for word in one.keywords}
                yield _SpokenCall(ast.unparse(one.func), orjson.dumps(values).decode())
            except (ValueError, TypeError):
                return


def _to_call(spoken: _SpokenCall, tools: Collection[str]) -> ToolCall:
    arguments_text = spoken.json
    if not arguments_text:
        schema = as_mapping(tools[spoken.name]) if isinstance(tools, Mapping) else {}
        properties = as_mapping(schema.get("properties"))
        values = {
            name: _value(text, as_mapping(properties.get(name)))
            for name, text in spoken.values.items()
        }
        arguments_text = orjson.dumps(values).decode()
    return ToolCall(f"call_{uuid4().hex[:16]}", spoken.name, repair(arguments_text))


def _value(text: str, schema: Mapping[str, object]) -> object:
    """Return the value of a text whose schema requires another type."""
    kind = schema.get("type", "")
    if kind == "string" or (isinstance(kind, list) and "string" in kind) or not schema:
        return text
    try:
        value: object = orjson.loads(text.strip().lower() if kind == "boolean" else text)
    except ValueError:
        return text
    return value
