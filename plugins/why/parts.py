"""The parts of a request that can explain an answer: turns, summaries, memory lines, files and tool
results. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from memory.context.meter import Meter, PromptPrefix
from memory.context.view import View
from memory.long_term.prompt import find_lines
from memory.messages import ToolCall
from memory.turns import Turn
from plugins.builtin.context.overview import block_sizes, message_sizes, parts
from plugins.builtin.context.values import LOG, SUMMARY, RequestBlock, name_run
from plugins.wording import spread

Kind = Literal["system prompt", "tools", "memory", "summary", "log", "turn", "question", "result"]


class AnswerPart(Struct, frozen=True):
    """A part of a request. `name` is its name for `/without` if it `can_go`, or that of a section
    of the system prompt; `turns` are those that a summary covers."""

    kind: Kind
    name: str
    tokens: int
    words: str
    can_go: bool = False
    turns: tuple[int, ...] = ()


def list_parts(view: View, prefix: PromptPrefix, turn: int, meter: Meter) -> list[AnswerPart]:
    """Return the parts of a request of this turn, largest first. Tokens are the meter's."""
    found, sizes = [*_before(view, prefix, meter)], message_sizes(view)
    for block, tokens in block_sizes(view):
        is_own = block.turn is not None and block.turn.number == turn
        found += _own(block.turn, sizes) if block.turn and is_own else [_part_of(block, tokens)]
    return sorted((part for part in found if part.tokens), key=lambda part: -part.tokens)


def _before(view: View, prefix: PromptPrefix, meter: Meter) -> Iterator[AnswerPart]:
    sizes, lines = parts(view), find_lines(prefix.system)
    around = {"system prompt": sizes["system prompt"]}
    around |= {name: sizes[name] for name, text in prefix.sections if text}
    holder = "memory" if "memory" in around else "system prompt"
    counted = [meter.count(line) for line in lines]
    raw = dict(view.prefix.sections).get(holder, view.prefix.system) - sum(counted)
    *remembered, around[holder] = spread(around[holder], [*counted, max(0, raw)])
    yield AnswerPart("system prompt", "", around["system prompt"], prefix.base)
    for name, text in prefix.sections:
        yield AnswerPart("system prompt", name, around.get(name, 0), text)
    names = ", ".join(tool["function"]["name"] for tool in prefix.tools)
    yield AnswerPart("tools", "", sizes["tools"], names)
    for number, (line, tokens) in enumerate(zip(lines, remembered, strict=True), 1):
        yield AnswerPart("memory", f"m{number}", tokens, line, can_go=True)


def _part_of(block: RequestBlock, tokens: int) -> AnswerPart:
    turns = block.turns
    if block.part == LOG:
        return AnswerPart("log", "", tokens, block.text.replace("\n", "; "))
    if block.turn is not None:
        return AnswerPart("turn", block.turn.id, tokens, block.text, True, turns)
    name = SUMMARY if block.part == SUMMARY else name_run(turns)
    return AnswerPart("summary", name, tokens, block.text, bool(turns), turns)


def _own(turn: Turn, sizes: Mapping[int, int]) -> Iterator[AnswerPart]:
    """Yield the parts of the answered turn: its questions, and the results of its tools."""
    calls = {call.id: call for entry in turn.entries for call in entry.message.tool_calls}
    for entry in turn.entries:
        message, tokens = entry.message, sizes[entry.seq]
        if message.role == "tool":
            called = calls.get(message.call_id or "")
            about = _subject(called) if called else ""
            name = " ".join(filter(None, (message.tool, about)))
            yield AnswerPart("result", name, tokens, message.text)
        elif message.role == "user":
            yield AnswerPart("question", turn.id, tokens, message.text)


def _subject(call: ToolCall) -> str:
    """Return the argument that shows the subject of a call: a path, a URL, or else its first
    text."""
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        return ""
    texts = {k: v for k, v in arguments.items() if isinstance(v, str)} if arguments else {}
    named = (texts[name] for name in ("path", "url", "query") if name in texts)
    return next(named, next(iter(texts.values()), ""))


def find_part(parts: Sequence[AnswerPart], name: str) -> AnswerPart | None:
    """Return the removable part of this name; None if there is none. The only summary is also
    found by the word."""
    wanted, can_go = name.lower(), [part for part in parts if part.can_go]
    summaries = [part for part in can_go if part.kind == "summary"]
    if wanted == SUMMARY and len(summaries) == 1:
        return summaries[0]
    return next((part for part in can_go if part.name == wanted), None)
