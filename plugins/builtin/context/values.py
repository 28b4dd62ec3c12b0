"""Values in replies: their fields are inserted into sentences, and returned as data to programs;
and the next request as a list of blocks, for lists, figures and questions about the context.

A field with a tuple of numbers refers to turns: a sentence formats them ("t1 to t3"), data has
their names. A field with `tokens` in its name is an amount.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from channels.language import _
from memory.context.view import View
from memory.text.receipt import Receipt
from memory.turns import Turn
from plugins.turn_names import ids
from plugins.wording import amount, amounts, format_turns

_PLACE = re.compile(r"\{(\w+)")
_SIZES = ("tokens_before", "tokens_after")


def as_data(value: Any) -> Any:
    """Return a value as JSON."""
    if isinstance(value, Receipt):
        return pick(value, "kept", "missing", "taken", "findings", of=value.total)
    if isinstance(value, Struct):
        return as_data(asdict(value))
    if isinstance(value, Mapping):
        return {name: as_data(one) for name, one in value.items()}
    if isinstance(value, tuple) and value and isinstance(value[0], int):
        return ids(value)
    if isinstance(value, list | tuple):
        return [as_data(one) for one in value]
    return value.isoformat() if isinstance(value, datetime) else value


def pick(value: Struct, *names: str, **more: Any) -> dict[str, Any]:
    """Return these fields of a value as JSON, together with further entries."""
    data: dict[str, Any] = as_data({name: getattr(value, name) for name in names} | more)
    return data


def phrase(value: Struct, one: str, many: str = "", **more: Any) -> str:
    """Return a sentence filled with fields of a value; `many` is used if its first turns field has
    several turns."""
    names = [name for name in _PLACE.findall(one) if name not in more]
    fields = {name: getattr(value, name) for name in names}
    turns = next((field for field in fields.values() if isinstance(field, tuple)), ())
    values = {name: _say(name, field) for name, field in fields.items()}
    if set(_SIZES) <= values.keys():
        values |= zip(_SIZES, amounts(*(fields[name] for name in _SIZES)), strict=True)
    return _(many if many and len(turns) != 1 else one, **values, **more)


def _say(name: str, field: Any) -> Any:
    if isinstance(field, tuple):
        return format_turns(field)
    return amount(field) if "tokens" in name else field


def sentence_about(numbers: Sequence[int], one: str, many: str, **values: Any) -> str:
    """Return a sentence about these turns: `sentence_about((3,), "{turns} is pinned.", "{turns} are
    pinned.")`. The sentence for one turn may use {turn} if both sentences are identical in
    English."""
    named = format_turns(numbers)
    return _(one if len(numbers) == 1 else many, turns=named, turn=named, **values)


SUMMARY, LOG, RANGE = "summary", "activity log", "summaries of turns"
TURN, RUNNING = "turns", "running turn"


class RequestBlock(Struct, frozen=True):
    """A named part of the request: its raw tokens, its text, and the `turns` that it contains or
    represents; `turn` is set if it is a single turn."""

    part: str
    raw: int
    text: str
    turns: tuple[int, ...]
    turn: Turn | None = None


def list_blocks(view: View) -> Iterator[RequestBlock]:
    """Yield the blocks in the order of the request: a range summary comes where it is sent, after
    the turns that it represents and the turns before these."""
    front = view.preface
    if front:
        yield RequestBlock(SUMMARY, front.tokens, front.text, view.layout.turns("summary"))
    if log := view.log:
        raw = view.front_tokens - (front.tokens if front else 0)
        yield RequestBlock(LOG, raw, "\n".join(line.text for line in log), view.logged)
    waiting = [one for one in view.layout.ranges if one.summary in view.summaries]
    for turn in (*view.turns, None):
        while waiting and (turn is None or waiting[0].turns[-1] < turn.number):
            one = waiting.pop(0)
            summary = view.summaries[one.summary]
            yield RequestBlock(RANGE, summary.tokens, summary.text, one.turns)
        if turn is not None:
            part = TURN if turn.is_complete else RUNNING
            yield RequestBlock(part, turn.tokens, turn.question.text, (turn.number,), turn)


def name_run(turns: Sequence[int]) -> str:
    """Return neighbouring turns as commands accept them: "t3", "t3-t5"."""
    return f"t{turns[0]}" if turns[0] == turns[-1] else f"t{turns[0]}-t{turns[-1]}"
