"""The parts of a request by which an answer can be explained: turns, summaries, lines of the
memory, files and tool results. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from memory.context.layout import RangeSummary
from memory.context.meter import PromptPrefix
from memory.context.view import View
from memory.long_term.prompt import find_lines
from memory.messages import ToolCall
from memory.turns import Turn

Kind = Literal["system prompt", "tools", "memory", "summary", "log", "turn", "question", "result"]


class AnswerPart(Struct, frozen=True):
    """A part of a request. `name` is what `/without` takes where the part `can_go`; `turns` are
    those that a summary represents."""

    kind: Kind
    name: str
    tokens: int
    words: str
    can_go: bool = False
    turns: tuple[int, ...] = ()


def list_parts(
    view: View, prefix: PromptPrefix, turn: int, count: Callable[[str], int]
) -> list[AnswerPart]:
    """Return the parts of a request of this turn, the largest first. Tokens are the meter's."""
    found = [*_before(view, prefix, count), *_summaries(view)]
    for one in view.turns:
        found += _own(one, view) if one.number == turn else [_turn(one, view)]
    return sorted((part for part in found if part.tokens), key=lambda part: -part.tokens)


def _before(view: View, prefix: PromptPrefix, count: Callable[[str], int]) -> Iterator[AnswerPart]:
    scale = view.scale.part
    lines = find_lines(prefix.system)
    remembered = sum(map(count, lines))
    system = max(0, view.prefix.system - remembered)
    yield AnswerPart("system prompt", "", scale(system), prefix.system)
    names = ", ".join(tool["function"]["name"] for tool in prefix.tools)
    yield AnswerPart("tools", "", scale(view.prefix.tools), names)
    for number, line in enumerate(lines, 1):
        yield AnswerPart("memory", f"m{number}", scale(count(line)), line, can_go=True)


def _summaries(view: View) -> Iterator[AnswerPart]:
    scale = view.scale.part
    if view.preface:
        turns = view.layout.turns("summary")
        yield AnswerPart(
            "summary", "summary", scale(view.preface.tokens), view.preface.text, bool(turns), turns
        )
    if view.log:
        size = view.front_tokens - (view.preface.tokens if view.preface else 0)
        yield AnswerPart("log", "", scale(size), "; ".join(line.text for line in view.log))
    for one in view.ranges:
        if (written := view.summaries.get(one.summary)) is not None:
            name = _name(one)
            yield AnswerPart("summary", name, scale(written.tokens), written.text, True, one.turns)


def _name(one: RangeSummary) -> str:
    first, last = one.turns[0], one.turns[-1]
    return f"t{first}" if first == last else f"t{first}-t{last}"


def _turn(turn: Turn, view: View) -> AnswerPart:
    tokens = view.scale.part(sum(entry.tokens for entry in turn.entries))
    return AnswerPart("turn", turn.id, tokens, turn.question.text, True, (turn.number,))


def _own(turn: Turn, view: View) -> Iterator[AnswerPart]:
    """Yield the parts of the turn that is answered: its questions, and the results of its tools."""
    calls = {call.id: call for entry in turn.entries for call in entry.message.tool_calls}
    for entry in turn.entries:
        message, tokens = entry.message, view.scale.part(entry.tokens)
        if message.role == "tool":
            called = calls.get(message.call_id or "")
            about = _subject(called) if called else ""
            name = " ".join(filter(None, (message.tool, about)))
            yield AnswerPart("result", name, tokens, message.text)
        elif message.role == "user":
            yield AnswerPart("question", turn.id, tokens, message.text)


def _subject(call: ToolCall) -> str:
    """Return the argument that says what a call was about: a path, an address, or else its first
    text."""
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        return ""
    texts = {k: v for k, v in arguments.items() if isinstance(v, str)} if arguments else {}
    named = (texts[name] for name in ("path", "url", "query") if name in texts)
    return next(named, next(iter(texts.values()), ""))


def find_part(parts: Sequence[AnswerPart], name: str) -> AnswerPart | None:
    """Return the part that can be left out by this name; None where there is none."""
    wanted = name.lower()
    return next((part for part in parts if part.can_go and part.name == wanted), None)
